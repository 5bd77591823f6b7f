"""Hostile runs with mechanics, a log, and a baseline of which only the policy is known: one law for all.

Problems are random functions of one noise, with a law that is random too. The agent is told the mechanics, with or
without rewards, and a log of the baseline, which somebody else sometimes interrupts. What it proves is compared with
the exact worth, gain and margin at every step, as in `adversarial_account`; misses are counted against δ.

Run `python tests/adversarial_coupling.py 1000 7` for 1000 problems from seed 7; it prints one line.
"""

import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np

import adversarial
import adversarial_account
from adversarial_account import DELTAS
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.data.reading import read_history
from surefooted.knowledge.mechanics import Mechanics
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space


def a_problem(rng, rewards):
    """Random mechanics in which two copies of the baseline meet sooner or later: some noise leads all to one state."""
    S, A, n = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(2, 6))
    after = rng.integers(0, S, size=(S, A, n))
    if rng.random() < 0.5:  # a stock that falls, and is filled up
        fill = rng.integers(0, S, size=(S, A))
        after = np.maximum(fill[:, :, None] - np.arange(n), 0)
    after[:, :, rng.integers(n)] = rng.integers(S)
    earned = np.round(rng.random((S, A, n)), 2)
    if rng.random() < 0.5:  # the next state tells the reward
        earned = np.take_along_axis(np.round(rng.random((S, A, S)), 2), after, axis=2)
    law = rng.dirichlet(np.ones(n) * float(rng.choice([0.5, 2.0])) + 0.2)
    law = (law + 0.02) / (1 + 0.02 * n)
    space = Space.full(S, A)
    mechanics = Mechanics.of(
        space, lambda s, a, x: int(after[s, a, x]), n, reward=(lambda s, a, x: earned[s, a, x]) if rewards else None
    )
    r = earned @ law
    return _problem(mechanics, law, r, Policy.deterministic(space, rng.integers(0, A, size=S).tolist()), rng)


def _problem(mechanics, law, r, baseline, rng=None):
    space = mechanics.space
    p = np.zeros((space.n_states, space.n_actions, space.n_states))
    for s in range(space.n_states):
        for a in range(space.n_actions):
            np.add.at(p[s, a], mechanics.outcomes(space.pair(s, a)), law)
    noise = Noise() if rng is None else [Noise("bernoulli"), Noise("uniform", 0.3), Noise()][int(rng.integers(3))]
    mdp = TabularMDP.from_arrays(p, np.asarray(r).reshape(space.n_states, -1), noise=noise)
    return Problem("mechanics", mdp, baseline, 0, mechanics=mechanics, laws=(law,))


def with_law(problem, law):
    """The same mechanics with another law; mean rewards stay if the mechanics do not tell them."""
    r = problem.mdp.r
    if problem.mechanics.reward is not None:
        r = problem.mechanics.reward.reshape(-1, len(law)) @ law
    return _problem(problem.mechanics, law, r, problem.baseline)


class Harm(adversarial_account.Harm):
    """As there, with knowledge."""

    def __init__(self, problem, seed, delta, knowledge):
        UCRL2Learner.__init__(self, problem.space, delta=delta, knowledge=knowledge)
        self.rng, self.problem = np.random.default_rng(seed), problem
        self.worst = adversarial.a_baseline(self.rng, problem.mdp, "worst")
        self.best = adversarial.a_baseline(self.rng, problem.mdp, "optimal")

    def propose(self, plausible, t):
        plan = super().propose(plausible, t)
        pairs = plan.policy.pair if plan.policy.is_deterministic else self.worst.pair
        return Plan(Policy(self.problem.space, pair=pairs), plan.lower, plan.upper, plan.bias, plan.sweeps, True)


@dataclass
class Tally(adversarial_account.Tally):
    """What a campaign has seen."""

    coupled: int = 0  # runs in which one law for all proved something


def a_history(rng, problem, steps):
    """A log of the baseline, in which sometimes somebody else decides; as `read_history` reads it."""
    s, rows, others = problem.start, [], float(rng.choice([0.0, 0.1]))
    for t in range(steps):
        k = problem.baseline.pair_at(s, rng.random())
        if rng.random() < others:
            actions = problem.space.actions(s)
            k = problem.space.pair(s, int(actions[rng.integers(len(actions))]))
        reward, after = problem.mdp.draw(rng, k)
        rows.append({"t": t, "state": s, "action": int(problem.space.pair_action[k]), "reward": float(reward),
                     "next_state": int(after)})  # fmt: skip
        s = int(after)
    return read_history(rows, problem.space)


def an_agent(rng, problem, delta):
    """An agent that is told mechanics and a log."""
    alpha = float(rng.choice([0.0, 0.1, 0.5, 0.9]))
    allowance = float(rng.choice([0.5, 5.0, 50.0])) if alpha == 0.0 or rng.random() < 0.4 else 0.0
    learner = Harm(problem, int(rng.integers(2**31)), delta / 2, problem.knowledge("mechanics"))
    history = a_history(rng, problem, int(rng.choice([20, 100, 400])))
    baseline = Baseline.from_history(history, problem.baseline) if rng.random() < 0.8 else Baseline(problem.baseline)
    agent = CUCRL2(
        problem.space, baseline=baseline, alpha=alpha, delta=delta, learner=learner, condition="decisions",
        strict=bool(rng.random() < 0.5), allowance=allowance, seed=int(rng.integers(2**31)),
        patience=float(rng.choice([0.0, 0.1])),
    )  # fmt: skip
    return agent, alpha, allowance


def run_campaign(n, seed, steps=300):
    """`n` random problems; what was seen."""
    tally = Tally(promised=Counter(), failed=Counter())
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        problem = a_problem(rng, rewards=bool(rng.random() < 0.5))
        delta = DELTAS[i % len(DELTAS)]
        agent, alpha, allowance = an_agent(rng, problem, delta)
        label = f"seed {seed}, problem {i}, alpha {alpha}, allowance {allowance}, delta {delta}"
        tally.problems += 1
        adversarial_account.check_run(
            problem, agent, alpha, allowance, delta, steps, int(rng.integers(2**31)), tally, label
        )
        tally.coupled += bool(agent.account.arrays.terms.coupled)
    tally.judge()
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=400)
    print(f"one law for all: {result.line()}; {result.coupled} runs were coupled")
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
