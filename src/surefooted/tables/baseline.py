"""The baseline: the policy in use today, and what is known about it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted.arrays import freeze, real_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats


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
    """

    policy: Policy
    gain: float | None = None
    bias: Floats | None = None  # [S]
    values: Floats | None = None  # [S] or [H + 1, S]

    def __post_init__(self) -> None:
        """Check that a policy can have this gain, this bias and these values."""
        if not isinstance(self.policy, Policy):
            fault = f"the policy is {_shown(self.policy)}, not a Policy: build it with a space"
            remedy = "For one action in each state, write sf.Baseline(sf.Policy.deterministic(space, [0, 0]))."
            raise InvalidInput("this baseline is not valid", [fault], remedy)
        faults: list[str] = []
        money = self.policy.space.money
        if self.policy.horizon is not None and self.gain is not None:
            faults.append(f"the policy has {self.policy.horizon} decision rules: an average-reward baseline has one")
        if (self.gain is None) != (self.bias is None):
            faults.append("give both gain and bias, or neither")
        if self.gain is not None and not money.low <= self.gain <= money.high:
            faults.append(f"gain {self.gain} is outside {money.words}: no policy could have it")
        if self.bias is not None:
            bias = np.array(self.bias, dtype=np.float64)
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
        if faults:
            raise InvalidInput("this baseline is not valid", faults)

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


def baseline_argument(given: Any) -> list[str]:
    """Why what an agent was given as its baseline is none."""
    if isinstance(given, Baseline):
        return []
    if isinstance(given, Policy):
        return ["baseline is a Policy: give sf.Baseline(policy), with its gain and bias or its values if you know them"]
    return [f"baseline is {_shown(given)}: give sf.Baseline(sf.Policy.deterministic(space, actions))"]


def _shown(given: Any) -> str:
    """What was given, in a few words."""
    text = repr(given)
    return text if len(text) <= 40 else f"of type {type(given).__name__}"
