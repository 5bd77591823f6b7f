"""Processes that decide are killed with kill -9 while they write, one after another, on stores that grow.

Whoever comes next replays the journal so far. What was acknowledged must be in the journal, once, and the journal must
be whole: see `tests/test_live_crash.py`, which kills at each write once.

Run `python tests/adversarial_kills.py 1000 7` for 1000 kills from seed 7; it prints one line.
"""

import os
import random
import sys
import tempfile
from pathlib import Path

from test_live_crash import deaths

MOST = 50  # kills for each store
WRITES = 60  # a process is killed at one of its first writes, if it lives to see it


def run_campaign(n, seed):
    """How many of `n` processes were killed in the middle; what is wrong with a store is raised."""
    rng = random.Random(seed)
    points = [rng.randint(1, WRITES) for _ in range(n)]
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # killed processes lose nothing that was written
    with tempfile.TemporaryDirectory(dir=memory) as place:
        return sum(deaths(Path(place, f"{i}.db"), points[i : i + MOST], 0) for i in range(0, n, MOST))


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    killed = run_campaign(n, seed)
    print(f"{n} processes, {killed} killed while they wrote, nothing lost or doubled")
    sys.exit(killed <= 0.8 * n)
