"""StepMix (Li, Huang & Yang 2023): the baseline first, the learner's proposal from some step of the episode on.

The text of "Near-optimal conservative exploration in reinforcement learning under episode-wise constraints" (ICML 2023)
could not be read when this was written, only its abstract. So the rule below is derived from what the abstract says,
and the guarantee is ours: it rests on the package's confidence sets, not on the paper's constants.
"""

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.mixing import KEPT, PROVED, Compared, MixingPlayer, largest_weight
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats

PARTS = 64  # a weight is rounded down to so many parts, so that few different policies are played


class StepMix(MixingPlayer):
    """Every episode is proved to earn enough: it begins with the baseline and leaves it as early as is safe.

    The candidate of h plays the baseline before stage h and the learner's proposal from there on. The first one that is
    proved to keep the condition is played, mixed at the stage before with the candidate that leaves it one step
    earlier. So a policy that may be left one step too early is left there now and then.

    If the baseline does not earn what was declared of it, it plays the baseline for ever (`knowledge.baseline_check`).

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    baseline : the policy in use today, with its values if they are known; best of all stages, [H + 1, S]
    alpha : the share of what the baseline earns that each episode may lose, between 0 and 1; 0 with a tolerance
    options : `tolerance`, an amount that may be lost in each step, and `floor`, the level that the earnings of a step
        are measured from, for alpha (0 unless given); `learner`, what proposes policies: UCBVI's unless given, or any
        agent that has `begin`, `act` and `observe`; `delta`, the probability with which the condition may fail (0.05),
        unless a learner is given, which has its own; `seed`; and those of UCBVI's learner (see `UCBVILearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
    >>> baseline = sf.Baseline(problem.baseline, values=values)
    >>> agent = sf.StepMix(problem.space, problem.horizon, baseline=baseline, alpha=0.1)
    >>> run = sf.simulate(problem, agent, episodes=50, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).each.violations
    0

    """

    def mix(self, s: int, proposal: Policy) -> tuple[Policy, Decision]:
        """Find the earliest stage at which the baseline may be left."""
        netted = self.netted()
        compared, before = self.compare(netted, proposal), 0.0
        for h in range(self.horizon + 1):
            candidate = Compared(netted.preceded(compared.whole, h), netted.preceded(compared.share, h, 1 - self.alpha))
            margin = self.margin(netted, candidate, s)
            if margin >= 0 or h == self.horizon:  # the last candidate is the baseline
                break
            before = margin
        weight = np.floor(PARTS * largest_weight(max(margin, 0.0), before)) / PARTS if h else 0.0
        if h == self.horizon and weight == 0:
            return self.conserve(wording.no_stage(margin, before, self.space))
        policy = self._leaving(proposal, h, weight)
        terms = {PROVED: weight * before, KEPT: (1 - weight) * margin}
        reason = wording.leaves_at(h, weight, sum(terms.values()), self.space)
        return policy, self.decide("optimistic", reason, self.policy_id(policy), terms)

    def _leaving(self, proposal: Policy, h: int, weight: float) -> Policy:
        """The baseline before stage h, but for one stage with that weight of the proposal; then the proposal."""
        shape = (self.horizon, self.space.n_pairs)
        rules: Floats = np.broadcast_to(proposal.dense_weights, shape).copy()
        own = np.broadcast_to(self.baseline.policy.dense_weights, shape)[:h]
        if h:
            mixed = weight * rules[h - 1] + (1 - weight) * own[h - 1]
            rules[:h] = own
            rules[h - 1] = mixed
        return Policy(self.space, weights=rules)
