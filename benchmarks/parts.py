"""How long a study with many runs takes to combine: `python benchmarks/parts.py 100000` (default 10 000).

One real run is kept under the name of each realisation. "first" reads every part; "again" takes the runs from the
tables, as a study that is resumed does; "load" is `sf.studies.load`. Times are of the CPU.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import surefooted as sf
from surefooted import __version__
from surefooted.studies import parts, realisation
from surefooted.studies.building import build_problem
from surefooted.studies.folder import Folder
from surefooted.studies.spec import Task, tasks


def main(runs: int, points: int = 20) -> None:
    """Print the table."""
    agents = {"ucrl2": {"kind": "UCRL2"}}
    study = sf.studies.parse(
        {"name": "many", "steps": 1000, "problem": "riverswim", "realisations": runs, "agents": agents}
        | {"record": {"points": points}}
    )
    row, curve = realisation.run(study, Task(0, 0), build_problem(study.problem))
    about = {"study": study.identity, "setting": study.settings[0].key, "source": "", "version": __version__}
    place = Path(tempfile.mkdtemp())
    try:
        (place / "parts").mkdir()
        (place / "study.toml").write_text(study.to_toml())
        for task in tasks(study):
            content = parts.encode(row | {"realisation": task.realisation}, curve, task=task.name, **about)
            (place / "parts" / f"{task.name}.parquet").write_bytes(content)
        timed(f"first: {runs} parts", lambda: Folder.at(place).combine())
        timed("again", lambda: Folder.at(place).combine())
        timed("load", lambda: sf.studies.load(place))
    finally:
        shutil.rmtree(place)


def timed(what: str, function: Callable[[], Any]) -> None:
    """Print how long a function took."""
    began = time.process_time()
    function()
    print(f"{what:<24}{time.process_time() - began:8.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
