"""The same rules for every agent of the project, and proof that the checks notice when one is broken."""

from dataclasses import replace

import numpy as np
import pytest

import surefooted as sf
from surefooted import testing

NOISY = sf.problems.make("riverswim")
GRID = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
H = 10


def average(name):
    space = NOISY.space
    known = sf.solve.gain_and_bias(NOISY.mdp, NOISY.baseline)
    baseline = sf.Baseline(NOISY.baseline, known.gain, known.bias)
    match name.split():
        case ["fixed"]:
            return sf.agents.FixedPolicy(sf.Policy.uniform(space), seed=3)
        case ["UCRL2", *rest]:
            return sf.UCRL2(space, seed=3, dynamic="dynamic" in rest)
        case ["QLearning"]:
            return sf.QLearning(space, steps=300, span=10.0, scale=0.01)
        case ["CUCRL2", "QLearning"]:
            learner = sf.QLearning(space, steps=300, span=10.0, scale=0.01)
            return sf.CUCRL2(space, baseline=baseline, alpha=0.4, learner=learner, condition="decisions", seed=3)
        case ["PSRL", *rest]:
            return sf.PSRL(space, seed=3, knowledge=NOISY.knowledge("successors") if rest else None)
        case ["CUCRL2", "PSRL"]:
            return sf.CUCRL2(space, baseline=baseline, alpha=0.4, learner=sf.PSRL(space, seed=4), seed=3)
        case ["CUCRL2", "unknown"]:
            return sf.CUCRL2(space, baseline=sf.Baseline(NOISY.baseline), alpha=0.4, seed=3)
        case ["CUCRL2", "decisions"]:
            return sf.CUCRL2(space, baseline=baseline, alpha=0.4, condition="decisions", seed=3)
        case ["CUCRL2", certificate]:
            return sf.CUCRL2(space, baseline=baseline, alpha=0.4, certificate=certificate, seed=3)


def finite(name):
    space = GRID.space
    values = sf.solve.policy_values(GRID.mdp, GRID.baseline, H)
    baseline = sf.Baseline(GRID.baseline, values=values)
    bonus = {"episodes": 1000}
    match name.split():
        case ["UCBVI", "boxes"]:
            return sf.UCBVI(space, H, seed=3)
        case ["UCBVI", "staged"]:
            return sf.UCBVI(space, H, stage_dependent=True, seed=3)
        case ["UCBVI", kind]:
            return sf.UCBVI(space, H, bonus=kind, **bonus, seed=3)
        case ["EULER", *rest]:
            return sf.EULER(space, H, stage_dependent="staged" in rest, seed=3)
        case ["PSRL", *rest]:
            return sf.agents.Explorer(sf.agents.PSRLEpisodicLearner(space, H, stage_dependent="staged" in rest, seed=3))
        case ["CUCBVI", "PSRL"]:
            learner = sf.agents.PSRLEpisodicLearner(space, H, seed=4)
            return sf.CUCBVI(space, H, baseline=baseline, alpha=0.4, learner=learner, seed=3)
        case ["CUCBVI", "known"]:
            return sf.CUCBVI(space, H, baseline=baseline, alpha=0.4, seed=3)
        case ["CUCBVI", "decisions"]:
            return sf.CUCBVI(space, H, baseline=baseline, alpha=0.4, condition="decisions", seed=3)
        case ["CUCBVI", "unknown"]:
            return sf.CUCBVI(space, H, baseline=sf.Baseline(GRID.baseline), alpha=0.4, seed=3)
        case ["CUCBVI", "printed"]:
            options = {"learn_from": "optimistic", "reevaluate": False}
            return sf.CUCBVI(space, H, baseline=baseline, alpha=0.4, bonus="hoeffding", **bonus, **options, seed=3)
        case ["StepMix", *rest]:
            learner = sf.EULER(space, H) if "EULER" in rest else None
            base = sf.Baseline(GRID.baseline) if "unknown" in rest else baseline
            return sf.StepMix(space, H, baseline=base, alpha=0.4, learner=learner, seed=3)
        case ["EpsMix", *rest]:
            base = sf.Baseline(GRID.baseline) if "unknown" in rest else baseline
            return sf.EpsMix(space, H, baseline=base, alpha=0.4, seed=3)
        case ["CUCBVI", "EULER"]:
            return sf.CUCBVI(space, H, baseline=baseline, alpha=0.4, learner=sf.EULER(space, H), patience=0, seed=3)


