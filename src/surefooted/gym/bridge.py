"""Agents in any Gymnasium environment with discrete spaces.

Termination is part of the dynamics: a terminated step leads to the state after the reset ("restart", for average
reward), or to one more state where nothing is earned ("absorb"). Truncation is not part of the dynamics: a truncated
step leads where it led, and the agent does not learn the jump to the next start.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from surefooted.agents.agent import Agent, asked, lacking
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.player import Player
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.gym.environment import TabularEnv
from surefooted.tables.space import Bools, Space


class _Codec:
    """Numbers the elements of a space: Discrete, MultiDiscrete, MultiBinary, and Tuple or Dict of these."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space
        self.size: int
        self.parts: list[tuple[Any, _Codec]] = []
        match space:
            case spaces.Discrete():
                self.sizes, self.starts = np.array([space.n]), np.array([space.start])
            case spaces.MultiDiscrete():
                self.sizes, self.starts = space.nvec.ravel(), space.start.ravel()
            case spaces.MultiBinary():
                self.sizes = np.full(int(np.prod(space.shape)), 2)
                self.starts = np.zeros_like(self.sizes)
            case spaces.Tuple():
                self.parts = [(i, _Codec(part)) for i, part in enumerate(space.spaces)]
            case spaces.Dict():
                self.parts = [(key, _Codec(part)) for key, part in space.spaces.items()]
            case _:
                raise SurefootedError(
                    f"{space} is not discrete: only Discrete, MultiDiscrete, MultiBinary, and Tuple or "
                    "Dict of these can be used; discretise it with an ObservationWrapper first"
                )
        if self.parts:
            self.sizes = np.array([part.size for _, part in self.parts])
        self.size = int(np.prod([int(n) for n in self.sizes]))

    def encode(self, element: Any) -> int:
        """The number of an element."""
        if self.parts:
            digits = np.array([part.encode(element[key]) for key, part in self.parts])
        else:
            digits = np.asarray(element).ravel().astype(np.int64) - self.starts
        if digits.shape != self.sizes.shape or np.any(digits < 0) or np.any(digits >= self.sizes):
            raise InvalidInput("an observation or action is outside its space", [f"{element!r} is not in {self.space}"])
        return int(np.ravel_multi_index(tuple(digits.tolist()), tuple(self.sizes.tolist())))

    def decode(self, number: int) -> Any:
        """The element of a number."""
        digits = np.array(np.unravel_index(number, tuple(self.sizes.tolist())))
        match self.space:
            case spaces.Discrete():
                return self.space.dtype.type(digits[0] + self.starts[0])
            case spaces.Tuple():
                return tuple(part.decode(int(d)) for (_, part), d in zip(self.parts, digits, strict=True))
            case spaces.Dict():
                return {key: part.decode(int(d)) for (key, part), d in zip(self.parts, digits, strict=True)}
            case _:
                return (digits + self.starts).reshape(self.space.shape).astype(self.space.dtype)


