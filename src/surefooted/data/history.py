"""What was played before, from logs: it fills an agent's counts before its first step.

A log is CSV or Parquet files with a row for each step: `state`, `action`, `reward`, `next_state`, and if there are any
`episode`, `t`, `terminated`, `truncated`. Rows that cannot be used are counted by reason, never dropped in silence.

Why logged steps may be counted, whoever chose the actions: given its state and action, the reward and next state of a
step are a fresh draw, however the action came about, and that is all that the bounds assume. It fails if the log was
selected by what it shows: bad days left out, recording stopped after a good run, rows kept for their reward. A file
does not tell, so whoever reads it must know. Rows that are unusable for what they say happened are such a selection.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from surefooted.agents.average import AveragePlayer
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.data.log_files import NAMES, NEEDED, Columns, Source, batches
from surefooted.data.log_rows import Example, Rows
from surefooted.errors import InvalidInput
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.tables.space import Ints, Space

OUTCOMES = ("reward", "next_state", "terminated", "truncated")  # columns that say what happened
BATCH = 1 << 16  # rows read at a time


@dataclass(frozen=True)
class Behaviour:
    """How the actions of a log compare with a policy: `never` of the `steps` are actions that it never plays.

    `deviance` is 2 Σ n ln(n / (N π)) over the other actions, n times chosen of N in a state (and stage). If the policy
    chose them, it is about `degrees` with a standard deviation of sqrt(2 `degrees`), and `never` is 0.
    """

    steps: int
    never: int
    deviance: float
    degrees: int

    def __str__(self) -> str:
        """In two sentences."""
        never = f"{self.never} of {self.steps} logged actions are never played by this policy."
        spread = (2 * self.degrees) ** 0.5
        return f"{never} The others: deviance {self.deviance:.1f}, expected {self.degrees} ± {spread:.1f}."


@dataclass(frozen=True)
class History:
    """What a log holds: counts, and how many rows went into them or did not, and why.

    `unusable` says how many rows have each reason, `examples` has the first few of each. `used` and `unusable` add up
    to `rows`.
    """

    counts: Counts
    rows: int
    used: int
    episodes: int
    unusable: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]

    @property
    def actions(self) -> Ints:
        """How often each action was played in each state, [S, A]; all stages together."""
        space = self.counts.space
        table = np.zeros((space.n_states, space.n_actions), dtype=np.int64)
        table[space.pair_state, space.pair_action] = self.counts.visits.reshape(-1, space.n_pairs).sum(axis=0)
        return table

    @property
    def selected(self) -> int:
        """Rows left out for what they say happened; the rest is then a selection by outcome, unless by accident."""
        return sum(number for reason, number in self.unusable.items() if reason.startswith(OUTCOMES))

    def into(self, agent: AveragePlayer[Any] | EpisodicPlayer, *, accidents: bool = False) -> None:
        """Add the counts to those of an agent that has not begun; nothing changes if that is refused.

        `accidents` True says that rows with an unusable reward, next state or flag are accidents of recording that
        have nothing to do with what happened, such as a disk that was full; then the others are used.

        All visits count: an episode of UCRL2 lasts until some pair has been visited as often as in all of the log.
        """
        learner: Any = getattr(agent, "learner", agent)
        counts, faults = getattr(learner, "counts", None), []
        if agent.begun:
            faults.append("the agent has begun already: give it the history before its first step")
        if not isinstance(counts, Counts):
            faults.append(f"its learner, {type(learner).__name__}, keeps no `counts`")
        else:
            faults += self._misfits(counts)
        if getattr(learner, "limit", None) is not None:
            faults.append(f"its bonus is proved for the visits of {learner.limit} episodes alone: use bonus='boxes'")
        if self.selected and not accidents:
            fault = f"{self.selected} rows are left out for what they say happened, so that the rest is a selection"
            faults.append(f"{fault}; if they are accidents of recording, say so with accidents=True")
        if faults:
            raise InvalidInput("this history cannot be given to this agent", faults)
        assert counts is not None
        counts.merge(self.counts)

    def _misfits(self, counts: Counts) -> list[str]:
        """Why these counts cannot be added to others."""
        mine, faults = self.counts, []
        if mine.space != counts.space:
            faults.append(f"it is of {mine.space}, the agent on {counts.space}")
        if mine.stages != counts.stages:
            faults.append(f"it has {mine.stages} stages, the agent's counts {counts.stages}: read it with that many")
        if counts.bounded and not mine.bounded:
            faults.append("it may hold rewards outside [0, r_max]: read it with bounded=True")
        return faults

    def behaviour_matches(self, policy: Policy) -> Behaviour:
        """How well the logged actions fit a policy, such as the baseline that is said to have chosen them.

        Counts are as valid if it did not (see above). But a log that is not the baseline's is not what it was thought
        to be: another version, another machine, or columns mixed up.
        """
        counts, faults = self.counts, []
        if policy.space != counts.space:
            faults.append(f"the policy is on {policy.space}, the log of {counts.space}")
        if policy.horizon not in (None, counts.stages):
            faults.append(f"the policy has {policy.horizon} decision rules: read the log with stages={policy.horizon}")
        if faults:
            raise InvalidInput("these cannot be compared", faults)
        shape = (counts.stages, counts.space.n_pairs)
        n, weights = counts.visits.reshape(shape), np.broadcast_to(policy.dense_weights, shape)
        first, sizes = counts.space.pair_ptr[:-1], np.diff(counts.space.pair_ptr)
        played = weights > 0
        total = np.add.reduceat(np.where(played, n, 0), first, axis=1)
        expected = np.repeat(total, sizes, axis=1) * weights
        seen = played & (n > 0)
        deviance = 2 * float(np.sum(n[seen] * np.log(n[seen] / expected[seen])))
        free = np.add.reduceat(played, first, axis=1, dtype=np.int64) - 1
        return Behaviour(int(n.sum()), int(n[~played].sum()), max(deviance, 0.0), int(free[total > 0].sum()))

    def summary(self) -> str:
        """A few lines for people."""
        lines = [f"{self.rows} rows, {self.used} used, {self.episodes} episodes; {self._coverage()}"]
        for reason, number in self.unusable.items():
            lines.append(f"  {number} not used: {reason}")
            lines += [f"    {example}" for example in self.examples[reason]]
        if self.selected:
            lines.append(f"{self.selected} of these are left out for what they say happened: see History.into.")
        return "\n".join(lines)

    def _coverage(self) -> str:
        seen = int(np.count_nonzero(self.counts.visits))
        return f"{seen} of {self.counts.n_rows} pairs visited" + (" (of all stages)" if self.counts.stages > 1 else "")

    __str__ = summary


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
    """What a log holds: of a CSV or Parquet file, a list or a directory of them, a pyarrow Table, or rows as mappings.

    - Several files are one log, in the order given, in a directory by name. Memory holds a few batches of rows and the
      counts, never a file, and some 250 bytes of each episode that has a name, to know it when it comes back;
      columns={"episode": None} spares those where the rows of an episode stand together.
    - `columns` gives the log's name of a column, as in {"state": "stock"}; None leaves an optional one out.
    - States and actions are indices, or labels if `state_labels` or `action_labels` are given, as a Problem has them;
      then a number is still an index, unless some label is a number.
    - `episode` can be any name or number. Rows of several episodes may alternate. Without it, an episode begins after
      a row that is terminated or truncated, and where t is 0.
    - `t` must increase within an episode. Without it, rows follow one another without gaps. It is needed if each of
      the H = `stages` has counts of its own; otherwise it only tells the order.
    - `terminated` and `truncated` are true, false, 1 or 0; without them, no row is. Such a row is a step like others,
      and is used. After `truncated` the next row may begin anywhere, after `terminated` there must be none in its
      episode. `next_state` is counted as logged: after `terminated` that must be what the agent takes the process to
      do then, start again or stay in a state where nothing is earned (see `surefooted.gym`).
    - A row that leads elsewhere than the row of t + 1 begins is not used; of two rows with one t, the first is used.
    - `strict` makes an error of rows that cannot be used. A file that cannot be read is an error in any case; but a CSV
      file that was cut off within its last value looks whole.
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
        raise InvalidInput(f"this log has rows that cannot be used, of {rows.rows}", faults)
    return History(rows.counts, rows.rows, rows.used, rows.episodes, unusable, examples)


