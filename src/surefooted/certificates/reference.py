"""What a certificate holds the baseline to: its gain and bias, or bounds on them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surefooted import planning
from surefooted.codec import record
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Floats

ACCURACY = 0.1  # of the bounds on an unknown gain, times r_max / sqrt(t + 1)


@record
@dataclass(frozen=True)
class Reference:
    """The gain and bias of the baseline, or bounds on them; gains are counted from `low` (`tables.money`).

    - Known: both bounds are they.
    - Unknown: L φ >= φ + gain_low pessimistically with φ = bias_low, L φ <= φ + gain_high optimistically with φ =
      bias_high. These are two functions, each with its inequality: neither bounds the true bias.
    - Unknown, with `one_bias` (see `certificates.netting`): if the gain is `gain_low`, which is `gain_high`, then the
      true bias lies between bias_low and bias_high in each state.
    """

    gain_low: float
    gain_high: float
    bias_low: Floats  # [S]
    bias_high: Floats  # [S]
    one_bias: bool = False

    @property
    def bias_left(self) -> Floats:
        """At least the bias, [S], of what steps of the baseline leave behind when they end in a state."""
        return self.bias_high if self.one_bias else self.bias_low

    @property
    def bias_owed(self) -> Floats:
        """At most the bias, [S], of the baseline's own run where it ends."""
        return self.bias_low if self.one_bias else self.bias_high

    @cached_property
    def terminal(self) -> Floats:
        """What the baseline earns at worst from each state on, relative to its gain, [S]: φ - max φ."""
        return np.asarray(self.bias_low - self.bias_left.max())

    @classmethod
    def of(cls, baseline: Baseline, plausible: Plausible, t: int) -> "Reference":
        """What is known of the baseline, or what a set says of it to ACCURACY r_max / sqrt(t + 1)."""
        gain = baseline.gain_counted
        if gain is not None and baseline.bias is not None:
            bias = baseline.bias.copy()  # writable, as bounds are: kernels are compiled for one kind
            return cls(gain, gain, bias, bias)
        epsilon = ACCURACY * plausible.space.r_max / np.sqrt(t + 1)
        low = planning.policy_gain(plausible, baseline.policy, epsilon, "pessimistic")
        high = planning.policy_gain(plausible, baseline.policy, epsilon, "optimistic")
        return cls(low.lower, high.upper, low.bias, high.bias)
