"""Run any agent that has `begin`, `act` and `observe`, one step at a time.

An agent may say what it follows by an attribute `policy`, which changes in `begin` and `observe` only. Then the run is
recorded as segments of policies, and both conditions can be judged. If an agent has no such attribute, only its
decisions are known, and only the condition on decisions can be judged.

Nobody has to believe such an agent. A step has the role "baseline" if the agent says so and follows the problem's
baseline, or if it plays the only action that the baseline plays there. All other steps count as departures.
"""

from typing import Any

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.agents.average import Segment
from surefooted.errors import InvalidInput
from surefooted.problems.problem import Problem
from surefooted.simulation.run import UNKNOWN, EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Ints, Space

METHODS = ("begin", "act", "observe")
NO_WORDS = "The agent gives no reason."


def faults_of(agent: Any, problem: Problem) -> list[str]:
    """Why something cannot play a problem step by step."""
    missing = [name for name in METHODS if not callable(getattr(agent, name, None))]
    if missing:
        return [f"{type(agent).__name__} has no {' and no '.join(missing)}: an agent has begin, act and observe"]
    space = getattr(agent, "space", problem.space)
    return [] if space == problem.space else [f"agent on {space}, problem on {problem.space}"]


def simulate_steps(problem: Problem, agent: Any, steps: int, seed: int | np.random.SeedSequence) -> Run:
    """Play `steps` steps from the problem's start."""
    recorder, rng = _Recorder(problem), np.random.default_rng(seed)
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    s = problem.start
    agent.begin(s)
    segments, decisions = list[Segment](), list[Decision]()
    for t in range(steps):
        decision = recorder.ask(agent, s, t)
        pairs[t] = problem.space.pair(s, decision.action)
        last = decisions[-1] if decisions else None
        if last is None or (last.policy, last.role) != (decision.policy, decision.role):
            decisions.append(decision)
            segments.append(Segment(decision.policy, decision.role, t, 0))
        segments[-1] = Segment(decision.policy, decision.role, segments[-1].first, segments[-1].length + 1)
        rewards[t], next_states[t] = problem.mdp.draw(rng, int(pairs[t]))
        agent.observe(s, decision.action, float(rewards[t]), int(next_states[t]))
        s = int(next_states[t])
    policies = recorder.policies or [problem.baseline]  # no segment refers to it
    return Run(problem.start, segments, policies, decisions, pairs, rewards, next_states)


def simulate_episodes(problem: Problem, agent: Any, starts: Ints, seed: int | np.random.SeedSequence) -> EpisodicRun:
    """Play an episode from each of `starts`.

    If the agent follows one policy from the beginning of an episode to its end, that policy is recorded. If it changes
    its policy within some episode, or says none, each step was decided on its own.
    """
    assert problem.horizon is not None
    recorder, rng, shape = _Recorder(problem), np.random.default_rng(seed), (len(starts), problem.horizon)
    pairs, rewards, next_states = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.int64)
    explored: Bools = np.zeros(shape, dtype=np.bool_)
    followed, decisions = np.empty(shape, dtype=np.int64), list[Decision]()
    for i, s in enumerate(starts.tolist()):
        agent.begin(s)
        for h in range(problem.horizon):
            decision = recorder.ask(agent, s, i * problem.horizon + h, h)
            if h == 0:
                decisions.append(decision)
            pairs[i, h], followed[i, h] = problem.space.pair(s, decision.action), decision.policy
            explored[i, h] = decision.role == "optimistic"
            rewards[i, h], next_states[i, h] = problem.mdp.draw(rng, int(pairs[i, h]))
            agent.observe(s, decision.action, float(rewards[i, h]), int(next_states[i, h]))
            s = int(next_states[i, h])
    whole = bool(np.all(followed != UNKNOWN) and np.all(followed == followed[:, :1]))
    policies = recorder.policies if whole else [problem.baseline]
    return EpisodicRun(starts, policies, decisions, pairs, rewards, next_states, None if whole else explored)


class _Recorder:
    """Numbers the policies that an agent says it follows, and checks its decisions."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.policies = problem, list[Policy]()
        self._ids: dict[Policy, int] = {}
        self._last: tuple[Any, int] = (None, UNKNOWN)  # most steps follow the policy of the step before

    def ask(self, agent: Any, s: int, t: int, h: int = 0) -> Decision:
        """What the agent plays in s, with the number of its policy and a role that is true."""
        said, policy, space = agent.act(s), getattr(agent, "policy", None), self.problem.space
        action = getattr(said, "action", said)
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or action not in space.actions(s):
            known = ", ".join(str(a) for a in space.actions(s))
            raise InvalidInput(
                f"step {t + 1} cannot be played",
                [f"state {s}: {type(agent).__name__} plays {action!r}; the actions there are {known}"],
                "`act` returns a Decision, or the number of an action.",
            )
        pair = space.pair(s, int(action))
        number = UNKNOWN if policy is None else self._number(policy, space, pair, s, h)
        role: Role = "baseline" if self._is_baseline(said, policy, s, pair, h) else "optimistic"
        told = said if isinstance(said, Decision) else Decision(role, NO_WORDS)
        return Decision(role, told.reason, int(action), t, number, told.length, told.budget, told.terms, told.deposit)

    def _number(self, policy: Any, space: Space, pair: int, s: int, h: int) -> int:
        """The number of a policy, if it can have played this pair."""
        if not isinstance(policy, Policy) or policy.space != space:
            raise InvalidInput(
                "this policy cannot be recorded", [f"agent.policy is {policy!r}, not a Policy on {space}"]
            )
        if not _plays(policy, s, pair, h):
            fault = f"state {s}: agent.policy never plays {space.words(pair)}, and the agent did"
            raise InvalidInput("this policy was not followed", [fault], "Let `policy` be what `act` follows now.")
        if policy is not self._last[0]:
            if policy not in self._ids:
                self._ids[policy] = len(self.policies)
                self.policies.append(policy)
            self._last = policy, self._ids[policy]
        return self._last[1]

    def _is_baseline(self, said: Any, policy: Policy | None, s: int, pair: int, h: int) -> bool:
        """Whether a step is the baseline's, whatever the agent calls it."""
        baseline = self.problem.baseline
        if getattr(said, "role", None) != "baseline":
            return False
        return policy == baseline or _plays(baseline, s, pair, h, certainly=True)


def _plays(policy: Policy, s: int, pair: int, h: int, certainly: bool = False) -> bool:
    """Whether a policy may play a pair at stage h; or whether it plays no other one there."""
    stage = () if policy.horizon is None else (h,)
    if policy.pair is not None:
        return bool(policy.pair[(*stage, s)] == pair)
    assert policy.weights is not None
    weight = float(policy.weights[(*stage, pair)])
    return weight >= 1.0 if certainly else weight > 0
