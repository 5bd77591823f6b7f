"""The studies of the paper's experiments, as TOML files."""
