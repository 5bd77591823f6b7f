"""Reading a log: from CSV files, Parquet files, tables or rows to a `History`."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np

from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.data.history import History
from surefooted.data.log_files import Source, batches
from surefooted.data.log_options import Columns, parse_options
from surefooted.data.log_rows import Rows
from surefooted.data.log_values import Labels
from surefooted.errors import InvalidInput
from surefooted.kernels.logs import ALIKE, GAPS, SKIPPED
from surefooted.tables.space import Floats, Space, need_space

BATCH = 1 << 16  # rows read at a time
SHOWN = 12  # sites named in an error
FEW = 10  # rows out of order that are always taken for mistakes of single rows
Words = Sequence[str] | Mapping[str, int]


def read_history(
    source: Source,
    space: Space,
    *,
    stages: int = 1,
    bounded: bool = True,
    columns: Columns | None = None,
    state_labels: Words = (),
    action_labels: Words = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    where: str | Sequence[str] = (),
    site: str | None = None,
    pool: bool = False,
    step: str | None = None,
    dates: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    quoted_breaks: bool = False,
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

    - `source`: a CSV or Parquet file, a list or a directory of such files, a table (pandas, polars, Arrow, or anything
      with an Arrow interface), or rows as mappings. Several files are one log, in the order given; the files of a
      directory are read by name. Memory holds a few batches of rows and the counts, and about 250 bytes for each named
      episode.
    - `space`: the states, actions and range of rewards.
    - `stages`: H, if each stage has counts of its own. The log then needs the column `t`.
    - `bounded`: whether a reward outside its range makes a row unusable.
    - `columns`: the log's name of a column, as in {"state": "stock"}. None leaves an optional column out. Several
      columns may together name the site: {"site": ["shop", "item"]}; a site is then called "shop / item".
    - `state_labels`, `action_labels`: the names of states and actions in the log: a list, as a Problem has them, or a
      mapping from names to indices. By default those of the space. A number is still an index, unless some label is a
      number.
    - `bins`: for quantities, the edges of the bins, as in {"stock": [0, 5, 10]}: state 0 is 0 ≤ stock < 5. With one
      edge for each state, the last bin has no end; with one edge more, the last edge belongs to the last bin.
    - `where`: conditions on rows, as in ["item = A17", "date >= 2025-01-01", "size in S, M"]. Rows for which one does
      not hold are left out. Conditions on what happened are refused: they would select rows by their outcome.
    - `site`, `pool`: which site to read, if a column names the site (shop, item, machine, ...) of each row. Rows of
      several sites are refused unless `pool` says that all sites follow the same law.
    - `step`: the length of a step, if `t` holds dates or times: "week", "month", "15 minutes". Dates are ISO 8601 or
      31.12.2025, or what `dates` says, as for `datetime.strptime`.
    - `separator`, `decimal`: what separates the values of a CSV file ("," ";" tab or "|", by default what its header
      shows) and their decimals ("." or ","; by default what the first rows of a file without commas between values
      show). A number that is written otherwise makes its row unusable.
    - `encoding`: how the text of a CSV file is written, such as "cp1252"; UTF-8 unless given.
    - `quoted_breaks`: whether quoted values of a CSV file may contain line breaks. By default a quote that does not
      close in its line is an error: it would swallow the lines that follow.
    - `strict`: raise an error if any row cannot be used. A file that cannot be read is always an error, but a CSV file
      that was cut off within its last value looks complete.
    - `batch`: the number of rows read at a time.

    The optional columns:

    - `episode` is any name or number; rows of several episodes may alternate. Without it, an episode begins at t = 0
      and after a row that is terminated or truncated. If the rows of each episode stand together,
      columns={"episode": None} saves the memory for episode names.
    - `t` must increase within an episode; of two rows with the same t, the first is used. Without it, rows follow each
      other without gaps: a row that repeats the row before and does not begin where that row led is a copy. A row is
      not used if the row of t + 1 begins in another state than the row led to.
    - `site` is named by `columns`. Without that, a column called site, item, sku, store, machine or the like is taken
      for it.
    - `terminated` and `truncated` are true, false, 1 or 0. Such a row is counted like any other. After `truncated` the
      next row may begin anywhere; after `terminated` its episode must have no further row. `next_state` is counted as
      logged. After `terminated` it must be what the agent assumes to happen then: the next start, or a state where
      nothing is earned (see `surefooted.gym`).
    """
    need_space(space)
    faults = [] if is_whole(batch, 1) else [f"batch {batch} must be a positive whole number"]
    states = _labels("state_labels", state_labels or space.state_names or (), space.n_states, faults)
    actions = _labels("action_labels", action_labels or space.action_names or (), space.n_actions, faults)
    try:
        rows_of = {"where": where, "site": site, "pool": pool}
        written = {"dates": dates, "separator": separator, "decimal": decimal, "quoted_breaks": quoted_breaks}
        written["encoding"] = encoding
        options = parse_options(columns, bins=bins, step=step, **rows_of, **written)  # type: ignore[arg-type]
        faults += _bin_faults(options.bins, {space.n_states, space.n_actions})
    except InvalidInput as error:
        faults += error.faults
    if faults:
        raise InvalidInput("this log cannot be read", faults)
    rows = Rows(Counts(space, bounded, stages), states, actions, options)
    with closing(batches(source, options, batch)) as parts:  # an error leaves no file open
        for part in parts:
            if "t" not in part.columns and stages > 1:
                fault = "stages need column t, the stage of each row"
                raise InvalidInput(f"the columns of {part.file} are not those of a log", [fault])
            rows.add(part)
    rows.finish()
    _check_sites(rows)
    _check_order(rows)
    unusable = dict(sorted(rows.unusable.items(), key=lambda item: (-item[1], item[0])))
    examples = {reason: tuple(rows.examples[reason]) for reason in unusable}
    history = History(
        rows.counts, rows.rows - rows.left_out, rows.used, rows.episodes, unusable, examples,
        left_out=rows.left_out,
        sites={name: number for name, number in rows.sites.items() if number},
        gaps=int(rows.tally[GAPS]),
        skipped=int(rows.tally[SKIPPED]),
        alike=int(rows.tally[ALIKE]),
        repeats=tuple(rows.repeats.found(rows.counts)),
        in_order=rows.in_order,
    )  # fmt: skip
    if strict and (unusable or history.repeats):
        faults = [f"{number} rows: {reason}; {examples[reason][0]}" for reason, number in unusable.items()]
        faults += [str(repeat) for repeat in history.repeats]
        raise InvalidInput(f"some of the {history.rows} rows of this log cannot be used", faults)
    return history