class Bridge:
    """An environment seen as states 0 .. S - 1, actions 0 .. A - 1 and rewards in their own range and unit.

    >>> import gymnasium, surefooted as sf
    >>> env = gymnasium.make("CliffWalking-v1", max_episode_steps=200)
    >>> bridge = sf.gym.Bridge(env, rewards=(-100, 0))
    >>> agent = sf.UCRL2(bridge.space)
    >>> log = sf.gym.drive(bridge, agent, steps=100, seed=0)

    - `env`: an environment with discrete spaces.
    - `rewards`, `unit`: the range of its rewards, (0, 1) unless given, and their unit. A reward outside the range is an
      error, since no bound would hold. A `TabularEnv` has the range and unit of its problem.
    - `available`: which actions each state has, [S, A]. By default every state has every action; playing one that
      `info["action_mask"]` forbids is an error.
    - `termination`: where a terminated step leads: "restart" or "absorb".

    Build the agent on `bridge.space`.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        rewards: tuple[float, float] | None = None,
        available: ArrayLike | None = None,
        termination: Literal["restart", "absorb"] = "restart",
        unit: str = "",
    ) -> None:
        if rewards is None and not unit and isinstance(env.unwrapped, TabularEnv):
            money = env.unwrapped.problem.space.money
            rewards, unit = (money.low, money.high), money.unit
        if termination not in ("restart", "absorb"):
            raise InvalidInput("this bridge is not valid", [f"termination {termination!r}: 'restart' or 'absorb'"])
        self.env, self.termination = env, termination
        self.states, self.actions = _Codec(env.observation_space), _Codec(env.action_space)
        mask: Bools = np.ones((self.states.size, self.actions.size), dtype=bool)
        if available is not None:
            mask = np.asarray(available, dtype=bool)
        elif isinstance(env.unwrapped, TabularEnv):
            mask = env.unwrapped.available
        if mask.shape != (self.states.size, self.actions.size):
            fault = f"available has shape {mask.shape}, not {(self.states.size, self.actions.size)}"
            raise InvalidInput("this bridge is not valid", [fault])
        if termination == "absorb":
            mask = np.vstack([mask, np.ones((1, self.actions.size), dtype=bool)])
        self.space = Space.from_available(mask, rewards=rewards, unit=unit)

    @property
    def terminal(self) -> int | None:
        """The state of finished episodes with "absorb", else None."""
        return self.states.size if self.termination == "absorb" else None

    def reward(self, reward: Any) -> float:
        """A reward of the environment, if it lies in the declared range."""
        r, money = float(reward), self.space.money
        if not money.contains(r):
            fault = f"reward {r:g} is outside the declared range {money.words}"
            remedy = "Tell the bridge the range of the rewards: Bridge(env, rewards=(low, high))."
            raise InvalidInput("the environment gave a reward that it must not give", [fault], remedy)
        return min(max(r, money.low), money.high)


@dataclass
class Transcript:
    """The steps that were played, with states, actions and rewards as the bridge numbers them.

    - `states`, `actions`, `rewards`, `next_states`: of each step.
    - `terminated`, `truncated`: what the environment said of each step.

    >>> import surefooted as sf
    >>> bridge = sf.gym.Bridge(sf.gym.make_problem("riverswim"))
    >>> log = sf.gym.drive(bridge, sf.UCRL2(bridge.space), steps=20, seed=0)
    >>> log.states[0], len(log.rewards), any(log.terminated)
    (0, 20, False)
    """

    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    next_states: list[int] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)

    def add(self, s: int, a: int, r: float, s_next: int, terminated: bool, truncated: bool) -> None:
        """Add one step."""
        self.states.append(s)
        self.actions.append(a)
        self.rewards.append(r)
        self.next_states.append(s_next)
        self.terminated.append(terminated)
        self.truncated.append(truncated)


def drive(bridge: Bridge, agent: Agent, steps: int, seed: int | None = None) -> Transcript:
    """Let an agent act in an environment for a number of steps, over as many episodes as that takes.

    - `bridge`: the environment.
    - `agent`: an agent on `bridge.space`, or anything that has `begin`, `act` and `observe`. If it plays episodes of H
      steps, as its attribute `horizon` says, the environment is reset every H steps. With "absorb", the remaining steps
      of a terminated episode are told to it as steps that earn 0. If its mechanics observe their noise, it is told
      `info["noise"]`.
    - `steps`: how many.
    - `seed`: of the environment.

    >>> import surefooted as sf
    >>> bridge = sf.gym.Bridge(sf.gym.make_problem("riverswim"))
    >>> log = sf.gym.drive(bridge, sf.UCRL2(bridge.space), steps=20, seed=0)
    >>> len(log.rewards)
    20
    """
    if faults := lacking(agent):
        raise InvalidInput("this agent cannot act", faults)
    log = Transcript()
    needs_noise = isinstance(agent, Player) and agent.learner.belief.noise is not None
    if needs_noise and bridge.terminal is not None and isinstance(agent, EpisodicPlayer):
        fault = "after an end that absorbs, there is no noise to observe: infer it, or use termination='restart'"
        raise InvalidInput("agent and environment do not fit", [fault])
    horizon = getattr(agent, "horizon", None)
    s, mask = _reset(bridge, seed)
    agent.begin(s)
    h = 0  # steps of the agent's episode
    for step in range(steps):
        a, _ = asked(agent, s, bridge.space)
        if mask is not None and not mask[a]:
            fault = f"state {s}: action {a} is masked; tell the bridge which actions each state has (`available`)"
            raise InvalidInput(f"step {step + 1} cannot be played", [fault])
        observation, raw, terminated, truncated, info = bridge.env.step(bridge.actions.decode(a))
        r, s_next, mask = bridge.reward(raw), bridge.states.encode(observation), info.get("action_mask")
        over, h = bool(terminated or truncated), h + 1
        if horizon is not None and h < horizon and truncated and not terminated:
            fault = f"the environment cuts an episode after {h} steps, the agent's has {horizon}: they must agree"
            raise InvalidInput(f"step {step + 1} cannot be learnt from", [fault])
        start = s_next
        if over or h == horizon:
            start, mask = _reset(bridge, None)
        if terminated:
            s_next = start if bridge.terminal is None else bridge.terminal
        if needs_noise:
            agent.observe(s, a, r, s_next, info.get("noise"))  # type: ignore[call-arg]
        else:
            agent.observe(s, a, r, s_next)
        log.add(s, a, r, s_next, bool(terminated), bool(truncated))
        jumped = over and not (terminated and bridge.terminal is None)  # no transition led to the new start
        if horizon is not None and terminated and bridge.terminal is not None:
            for _ in range(horizon - h):
                agent.observe(s_next, asked(agent, s_next, bridge.space)[0], bridge.reward(0.0), s_next)
        if jumped or h == horizon:
            agent.begin(start)
            h = 0
        s = start
    return log


def _reset(bridge: Bridge, seed: int | None) -> tuple[int, Any]:
    """The first state of a new episode, and its action mask if the environment gives one."""
    observation, info = bridge.env.reset(seed=seed)
    return bridge.states.encode(observation), info.get("action_mask")
