"""What is known already? What people declare beforehand, and the smaller set that it makes."""
