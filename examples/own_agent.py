"""Add an agent of your own, play and judge it, and make it conservative (docs/adding-an-agent.md)."""

import numpy as np

import surefooted as sf
from surefooted.testing import check_promise


class EpsilonGreedy:
    """Q-learning that explores at random; what it plays next is drawn when it observes, not when it is asked."""

    def __init__(self, space: sf.Space, *, epsilon: float = 0.1, seed=0) -> None:
        self.space, self.epsilon, self.rng = space, epsilon, np.random.default_rng(seed)
        self.q = np.zeros(space.n_pairs)
        self.draw()

    def draw(self) -> None:
        """What the next action depends on."""
        self.explores, self.luck = self.rng.random() < self.epsilon, self.rng.random()

    def begin(self, s: int) -> None:
        """Nothing depends on where it starts."""

    def act(self, s: int) -> int:
        """The best action by the estimates, or any."""
        actions, first = self.space.actions(s), self.space.pair_ptr[s]
        best = int(np.argmax(self.q[first : first + len(actions)]))
        return int(actions[int(self.luck * len(actions)) if self.explores else best])

    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """Move the estimate of (s, a) towards what was seen."""
        first, last = self.space.pair_ptr[s_next], self.space.pair_ptr[s_next + 1]
        target = r + 0.95 * self.q[first:last].max()
        self.q[self.space.pair(s, a)] += 0.1 * (target - self.q[self.space.pair(s, a)])
        self.draw()

    watch = observe  # it learns as much from steps that somebody else chose


def main() -> None:
    """Plan maintenance with and without the condition on decisions."""
    problem, alpha = sf.problems.maintenance(noise=sf.Noise("truncated_gaussian", 0.1)), 0.1
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, played.gain, played.bias)

    def conservative() -> sf.CUCRL2:
        learner = EpsilonGreedy(problem.space)
        return sf.CUCRL2(problem.space, baseline=baseline, alpha=alpha, condition="decisions", learner=learner)

    check_promise(conservative, problem, alpha)
    for name, agent in (("EpsilonGreedy", EpsilonGreedy(problem.space)), ("made conservative", conservative())):
        run = sf.simulate(problem, agent, steps=5000, seed=0)
        result = sf.evaluate(run, problem, alpha)
        regret = result.decision_regret[-1]
        print(f"{name}: regret {regret:.0f}, {result.decisions.violations} of 5000 steps violate the condition")


if __name__ == "__main__":
    main()
