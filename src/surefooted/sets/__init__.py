"""What is plausible? Sets of MDPs that the data do not exclude."""
