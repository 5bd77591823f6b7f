"""How fast is a log read: rows per second of CSV and Parquet, and what memory it takes, in batches.

The limit is reading the bytes of the file and doing nothing with them.
"""

import resource
import tempfile
from pathlib import Path

import numpy as np
from measure import Table, machine, timed

import surefooted as sf
from surefooted.simulation.playing import Run

ROWS = 2_000_000


def main() -> None:
    print(machine())
    problem = sf.problems.inventory()
    run: Run = sf.simulate(problem, sf.UCRL2(problem.space, bounded=False), ROWS)
    table = Table(
        ("format", 8),
        ("file MB", 8),
        ("write s", 8),
        ("read s", 8),
        ("rows per second", 16),
        ("peak MB", 8),
        ("limit s", 8),
        ("of limit", 8),
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "csv"):
            path = Path(folder) / f"log.{kind}"
            _, written = timed(lambda path=path: sf.write_history(path, run))
            sf.read_history(path, problem.space, bounded=False)  # compile
            found, read = timed(lambda path=path: sf.read_history(path, problem.space, bounded=False))
            if found.used != ROWS or not np.array_equal(found.counts.visits, np.bincount(run.pairs, minlength=28)):
                raise SystemExit(f"{kind}: {found}")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            limit = min(timed(path.read_bytes)[1] for _ in range(5))
            size = path.stat().st_size / 1e6
            table.row(kind, size, written, read, ROWS / read, peak, limit, f"{read / limit:.0f}x")


if __name__ == "__main__":
    main()
