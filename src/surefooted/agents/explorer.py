"""An agent that plays whatever a learner of episodes proposes, without a certificate."""

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.in_use import exclusive
from surefooted.knowledge.knowledge import Knowledge
from surefooted.tables.policy import Policy


class Explorer(EpisodicPlayer):
    """Plays what its learner proposes in every episode.

    Parameters
    ----------
    learner : an `EpisodicLearner`
    seed : of the random numbers that a randomised policy needs

    Example
    -------
    >>> import surefooted as sf
    >>> from surefooted.agents.ucbvi import UCBVILearner
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.agents.Explorer(UCBVILearner(problem.space, problem.horizon))
    >>> sf.simulate(problem, agent, episodes=3, seed=0).baseline_episodes
    0

    """

    @exclusive
    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before."""
        self.learner.trust(knowledge, begun=self.h < self.horizon)

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """Play what is proposed."""
        self.learner.locate(s)
        contradictions = self.learner.compare()
        policy, t = self.learner.propose(), self.horizon * self.episodes
        reason = self.learner.reason + wording.not_used(contradictions)
        return policy, Decision("optimistic", reason, -1, t, self.policy_id(policy), self.horizon)
