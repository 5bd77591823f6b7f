"""The studies that come with the package, one TOML file each: the paper's experiments, and some that go beyond it."""

from pathlib import Path

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))
