"""Whatever the noise, the mean of the drawn rewards is the mean that the table says."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from surefooted.errors import InvalidInput
from surefooted.tables.reward_noise import KINDS, Noise

FALSE_ALARM = 1e-6  # of each statistical test below
DRAWS = 20_000

NOISES = [
    Noise(),
    Noise("bernoulli"),
    Noise("gaussian", 0.1),
    Noise("gaussian", 2.0),
    Noise("truncated_gaussian", 0.3),
    Noise("truncated_gaussian", 2.0),
    Noise("uniform", 0.01),
    Noise("uniform", 50.0),
]
RANGES = [(0.05, 1.0), (0.5, 1.0), (0.95, 1.0), (0.2, 4.0), (3.9, 4.0), (0.03, 0.1)]  # (mean, r_max)


def draws(noise, mean, r_max, seed, count=DRAWS):
    rng = np.random.default_rng(seed)
    return np.array([noise.draw(rng, mean, r_max) for _ in range(count)])


def tolerance(noise, mean, r_max):
    """How far the mean of the draws may be off: Hoeffding over the width of the support; exact if Gaussian."""
    if noise.kind == "gaussian":
        return norm.isf(FALSE_ALARM / 2) * noise.scale * mean / np.sqrt(DRAWS)
    half = min(mean, r_max - mean)
    width = {
        "none": 1e-9 * r_max,
        "bernoulli": r_max,
        "truncated_gaussian": 2 * half,
        "uniform": 2 * min(half, noise.scale),
    }
    return width[noise.kind] * np.sqrt(np.log(2 / FALSE_ALARM) / (2 * DRAWS))


@pytest.mark.parametrize(("mean", "r_max"), RANGES)
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_sample_mean_is_the_mean_of_the_table(noise, mean, r_max):
    assert abs(draws(noise, mean, r_max, seed=0).mean() - mean) <= tolerance(noise, mean, r_max)


@pytest.mark.parametrize(
    ("noise", "mean", "r_max"),
    [
        (Noise("truncated_gaussian", 2.0), 0.05, 1.0),
        (Noise("truncated_gaussian", 0.3), 0.95, 1.0),
        (Noise("truncated_gaussian", 0.3), 3.9, 4.0),
        (Noise("uniform", 50.0), 0.05, 1.0),
        (Noise("uniform", 50.0), 3.9, 4.0),
    ],
)
def test_one_sided_clipping_would_fail_the_test_of_the_mean(noise, mean, r_max):
    rng = np.random.default_rng(1)
    gaussian = noise.kind == "truncated_gaussian"
    eta = noise.scale * mean * rng.standard_normal(DRAWS) if gaussian else noise.scale * rng.uniform(-1, 1, DRAWS)
    assert abs(np.clip(mean + eta, 0.0, r_max).mean() - mean) > 3 * tolerance(noise, mean, r_max)


@pytest.mark.parametrize("mean", [0.0, 1e-300, 0.1, 0.7, 2.1, 3.0 - 1e-15, 3.0])
@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise.bounded], ids=str)
def test_bounded_noise_stays_between_zero_and_r_max(noise, mean):
    rewards = draws(noise, mean, 3.0, seed=2, count=2000)
    assert rewards.min() >= 0.0 and rewards.max() <= 3.0


@pytest.mark.parametrize(("mean", "r_max"), RANGES)
def test_bernoulli_rewards_are_all_or_nothing_at_the_right_rate(mean, r_max):
    rewards = draws(Noise("bernoulli"), mean, r_max, seed=3)
    assert set(rewards.tolist()) <= {0.0, r_max}
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], DRAWS, mean / r_max)
    assert low <= np.count_nonzero(rewards) <= high


@pytest.mark.parametrize(("mean", "scale"), [(0.5, 0.1), (0.9, 0.3), (3.0, 0.1), (0.01, 2.0)])
def test_gaussian_rewards_have_a_standard_deviation_proportional_to_their_mean_and_no_bound(mean, scale):
    rewards = draws(Noise("gaussian", scale), mean, 3.0, seed=4)
    statistic = (DRAWS - 1) * rewards.var(ddof=1) / (scale * mean) ** 2  # chi-square with DRAWS - 1 degrees
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], DRAWS - 1)
    assert low <= statistic <= high
    assert rewards.max() > mean * (1 + 3 * scale) and rewards.min() < mean * (1 - 3 * scale)


@pytest.mark.parametrize(
    ("mean", "half"), [(0.5, 0.2), (0.05, 0.05), (2.9, 0.1)], ids=["as wide as asked", "cut at 0", "cut at r_max"]
)
def test_uniform_rewards_fill_their_interval(mean, half):
    rewards = draws(Noise("uniform", 0.2), mean, 3.0, seed=5)
    assert np.abs(rewards - mean).max() <= half * (1 + 1e-12)
    assert np.abs(rewards - mean).max() >= half * 0.999  # missed by all draws with probability 0.999 ** 20000 < 1e-8
    assert (rewards - mean).var() == pytest.approx(half**2 / 3, rel=0.05)  # 10 standard errors


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_same_generator_gives_the_same_rewards_and_no_noise_draws_nothing(noise):
    assert np.array_equal(draws(noise, 0.4, 1.0, seed=6, count=9), draws(noise, 0.4, 1.0, seed=6, count=9))
    rng = np.random.default_rng(7)
    noise.draw(rng, 0.4, 1.0)
    untouched = rng.bit_generator.state == np.random.default_rng(7).bit_generator.state
    assert untouched == (noise.kind == "none")


@pytest.mark.parametrize(
    ("noise", "bounded"),
    [(Noise("gaussian", 0.0), True), *((noise, noise.kind != "gaussian") for noise in NOISES)],
    ids=str,
)
def test_only_a_gaussian_with_a_scale_is_unbounded(noise, bounded):
    assert noise.bounded is bounded


def test_each_kind_has_its_own_code():
    codes = [Noise(kind).code for kind in KINDS]
    assert codes == list(range(len(KINDS)))


@pytest.mark.parametrize(
    ("kind", "scale", "faults"),
    [
        ("gauss", 0.1, ["'gauss' does not exist; the kinds are none, bernoulli, gaussian"]),
        ("Gaussian", 0.1, ["'Gaussian' does not exist"]),
        (None, 0.0, ["None does not exist"]),
        ("gaussian", -0.1, ["scale -0.1 must be finite and not negative"]),
        ("uniform", np.nan, ["scale nan"]),
        ("truncated_gaussian", np.inf, ["scale inf"]),
        ("none", 0.1, ["'none' takes no scale, got 0.1"]),
        ("bernoulli", 1.0, ["'bernoulli' takes no scale"]),
        ("gauss", -1.0, ["'gauss' does not exist", "scale -1.0"]),
        ("none", np.nan, ["scale nan", "'none' takes no scale"]),
    ],
)
def test_invalid_noise_names_every_fault(kind, scale, faults):
    with pytest.raises(InvalidInput) as caught:
        Noise(kind, scale)
    assert len(caught.value.faults) == len(faults)
    for fault in faults:
        assert any(fault in found for found in caught.value.faults) and fault in str(caught.value)


def test_noise_is_a_value():
    assert Noise("gaussian", 0.1) == Noise("gaussian", 0.1) and len({Noise(), Noise("none"), Noise("bernoulli")}) == 2
    with pytest.raises(FrozenInstanceError):
        Noise().scale = 1.0
