"""How hard the problems are: what `surefooted problems` lists of them, measured again.

`python benchmarks/hardness.py` prints what differs from the list that comes with the package; with `--write` it writes
that list. Problems whose extra is not installed keep their line. Diameters of large problems take minutes.
"""

import json
import sys

from surefooted import problems
from surefooted.evaluation.summary import LISTED, listed
from surefooted.problems.extras import is_installed


def main() -> None:
    old = json.loads(LISTED.read_text(encoding="utf-8")) if LISTED.exists() else {}
    new = {name: listed(make()) if is_installed(name) else old[name] for name, make in problems.ALL.items()}
    for name, row in new.items():
        for key, value in row.items():
            if (before := old.get(name, {}).get(key)) != value:
                print(f"{name}.{key}: {before} is now {value}")
    if "--write" in sys.argv[1:]:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in new.items())
        LISTED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        print(f"written to {LISTED}")


if __name__ == "__main__":
    main()
