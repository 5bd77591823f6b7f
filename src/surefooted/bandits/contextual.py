"""Linear contextual bandits: each round shows new arms as features; a mean reward is linear in the features."""

import math
from dataclasses import dataclass, field

import numpy as np

from surefooted.arrays import FrozenArrays, freeze, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats, Ints
from surefooted.tables.transitions import MEAN_ROUNDING


@dataclass(frozen=True, eq=False)
class LinearContextual(FrozenArrays):
    """A table of contexts; round t (from 0) shows the arms of context t mod C.

    - `theta`: the true parameter, [d].
    - `features`: φ of arm i in context c is features[c, i], [C, n, d]. Its mean reward <theta, φ> must lie in [0, 1].
    - `baseline`: the baseline arm of each context, [C], or one arm for all.
    - `noise`: reward noise, with r_max = 1.
    - `steady`: whether the baseline pays its mean each time, without noise.

    `means` [C, n] are the mean rewards that follow.

    >>> import surefooted as sf
    >>> features = [[[0.5, 0.0], [0.6, 0.3]]]  # one context with two arms
    >>> shop = sf.bandits.LinearContextual(theta=[1.0, 0.5], features=features, baseline=0)
    >>> shop.means.tolist()
    [[0.5, 0.75]]
    """

    theta: Floats  # [d]
    features: Floats  # [C, n, d]
    baseline: Ints  # [C]
    noise: Noise = field(default_factory=lambda: Noise("bernoulli"))
    steady: bool = False
    means: Floats = field(init=False)  # [C, n]

    def __post_init__(self) -> None:
        """Check the features, means and baselines, and freeze the arrays."""
        faults: list[str] = []
        theta, features = real_numbers("theta", self.theta, faults), real_numbers("features", self.features, faults)
        baseline = whole_numbers("baseline", self.baseline, faults)
        if not isinstance(self.noise, Noise):
            faults.append(f'noise must be a Noise, as in Noise("bernoulli"), not {self.noise!r}')
        if faults := faults or _faults(theta, features, baseline):
            raise InvalidInput("this contextual bandit is not valid", faults)
        baseline = np.broadcast_to(baseline, features.shape[:1]).copy()
        means = np.clip(_inner(features, theta), 0.0, 1.0)
        freeze(theta, features, baseline, means)
        for name, array in (("theta", theta), ("features", features), ("baseline", baseline), ("means", means)):
            object.__setattr__(self, name, array)

    @property
    def n_contexts(self) -> int:
        """C."""
        return int(self.features.shape[0])

    @property
    def n_arms(self) -> int:
        """The number of arms in a round, the baseline included."""
        return int(self.features.shape[1])

    @property
    def dimension(self) -> int:
        """The length of a feature vector, d."""
        return self.theta.size

    @property
    def bound(self) -> float:
        """B, the smallest number with |theta| <= B; agents need it."""
        return math.sqrt(math.fsum(self.theta * self.theta))

    @property
    def feature_bound(self) -> float:
        """D, the smallest number with |φ| <= D for all arms."""
        return float(np.sqrt(_inner(self.features, self.features)).max())

    @property
    def sigma(self) -> float:
        """A σ for which the noise of every arm is σ-sub-Gaussian, E exp(x η) <= exp(x² σ² / 2); agents need it.

        For rewards in [0, 1] it is 1/2 (Hoeffding). For a Gaussian with deviation scale · mean it is at most the scale;
        cutting the Gaussian symmetrically is a contraction and does not increase it. For uniform noise on ±h it is
        h / √3, since sinh(y) / y <= exp(y² / 6).
        """
        scale, half = self.noise.scale, min(self.noise.scale, 0.5)
        return {"none": 0.0, "bernoulli": 0.5, "gaussian": scale, "uniform": half / 3**0.5}.get(self.noise.kind, half)

    def context(self, t: int) -> tuple[Floats, int, float]:
        """Round t: the arms' features [n, d], the baseline arm, and its mean."""
        c = t % self.n_contexts
        b = int(self.baseline[c])
        return self.features[c], b, float(self.means[c, b])

    def draw(self, rng: np.random.Generator, t: int, arm: int) -> float:
        """One reward of an arm in round t."""
        if not (is_whole(arm, 0) and arm < self.n_arms):
            raise InvalidInput("no such arm", [f"arm {arm}: the arms are 0 to {self.n_arms - 1}"])
        c = t % self.n_contexts
        mean = float(self.means[c, int(arm)])
        return mean if self.steady and arm == self.baseline[c] else self.noise.draw(rng, mean, 1.0)

    def rounds(self, n: int) -> tuple[Floats, Ints]:
        """The mean of each arm in each of the first T rounds, [T, n], and the baseline arm of each round, [T]."""
        c = np.arange(n) % self.n_contexts
        return self.means[c], self.baseline[c]


