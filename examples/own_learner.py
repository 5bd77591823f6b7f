"""Add a learner, make it conservative, and check it by the rules that every agent keeps (docs/adding-a-learner.md)."""

import numpy as np

import surefooted as sf
from surefooted.testing import check_agent, check_learner, check_promise


class CountBonus(sf.agents.EpisodicLearner):
    """Backward induction on the estimates, with a bonus of `scale` x H x r_max / sqrt(visits) for each pair."""

    scale = 0.1

    def propose(self) -> sf.Policy:
        """The greedy policy for the estimates plus the bonus."""
        space, counts = self.space, self.counts
        n = np.maximum(counts.visits, 1)
        bonus = np.where(counts.visits == 0, np.inf, self.scale * self.horizon * space.r_max / np.sqrt(n))  # [K]
        next_ptr, next_state, count = counts.rows()
        pair_of = np.repeat(np.arange(space.n_pairs), np.diff(next_ptr))
        v = np.zeros(space.n_states)
        pair = np.empty((self.horizon, space.n_states), dtype=np.int64)
        for h in reversed(range(self.horizon)):
            onward = np.bincount(pair_of, count * v[next_state], minlength=space.n_pairs) / n
            q = np.minimum(counts.reward_sum / n + bonus + onward, (self.horizon - h) * space.r_max)
            for s in range(space.n_states):
                first, last = space.pair_ptr[s], space.pair_ptr[s + 1]
                pair[h, s] = first + np.argmax(q[first:last])
            v = q[pair[h]]
        return sf.Policy(space, pair=pair)


def main() -> None:
    """Explore the gridworld, with and without the conservative condition."""
    problem, alpha = sf.problems.gridworld(), 0.05
    space, horizon = problem.space, problem.horizon
    assert horizon is not None
    values = sf.solve.policy_values(problem.mdp, problem.baseline, horizon)
    baseline = sf.Baseline(problem.baseline, values=values)

    def conservative() -> sf.CUCBVI:
        return sf.CUCBVI(space, horizon, baseline=baseline, alpha=alpha, learner=CountBonus(space, horizon))

    check_agent(lambda: sf.agents.Explorer(CountBonus(space, horizon)), problem)
    check_learner(lambda: CountBonus(space, horizon), problem)
    check_agent(conservative, problem)
    check_promise(conservative, problem, alpha)

    alone = sf.agents.Explorer(CountBonus(space, horizon))
    for name, agent in (("CountBonus", alone), ("made conservative", conservative())):
        run = sf.simulate(problem, agent, episodes=1000)
        result = sf.evaluate(run, problem, alpha)
        regret = result.expected_regret[-1]
        print(f"{name}: regret {regret:.0f}, {result.violations} of 1000 episodes violate the condition")


if __name__ == "__main__":
    main()
