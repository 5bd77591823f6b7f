"""Studies: many realisations of agents on a problem, from a TOML file to tables, figures and a report.

results = sf.studies.load("results/inventory")
results.runs.to_pandas()
"""

from surefooted.studies import figures
from surefooted.studies.results import Results, load
from surefooted.studies.running import run_study
from surefooted.studies.spec import StudySpec, parse, read

__all__ = ["Results", "StudySpec", "figures", "load", "parse", "read", "run_study"]