def _check_sites(rows: Rows) -> None:
    """Refuse rows of several sites that nobody wanted to pool."""
    held = [(name, number) for name, number in rows.sites.items() if number]
    wanted, columns = rows.options.site, " and ".join(map(repr, rows.site_columns))
    if wanted is not None and not held:
        known = ", ".join(list(rows.sites)[:SHOWN])
        raise InvalidInput("there is no such site", [f"{columns} never is {wanted!r}; there are {known}"])
    if len(held) < 2 or rows.options.pool:
        return
    faults = [f"{name}: {number} rows" for name, number in held[:SHOWN]]
    faults += [f"… and {len(held) - SHOWN} more"] if len(held) > SHOWN else []
    hint = f"Read one of them: site={held[0][0]!r}. If all follow the same law, pool them: pool=True. If {columns} "
    hint += "does not tell sites apart: columns={'site': None}."
    raise InvalidInput(f"this log holds rows of {len(held)} sites, by {columns}", faults, hint)


def _check_order(rows: Rows) -> None:
    """Refuse rows that cannot be those of one site, unless somebody said that no column tells sites apart."""
    columns = rows.options.columns
    if rows.disorder <= max(FEW, (rows.rows - rows.left_out) // 10) or columns.get("site", "") is None:
        return
    fault = f"{rows.disorder} of {rows.rows - rows.left_out} rows do not follow the row before them"
    unread = ", ".join(map(repr, rows.unread)) or "none"
    hint = f"If they are of several sites or items, say which columns tell them apart; it also has {unread}: "
    hint += "columns={'site': [...]}. If they were exported twice or corrected, keep one row for each step, or say "
    hint += "columns={'site': None}: of rows with the same t, the first is used."
    raise InvalidInput("this log does not hold one row after the other", [fault], hint)


def _bin_faults(bins: Mapping[str, Floats], sizes: set[int]) -> list[str]:
    """A sentence for each list of edges that fits neither the states nor the actions."""
    wanted = " or ".join(str(size) for size in sorted(sizes))
    return [
        f"bins of {name!r}: {edges.size} edges; give one for each of {wanted}, and one more if the last bin has an end"
        for name, edges in bins.items()
        if not sizes & {edges.size, edges.size - 1}
    ]


def _labels(name: str, labels: Words, size: int, faults: list[str]) -> Labels:
    """The labels with their indices; none if they are the indices themselves."""
    words = tuple(str(label) for label in labels)
    index = np.array(list(labels.values()) if isinstance(labels, Mapping) else range(len(words)), dtype=object)
    if isinstance(labels, str):
        faults.append(f"{name} must be a list of words, not one word")
    elif isinstance(labels, Mapping):
        bad = [word for word, i in zip(words, index, strict=True) if not (is_whole(i, 0) and i < size)]
        faults += [f"{name}: {word!r} must stand for one of 0 to {size - 1}" for word in bad]
        index = np.zeros(len(words), dtype=object) if bad else index
    elif words and len(words) != size:
        faults.append(f"{name} has {len(words)} entries for {size}")
    elif len(set(words)) < len(words):
        faults.append(f"{name} has some label twice")
    if words == tuple(str(i) for i in range(size)) and not isinstance(labels, Mapping):
        return Labels()
    return Labels(words, index.astype(np.int64))
