"""Any bandit algorithm made conservative by what rewards prove: Thompson sampling, a rule of thumb, a person.

The algorithm proposes, and the certificate of `ConservativeUCB` or `ConservativeLinearUCB` decides: its arm is played
if the condition then still holds provably, and else the baseline. Safety does not depend on what it proposes, and
unlike `Reduction` this needs no bound on its regret. It is told the rewards of the rounds in which it was obeyed.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.in_use import exclusive
from surefooted.bandits.conservative_linear_ucb import ConservativeLinearUCB
from surefooted.bandits.conservative_ucb import ConservativeUCB
from surefooted.bandits.guard import known_of, proposal, restored_learner, state_of
from surefooted.tables.space import Floats


class AnyBandit(ConservativeUCB):
    """Plays what `learner` proposes if that is proved safe; its other arguments are those of `ConservativeUCB`.

    >>> import surefooted as sf
    >>> learner = sf.bandits.ConservativeUCB(n_arms=3, alpha=1)  # or your own, with act() and observe(arm, reward)
    >>> agent = sf.bandits.AnyBandit(3, learner=learner, alpha=0.1, baseline_mean=0.5)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=1.0)

    - `n_arms`: how many arms there are.
    - `learner`: what proposes, with `act` and `observe`.
    - `settings`: of `ConservativeUCB`.
    """

    def __init__(self, n_arms: int, *, learner: Any, **settings: Any) -> None:
        super().__init__(n_arms, **settings)
        self.learner = learner

    def _wishes(self, upper: Floats) -> Iterable[int]:
        return [proposal(self.learner, self.n_arms)]

    def _finish(self) -> None:
        super()._finish()
        arm, reward = self._owed
        if arm == proposal(self.learner, self.n_arms):  # it was not told yet: it proposes what it proposed
            self.learner.observe(arm, reward)

    def arguments(self) -> dict[str, Any]:
        """What it was built with, and what is known of the learner."""
        return super().arguments() | {"learner": known_of(self.learner)}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"learner": state_of(self.learner)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.learner = restored_learner(self.learner, state["learner"])


class AnyLinearBandit(ConservativeLinearUCB):
    """Plays what `learner` proposes if that is proved safe; its other arguments are those of `ConservativeLinearUCB`.

    >>> import surefooted as sf
    >>> model = {"dimension": 2, "sigma": 0.5, "bound": 1.0}
    >>> learner = sf.bandits.ConservativeLinearUCB(alpha=1, **model)
    >>> agent = sf.bandits.AnyLinearBandit(learner=learner, alpha=0.1, **model)
    >>> decision = agent.act(features=[[0.5, 0.0], [0.6, 0.3]], baseline=0, baseline_mean=0.5)
    >>> agent.observe(reward=1.0)

    - `dimension`: the length of a feature vector.
    - `learner`: what proposes, with `act` and `observe`.
    - `settings`: of `ConservativeLinearUCB`.
    """

    def __init__(self, dimension: int, *, learner: Any, **settings: Any) -> None:
        super().__init__(dimension, **settings)
        self.learner, self.wish = learner, -1
        self._obeyed = False

    @exclusive
    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """What to play among arms with these features [n, d], as for `ConservativeLinearUCB`."""
        self._catch_up()
        phi, baseline = self._checked(features, baseline, baseline_mean)
        self.wish = proposal(self.learner, len(phi), phi, baseline, baseline_mean)
        decision = super().act(phi, baseline, baseline_mean)
        self._obeyed = decision.action == self.wish
        return decision

    def _wishes(self, phi: Floats, upper: Floats) -> Iterable[int]:
        return [self.wish]

    @exclusive
    def observe(self, reward: float) -> None:
        """Learn the reward of the arm that `act` asked for; a reward that is not finite is refused.

        If the round is counted and telling the learner fails, observing it again counts nothing.
        """
        if self._catch_up(float(reward)):
            return
        super().observe(reward)
        self._owed = float(reward)
        self._catch_up()

    def _finish(self) -> None:
        if self._obeyed:
            self.learner.observe(self._owed)

    def arguments(self) -> dict[str, Any]:
        """What it was built with, and what is known of the learner."""
        return super().arguments() | {"learner": known_of(self.learner)}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"learner": state_of(self.learner), "wish": (self.wish, self._obeyed)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.learner = restored_learner(self.learner, state["learner"])
        self.wish, self._obeyed = state["wish"]
