"""All bandit agents beside each other: what safety costs, and which of three conditions each one keeps.

Columns are means over the seeds: rounds with the baseline's arm, and expected regret. The last three are the shares of
rounds, in percent, after which a condition is violated: of the sum of means ("sum"), of the mean of each round
("round"), and of the sum of rewards ("rewards"). `evaluate` judges a drawn arm by its mean before the draw.

Vowpal Wabbit with `--baseline_challenger_cb` runs if it is installed (`make peers`). It chooses between the baseline
and its model by confidence intervals, and explores with probability ε beside that. The ε-rollout is ours, a few lines:
what an algorithm proposes with probability ε, and else the baseline; ε is alpha, so that it keeps the conditions on
means.
"""

import sys
from dataclasses import dataclass, field

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.bandits import (
    AnyBandit,
    BernoulliArms,
    ConservativeLinearUCB,
    ConservativeUCB,
    LinearContextual,
    Reduction,
    SafeSetLinearUCB,
    SafeSetUCB,
    SamplePath,
    StageWiseLinearUCB,
    StageWiseUCB,
    evaluate,
    linear_contextual,
    regret_of_ucb,
    simulate_arms,
    simulate_linear,
    wu,
)
from surefooted.bandits.mixture import MixedDecision

try:
    from vowpalwabbit import Workspace
except ImportError:
    Workspace = None

ROUNDS, ALPHA, EPSILON = 1_000, 0.1, 0.05
MEANS = {
    "four arms": [0.5, 0.05, 0.05, 0.9],
    "twelve arms": [0.5, *np.linspace(0.3, 0.7, 11)],
}
SHOPS = {"d = 3, 5 arms": (3, 5)}


@dataclass(frozen=True)
class Drawn(Decision):
    """A decision that drew one of several arms."""

    lottery: list = field(default_factory=list)


class Thompson:
    """Thompson sampling for rewards 0 and 1, which knows nothing of baselines."""

    def __init__(self, n_arms, seed):
        self.n_arms, self.rng = n_arms, np.random.default_rng(seed)
        self.beta, self.wish = np.ones((2, n_arms)), None

    def act(self):
        """The arm that is best for means drawn from what is known; the same one until it is told."""
        if self.wish is None:
            self.wish = int(np.argmax(self.rng.beta(*self.beta)))
        return self.wish

    def observe(self, arm, reward):
        """Count a reward."""
        self.beta[int(reward < 0.5), arm] += 1
        self.wish = None


class Rollout:
    """The arm that an algorithm proposes with a fixed probability, and else the baseline."""

    def __init__(self, learner, epsilon, seed):
        self.learner, self.epsilon, self.rng, self.t = learner, epsilon, np.random.default_rng(seed), 0
        self.u = self.rng.random()

    n_arms = property(lambda self: self.learner.n_arms)
    dimension = property(lambda self: self.learner.dimension)
    baseline = property(lambda self: getattr(self.learner, "baseline", 0))

    def act(self, *shown):
        """The proposal or the baseline."""
        said = self.learner.act(*shown)
        wish = getattr(said, "action", said)
        own = shown[1] if shown else self.baseline
        self.obeys = self.u < self.epsilon
        arm = wish if self.obeys else own
        role = "baseline" if arm == own else "optimistic"
        chance = {"tried": wish, "partner": own, "chance": self.epsilon}
        return MixedDecision(role, "Rolls out.", arm, self.t, length=1, **chance)

    def observe(self, *outcome):
        """Tell the algorithm what came of its proposal."""
        if self.obeys:
            self.learner.observe(*outcome)
        self.u, self.t = self.rng.random(), self.t + 1


class VowpalWabbit:
    """Vowpal Wabbit's choice between a baseline, its first action, and a learned model; a cost is minus a reward."""

    def __init__(self, n_arms=None, dimension=None, seed=0):
        options = f"--cb_explore_adf --baseline_challenger_cb --epsilon {EPSILON} --random_seed {seed} --quiet"
        self.vw, self.n_arms, self.dimension = Workspace(options), n_arms, dimension
        self.baseline, self.t, self.rng = 0, 0, np.random.default_rng(seed)
        self.asked = None

    def act(self, features=None, baseline=0, baseline_mean=None):
        """An arm drawn as Vowpal Wabbit says."""
        n = self.n_arms if features is None else len(features)
        order = [baseline, *(i for i in range(n) if i != baseline)]
        lines = [f"|a arm{i}" for i in order]
        if features is not None:
            lines = ["|a " + " ".join(f"x{j}:{x:.6f}" for j, x in enumerate(features[i])) for i in order]
        chances = np.array(self.vw.predict(lines))
        place = int(self.rng.choice(n, p=chances / chances.sum()))
        self.asked = lines, place, float(chances[place])
        role = "baseline" if place == 0 else "optimistic"
        return Drawn(
            role, "Vowpal Wabbit.", order[place], self.t, length=1, lottery=list(zip(order, chances, strict=True))
        )

    def observe(self, *outcome):
        """Learn the cost."""
        lines, place, chance = self.asked
        label = f"0:{-outcome[-1]}:{chance} "
        self.vw.learn([label + line if i == place else line for i, line in enumerate(lines)])
        self.t += 1


