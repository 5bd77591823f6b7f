"""What was played before, read from a log: it fills an agent's counts before the agent's first step.

A log has a row for each step. Its columns are `state`, `action`, `reward`, `next_state`, and optionally `episode`, `t`,
`terminated` and `truncated`. Rows that cannot be used are counted by reason, never dropped silently.

Logged steps may be counted no matter who chose the actions. Given its state and action, the reward and next state of a
step are a fresh draw, and the bounds assume nothing else. This fails if rows were selected by their outcome: bad days
left out, recording stopped after a good run, rows kept for their reward. A file does not show this, so whoever reads it
must know. Rows that cannot be used because of their outcome are such a selection, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from surefooted.data.counts import Counts
from surefooted.data.log_options import OUTCOMES
from surefooted.data.log_rows import Example
from surefooted.data.repeats import Repeat
from surefooted.errors import InvalidInput
from surefooted.kernels.structs import Steps
from surefooted.pages import Shown
from surefooted.tables.policy import Policy
from surefooted.tables.space import Ints

SELECTED = (
    "the rest is a selection, and no bound holds for it. If they are accidents of recording that have nothing to do "
    "with what happened, say so: accidents=True, or in a problem file, under [logs], accidents = true."
)


class TakesHistory(Protocol):
    """An agent that a history can be given to: its `counts`, or those of its `learner`, are `Counts`.

    A learner whose bounds hold for a limited number of episodes only says so in an attribute `limit`; it is refused.
    """

    @property
    def begun(self) -> bool:
        """Whether a first step or episode has begun."""


@dataclass(frozen=True)
class Behaviour:
    """How the actions of a log compare with a policy.

    `never` of the `steps` are actions that the policy never plays. For the other actions, `deviance` is
    2 Σ n ln(n / (N π)), where an action was chosen n of N times in a state (and stage). If the policy chose them,
    `never` is 0, and the deviance is about `degrees`, with a standard deviation of sqrt(2 `degrees`).
    """

    steps: int
    never: int
    deviance: float
    degrees: int

    def __str__(self) -> str:
        """Two sentences, or one if the policy leaves nothing to chance."""
        never = f"{self.never} of {self.steps} logged actions are never played by this policy."
        if self.degrees == 0:
            return never
        spread = (2 * self.degrees) ** 0.5
        return f"{never} The others: deviance {self.deviance:.1f}, expected {self.degrees} ± {spread:.1f}."


@dataclass(frozen=True, repr=False)
class History(Shown):
    """The content of a log, as `read_history` returns it.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.write_history("log.parquet", sf.simulate(problem, sf.UCRL2(problem.space), 100))
    >>> history = sf.read_history("log.parquet", problem.space)
    >>> print(history)
    100 rows, 100 used, 1 episodes; 9 of 12 pairs visited
    >>> agent = sf.UCRL2(problem.space)
    >>> history.into(agent)

    - `counts`: the steps that were used.
    - `rows`, `used`, `episodes`: how many there are; `used` and the numbers in `unusable` add up to `rows`.
    - `unusable`: the number of rows that cannot be used, by reason.
    - `examples`: the first few rows of each reason.
    - `left_out`: rows that `where` or `site` left out; `sites`: the rows of each site.
    - `gaps`, `skipped`: how often t jumps within an episode, and how many steps are missing there.
    - `alike`: in a log without t, rows that equal the row before and begin where it led: copies look like this, too.
    - `repeats`: in a log without t, stretches that stand in it twice, and that the process would not have repeated.
    - `in_order`: the first 20 000 steps in the order in which they were played; None if several episodes alternate.
    """

    counts: Counts
    rows: int
    used: int
    episodes: int
    unusable: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]
    left_out: int = 0
    sites: Mapping[str, int] = field(default_factory=dict)
    gaps: int = 0
    skipped: int = 0
    alike: int = 0
    repeats: tuple[Repeat, ...] = ()
    in_order: Steps | None = None

    def _facts(self) -> dict[str, object]:
        visited = int(np.count_nonzero(self.counts.visits))
        facts: dict[str, object] = {"rows": self.rows, "used": self.used, "episodes": self.episodes}
        return facts | {"visited_pairs": visited, "pairs": self.counts.visits.size}

    @property
    def actions(self) -> Ints:
        """How often each action was played in each state, [S, A]; all stages together."""
        space = self.counts.space
        table = np.zeros((space.n_states, space.n_actions), dtype=np.int64)
        table[space.pair_state, space.pair_action] = self.counts.visits.reshape(-1, space.n_pairs).sum(axis=0)
        return table

    @property
    def selected(self) -> int:
        """Rows that were left out because of their outcome; unless they are accidents, the rest is a selection."""
        return sum(number for reason, number in self.unusable.items() if reason.startswith(OUTCOMES))

    def into(self, agent: TakesHistory, *, accidents: bool = False, repeated: bool = False) -> None:
        """Add the counts to those of an agent that has not begun; if this is refused, nothing changes.

        - `accidents`: True declares that rows with an unusable reward, next state or flag are accidents of recording
          that do not depend on what happened, such as a full disk. The other rows are then used.
        - `repeated`: True declares that stretches that stand in the log twice did happen twice.

        If the agent keeps an account of a baseline whose gain is unknown, the steps that the baseline played bound it.

        All visits count: an episode of UCRL2 lasts until some pair has been visited as often as in the whole log.
        """
        learner: Any = getattr(agent, "learner", agent)
        counts, faults = getattr(learner, "counts", None), []
        if agent.begun:
            faults.append("the agent has begun already: give it the history before its first step")
        logged = getattr(getattr(agent, "baseline", None), "history", None)
        if logged is not None and isinstance(counts, Counts) and counts.total > 0:
            fault = "its baseline was made from a log, which the agent has counted already, or its learner had counted"
            faults.append(f"{fault} {counts.total} steps before: no step may count twice")
        if not isinstance(counts, Counts):
            faults.append(f"its learner, {type(learner).__name__}, keeps no `counts`")
        else:
            faults += self._misfits(counts)
        if getattr(learner, "limit", None) is not None:
            faults.append(f"its bonus is proved for the visits of {learner.limit} episodes alone: use bonus='boxes'")
        if self.selected and not accidents:
            faults.append(f"{self.selected} rows are left out because of their outcome: {SELECTED}")
        if self.repeats and not repeated:
            shown = "; ".join(str(repeat) for repeat in self.repeats[:3])
            faults.append(f"{shown}: remove the copies, or say with repeated=True that both happened")
        if faults:
            raise InvalidInput("this history cannot be given to this agent", faults)
        assert counts is not None
        counts.merge(self.counts)
        account: Any = getattr(agent, "account", None)
        if self.in_order is not None and hasattr(account, "remember"):
            account.remember(self.in_order)

    def _misfits(self, counts: Counts) -> list[str]:
        """Why these counts cannot be added to an agent's."""
        mine, faults = self.counts, []
        if mine.space != counts.space:
            faults.append(f"the log is on {mine.space}, the agent on {counts.space}")
        if mine.stages != counts.stages:
            faults.append(f"the log was read with stages={mine.stages}, the agent needs stages={counts.stages}")
        if counts.bounded and not mine.bounded:
            words = self.counts.space.money.words
            faults.append(f"the log may hold rewards outside {words}: read it with bounded=True")
        return faults

    def behaviour_matches(self, policy: Policy) -> Behaviour:
        """How well the logged actions fit a policy, such as the baseline that is said to have chosen them.

        The counts are valid in any case. But if the actions do not fit, the log is not what it was thought to be:
        another version of the policy, another machine, or mixed-up columns.
        """
        counts, faults = self.counts, []
        if policy.space != counts.space:
            faults.append(f"the policy is on {policy.space}, the log on {counts.space}")
        if policy.horizon not in (None, counts.stages):
            faults.append(f"the policy has {policy.horizon} decision rules: read the log with stages={policy.horizon}")
        if faults:
            raise InvalidInput("this log cannot be compared with this policy", faults)
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

    def summary(self, accidents: bool = False) -> str:
        """A few lines for people; `accidents`: whether rows that are left out are declared to be accidents."""
        lines = [f"{self.rows} rows, {self.used} used, {self.episodes} episodes; {self._coverage()}"]
        for reason, number in self.unusable.items():
            lines.append(f"  {number} not used: {reason}")
            lines += [f"    {example}" for example in self.examples[reason]]
        if any(reason.startswith("reward is outside") for reason in self.unusable):
            lines.append(self.counts.space.money.hint)
        if self.selected:
            why = "declared to be accidents of recording." if accidents else SELECTED
            lines.append(f"{self.selected} of these are left out because of their outcome: {why}")
        lines += self.remarks
        return "\n".join(lines)

    @property
    def remarks(self) -> list[str]:
        """What else should be known of the rows: gaps, possible copies, rows that were left out."""
        lines = [f"{self.left_out} rows were not asked for."] if self.left_out else []
        if self.gaps:
            lines.append(f"t jumps {self.gaps} times; {self.skipped} steps are missing there.")
        if self.alike:
            lines.append(f"{self.alike} rows equal the row before; without t, copies cannot be told from steps.")
        return lines + [f"{repeat}: was something exported twice?" for repeat in self.repeats]

    def _coverage(self) -> str:
        seen = int(np.count_nonzero(self.counts.visits))
        return f"{seen} of {self.counts.n_rows} pairs visited" + (" (of all stages)" if self.counts.stages > 1 else "")

    def __str__(self) -> str:
        """The same."""
        return self.summary()
