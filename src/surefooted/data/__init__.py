"""What was observed? Counts, and the logs that fill them."""
