"""What may be risked? Proved lower bounds on the margin of the conservative condition."""