def linear_contextual(
    dimension: int,
    arms: int,
    seed: int = 0,
    *,
    contexts: int = 1000,
    baseline_mean: tuple[float, float] = (0.3, 0.6),
    noise: Noise | None = None,
) -> LinearContextual:
    """A random instance with |theta| = 1 and |φ| <= 1.

    >>> import surefooted as sf
    >>> problem = sf.bandits.linear_contextual(dimension=3, arms=5, seed=1)
    >>> agent = sf.bandits.ConservativeLinearUCB(3, alpha=0.2, sigma=problem.sigma, bound=problem.bound)
    >>> run = sf.bandits.simulate_linear(problem, agent, rounds=200)
    >>> sf.bandits.evaluate(run, problem, alpha=0.2).violations
    0

    - `dimension`, `arms`, `contexts`: d, n and C.
    - `seed`: of the random instance.
    - `baseline_mean`: the mean of each baseline arm is uniform on this interval; all other means are uniform on [0, 1].
    - `noise`: reward noise, by default Bernoulli.

    An arm with mean m is m · theta plus a random vector orthogonal to theta. The baseline is a random arm of each
    context.
    """
    faults = [
        f"{name} {size} must be a positive whole number"
        for name, size in (("dimension", dimension), ("arms", arms), ("contexts", contexts))
        if not is_whole(size, 1)
    ]
    if not 0 <= baseline_mean[0] <= baseline_mean[1] <= 1:
        faults.append(f"baseline_mean {baseline_mean} must be an interval in [0, 1]")
    if faults:
        raise InvalidInput("this contextual bandit cannot be built", faults)
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(dimension)
    theta /= math.sqrt(math.fsum(theta * theta))
    mean, place = rng.random((contexts, arms)), rng.integers(arms, size=contexts)
    mean[np.arange(contexts), place] = rng.uniform(*baseline_mean, size=contexts)
    aside = rng.standard_normal((contexts, arms, dimension))
    aside -= _inner(aside, theta)[..., None] * theta
    length = np.sqrt(_inner(aside, aside))
    length = np.sqrt(1 - mean**2) * rng.random((contexts, arms)) / np.where(length > MEAN_ROUNDING, length, np.inf)
    features = mean[..., None] * theta + length[..., None] * aside
    return LinearContextual(theta, features, place, noise or Noise("bernoulli"))


def _inner(a: Floats, b: Floats) -> Floats:
    """The sum of a b over the last axis, added up from left to right: BLAS does it in an order of its own."""
    total = a[..., 0] * b[..., 0]
    for i in range(1, a.shape[-1]):
        total = total + a[..., i] * b[..., i]
    return np.asarray(total)


def _faults(theta: Floats, features: Floats, baseline: Ints) -> list[str]:
    """One sentence for each fault."""
    if theta.ndim != 1 or features.ndim != 3 or features.size == 0 or features.shape[2] != theta.size:
        return [f"theta has shape {theta.shape}, features {features.shape}: they must be [d] and [C, n, d], not empty"]
    if not (np.isfinite(theta).all() and np.isfinite(features).all()):
        return ["theta and features must be finite"]
    contexts, arms, _ = features.shape
    means = _inner(features, theta)
    bad = ~((means >= -MEAN_ROUNDING) & (means <= 1 + MEAN_ROUNDING))
    faults = [f"context {c}, arm {i}: mean {means[c, i]:g} is outside [0, 1]" for c, i in np.argwhere(bad)]
    if baseline.shape not in ((), (contexts,)):
        return [*faults, f"baseline has shape {baseline.shape}: it must be one arm, or one for each of the {contexts}"]
    wrong = np.flatnonzero((baseline < 0) | (baseline >= arms))
    return faults + [f"context {c}: baseline {baseline.flat[c]}: the arms are 0 to {arms - 1}" for c in wrong]