def with_arms(n, mean, seed):
    """The name and the agent, and whether it needs a steady baseline."""
    known = {"alpha": ALPHA, "baseline_mean": mean}
    bounded = {"regret": regret_of_ucb(n), "alpha": ALPHA, "baseline_mean": mean}
    yield "UCB", ConservativeUCB(n, alpha=1.0), False
    yield "ConservativeUCB", ConservativeUCB(n, **known), False
    yield "SafeSetUCB", SafeSetUCB(n, **known), False
    yield "SafeSetUCB, checkpoints=100", SafeSetUCB(n, **known, checkpoints=100), False
    yield "StageWiseUCB", StageWiseUCB(n, **known, seed=seed), False
    yield "SamplePath, steady baseline", SamplePath(ConservativeUCB(n, alpha=1.0), **known), True
    yield "SamplePath", SamplePath(ConservativeUCB(n, alpha=1.0), **known, sigma=0.5), False
    yield "AnyBandit, Thompson sampling", AnyBandit(n, learner=Thompson(n, seed), **known), False
    yield "Reduction", Reduction(ConservativeUCB(n, alpha=1.0, confidence=wu), **bounded), False
    yield "ε-rollout of Thompson sampling", Rollout(Thompson(n, seed), ALPHA, seed), False
    if Workspace is not None:
        yield "Vowpal Wabbit", VowpalWabbit(n_arms=n, seed=seed), False


def with_features(shop, seed):
    """The same for features."""
    model = {"sigma": shop.sigma, "bound": shop.bound}
    plain = {"dimension": shop.dimension, "alpha": 1.0} | model
    told = {"dimension": shop.dimension, "alpha": ALPHA} | model
    yield "linear UCB", ConservativeLinearUCB(**plain), False
    yield "ConservativeLinearUCB", ConservativeLinearUCB(**told), False
    yield "SafeSetLinearUCB", SafeSetLinearUCB(**told), False
    yield "SafeSetLinearUCB, checkpoints=100", SafeSetLinearUCB(**told, checkpoints=100), False
    yield "StageWiseLinearUCB", StageWiseLinearUCB(**told, seed=seed), False
    yield "StageWiseLinearUCB, sampling", StageWiseLinearUCB(**told, sampling=True, seed=seed), False
    yield "SamplePath, steady baseline", SamplePath(ConservativeLinearUCB(**plain), alpha=ALPHA), True
    yield "ε-rollout of linear UCB", Rollout(ConservativeLinearUCB(**plain), ALPHA, seed), False
    if Workspace is not None:
        yield "Vowpal Wabbit", VowpalWabbit(dimension=shop.dimension, seed=seed), False


def judged(run, problem):
    """Rounds with the baseline's arm, regret, and the share of rounds that violates each condition."""
    found = [evaluate(run, problem, ALPHA, condition=c) for c in ("cumulative", "every round", "sample path")]
    own = np.mean(run.arms == problem.rounds(run.rounds)[1]) * run.rounds
    return [own, found[0].expected_regret[-1], *(100 * f.violation_fraction() for f in found)]


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    heads = ("problem", "agent", "baseline", "regret", "sum", "round", "rewards")
    print("{:>14} {:>34} {:>9} {:>8} {:>6} {:>6} {:>8}".format(*heads))
    problems = [(name, BernoulliArms(means), BernoulliArms(means, steady=True)) for name, means in MEANS.items()]
    for name, size in SHOPS.items():
        shop = linear_contextual(*size, seed=2)
        steady = LinearContextual(shop.theta, shop.features, shop.baseline, steady=True)
        problems.append((name, shop, steady))
    for name, noisy, steady in problems:
        rows = {}
        for seed in range(seeds):
            is_linear = isinstance(noisy, LinearContextual)
            agents = with_features(noisy, seed) if is_linear else with_arms(noisy.n_arms, float(noisy.means[0]), seed)
            for agent_name, agent, needs_steady in agents:
                problem = steady if needs_steady else noisy
                run = (simulate_linear if is_linear else simulate_arms)(problem, agent, ROUNDS, seed)
                rows.setdefault(agent_name, []).append(judged(run, problem))
        for agent_name, found in rows.items():
            own, regret, *shares = np.mean(found, axis=0)
            cells = " ".join(f"{share:>6.1f}" for share in shares[:2])
            print(f"{name:>14} {agent_name:>34} {own:>9.0f} {regret:>8.1f} {cells} {shares[2]:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
