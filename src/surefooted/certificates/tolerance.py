"""What may be lost, compared with the baseline: a share, an amount per step, an amount in all, and when it counts.

All amounts are in the user's unit. After t steps an agent must have earned on average, with b_t what the baseline earns
in t steps, at least

    b_t - α max(b_t - t floor, 0) - t tolerance - allowance.

α is a share of what the baseline actually earns, measured from `floor`, which is 0 unless given. Where the baseline has
earned nothing yet, its share is nothing. Over a finite horizon each episode has its own share, α max(V - H floor, 0)
for the value V of its start.

*Counted from `low`* (`tables.money`) the margin of t steps with α alone is larger by a known amount: with r = r' + low,

    E Σ r - (1 - α) E_b Σ r - α t floor  =  E Σ r' - (1 - α) E_b Σ r' + t α (low - floor).

So certificates that count from `low` add `per_step_counted` to the margin for each step. Nothing else changes. A
certificate that proves this margin proves the condition above, since max(b, 0) >= b. docs/guarantees.md has the proofs.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted.arrays import Bools, Floats, is_whole
from surefooted.tables.money import Money

INSTEAD = (
    "set alpha=0 and give tolerance= (an amount per step) or allowance= (an amount in all), "
    "or give floor= (a level that earnings are measured from)"
)
Checkpoints = int | Iterable[int]


@dataclass(frozen=True)
class Tolerance:
    """What may be lost: `alpha` of what the baseline earns above `floor`, `per_step` in each step, `allowance` in all.

    The condition is kept after every `every` steps, or with `every` 0 at the `dates` and at each step after the last of
    them. Over a finite horizon, dates are episodes.

    >>> from surefooted.certificates.tolerance import Tolerance
    >>> tolerance = Tolerance(alpha=0.05, floor=-10.0, every=91)
    >>> tolerance.rate(30.0), tolerance.next_date(92)
    (2.0, 182)
    """

    alpha: float
    per_step: float = 0.0
    allowance: float = 0.0
    floor: float = 0.0
    every: int = 1
    dates: tuple[int, ...] = ()

    @classmethod
    def parse(
        cls, alpha: Any, faults: list[str], *, tolerance: Any = 0.0, allowance: Any = 0.0, floor: Any = None,
        checkpoints: Any = None,
    ) -> "Tolerance":  # fmt: skip
        """The tolerance of an agent's arguments; what is wrong with them is added to `faults`."""
        own: list[str] = []
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": 0.0 if floor is None else floor}
        if not _is_number(alpha):
            share = _percent(alpha)
            meant = f"alpha={share:g}" if share is not None else "alpha=0.05 for 5 %"
            own.append(f"alpha {alpha!r} must be a number: write {meant}")
        for name, value in amounts.items():
            if not _is_number(value) or not np.isfinite(value) or (name != "floor" and value < 0):
                least = "finite" if name == "floor" else "finite and not negative"
                own.append(f"{name} {value} must be {least}")
        every, dates = _dates(checkpoints, own)
        if own:
            faults += own
            return cls(0.0)
        given = cls(float(alpha), float(tolerance), float(allowance), float(amounts["floor"]), every, dates)
        if not (0 < given.alpha < 1 or (given.alpha == 0 and (given.per_step or given.allowance))):
            told = "must lie strictly between 0 and 1, or be 0 with an allowance or a tolerance"
            meant = f": for {alpha:g} % write alpha={alpha / 100:g}" if 1 <= given.alpha < 100 else ""
            faults.append(f"alpha {alpha} {told}{meant}")
        return given

    @classmethod
    def of(cls, given: "Tolerance | float") -> "Tolerance":
        """A tolerance as it is; a number stands for α alone."""
        return given if isinstance(given, Tolerance) else cls(float(given))

    @property
    def at_every_step(self) -> bool:
        """Whether the condition is kept at every step (or after every episode)."""
        return self.every == 1

    @property
    def shows(self) -> dict[str, Any]:
        """The arguments of an agent that has it, for `Restorable.arguments`."""
        named = {"alpha": self.alpha, "tolerance": self.per_step, "allowance": self.allowance, "floor": self.floor}
        return named | {"checkpoints": list(self.dates) if self.every == 0 else self.every}

    def rate(self, gain: float) -> float:
        """What each step of a baseline of this gain, in the user's unit, adds to the margin in the long run."""
        return self.alpha * (gain - self.floor) + self.per_step

    def per_step_counted(self, low: float) -> float:
        """What each step adds to a margin that counts rewards from `low`."""
        return self.alpha * (low - self.floor) + self.per_step

    def of_episodes(self, values: Any, horizon: int) -> Any:
        """What an episode adds to the margin if the baseline is played, for its values in the user's unit."""
        return self.alpha * np.maximum(values - horizon * self.floor, 0.0) + horizon * self.per_step

    def next_date(self, t: int) -> int:
        """The first step (or episode), t or later, after which the condition is kept."""
        if self.every > 0:
            return -(-t // self.every) * self.every
        at = bisect_left(self.dates, t)
        return self.dates[at] if at < len(self.dates) else t

    def kept_at(self, n: int) -> Bools | None:
        """Which of the steps (or episodes) 1, .., n the condition is kept at, [n]; None: at all of them."""
        if self.at_every_step:
            return None
        t = np.arange(1, n + 1)
        if self.every > 0:
            return np.asarray(t % self.every == 0)
        return np.isin(t, self.dates) | (t > self.dates[-1])

    def owed(self, baseline: Floats, steps: Any) -> Floats:
        """What must be earned at least, without the allowance, if the baseline earns `baseline` in `steps` steps."""
        share = (1 - self.alpha) * baseline + self.alpha * self.floor * steps
        return np.asarray(np.where(baseline > self.floor * steps, share, baseline) - self.per_step * steps)

    def gain_faults(self, gain: float | None, money: Money) -> list[str]:
        """Why a share of what the baseline earns has no meaning, if its gain is known."""
        if gain is None or self.alpha == 0 or gain > self.floor:
            return []
        if gain == self.floor and (self.per_step or self.allowance):
            return []
        return [_no_share(f"{money.amount(gain)} a step", self.floor, money)]

    def value_faults(self, values: Floats | None, horizon: int, money: Money) -> list[str]:
        """Why a share of what the baseline earns has no meaning, if its values of the starts, [S], are known."""
        if values is None or self.alpha == 0 or self.per_step or self.allowance:
            return []
        if values.size == 0 or np.any(values > horizon * self.floor):
            return []
        return [_no_share(f"at most {money.amount(float(values.max()))} an episode", horizon * self.floor, money)]


def _no_share(earns: str, floor: float, money: Money) -> str:
    above = f"more than the floor {money.amount(floor)}" if floor else "more than nothing"
    return f"the baseline earns {earns}, which is not {above}: a share alpha of it has no meaning; {INSTEAD}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)


def _percent(value: Any) -> float | None:
    """The share that a text such as "5%" or "0.05" means."""
    if not isinstance(value, str):
        return None
    text, per = value.strip(), 1.0
    if text.endswith("%"):
        text, per = text[:-1], 100.0
    try:
        return float(text) / per
    except ValueError:
        return None


def _dates(checkpoints: Any, faults: list[str]) -> tuple[int, tuple[int, ...]]:
    """Every how many steps, or 0 and the dates."""
    if checkpoints is None:
        return 1, ()
    if is_whole(checkpoints, 1):
        return int(checkpoints), ()
    dates = list(checkpoints) if isinstance(checkpoints, Iterable) and not isinstance(checkpoints, str) else []
    if not dates or not all(is_whole(date, 1) for date in dates) or any(np.diff(dates) <= 0):
        told = "a number of steps, as in 91, or a list of increasing steps, as in [91, 182, 273]"
        faults.append(f"checkpoints {checkpoints!r} must be {told}")
        return 1, ()
    return 0, tuple(int(date) for date in dates)