def write_history(
    path: str | Path,
    log: Run | EpisodicRun | Mapping[str, ArrayLike],
    *,
    columns: Columns | None = None,
    state_labels: Sequence[str] = (),
    action_labels: Sequence[str] = (),
    first_episode: int = 0,
) -> None:
    """Write a run, or columns by name, as a log that `read_history` reads: CSV or Parquet by the name of the file.

    A run is episode `first_episode`, the episodes of an episodic one are numbered from there. The last step of each is
    truncated: the clock ran out. The file is replaced only when the new one is whole.
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
    neighbour = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        (pq.write_table if path.suffix == ".parquet" else pcsv.write_csv)(table, neighbour)
        os.replace(neighbour, path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise


def _labelled(name: str, indices: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The label of each index."""
    try:
        words: np.ndarray = np.array([str(label) for label in labels])[indices]
    except IndexError as error:
        raise InvalidInput("this log cannot be written", [f"column {name!r}: {error}"]) from error
    return words


def _labels(name: str, labels: Sequence[str], size: int, faults: list[str]) -> tuple[str, ...]:
    """Labels as they are sought; none where they are the indices themselves."""
    words = tuple(str(label) for label in labels)
    if isinstance(labels, str):
        faults.append(f"{name} must be a list of words, not one word")
    elif words and len(words) != size:
        faults.append(f"{name} has {len(words)} entries for {size}")
    elif len(set(words)) < len(words):
        faults.append(f"{name} has some label twice")
    return () if words == tuple(str(i) for i in range(size)) else words
