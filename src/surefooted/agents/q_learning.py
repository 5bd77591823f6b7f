"""Optimistic Q-learning for average reward (Wei, Jafarnia-Jahromi, Luo, Sharma & Jain, ICML 2020, Algorithm 1).

It keeps no model, only numbers for each pair: optimistic estimates of discounted reward, with a discount close to 1 and
a bonus that shrinks with the visits. It is not conservative. It is here to compare with, to be made conservative, with
`CUCRL2(learner=QLearning(..), condition="decisions")`, and as an example of an agent that only has `begin`, `act` and
`observe` (docs/adding-an-agent.md).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.arrays import is_whole, like, whole
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

BONUS = 4.0  # the constant of the bonus, as printed
SHORTEST = 2.0  # the least effective horizon: the paper's is below 1 if T is small
REASON = "Explores: the action with the largest optimistic estimate."


class QLearning(Restorable):
    """Plays what is greedy for optimistic estimates Q̂ of discounted reward.

    The paper proves its regret bound for rewards without noise; the bonus covers next states only.

    Parameters
    ----------
    space : the states and their actions
    steps : how many steps will be played, T; the discount and the bonus depend on it
    span : a bound on the span of the optimal bias, sp(v*), in the unit of the rewards
    delta : the failure probability of the regret bound
    discounted : the effective horizon H, the discount being 1 - 1 / H; None takes the paper's choice for T
    scale : what the bonus is multiplied by; 1 is the paper's, and smaller ones learn sooner and prove nothing

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.QLearning(problem.space, steps=1000, span=10.0, scale=0.01)
    >>> run = sf.simulate(problem, agent, steps=1000, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).decisions.violations > 0
    True

    """

    bounded = True  # rewards must lie in the range of the space

    def __init__(
        self,
        space: Space,
        *,
        steps: int,
        span: float,
        delta: float = 0.05,
        discounted: float | None = None,
        scale: float = 1.0,
    ) -> None:
        faults = [] if is_whole(steps, 1) else [f"steps {steps} must be a positive whole number"]
        faults += [] if 0 <= span < np.inf else [f"span {span} must be finite and not negative"]
        faults += [] if 0 < delta < 1 else [f"delta {delta} must be more than 0 and less than 1"]
        if discounted is not None and not 1 <= discounted < np.inf:
            faults.append(f"discounted {discounted} must be finite and at least 1")
        faults += [] if 0 <= scale < np.inf else [f"scale {scale} must be finite and not negative"]
        if faults:
            raise InvalidInput("no such agent", faults)
        self.space, self.steps, self.span, self.delta, self.scale = space, int(steps), float(span), delta, scale
        self.effective = _effective_horizon(space, steps, delta, span) if discounted is None else float(discounted)
        self.state = -1
        self.visits = np.zeros(space.n_pairs, dtype=np.int64)
        self.q = np.full(space.n_pairs, self.effective)  # Q, of rewards in [0, 1], [K]
        self.q_hat = self.q.copy()  # Q̂, the smallest Q so far, [K]
        self.v_hat = np.full(space.n_states, self.effective)  # V̂, the largest Q̂ of each state, [S]
        self.greedy = space.pair_ptr[:-1].copy()  # the pair that has it, [S]
        self._policy: Policy | None = None

    @property
    def policy(self) -> Policy:
        """What `act` follows now."""
        if self._policy is None:
            self._policy = Policy(self.space, pair=self.greedy)
        return self._policy

    @exclusive
    def begin(self, s: int) -> None:
        """The run begins in s, or goes on there."""
        self.state = self.space.check_state(s)

    @exclusive
    def act(self, s: int) -> Decision:
        """The action with the largest Q̂."""
        if self.state < 0:
            raise SurefootedError("the run has not begun: tell the agent where it starts with begin(s)")
        return Decision("optimistic", REASON, int(self.space.pair_action[self.greedy[self.space.check_state(s)]]))

    @exclusive
    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """Learn from a step that it asked for."""
        asked = self.act(s).action
        if a != asked and a in self.space.actions(s):
            raise InvalidInput("another action was played", [f"state {s}: the agent asked for action {asked}, not {a}"])
        self.watch(s, a, r, s_next)

    @exclusive
    def watch(self, s: int, a: int, r: float, s_next: int) -> None:
        """Learn from a step, whoever chose its action: move Q of (s, a) towards what was seen."""
        pair, s_next, money = self.space.pair(s, a), self.space.check_state(s_next), self.space.money
        faults = [] if s == self.state else [f"the last step led to state {self.state}, this one begins in {s}"]
        if not np.isfinite(r) or not money.contains(r):
            faults.append(f"state {s}, action {a}: reward {r} is outside {money.words}")
        if faults:
            raise InvalidInput("this step cannot be", faults)
        self.visits[pair] += 1
        n, h, unit = int(self.visits[pair]), self.effective, self.space.r_max
        rate = (h + 1) / (h + n)
        bonus = self.scale * BONUS * self.span / unit * np.sqrt(h / n * np.log(2 * self.steps / self.delta))
        target = float(money.counted(r)) / unit + (1 - 1 / h) * self.v_hat[s_next] + bonus
        self.q[pair] = (1 - rate) * self.q[pair] + rate * target
        self.q_hat[pair] = min(self.q_hat[pair], self.q[pair])
        first, last = self.space.pair_ptr[s], self.space.pair_ptr[s + 1]
        best = int(first + np.argmax(self.q_hat[first:last]))
        self.v_hat[s] = self.q_hat[best]
        if best != self.greedy[s]:
            self.greedy[s], self._policy = best, None
        self.state = s_next

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("space", "steps", "span", "delta", "effective", "scale")
        return {name: getattr(self, name) for name in names}

    def _contents(self) -> dict[str, Any]:
        return {"state": self.state} | {name: getattr(self, name).copy() for name in ("visits", "q", "q_hat", "v_hat")}

    def _restore(self, state: Mapping[str, Any]) -> None:
        most = np.iinfo(np.int64).max
        self.visits = like("visits", state["visits"], self.visits, 0, most)
        for name in ("q", "q_hat", "v_hat"):
            setattr(self, name, like(name, state[name], getattr(self, name)))
        self.state = whole("state", state["state"], -1, self.space.n_states - 1)
        best = [first + np.argmax(self.q_hat[first:last]) for first, last in pairwise(self.space.pair_ptr)]
        self.greedy, self._policy = np.array(best, dtype=np.int64), None


def _effective_horizon(space: Space, steps: int, delta: float, span: float) -> float:
    """The paper's H: min{ sqrt(sp(v*) T / (S A)), (T / (S A ln(4 T / δ)))^(1/3) }, with pairs for S A; at least 2."""
    each = steps / space.n_pairs
    return max(SHORTEST, float(min(np.sqrt(span / space.r_max * each), np.cbrt(each / np.log(4 * steps / delta)))))
