"""Compare lower bounds on a sum of conditional means that hold at all times at once.

δ = 0.05. The width is the sum of the true means minus the bound, averaged over 200 runs. `crossed` is the share of
1 000 other runs in which the bound exceeds the sum at some n <= 1 000; at most 0.05 is promised. All bounds use the
same guesses, averages of what was observed before, and the same c: no value is more than c below its guess.

- small variance: uniform on [-0.05, 0.05], c = 1.
- two points: -1 with probability 0.02, else 1 / 49; c = 1.
- departures: what the departures of UCRL2 from the inventory baseline turned out to be worth, with bounded noise. Each
  pair has its own guess.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
from measure import Table, at_once, machine, number, race
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, ndtri

import surefooted as sf
from surefooted.certificates.martingale import new_bets
from surefooted.evaluation.decisions import advantages, departures
from surefooted.kernels.martingale import Bets, place_bets, sum_of_means

Floats = NDArray[np.float64]
DELTA, SIZES = 0.05, (10, 100, 1_000, 10_000, 100_000)
RUNS, CROSSING_RUNS, CROSSING_STEPS = 200, 1_000, 1_000
LEAST, SKEW = -1.0, 0.02  # of the two kinds that are drawn independently
TUNED = 1_000  # the gamma mixture gets the variance at this n, which nobody knows beforehand
LARGEST_PLUG_IN = 0.5  # as Waudby-Smith & Ramdas (2024) recommend
BISECTIONS = 32
LOG = math.log(1 / DELTA)


class Sample(NamedTuple):
    """Observations [n], their true means given the past, the guesses, and c."""

    value: Floats
    mean: Floats
    guess: Floats
    below: float


# -- what is observed -------------------------------------------------------------------------------------------------


def guessed(values: Floats, highest: float) -> Floats:
    """The sum of all values before each, divided by one more than their number; at most `highest`."""
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    return np.minimum(before / np.arange(1, len(values) + 1), highest)


def small_variance(n: int, seed: int) -> Sample:
    values = np.random.default_rng([seed, 1]).uniform(-0.05, 0.05, n)
    return Sample(values, np.zeros(n), guessed(values, 1.0 + LEAST), 1.0)


def two_points(n: int, seed: int) -> Sample:
    bad = np.random.default_rng([seed, 2]).random(n) < SKEW
    values = np.where(bad, LEAST, SKEW / (1 - SKEW))
    return Sample(values, np.zeros(n), guessed(values, 1.0 + LEAST), 1.0)


PROBLEM = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
PLAYED = sf.solve.gain_and_bias(PROBLEM.mdp, PROBLEM.baseline)


def of_departures(n: int, seed: int) -> Sample:
    run = sf.simulate(PROBLEM, sf.UCRL2(PROBLEM.space, confidence=sf.confidence.simplified_bernstein), 3 * n, seed=seed)
    chosen = np.flatnonzero(departures(run, PROBLEM.baseline))[:n]
    assert len(chosen) == n, "the run has too few departures"
    pairs, h, g = run.pairs[chosen], PLAYED.bias, PLAYED.gain
    here = h[PROBLEM.space.pair_state[pairs]]
    values, worst = run.rewards[chosen] + h[run.next_states[chosen]] - here - g, h.min() - here - g
    below = float(np.ptp(h) + g)
    guess = np.zeros(n)
    for pair in np.unique(pairs):
        (when,) = np.nonzero(pairs == pair)
        guess[when] = guessed(values[when], below + worst[when[0]])
    return Sample(values, advantages(PROBLEM.mdp, g, h)[pairs], guess, below)


KINDS: dict[str, Callable[[int, int], Sample]] = {
    "small variance": small_variance,
    "two points": two_points,
    "departures": of_departures,
}

# -- bounds on the sum of the means after n steps, for each n that is asked for ---------------------------------------


@numba.njit
def _ours(bets: Bets, values: Any, guesses: Any, sizes: Any, threshold: float, out: Any) -> None:
    k = 0
    for i in range(len(values)):
        place_bets(bets, values[i], guesses[i])
        if i + 1 == sizes[k]:
            out[k] = sum_of_means(bets, threshold)
            k += 1


def ours(x: Sample, sizes: Any, _: float) -> Floats:
    out = np.empty(len(sizes))
    _ours(new_bets(x.below), x.value, x.guess, sizes, LOG, out)
    return out


def psi(lambda_: Any, c: float) -> Any:
    return (-np.log1p(-c * lambda_) - c * lambda_) / c**2


def squares(x: Sample, sizes: Any) -> tuple[Floats, Floats]:
    """The sum of the values, and of their squared surprises."""
    return np.cumsum(x.value)[sizes - 1], np.cumsum((x.value - x.guess) ** 2)[sizes - 1]


def best_bet(x: Sample, sizes: Any, _: float) -> Floats:
    """The best λ of the same grid, each with its share of δ, from the sum of squares."""
    bets, (total, v) = new_bets(x.below), squares(x, sizes)
    pays = LOG - bets.log_weight
    return total - ((psi(bets.lambda_, x.below) * v[:, None] + pays) / bets.lambda_).min(axis=1)


def log_gamma_mixture(s: Floats, v: Floats, c: float, rho: float) -> Floats:
    """The logarithm of the gamma-exponential mixture of exp(λ s - ψ(λ) v), Howard et al. (2021).

    With u = 1 - c λ it integrates over 0 < u < 1 with a density in proportion to u^(k - 1) exp(-k u), k = ρ / c².
    """
    k, a, b = rho / c**2, (v + rho) / c**2, (c * s + v + rho) / c**2
    normal = k * np.log(k) - gammaln(k) - np.log(gammainc(k, k))
    return np.asarray(normal + gammaln(a) + np.log(gammainc(a, b)) - a * np.log(b) + (c * s + v) / c**2)


def gamma_mixture(x: Sample, sizes: Any, variance: float) -> Floats:
    """By bisection: the logarithm increases in s."""
    total, v = squares(x, sizes)
    rho = tuned(variance)
    low, high = np.zeros(len(sizes)), np.full(len(sizes), 10 * x.below + 10 * np.sqrt(v.max()))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        inside = log_gamma_mixture(middle, v, x.below, rho) < LOG
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.asarray(total - high)


def tuned(variance: float) -> float:
    """The ρ that makes a one-sided normal mixture tightest at this variance (Howard et al. 2021)."""
    x = math.log(1 / (2 * DELTA))
    return variance / (2 * x + math.log(1 + 2 * x))


def plug_in(x: Sample, sizes: Any, _: float) -> Floats:
    """Predictable plug-in empirical Bernstein (Waudby-Smith & Ramdas 2024), the lower side.

    It bounds an average with weights λ_i, which is the average of all means only if they are equal.
    """
    if np.ptp(x.mean) > 0:
        return np.full(len(sizes), np.nan)
    i, surprise = np.arange(1, len(x.value) + 1), (x.value - x.guess) / x.below
    variance = np.concatenate([[0.25], (0.25 + np.cumsum(surprise**2)[:-1]) / (i[:-1] + 1)])
    lambda_ = np.minimum(np.sqrt(2 * LOG / (variance * i * np.log1p(i))), LARGEST_PLUG_IN)
    won = np.cumsum(lambda_ * x.value / x.below)
    lost = LOG + np.cumsum(surprise**2 * psi(lambda_, 1.0))
    return np.asarray((x.below * i * (won - lost) / np.cumsum(lambda_))[sizes - 1])


def normal(x: Sample, sizes: Any, _: float) -> Floats:
    """The normal approximation for one n, from the true squared deviations."""
    return np.cumsum(x.value)[sizes - 1] - ndtri(1 - DELTA) * np.sqrt(np.cumsum((x.value - x.mean) ** 2)[sizes - 1])


BOUNDS: dict[str, Callable[[Sample, Any, float], Floats]] = {
    "ours: mixture of bets": ours,
    "best single bet, squares": best_bet,
    "gamma mixture, squares": gamma_mixture,
    "plug-in Bernstein": plug_in,
    "normal, one n only": normal,
}


def samples(kind: str, n: int, seeds: range) -> Iterator[Sample]:
    return (KINDS[kind](n, seed) for seed in seeds)


def nanoseconds() -> tuple[float, float]:
    """For one step, and for computing the bound once."""
    x = small_variance(10_000, 0)
    every, last = np.arange(1, 10_001), np.array([10_000])
    out = np.empty(10_000)
    best = race(
        {
            "steps": at_once(lambda: _ours(new_bets(1.0), x.value, x.guess, last, LOG, out)),
            "both": at_once(lambda: _ours(new_bets(1.0), x.value, x.guess, every, LOG, out)),
        }
    )
    return best["steps"] / 1e-5, (best["both"] - best["steps"]) / 1e-5


def main() -> None:
    print(machine())
    table = Table(("increments", 15), ("bound", 25), *((f"n = {n}", 11) for n in SIZES), ("crossed", 8))
    sizes, early = np.array(SIZES), np.arange(1, CROSSING_STEPS + 1)
    for kind in KINDS:
        known = [np.sum((x.value - x.mean) ** 2) for x in samples(kind, TUNED, range(10))]
        variance = float(np.mean(known))
        widths: dict[str, list[Floats]] = {name: [] for name in BOUNDS}
        crossed: dict[str, list[bool]] = {name: [] for name in BOUNDS}
        for x in samples(kind, SIZES[-1], range(RUNS)):
            truth = np.cumsum(x.mean)[sizes - 1]
            for name, bound in BOUNDS.items():
                widths[name].append(truth - bound(x, sizes, variance))
        for x in samples(kind, CROSSING_STEPS, range(RUNS, RUNS + CROSSING_RUNS)):
            truth = np.cumsum(x.mean)
            for name, bound in BOUNDS.items():
                crossed[name].append(bool(np.any(bound(x, early, variance) > truth + 1e-9)))
        for name in BOUNDS:
            cells = ["-" if np.isnan(w) else number(float(w)) for w in np.mean(widths[name], axis=0)]
            unknown = cells[-1] == "-"
            table.row(kind, name, *cells, "-" if unknown else f"{np.mean(crossed[name]):.3f}")
    step, bound = nanoseconds()
    print(f"\nours: {step:.0f} ns a step, {bound:.0f} ns each time the bound is computed")


if __name__ == "__main__":
    main()
