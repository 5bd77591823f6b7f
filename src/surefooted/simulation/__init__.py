"""Play on a true table: runs of an agent on a problem."""
