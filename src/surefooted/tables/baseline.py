"""The baseline: the policy in use today, and what is known about it."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from surefooted.arrays import freeze, real_numbers
from surefooted.errors import InvalidInput, shown
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space


class Log(Protocol):
    """A `History`: what it counted, and how it is given to an agent."""

    @property
    def counts(self) -> Any:
        """The steps of the log, `Counts`."""

    @property
    def in_order(self) -> Any:
        """The steps in the order in which they were played, or None."""

    def into(self, agent: Any, *, accidents: bool = False) -> None:
        """Add them to those of an agent that has not begun."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """The policy in use today, and what is known about it; agents estimate what is not known while they play it.

    >>> import surefooted as sf
    >>> problem = sf.problems.inventory()
    >>> unknown = sf.Baseline(problem.baseline)
    >>> exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> known = sf.Baseline(problem.baseline, gain=exact.gain, bias=exact.bias)

    - `policy`: what is played today.
    - `gain`, `bias`: for average reward (Asm. `asm:baseline`), in the unit of the space. Give both or neither; any
      constant may be added to the bias [S].
    - `values`: for a finite horizon, the expected reward of an episode from each state, [S]; or the values of all
      stages, [H + 1, S], whose first row is that.
    - `span`: for average reward if gain and bias are not known, a number that max h - min h of the bias h does not
      exceed. If the baseline reaches one state from every other in at most N steps on average, N r_max is one.
    - `history`, `accidents`, `untold`, `read_off`: as `from_history` makes them.
    """

    policy: Policy
    gain: float | None = None
    bias: Floats | None = None  # [S]
    values: Floats | None = None  # [S] or [H + 1, S]
    span: float | None = None
    history: Log | None = None  # what conservative agents count before their first step
    accidents: bool = False
    untold: tuple[str, ...] = ()  # what the log does not tell of the policy
    read_off: bool = False  # whether the policy was read off the log

    def __post_init__(self) -> None:
        """Check that a policy can have this gain, this bias and these values."""
        if not isinstance(self.policy, Policy):
            fault = f"the policy is {shown(self.policy)}, not a Policy: build it with a space"
            remedy = "For one action in each state, write sf.Baseline(sf.Policy.deterministic(space, [0, 0]))."
            raise InvalidInput("this baseline is not valid", [fault], remedy)
        faults: list[str] = []
        money = self.policy.space.money
        if self.policy.horizon is not None and self.gain is not None:
            faults.append(f"the policy has {self.policy.horizon} decision rules: an average-reward baseline has one")
        if (self.gain is None) != (self.bias is None):
            faults.append("give both gain and bias, or neither")
        for name in ("gain", "span"):
            if (given := getattr(self, name)) is not None and not isinstance(given, int | float | np.number):
                faults.append(f"{name} {given!r} must be a number, in the unit of rewards")
                object.__setattr__(self, name, None)
        if self.gain is not None and not money.low <= self.gain <= money.high:
            faults.append(f"gain {self.gain} is outside {money.words}: no policy could have it")
        if self.bias is not None:
            bias = real_numbers("bias", self.bias, faults)
            if bias.shape != (self.policy.space.n_states,):
                faults.append(f"bias has shape {bias.shape}, not ({self.policy.space.n_states},)")
            elif not np.all(np.isfinite(bias)):
                faults.append("bias has entries that are not finite")
            freeze(bias)
            object.__setattr__(self, "bias", bias)
        if self.values is not None:
            values = real_numbers("values", self.values, faults)
            if values.ndim not in (1, 2) or values.size == 0 or values.shape[-1] != self.policy.space.n_states:
                faults.append(f"values have shape {values.shape}, not ({self.policy.space.n_states},)")
            elif not np.all(np.isfinite(values)):
                faults.append("values has entries that are not finite")
            elif money.low >= 0 and np.any(values < 0):
                faults.append(f"values has entries that are negative, and rewards lie in {money.words}")
            if self.gain is not None:
                faults.append("give gain and bias (average reward) or values (finite horizon), not both")
            freeze(values)
            object.__setattr__(self, "values", values)
        if self.span is not None:
            if not 0 <= self.span < np.inf:
                faults.append(f"span {self.span} must be finite and not negative")
            if self.is_known:
                faults.append("a span is for a baseline whose gain and bias, or values, are not known: leave it out")
        if faults:
            raise InvalidInput("this baseline is not valid", faults)

    @classmethod
    def from_history(
        cls,
        history: Log,
        policy: Policy | None = None,
        *,
        elsewhere: Policy | None = None,
        span: float | None = None,
        accidents: bool = False,
    ) -> Self:
        """Today's policy, from a log of what it did; what it earns is not known, and bounded by the log.

        - `history`: what `surefooted.read_history` returned.
        - `policy`: what was played. Without it, it is read off the log: in each state, each action as often as it was
          played there. `untold` names the states of which the log does not tell enough.
        - `elsewhere`: a policy for the states in which the log shows no action. Without it, such states are refused.
        - `span`: as for `Baseline`. With it, the rewards of the log bound the gain even if nothing else is known.
        - `accidents`: as for `History.into`.

        A conservative agent with this baseline counts the log before its first step, so that its certificates bound
        gain and bias by the log. `surefooted.estimate_baseline` shows these bounds. A policy that was read off the log
        was chosen after its rewards were seen: then the counts of the log are used, but not its rewards in order.

        >>> import surefooted as sf
        >>> problem = sf.problems.riverswim()
        >>> sf.write_history("today.parquet", sf.simulate(problem, sf.UCRL2(problem.space), 100))
        >>> history = sf.read_history("today.parquet", problem.space)
        >>> baseline = sf.Baseline.from_history(history, problem.baseline)
        >>> sf.CUCRL2(problem.space, baseline=baseline, alpha=0.1).counts.total
        100
        """
        if not (hasattr(history, "counts") and hasattr(history, "into")):
            fault = f"the history is {shown(history)}: read the log first, sf.read_history(log, space)"
            raise InvalidInput("this baseline is not valid", [fault])
        untold: list[str] = []
        read_off = policy is None
        if policy is None:
            policy = _played(history, elsewhere, untold)
        told = (history, accidents, tuple(untold), read_off)
        return cls(policy, None, None, None, span, *told)

    @property
    def start_values(self) -> Floats | None:
        """The expected reward of an episode from each state, [S], if it is known."""
        if self.values is None or self.values.ndim == 1:
            return self.values
        return np.asarray(self.values[0])

    @property
    def is_known(self) -> bool:
        """Whether gain and bias, or values, were given."""
        return self.gain is not None or self.values is not None

    @property
    def gain_counted(self) -> float | None:
        """The gain, counted from `low` (see `tables.money`), if it is known."""
        return None if self.gain is None else float(self.policy.space.money.counted(self.gain))

    def values_counted(self, horizon: int) -> Floats | None:
        """The values of the starts, [S], or of all stages, [H + 1, S], counted from `low`, if they are known."""
        return None if self.values is None else self.policy.space.money.values_counted(self.values, horizon)


def _played(history: Log, elsewhere: Policy | None, untold: list[str]) -> Policy:
    """The policy that a log shows: each action as often as it was played; `untold` gets what it does not tell."""
    counts = history.counts
    space: Space = counts.space
    visits = counts.visits.reshape(-1, space.n_pairs).sum(axis=0).astype(np.float64)
    total = np.add.reduceat(visits, space.pair_ptr[:-1])
    never = np.flatnonzero((total == 0) & (np.diff(space.pair_ptr) > 1))
    if never.size and elsewhere is None:
        shown = ", ".join(space.state_words(s) for s in never[:12]) + ", …" * bool(never.size > 12)
        fault = f"the log shows no action in {never.size} states: {shown}"
        remedy = "Give the policy, or `elsewhere`, a policy for these states: from_history(history, elsewhere=policy)."
        raise InvalidInput("today's policy cannot be read off this log", [fault], remedy)
    weights = np.ones(space.n_pairs) if elsewhere is None else elsewhere.dense_weights.copy()
    seen = total[space.pair_state] > 0
    weights[seen] = (visits / np.maximum(total, 1)[space.pair_state])[seen]
    untold += [f"state {space.state_words(s)}: no action was logged, `elsewhere` was taken" for s in never]
    for s in np.flatnonzero(np.add.reduceat((visits > 0).astype(np.int64), space.pair_ptr[:-1]) > 1):
        untold.append(f"state {space.state_words(s)}: several actions were logged, each was taken as often as it was")
    if np.all((weights == 0) | (weights == 1)):
        return Policy(space, pair=np.flatnonzero(weights))
    return Policy(space, weights=weights)


def baseline_argument(given: Any) -> list[str]:
    """Why what an agent was given as its baseline is none."""
    if isinstance(given, Baseline):
        return []
    if isinstance(given, Policy):
        return ["baseline is a Policy: give sf.Baseline(policy), with its gain and bias or its values if you know them"]
    return [f"baseline is {shown(given)}: give sf.Baseline(sf.Policy.deterministic(space, actions))"]
