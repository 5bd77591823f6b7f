"""Reward noise: how the reward of a step is drawn around the mean in the table.

The mean of a drawn reward is exactly the table's r(s, a) for every kind of noise. No kind is clipped on one side only,
since that would move the mean.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefooted.arrays import Floats
from surefooted.errors import InvalidInput
from surefooted.kernels import structs

Kind = Literal["none", "bernoulli", "gaussian", "truncated_gaussian", "uniform"]
KINDS: dict[Kind, int] = {  # the number by which kernels know each
    "none": structs.NO_NOISE,
    "bernoulli": structs.BERNOULLI,
    "gaussian": structs.GAUSSIAN,
    "truncated_gaussian": structs.TRUNCATED_GAUSSIAN,
    "uniform": structs.UNIFORM,
}


@dataclass(frozen=True)
class Noise:
    """One kind of reward noise and its scale.

    >>> import surefooted as sf
    >>> problem = sf.problems.inventory(noise=sf.Noise("uniform", 0.1))

    | kind | reward of a step with mean r | within [0, r_max]? |
    |---|---|---|
    | none | r | yes |
    | bernoulli | r_max with probability r / r_max, else 0 | yes |
    | gaussian | (1 + scale · η) r, η standard normal: the paper's experiments | **no**: unbounded on both sides |
    | truncated_gaussian | the same, with the deviation cut at ±min(r, r_max − r) | yes |
    | uniform | r + u, u uniform on ±min(scale, r, r_max − r) | yes |

    Rewards are counted from the `low` of the space here, as in `tables.money`: with rewards in [-102, 181], bernoulli
    draws -102 or 181. The two cuts are symmetric about r and do not change the mean. The confidence bounds assume
    rewards in [0, r_max]; under `gaussian` that assumption does not hold, as in the paper.

    - `kind`: one of those of the table.
    - `scale`: how large the noise is, for the last three kinds.
    """

    kind: Kind = "none"
    scale: float = 0.0

    def __post_init__(self) -> None:
        """Check the kind and the scale."""
        faults = []
        if self.kind not in KINDS:
            faults.append(f"noise kind {self.kind!r} does not exist; the kinds are {', '.join(KINDS)}")
        if not (np.isfinite(self.scale) and self.scale >= 0):
            faults.append(f"noise scale {self.scale} must be finite and not negative")
        if self.kind in ("none", "bernoulli") and self.scale != 0:
            faults.append(f"noise {self.kind!r} takes no scale, got {self.scale}")
        if faults:
            raise InvalidInput("this reward noise is not valid", faults)

    @property
    def bounded(self) -> bool:
        """Whether every reward lies in [0, r_max]."""
        return self.kind != "gaussian" or self.scale == 0

    def reach(self, mean: Floats, r_max: float) -> tuple[Floats, Floats]:
        """How far rewards with these means may lie below and above them."""
        half = np.minimum(mean, r_max - mean)
        match self.kind:
            case "bernoulli":
                return mean, r_max - mean
            case "gaussian" if self.scale > 0:
                return np.full_like(mean, np.inf), np.full_like(mean, np.inf)
            case "uniform":
                return (np.minimum(self.scale, half),) * 2
            case "truncated_gaussian" if self.scale > 0:
                return half, half
            case _:
                return np.zeros_like(mean), np.zeros_like(mean)

    @property
    def code(self) -> int:
        """The kind as a number, for the kernels."""
        return KINDS[self.kind]

    def draw(self, rng: np.random.Generator, mean: float, r_max: float) -> float:
        """One reward with the given mean; draws one random number, or none if there is no noise."""
        half = min(mean, r_max - mean)
        match self.kind:
            case "bernoulli":
                return r_max if rng.random() * r_max < mean else 0.0
            case "gaussian":
                return mean + self.scale * mean * rng.standard_normal()
            case "truncated_gaussian":
                return _within(mean + min(max(self.scale * mean * rng.standard_normal(), -half), half), r_max)
            case "uniform":
                return _within(mean + min(self.scale, half) * (2 * rng.random() - 1), r_max)
            case _:
                return mean


def _within(reward: float, r_max: float) -> float:
    """The reward, if rounding carried it beyond an end of [0, r_max] that end."""
    return min(max(reward, 0.0), r_max)