AVERAGE = ["fixed", "UCRL2", "UCRL2 dynamic", "PSRL", "PSRL informed", "CUCRL2 unknown", "CUCRL2 PSRL"]
AVERAGE += ["QLearning", "CUCRL2 QLearning"]
AVERAGE += [f"CUCRL2 {name}" for name in ("paper", "reevaluated", "segments", "induction", "decisions")]
LEARNERS = ["UCBVI boxes", "UCBVI staged", "UCBVI hoeffding", "UCBVI freedman", "EULER", "EULER staged"]
LEARNERS += ["PSRL", "PSRL staged"]
CONSERVATIVE = [f"CUCBVI {name}" for name in ("known", "decisions", "unknown", "printed", "EULER", "PSRL")]
CONSERVATIVE += ["StepMix", "StepMix EULER", "StepMix unknown", "EpsMix", "EpsMix unknown"]
steps = pytest.mark.parametrize("steps", [100, pytest.param(300, marks=pytest.mark.slow)])


@pytest.mark.first(9)
@steps
@pytest.mark.parametrize("name", AVERAGE)
def test_every_average_reward_agent_keeps_the_rules(name, steps):
    testing.check_agent(lambda: average(name), NOISY, steps)


@pytest.mark.first(8)
@steps
@pytest.mark.parametrize("name", [*LEARNERS, *CONSERVATIVE])
def test_every_agent_of_episodes_keeps_the_rules(name, steps):
    testing.check_agent(lambda: finite(name), GRID, steps)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learners_bounds_hold(name):  # false alarm: at most 0.05, once and for all by the seed
    testing.check_learner(lambda: finite(name), GRID, episodes=100)


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_every_conservative_agent_of_episodes_keeps_its_promise(name):  # likewise
    testing.check_promise(lambda: finite(name), GRID, alpha=0.4, length=600)


@pytest.mark.parametrize("name", [name for name in AVERAGE if name.startswith("CUCRL2")])
def test_every_conservative_average_reward_agent_keeps_its_promise(name):  # likewise
    testing.check_promise(lambda: average(name), NOISY, alpha=0.4, length=2000)


class Forgetful(sf.UCBVI):
    def load_state_dict(self, state):
        return self


class Restless(sf.UCBVI):
    def act(self, s):
        self.coin.use(1)
        return super().act(s)


class Gullible(sf.UCBVI):
    def observe(self, s, a, r, s_next):
        super().observe(s, a, 0.5 if np.isnan(r) else r, s_next)


class Silent(sf.UCBVI):
    def next_episode(self, s):
        policy, decision = super().next_episode(s)
        return policy, type(decision)("optimistic", "", policy=decision.policy)


class Boastful(sf.agents.UCBVILearner):
    def bound(self, policies, side="pessimistic"):
        return super().bound(policies, side) + 0.1 * (side == "pessimistic") * self.learnt


class TwoFaced(sf.UCBVI):
    def _absorb(self, pairs, rewards, next_states, noise):
        super()._absorb(pairs, rewards, next_states, noise)
        self.coin.use(1)


@pytest.mark.parametrize(
    ("culprit", "sentence"),
    [
        (Forgetful, "restored"),
        (Restless, "asking changed its state"),
        (Gullible, "not a number"),
        (Silent, "must be a sentence"),
        (TwoFaced, "ended in two states"),
    ],
)
def test_the_checks_notice_a_broken_rule(culprit, sentence):
    with pytest.raises(AssertionError, match=sentence):
        testing.check_agent(lambda: culprit(GRID.space, H), GRID, 100)


def test_the_checks_notice_a_bound_above_the_truth():
    with pytest.raises(AssertionError, match="above the truth"):
        testing.check_learner(lambda: Boastful(GRID.space, H), GRID, episodes=200)


def test_the_checks_notice_a_budget_above_the_exact_margin():
    class Boaster(sf.CUCRL2):
        def next_episode(self):
            episode = super().next_episode()
            return episode if self.t else replace(episode, decision=replace(episode.decision, budget=1e-3))

    exact = sf.solve.gain_and_bias(NOISY.mdp, NOISY.baseline)
    baseline = sf.Baseline(NOISY.baseline, exact.gain, exact.bias)
    options = {"baseline": baseline, "alpha": 0.4}
    testing.check_promise(lambda: sf.CUCRL2(NOISY.space, **options), NOISY, alpha=0.4, length=50)
    with pytest.raises(AssertionError, match=r"step 0: a budget of .* where 0.0 is the exact margin"):
        testing.check_promise(lambda: Boaster(NOISY.space, **options), NOISY, alpha=0.4, length=50)


def test_the_checks_notice_a_broken_promise():
    class Reckless(sf.CUCBVI):
        def next_episode(self, s):
            policy = self.learner.propose()
            return policy, self._decision("optimistic", "Dares.", self.policy_id(policy))

    values = sf.solve.policy_values(GRID.mdp, GRID.baseline, H)
    baseline = sf.Baseline(GRID.baseline, values=values)
    with pytest.raises(AssertionError, match="violated"):
        testing.check_promise(lambda: Reckless(GRID.space, H, baseline=baseline, alpha=0.01), GRID, alpha=0.01)
