"""Writing a log: a run, or columns by name, as a CSV or Parquet file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from surefooted.data.log_files import NAMES, NEEDED, Columns
from surefooted.errors import InvalidInput
from surefooted.tables.files import replacing


class Logged(Protocol):
    """Anything that can be written as a log, such as the run that `simulate` returns."""

    def log_columns(self, first_episode: int) -> Mapping[str, ArrayLike]:
        """The columns of the log by name; its episodes are numbered from `first_episode`."""


def write_history(
    path: str | Path,
    log: Logged | Mapping[str, ArrayLike],
    *,
    columns: Columns | None = None,
    state_labels: Sequence[str] = (),
    action_labels: Sequence[str] = (),
    first_episode: int = 0,
) -> None:
    """Write a log that `read_history` reads.

    >>> import surefooted as sf
    >>> columns = {"state": [0, 1], "action": [1, 0], "reward": [0.5, 0.0], "next_state": [1, 0]}
    >>> sf.write_history("log.csv", columns)
    >>> sf.read_history("log.csv", sf.Space.full(n_states=2, n_actions=2)).used
    2

    - `path`: ends in .csv or .parquet. An existing file is replaced only once the new one is complete.
    - `log`: a run, or columns by name. The last step of each episode of a run is marked as truncated.
    - `columns`: other names for the columns, as in {"state": "stock"}.
    - `state_labels`, `action_labels`: names to write instead of indices.
    - `first_episode`: the number of a run's first episode. An average-reward run is one episode.
    """
    path = Path(path)
    held = log if isinstance(log, Mapping) else log.log_columns(first_episode)
    faults = [f"there is no column {name!r} in a log" for name in held if name not in NAMES]
    faults += [f"column {name!r} is missing" for name in NEEDED if name not in held]
    arrays = {name: np.asarray(held[name]) for name in NAMES if name in held}
    if len({array.shape for array in arrays.values()}) > 1 or any(array.ndim != 1 for array in arrays.values()):
        faults.append("the columns must have one length")
    if path.suffix not in (".csv", ".parquet"):
        faults.append(f"{path.name} must end in .csv or .parquet")
    if faults:
        raise InvalidInput("this log cannot be written", faults)
    for name, labels in (("state", state_labels), ("next_state", state_labels), ("action", action_labels)):
        if labels:
            arrays[name] = _labelled(name, arrays[name], labels)
    table = pa.table({(columns or {}).get(name) or name: array for name, array in arrays.items()})
    with replacing(path) as file:
        (pq.write_table if path.suffix == ".parquet" else pcsv.write_csv)(table, file)


def _labelled(name: str, indices: Any, labels: Sequence[str]) -> np.ndarray:
    """The label of each index."""
    try:
        words: np.ndarray = np.array([str(label) for label in labels])[indices]
    except IndexError as error:
        raise InvalidInput("this log cannot be written", [f"column {name!r}: {error}"]) from error
    return words
