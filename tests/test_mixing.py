"""StepMix and EpsMix: every single episode keeps the condition, and spends what it may to the last drop."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import adversarial_mixing
import surefooted as sf
from surefooted.agents.epsmix import EpsMix
from surefooted.agents.mixing import Compared, largest_weight
from surefooted.agents.stepmix import PARTS, StepMix
from surefooted.certificates.netted import Net
from surefooted.errors import InvalidInput
from surefooted.sets.plausible import Plausible

GRID = sf.problems.gridworld(noise=sf.Noise("bernoulli"))
H = 10
VALUES = sf.solve.policy_values(GRID.mdp, GRID.baseline, H)
KNOWN = sf.Baseline(GRID.baseline, values=VALUES)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.seeds(1)
def test_every_episode_keeps_the_condition_on_nasty_problems(seed):
    tally = adversarial_mixing.run_campaign(20 if seed == 0 else 60, 100 + seed)
    assert tally.violations == []
    assert tally.explored > 200 and tally.mixed > 10 and tally.tight > 50


class Fixed(sf.agents.EpisodicLearner):
    """Proposes one policy, with a set that is the truth."""

    def __init__(self, problem, policy):
        truth = Plausible.exactly(problem.mdp)
        super().__init__(problem.space, problem.horizon, confidence=lambda counts, delta: truth)
        self.policy = policy

    def propose(self):
        return self.policy


def chain():
    """Three steps; the first action earns 1 each time, the second 0.2, and nothing leads anywhere."""
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[1.0, 0.2]]))
    return sf.Problem("chain", mdp, sf.Policy.always(mdp.space, 0), 0, 3)


@pytest.mark.parametrize("known", [True, False])
def test_by_hand(known):
    # each step of the second action loses 0.8 of 3; alpha = 0.4 forgives 1.2, one and a half of them
    problem = chain()
    learner, values = Fixed(problem, sf.Policy.always(problem.space, 1)), np.array([3.0]) if known else None
    base = sf.Baseline(problem.baseline, values=values)
    step = StepMix(problem.space, 3, baseline=base, alpha=0.4, learner=learner)
    step.begin(0)
    np.testing.assert_allclose(step.policy.probabilities[:, 0, 1], [0.0, 0.5, 1.0])
    assert step.decisions[0].budget == pytest.approx(0.0, abs=1e-12)
    eps = EpsMix(problem.space, 3, baseline=base, alpha=0.4, learner=learner)
    eps.begin(0)
    assert eps.mixtures == [(1, pytest.approx(0.5))]
    tolerant = EpsMix(problem.space, 3, baseline=base, alpha=0, tolerance=0.2, learner=learner)
    tolerant.begin(0)
    assert tolerant.mixtures == [(1, pytest.approx(0.6 / 2.4))]
    floored = StepMix(problem.space, 3, baseline=base, alpha=0.4, floor=0.5, learner=learner)
    floored.begin(0)  # 0.4 of 1.5 is 0.6 = 0.75 x 0.8
    np.testing.assert_allclose(floored.policy.probabilities[:, 0, 1], [0.0, 0.0, 0.75])
    poor = StepMix(problem.space, 3, baseline=base, alpha=0.4, tolerance=0.4, floor=1.5, learner=learner)
    poor.begin(0)  # the baseline earns less than the floor: nothing of it, and no less, but 3 x 0.4 may be lost
    np.testing.assert_allclose(poor.policy.probabilities[:, 0, 1], [0.0, 0.5, 1.0])


def test_the_margin_of_a_policy_by_hand():
    """What is forgiven is a share of the least value that the baseline may have, or that of any one value cancels."""
    problem, any_net = chain(), np.full((4, 1), -1e9)
    agent = EpsMix(problem.space, 3, baseline=sf.Baseline(problem.baseline), alpha=0.4, tolerance=0.02, floor=0.1)
    netted = SimpleNamespace(low=np.full((4, 1), 1.0), high=np.full((4, 1), 3.0))
    one, other = (Net(any_net, np.full((4, 1), net)) for net in (-0.3, -1e9))
    assert agent.margin(netted, Compared(one, other), 0) == pytest.approx(-0.3 + 0.4 * (1.0 - 0.3) + 3 * 0.02)
    one, other = (Net(any_net, np.full((4, 1), net)) for net in (-1e9, 0.5))
    assert agent.margin(netted, Compared(one, other), 0) == pytest.approx(0.5 - 0.4 * 0.3 + 3 * 0.02)
    assert agent.forgiven(0.2) == pytest.approx(3 * 0.02) and agent.forgiven(0.8) == pytest.approx(0.2 + 3 * 0.02)


def test_weights_are_rounded_down():
    problem = chain()
    learner = Fixed(problem, sf.Policy.always(problem.space, 1))
    agent = StepMix(problem.space, 3, baseline=sf.Baseline(problem.baseline), alpha=0.1, learner=learner)
    agent.begin(0)  # 0.3 / 0.8 = 0.375 = 24 / 64
    assert agent.policy.probabilities[2, 0, 1] == 24 / PARTS
    agent = StepMix(problem.space, 3, baseline=sf.Baseline(problem.baseline), alpha=0.099, learner=learner)
    agent.begin(0)
    assert agent.policy.probabilities[2, 0, 1] == 23 / PARTS
    assert largest_weight(1.0, 0.0) == 1.0 and largest_weight(1.0, -3.0) == 0.25 and largest_weight(0.0, -1.0) == 0.0


def test_a_proposal_that_is_proved_safe_is_played_from_the_first_step():
    problem = chain()
    problem = sf.Problem("chain", problem.mdp, sf.Policy.always(problem.space, 1), 0, 3)
    for kind in (StepMix, EpsMix):
        agent = kind(problem.space, 3, baseline=sf.Baseline(problem.baseline), alpha=0.1,
                     learner=Fixed(problem, sf.Policy.always(problem.space, 0)))  # fmt: skip
        agent.begin(0)
        assert agent.policy.actions.ravel().tolist() in ([0], [0, 0, 0]) and agent.decisions[0].role == "optimistic"
        assert agent.decisions[0].budget == pytest.approx(3 - 0.6 + 0.06)
        assert agent.mixtures in (None, [(1, 1.0)])


def test_the_coin_of_epsmix_is_fair():
    agent = EpsMix(GRID.space, H, baseline=KNOWN, alpha=0.1, seed=5)
    run = sf.simulate(GRID, agent, episodes=2000, seed=0)
    weights = np.array([weight for _, weight in run.mixtures])
    proposed = np.array([policy for policy, _ in run.mixtures])
    explored, n = run.explored.sum(), len(weights)
    assert np.all(weights > 0) and np.all(run.played[run.explored] == proposed[run.explored])
    assert np.all(run.played[~run.explored] == 0)
    # Bernstein: off by this much once in a million
    x, variance = np.log(2e6), (weights * (1 - weights)).sum()
    assert abs(explored - weights.sum()) < np.sqrt(2 * variance * x) + 2 * x / 3
    assert binom.ppf(1e-6, n, weights.min()) <= explored  # and not never


def test_ucbvi_violates_what_stepmix_keeps_and_cucbvi_may():
    runs = {}
    for kind, options in ((sf.UCBVI, {}), (sf.CUCBVI, {"baseline": KNOWN, "alpha": 0.1}),
                          (sf.StepMix, {"baseline": KNOWN, "alpha": 0.1})):  # fmt: skip
        run = sf.simulate(GRID, kind(GRID.space, H, **options), episodes=600, seed=3)
        runs[kind] = sf.evaluate(run, GRID, alpha=0.1)
    assert runs[sf.UCBVI].each.violations > 100
    assert runs[sf.CUCBVI].violations == 0 < runs[sf.CUCBVI].each.violations  # it saves up, and spends at once
    assert runs[sf.StepMix].violations == runs[sf.StepMix].each.violations == 0
    result = runs[sf.StepMix]
    np.testing.assert_allclose(np.cumsum(result.each.margin), result.margin, atol=1e-9)


@pytest.mark.parametrize("kind", [StepMix, EpsMix])
def test_the_unit_of_money_changes_nothing(kind):
    # rewards in [-32, 96] € in place of [0, 1], with the floor where 0 was; no digit is lost
    space = sf.Space.full(12, 4, rewards=(-32, 96), unit="€")
    plain = kind(GRID.space, H, baseline=KNOWN, alpha=0.2, seed=1)
    values = 128 * VALUES - 32 * np.arange(H, -1, -1)[:, None]
    euros = sf.Baseline(sf.Policy(space, weights=GRID.baseline.dense_weights), values=values)
    other = kind(space, H, baseline=euros, alpha=0.2, floor=-32, seed=1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        s = GRID.start
        plain.begin(s), other.begin(s)
        for _ in range(H):
            assert plain.act(s).action == other.act(s).action
            a = plain.act(s).action
            r, y = GRID.mdp.draw(rng, GRID.space.pair(s, a))
            plain.observe(s, a, r, y), other.observe(s, a, 128 * r - 32, y)
            s = y
    budgets = np.array([[d.budget for d in agent.decisions] for agent in (plain, other)])
    np.testing.assert_allclose(budgets[1], 128 * budgets[0], atol=1e-8)
    assert budgets[0].max() > 0.0


@pytest.mark.parametrize("kind", [StepMix, EpsMix])
def test_a_wrong_baseline_is_noticed_and_then_played(kind):
    wrong = sf.Baseline(GRID.baseline, values=0.5 * VALUES)
    agent = kind(GRID.space, H, baseline=wrong, alpha=0.3, seed=0)
    run = sf.simulate(GRID, agent, episodes=400, seed=0)
    assert agent.contradictions and not run.explored[-50:].any()
    assert "contradicted" in run.decisions[-1].reason


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"alpha": 1.5}, "alpha 1.5"),
        ({"alpha": "5%"}, "write alpha=0.05"),
        ({"baseline": GRID.baseline}, "baseline is a Policy"),
        ({"learner": 3}, "not int"),
        ({"learner": sf.UCBVI(GRID.space, H), "bonus": "freedman"}, "have no effect"),
        ({"learner": sf.UCBVI(GRID.space, 3)}, "horizon 3"),
        ({"learner": sf.UCBVI(GRID.space, H), "delta": 0.1}, "delta: a learner is given"),
        ({"delta": 0}, "delta 0 must lie"),
        ({"floor": 100.0}, "has no meaning"),
    ],
)
def test_what_cannot_be_built_says_why(options, fault):
    with pytest.raises(InvalidInput, match=fault):
        StepMix(GRID.space, H, **({"baseline": KNOWN, "alpha": 0.1} | options))


def test_any_agent_can_propose():
    agent = EpsMix(
        GRID.space, H, baseline=KNOWN, alpha=0.3, learner=sf.agents.FixedPolicy(sf.Policy.always(GRID.space, 1))
    )
    run = sf.simulate(GRID, agent, episodes=30, seed=0)
    assert sf.evaluate(run, GRID, alpha=0.3).each.violations == 0 and run.explored.any()
