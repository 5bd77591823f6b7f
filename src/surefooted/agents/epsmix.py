"""EpsMix (Li, Huang & Yang 2023): a coin chooses, for each episode, between the baseline and the learner's proposal.

The text of "Near-optimal conservative exploration in reinforcement learning under episode-wise constraints" (ICML 2023)
could not be read when this was written, only its abstract. So the rule below is derived from what the abstract says,
and the guarantee is ours: it rests on the package's confidence sets, not on the paper's constants.
"""

from collections.abc import Mapping
from typing import Any

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.mixing import KEPT, PROVED, MixingPlayer, largest_weight
from surefooted.certificates.netted import Netted
from surefooted.tables.policy import Policy


class EpsMix(MixingPlayer):
    """Every episode is proved to earn enough on average over its coin, which chooses what is played for all of it.

    The coin is thrown before the episode begins. What the episode earns in expectation is an average over both sides of
    the coin; an episode for which it chose to explore may earn less.

    If the baseline does not earn what was declared of it, it plays the baseline for ever (`knowledge.baseline_check`).

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    baseline : the policy in use today, with its values if they are known
    alpha : the share of what the baseline earns that each episode may lose, between 0 and 1; 0 with a tolerance
    delta, learner, tolerance, floor, seed : as for `StepMix`, and so are the options of the learner

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.EpsMix(problem.space, problem.horizon, baseline=sf.Baseline(problem.baseline), alpha=0.1)
    >>> agent.begin(problem.start)
    >>> agent.mixtures  # nothing is known: the proposal, policy 1, is played with probability alpha
    [(1, 0.1)]

    """

    by_coin = True
    mixtures: list[tuple[int, float]]  # of each episode: the policy beside the baseline, and its weight

    def mix(self, s: int, proposal: Policy) -> tuple[Policy, Decision]:
        """Find the largest probability of exploring, and throw the coin."""
        netted = self.netted()
        weight, terms = self._weight(netted, s, proposal)
        if weight == 0:
            return self.conserve(wording.NO_COIN)
        explores = self.coin.u < weight
        reason = wording.chosen_by_coin(weight, sum(terms.values()), self.space, explores)
        proposed = self.policy_id(proposal)
        if explores:
            decision = self.decide("optimistic", reason, proposed, terms)
        else:
            decision = self.decide("baseline", reason, 0, terms)
        self.coin.use(1)
        self.mixtures.append((proposed, weight))
        return proposal if explores else self.baseline.policy, decision

    def _weight(self, netted: Netted, s: int, proposal: Policy) -> tuple[float, dict[str, float]]:
        """The largest weight of the proposal that is proved to be safe, and what is then proved.

        Either by the margins of both parts, each at its worst. Or, with E at most what the proposal earns, for every
        value V that the baseline may have: weight (E - V) + α max(V - zero, 0) + H tolerance >= 0. This is convex in V,
        and least at the largest V or at the one nearest to zero.
        """
        low, high = float(netted.low[0, s]), float(netted.high[0, s])
        compared = self.compare(netted, proposal)
        kept, margin = self.forgiven(low), self.margin(netted, compared, s)
        weight = largest_weight(kept, margin)
        parts = {PROVED: weight * margin, KEPT: (1 - weight) * kept}
        earned = float(compared.whole.values[0, s])
        values = (high, min(max(self.zero, low), high))
        weights = [largest_weight(self.forgiven(value), earned - value + self.forgiven(value)) for value in values]
        if min(weights) <= weight:
            return weight, parts
        weight = min(weights)
        left = min(weight * (earned - value) + self.forgiven(value) for value in values)
        return weight, {PROVED: 0.0, KEPT: max(left, 0.0)}

    def conserve(self, reason: str, terms: Mapping[str, float] | None = None) -> tuple[Policy, Decision]:
        """An episode of the baseline, without a coin."""
        policy, decision = super().conserve(reason, terms)
        self.mixtures.append((0, 1.0))
        return policy, decision

    def _player_state(self) -> dict[str, Any]:
        return super()._player_state() | {"mixtures": list(self.mixtures)}

    def _restore_player(self, state: Mapping[str, Any]) -> None:
        super()._restore_player(state)
        self.mixtures = [(int(policy), float(weight)) for policy, weight in state["mixtures"]]
