"""Run any agent that has `begin`, `act` and `observe`, one step at a time.

`act` returns a `Decision` or the number of an action. An agent may say what it follows by an attribute `policy`, a
`Policy` that changes in `begin` and `observe` only. Then the run is recorded as segments of policies, and both
conditions can be judged. Without it, only the decisions are known, and only the condition on decisions can be judged.

Nobody has to believe such an agent. A policy that cannot have played the action is an error. A step has the role
"baseline" if the agent says so *and* plays the only action that the baseline plays there. All other steps count as
departures, with what their actions are worth: where the baseline randomises, nobody can see whether an agent drew the
action as the baseline does. `FixedPolicy`, which is ours, does.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision, Role, asked
from surefooted.agents.average import Segment
from surefooted.agents.fixed import FixedPolicy
from surefooted.errors import InvalidInput
from surefooted.problems.problem import Problem
from surefooted.simulation.run import UNKNOWN, EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Bools, Ints

NO_WORDS = "The agent gives no reason."


def simulate_steps(problem: Problem, agent: Any, steps: int, seed: int | np.random.SeedSequence) -> Run:
    """Play `steps` steps from the problem's start."""
    recorder, rng = _Recorder(problem, agent, None), np.random.default_rng(seed)
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    segments, decisions = list[Segment](), list[Decision]()
    s = problem.start
    agent.begin(s)
    for t in range(steps):
        pairs[t], decision = recorder.ask(s, t)
        played = (decision.policy, decision.role)
        if segments and played == (segments[-1].policy, segments[-1].role):
            segments[-1] = replace(segments[-1], length=segments[-1].length + 1)
        else:
            segments.append(Segment(*played, t, 1))
            decisions.append(decision)
        rewards[t], next_states[t] = problem.mdp.draw(rng, int(pairs[t]))
        agent.observe(s, int(problem.space.pair_action[pairs[t]]), float(rewards[t]), int(next_states[t]))
        s = int(next_states[t])
    policies = recorder.policies or [problem.baseline]  # says on which space; no segment refers to it
    return Run(problem.start, segments, policies, decisions, pairs, rewards, next_states)


def simulate_episodes(problem: Problem, agent: Any, starts: Ints, seed: int | np.random.SeedSequence) -> EpisodicRun:
    """Play an episode from each of `starts`.

    If the agent follows one policy from the beginning of each episode to its end, those policies are recorded. If it
    changes its policy within some episode, or says none, each step was decided on its own.
    """
    horizon = problem.horizon
    assert horizon is not None
    recorder, rng, shape = _Recorder(problem, agent, horizon), np.random.default_rng(seed), (len(starts), horizon)
    pairs, rewards, next_states = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.int64)
    explored: Bools = np.zeros(shape, dtype=np.bool_)
    followed, decisions = np.empty(shape, dtype=np.int64), list[Decision]()
    for i, s in enumerate(starts.tolist()):
        agent.begin(s)
        for h in range(horizon):
            pairs[i, h], decision = recorder.ask(s, i * horizon + h, h)
            if h == 0:
                decisions.append(decision)
            followed[i, h], explored[i, h] = decision.policy, decision.role == "optimistic"
            rewards[i, h], next_states[i, h] = problem.mdp.draw(rng, int(pairs[i, h]))
            a = int(problem.space.pair_action[pairs[i, h]])
            agent.observe(s, a, float(rewards[i, h]), int(next_states[i, h]))
            s = int(next_states[i, h])
    is_whole = bool(np.all(followed != UNKNOWN) and np.all(followed == followed[:, :1]))
    roles: list[Role] = ["optimistic" if departs else "baseline" for departs in np.any(explored, axis=1).tolist()]
    decisions = [replace(decision, role=role) for decision, role in zip(decisions, roles, strict=True)]
    if is_whole:
        return EpisodicRun(starts, recorder.policies, decisions, pairs, rewards, next_states)
    decisions = [replace(decision, policy=UNKNOWN) for decision in decisions]
    return EpisodicRun(starts, [problem.baseline], decisions, pairs, rewards, next_states, explored)


class _Recorder:
    """Asks an agent, checks what it says, and numbers its policies."""

    def __init__(self, problem: Problem, agent: Any, horizon: int | None) -> None:
        self.problem, self.agent, self.policies = problem, agent, PolicyLog()
        self._horizons = (None, horizon)  # that policies may have
        self._is_ours = type(agent) is FixedPolicy and agent.policy == problem.baseline
        self._last: tuple[Policy | None, int] = (None, UNKNOWN)  # most steps follow the policy of the step before

    def ask(self, s: int, t: int, h: int = 0) -> tuple[int, Decision]:
        """The pair that the agent plays in s, and its decision, with the number of its policy and a true role."""
        a, said = asked(self.agent, s, self.problem.space)
        pair, policy = self.problem.space.pair(s, a), getattr(self.agent, "policy", None)
        number = self._number(policy, s, pair, h) if isinstance(policy, Policy) else UNKNOWN
        is_baseline = getattr(said, "role", None) == "baseline" and (
            self._is_ours or _plays(self.problem.baseline, s, pair, h, certainly=True)
        )
        role: Role = "baseline" if is_baseline else "optimistic"
        told = said if isinstance(said, Decision) else Decision(role, NO_WORDS)
        return pair, replace(told, role=role, action=-1, t=t, policy=number)

    def _number(self, policy: Policy, s: int, pair: int, h: int) -> int:
        """The number of the policy that the agent says it follows, if that can have played this pair."""
        space, stages = self.problem.space, policy.horizon
        if policy is not self._last[0]:
            if policy.space != space or stages not in self._horizons:
                fault = f"agent.policy is {policy!r}, the problem is on {space}" if stages in self._horizons else ""
                fault = fault or f"agent.policy has {stages} decision rules; this run needs one, or one for each stage"
                raise InvalidInput("this policy cannot be recorded", [fault])
            self._last = policy, self.policies.id_of(policy)
        if not _plays(policy, s, pair, h):
            fault = f"agent.policy never plays {space.words(pair)}, and the agent did"
            remedy = "Let `policy` be what `act` follows now, and change it in `begin` and `observe` only."
            raise InvalidInput("this policy was not followed", [fault], remedy)
        return self._last[1]


def _plays(policy: Policy, s: int, pair: int, h: int, certainly: bool = False) -> bool:
    """Whether a policy may play a pair at stage h; or whether it plays no other one there."""
    stage = () if policy.horizon is None else (h,)
    if policy.pair is not None:
        return bool(policy.pair[(*stage, s)] == pair)
    assert policy.weights is not None
    weight = float(policy.weights[(*stage, pair)])
    return weight >= 1.0 if certainly else weight > 0
