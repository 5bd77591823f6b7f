"""Guardrails as a problem file describes them: further numbers, and what each is expected to be.

`expected` is a formula of state, action and `next`, and of the noise if the file has mechanics. It says what the number
is on average. With it, the gain and bias of the baseline follow from any model of the problem, as those of the reward
do, and a rehearsal knows what to tell.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from surefooted.agents.fleet_accounts import Guardrail
from surefooted.errors import InvalidInput
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.expressions import Formula
from surefooted.problems.file_axes import Axis
from surefooted.problems.problem import Problem
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.space import Floats, Space

NEXT = "next"  # what formulas call the next state


@dataclass(frozen=True)
class Expected:
    """What a number is on average, after a step from a state by an action to the next one, with this noise."""

    formula: Formula
    states: Axis
    actions: Axis
    noise: tuple[Axis, ...] = ()  # of the mechanics, if the formula names any of it
    _kept: list[tuple[Mechanics, Floats]] = field(default_factory=list, repr=False, compare=False)

    def __call__(self, s: int, a: int, s_next: int, noise: tuple[int, ...] | None = None) -> float:
        """The number."""
        values = {self.states.name: self.states.values[s], self.actions.name: self.actions.values[a]}
        values[NEXT] = self.states.values[s_next]
        if self.noise:
            if noise is None:
                fault = f"{self.formula.text!r} depends on the noise, and this world has no mechanics"
                raise InvalidInput("this number is not known", [fault], "Write it with next instead.")
            values |= {axis.name: axis.values[i] for axis, i in zip(self.noise, noise, strict=True)}
        return float(self.formula(**values))

    def means(self, problem: Problem) -> Floats:
        """The mean of every pair in a problem, [K]."""
        mdp, mechanics, space = problem.mdp, problem.mechanics, problem.space
        pairs = list(zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True))
        if not self.noise or mechanics is None:
            rows = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr)).tolist()
            each = [self(*pairs[k], s_next) for k, s_next in zip(rows, mdp.next_state.tolist(), strict=True)]
            return np.asarray(np.add.reduceat(mdp.p * np.array(each), mdp.next_ptr[:-1]))
        means = replace(mechanics, reward=self._by_noise(mechanics)).table(problem.laws)[3]
        assert means is not None
        return means

    def _by_noise(self, mechanics: Mechanics) -> Floats:
        """The number for every pair and every noise, as `Mechanics.reward` holds it; computed once."""
        if not self._kept or self._kept[0][0] is not mechanics:
            space = mechanics.space
            values = [
                self(s, a, int(mechanics.outcomes(k)[xi]), xi)
                for k, (s, a) in enumerate(zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True))
                for xi in np.ndindex(*mechanics.shape(k))
            ]
            self._kept[:] = [(mechanics, np.array(values, dtype=np.float64))]
        return self._kept[0][1]


@dataclass(frozen=True, eq=False)
class FileGuardrail:
    """A guardrail of a problem file; see `Guardrail`. Gain and bias are None if the file does not give them."""

    name: str
    tolerance: float
    low: float = 0.0
    high: float = 1.0
    better: str = "higher"
    allowance: float = 0.0
    gain: float | None = None
    bias: Floats | None = None
    expected: Expected | None = None

    def of_file(self) -> Guardrail:
        """With the gain and bias that the file gives; an error if it gives none."""
        if self.gain is None or self.bias is None:
            fault = f"guardrail {self.name!r}: the file does not give gain and bias"
            hint = "Give both; or give expected, and take the numbers of the model or the log: --baseline model, log."
            raise InvalidInput("it is not known what the baseline keeps", [fault], hint)
        return self.keeping(self.gain, self.bias)

    def keeping(self, gain: float, bias: Floats) -> Guardrail:
        """With this gain and bias of the baseline."""
        names = ("tolerance", "low", "high", "better", "allowance")
        return Guardrail(self.name, gain, bias, **{name: getattr(self, name) for name in names})

    def value(self, s: int, a: int, s_next: int, noise: tuple[int, ...] | None) -> float:
        """What a simulated world tells after a step."""
        if self.expected is None:
            raise self._unknown()
        number = self.expected(s, a, s_next, noise)
        if not self.low <= number <= self.high:
            fault = f"guardrail {self.name!r}: {number:g} is outside [{self.low:g}, {self.high:g}]"
            raise InvalidInput("this number cannot be told", [fault], f"{self.expected.formula.text!r} leaves it.")
        return number

    def _unknown(self) -> InvalidInput:
        fault = f"guardrail {self.name!r}: the file does not say what it is expected to be"
        return InvalidInput("this number is not known", [fault], "Give expected, a formula of state, action and next.")

    def table(self, problem: Problem) -> TabularMDP:
        """A problem in which this number is what is earned."""
        if self.expected is None:
            raise self._unknown()
        means, mdp, given = self.expected.means(problem), problem.mdp, problem.space
        outside = np.flatnonzero((means < self.low - 1e-9) | (means > self.high + 1e-9))
        if outside.size:
            faults = [f"{given.words(int(k))}: {means[k]:g} is outside [{self.low:g}, {self.high:g}]" for k in outside]
            raise InvalidInput(f"guardrail {self.name!r} leaves its range", faults)
        space = Space(given.pair_ptr, given.pair_action, rewards=(self.low, self.high))
        return TabularMDP(space, mdp.next_ptr, mdp.next_state, mdp.p, np.clip(means, self.low, self.high))
