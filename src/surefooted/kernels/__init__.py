"""Compiled loops and nothing else: they know arrays, and no classes of this package but NamedTuples of arrays."""
