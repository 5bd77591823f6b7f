"""Optimistic Q-learning for average reward (Wei, Jafarnia-Jahromi, Luo, Sharma & Jain, ICML 2020, Algorithm 1).

It keeps no model: one number for each pair, for discounted reward with a discount close to 1, plus a bonus that shrinks
with the visits. It is not conservative. It is here to compare with, and as an example of an agent that only has `begin`,
`act` and `observe` (docs/adding-an-agent.md).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

BONUS = 4.0  # the constant of the bonus, as printed


class QLearning(Restorable):
    """Plays what is greedy for optimistic estimates Q̂ of discounted reward.

    Parameters
    ----------
    space : the states and their actions
    steps : how many steps will be played, T; the horizon and the bonus depend on it
    span : a bound on the span of the optimal bias, sp(v*), in the unit of the rewards
    delta : the failure probability of the regret bound
    horizon : the effective horizon H, the discount being 1 - 1 / H; None takes the paper's choice for T
    scale : what the bonus is multiplied by; 1 is the paper's, and smaller ones learn sooner and prove nothing

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.QLearning(problem.space, steps=1000, span=10.0)
    >>> run = sf.simulate(problem, agent, steps=1000, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).decisions.violations > 0
    True

    """

    def __init__(
        self,
        space: Space,
        *,
        steps: int,
        span: float,
        delta: float = 0.05,
        horizon: float | None = None,
        scale: float = 1.0,
    ) -> None:
        faults = [] if steps >= 1 else [f"steps {steps} must be at least 1"]
        faults += [] if 0 <= span < np.inf else [f"span {span} must be finite and not negative"]
        faults += [] if 0 < delta < 1 else [f"delta {delta} must be more than 0 and less than 1"]
        faults += [] if horizon is None or horizon > 1 else [f"horizon {horizon} must be more than 1"]
        faults += [] if 0 <= scale < np.inf else [f"scale {scale} must be finite and not negative"]
        if faults:
            raise InvalidInput("no such agent", faults)
        self.space, self.steps, self.span, self.delta, self.scale = space, steps, span, delta, scale
        self.h = float(horizon) if horizon is not None else _horizon(space, steps, delta, span / space.r_max)
        self.state = -1
        self.visits = np.zeros(space.n_pairs, dtype=np.int64)
        self.q = np.full(space.n_pairs, self.h)  # of rewards in [0, 1]
        self.q_hat, self.v_hat = self.q.copy(), np.full(space.n_states, self.h)
        self.policy = Policy(space, pair=space.pair_ptr[:-1])  # what `act` follows now

    @exclusive
    def begin(self, s: int) -> None:
        """The run begins in s, or goes on there."""
        self.state = self.space.check_state(s)

    @exclusive
    def act(self, s: int) -> Decision:
        """The action with the largest Q̂."""
        if self.state < 0:
            raise SurefootedError("the run has not begun: tell the agent where it starts with begin(s)")
        s = self.space.check_state(s)
        assert self.policy.pair is not None
        return Decision("optimistic", "Plays what its estimates say is best.", self._action(int(self.policy.pair[s])))

    @exclusive
    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """Move the estimate of (s, a) towards what was seen, and plan for s again."""
        pair, asked = self.space.pair(s, a), self.act(s).action
        faults = [f"state {s}: the agent asked for action {asked}, not {a}"] if a != asked else []
        if s != self.state:
            faults.append(f"the last step led to state {self.state}, this one begins in {s}")
        if not np.isfinite(r) or not self.space.money.contains(r):
            faults.append(f"state {s}, action {a}: reward {r} is outside {self.space.money.words}")
        if faults:
            raise InvalidInput("this step cannot be", faults)
        s_next = self.space.check_state(s_next)
        earned = float(self.space.money.counted(r)) / self.space.r_max
        self.visits[pair] += 1
        n, h = int(self.visits[pair]), self.h
        rate = (h + 1) / (h + n)
        bonus = self.scale * BONUS * self.span / self.space.r_max * np.sqrt(h / n * np.log(2 * self.steps / self.delta))
        target = earned + (1 - 1 / h) * self.v_hat[s_next] + bonus
        self.q[pair] = (1 - rate) * self.q[pair] + rate * target
        self.q_hat[pair] = min(self.q_hat[pair], self.q[pair])
        first, last = self.space.pair_ptr[s], self.space.pair_ptr[s + 1]
        best = int(first + np.argmax(self.q_hat[first:last]))
        self.v_hat[s] = self.q_hat[best]
        assert self.policy.pair is not None
        if best != self.policy.pair[s]:
            greedy = self.policy.pair.copy()
            greedy[s] = best
            self.policy = Policy(self.space, pair=greedy)
        self.state = s_next

    def _action(self, pair: int) -> int:
        return int(self.space.pair_action[pair])

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("steps", "span", "delta", "h", "scale")
        return {"space": self.space} | {name: getattr(self, name) for name in names}

    def _contents(self) -> dict[str, Any]:
        names = ("visits", "q", "q_hat", "v_hat")
        assert self.policy.pair is not None
        return {"state": self.state, "pair": self.policy.pair.copy()} | {n: getattr(self, n).copy() for n in names}

    def _restore(self, state: Mapping[str, Any]) -> None:
        for name in ("visits", "q", "q_hat", "v_hat"):
            setattr(self, name, state[name].copy())
        self.state, self.policy = state["state"], Policy(self.space, pair=state["pair"])


def _horizon(space: Space, steps: int, delta: float, span: float) -> float:
    """The paper's H: min{ sqrt(sp(v*) T / (S A)), (T / (S A ln(4 T / δ)))^(1/3) }, and at least 2."""
    each = steps / space.n_pairs
    return max(2.0, min(np.sqrt(span * each), np.cbrt(each / np.log(4 * steps / delta))))
