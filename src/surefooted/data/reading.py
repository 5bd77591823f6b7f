"""Reading a log: from CSV files, Parquet files, tables or rows to a `History`."""

from collections.abc import Sequence

from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.data.history import History
from surefooted.data.log_files import Columns, Source, batches
from surefooted.data.log_rows import Rows
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space

BATCH = 1 << 16  # rows read at a time


def read_history(
    source: Source,
    space: Space,
    *,
    stages: int = 1,
    bounded: bool = True,
    columns: Columns | None = None,
    state_labels: Sequence[str] = (),
    action_labels: Sequence[str] = (),
    strict: bool = False,
    batch: int = BATCH,
) -> History:
    """Read a log of steps; each row is counted, or gets a reason why it cannot be used.

    >>> import surefooted as sf
    >>> rows = [
    ...     {"state": 0, "action": 1, "reward": 0.5, "next_state": 1},
    ...     {"state": 1, "action": 0, "reward": 7.0, "next_state": 0},
    ... ]
    >>> history = sf.read_history(rows, sf.Space.full(n_states=2, n_actions=2))
    >>> history.used, dict(history.unusable)
    (1, {'reward is outside [0, 1]': 1})

    - `source`: a CSV or Parquet file, a list or a directory of such files, a pyarrow Table, or rows as mappings.
      Several files are one log, in the order given; the files of a directory are read by name. Memory holds a few
      batches of rows and the counts, and about 250 bytes for each named episode.
    - `space`: the states, actions and largest reward.
    - `stages`: H, if each stage has counts of its own. The log then needs the column `t`.
    - `bounded`: whether a reward outside [0, r_max] makes a row unusable.
    - `columns`: the log's name of a column, as in {"state": "stock"}. None leaves an optional column out.
    - `state_labels`, `action_labels`: the names of states and actions in the log, as a Problem has them. A number is
      still an index, unless some label is a number.
    - `strict`: raise an error if any row cannot be used. A file that cannot be read is always an error, but a CSV file
      that was cut off within its last value looks complete.
    - `batch`: the number of rows read at a time.

    The optional columns:

    - `episode` is any name or number; rows of several episodes may alternate. Without it, an episode begins at t = 0
      and after a row that is terminated or truncated. If the rows of each episode stand together,
      columns={"episode": None} saves the memory for episode names.
    - `t` must increase within an episode; of two rows with the same t, the first is used. Without it, rows follow each
      other without gaps. A row is not used if the row of t + 1 begins in another state than the row led to.
    - `terminated` and `truncated` are true, false, 1 or 0. Such a row is counted like any other. After `truncated` the
      next row may begin anywhere; after `terminated` its episode must have no further row. `next_state` is counted as
      logged. After `terminated` it must be what the agent assumes to happen then: the next start, or a state where
      nothing is earned (see `surefooted.gym`).
    """
    faults = [] if is_whole(batch, 1) else [f"batch {batch} must be a positive whole number"]
    labels = [
        _labels("state_labels", state_labels, space.n_states, faults),
        _labels("action_labels", action_labels, space.n_actions, faults),
    ]
    if faults:
        raise InvalidInput("this log cannot be read", faults)
    rows = Rows(Counts(space, bounded, stages), *labels)
    for part in batches(source, columns, batch):
        if "t" not in part.columns and stages > 1:
            fault = "stages need column t, the stage of each row"
            raise InvalidInput(f"the columns of {part.file} are not those of a log", [fault])
        rows.add(part)
    rows.finish()
    unusable = dict(sorted(rows.unusable.items(), key=lambda item: (-item[1], item[0])))
    examples = {reason: tuple(rows.examples[reason]) for reason in unusable}
    if strict and unusable:
        faults = [f"{number} rows: {reason}; {examples[reason][0]}" for reason, number in unusable.items()]
        raise InvalidInput(f"some of the {rows.rows} rows of this log cannot be used", faults)
    return History(rows.counts, rows.rows, rows.used, rows.episodes, unusable, examples)


def _labels(name: str, labels: Sequence[str], size: int, faults: list[str]) -> tuple[str, ...]:
    """The labels as text; none if they are the indices themselves."""
    words = tuple(str(label) for label in labels)
    if isinstance(labels, str):
        faults.append(f"{name} must be a list of words, not one word")
    elif words and len(words) != size:
        faults.append(f"{name} has {len(words)} entries for {size}")
    elif len(set(words)) < len(words):
        faults.append(f"{name} has some label twice")
    return () if words == tuple(str(i) for i in range(size)) else words
