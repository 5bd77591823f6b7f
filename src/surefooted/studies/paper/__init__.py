"""The studies that come with the package, one TOML file each: the paper's experiments, and some that go beyond it."""

NAMES = (
    "inventory",
    "maintenance",
    "gridworld",
    "certificates",
    "structure",
    "structure-maintenance",
    "structure-gridworld",
)
