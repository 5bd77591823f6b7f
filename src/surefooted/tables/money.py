"""The range and unit of rewards, and the only place where amounts change between the user's unit and the inside.

A user's rewards lie in [low, high], in any unit, and may be negative. Sets, planners and kernels count rewards from
`low` on, so that they lie in [0, r_max] with r_max = high - low. Nothing is divided: an amount inside is an amount in
the same unit. Counting from `low` lowers

    a reward, a mean reward or a gain     by low
    the value of n steps to go            by n low
    a bias, a span, an advantage          by nothing

With low = 0 nothing changes, not even the last bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted.arrays import Floats

REWARD_ROUNDING = 1e-9  # how far outside its range a reward may be by rounding, times the largest amount


@dataclass(frozen=True)
class Money:
    """The range [low, high] of rewards and their unit, such as "€"; the unit may be empty.

    >>> from surefooted.tables.money import Money
    >>> euros = Money(-102, 181, "€")
    >>> euros.counted(-2.0), euros.earned(100.0), euros.amount(12.4)
    (100.0, -2.0, '€ 12.40')
    """

    low: float = 0.0
    high: float = 1.0
    unit: str = ""

    @classmethod
    def parse(cls, r_max: Any, rewards: Any, unit: Any, faults: list[str]) -> "Money":
        """The money of `rewards=(low, high)`, or of its short form `r_max` for (0, r_max); else a fault."""
        if not isinstance(unit, str):
            faults.append(f'unit must be a text such as "€", not {unit!r}')
            unit = ""
        if rewards is None:
            top = _number(1.0 if r_max is None else r_max)
            if not (np.isfinite(top) and top > 0):
                faults.append(f"r_max is {r_max}: it must be positive and finite")
                top = 1.0
            return cls(0.0, top, unit)
        if r_max is not None:
            faults.append("give rewards=(low, high) or r_max, not both")
        ends = list(rewards) if isinstance(rewards, Sequence | np.ndarray) and not isinstance(rewards, str) else []
        low, high = (_number(end) for end in ends) if len(ends) == 2 else (np.nan, np.nan)
        if not (np.isfinite(low) and np.isfinite(high) and low < high and np.isfinite(high - low)):
            faults.append(f"rewards {rewards} must be (low, high) with low < high, both finite")
            low, high = 0.0, 1.0
        return cls(low, high, unit)

    @property
    def r_max(self) -> float:
        """The largest reward, counted from `low`."""
        return self.high - self.low

    @property
    def slack(self) -> float:
        """How far outside its range a reward may be by rounding."""
        return REWARD_ROUNDING * max(self.r_max, abs(self.low), abs(self.high))

    def contains(self, rewards: Any) -> Any:
        """Which rewards of the user lie in the range, up to rounding."""
        return (rewards >= self.low - self.slack) & (rewards <= self.high + self.slack)

    def counted(self, reward: Any) -> Any:
        """Rewards, mean rewards or gains of the user, counted from `low`."""
        return reward - self.low

    def earned(self, counted: Any) -> Any:
        """Rewards, mean rewards or gains of the inside, in the user's unit."""
        return counted + self.low

    def values_counted(self, values: Floats, horizon: int) -> Floats:
        """Values of the user, counted from `low`: of one stage with `horizon` steps to go [S], or of all [H + 1, S]."""
        return np.asarray(values - self._to_go(values, horizon))

    def values_earned(self, values: Floats, horizon: int) -> Floats:
        """Values of the inside, in the user's unit; shapes as in `values_counted`."""
        return np.asarray(values + self._to_go(values, horizon))

    def _to_go(self, values: Floats, horizon: int) -> Any:
        """What `low` adds up to over the steps that are left."""
        if np.ndim(values) < 2:
            return horizon * self.low
        return (self.low * (horizon - np.arange(len(values))))[:, None]

    def totals_earned(self, totals: Floats) -> Floats:
        """What 1, 2, .., n steps earn, [n], of the inside, in the user's unit."""
        return np.asarray(totals + self.low * np.arange(1, len(totals) + 1))

    def amount(self, value: float, plain: str = ".4g") -> str:
        """An amount for people: "€ 12.40", "12.4 kWh", or "12.4" if there is no unit.

        A currency, which is a sign or three capital letters, stands before the amount, and the amount has two digits
        after the point. `plain` formats all other amounts.
        """
        value = float(value)
        if not self.unit:
            return f"{value:{plain}}"
        if not (len(self.unit) == 1 and not self.unit.isalnum()) and not (len(self.unit) == 3 and self.unit.isupper()):
            return f"{value:{plain}} {self.unit}"
        if not np.isfinite(value) or 0 < abs(value) < 0.005:
            return f"{self.unit} {value:.1g}"
        return f"{self.unit} {value:.2f}"

    @property
    def words(self) -> str:
        """The range for people: "[-102, 181] €"."""
        return f"[{self.low:g}, {self.high:g}]" + (f" {self.unit}" if self.unit else "")

    @property
    def hint(self) -> str:
        """What to do about a reward outside the range."""
        return (
            f"Rewards are declared to lie in {self.words}. If yours do not, say so when you build the space: "
            "rewards=(low, high), in your own unit, negative numbers included."
        )


def _number(value: Any) -> float:
    """A number, or nan."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
