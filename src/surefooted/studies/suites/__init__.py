"""The suites that come with the package, one TOML file each: one set of agents on many problems."""

from pathlib import Path

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))
