"""How many runs per minute a study gets through on one and on two workers.

The paper's inventory study (`surefooted reproduce inventory`) with fewer realisations than its 100: 8 of each of its
four settings unless told otherwise, `python benchmarks/studies.py 20`. Starting the workers is included. The limit is
as many steps of the simulator alone, playing the baseline with nothing learnt (runs.py), on as many workers.
"""

import sys
import tempfile

from measure import Table, machine, timed
from runs import Idle, best_run

from surefooted import problems
from surefooted.studies.reading import read
from surefooted.studies.running import run_study
from surefooted.studies.spec import tasks


def main() -> None:
    realisations = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(machine())
    study = read("inventory", (f"realisations={realisations}",))
    with tempfile.TemporaryDirectory() as folder:
        run_study(read("inventory", ("realisations=1", "steps=2000", "record.initial=1000")), folder)  # compile
    columns = (("workers", 8), ("runs", 5), ("seconds", 8), ("runs per minute", 16), ("speed-up", 9))
    table = Table(*columns, ("limit s", 8), ("of limit", 8))
    problem, first = problems.inventory(), 0.0
    _, alone = best_run(problem, lambda: Idle(problem), study.length)
    for jobs in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            _, seconds = timed(lambda jobs=jobs, folder=folder: run_study(study, folder, jobs=jobs))
        runs = len(tasks(study, (1, 1)))
        first = first or seconds
        limit = runs * alone / jobs
        speed = (60 * runs / seconds, f"{first / seconds:.2f}x")
        table.row(str(jobs), runs, seconds, *speed, limit, f"{seconds / limit:.0f}x")


if __name__ == "__main__":
    main()
