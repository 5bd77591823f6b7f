"""Rules that every agent keeps, as checks for one's own: each raises an AssertionError that says which rule is broken.

    from surefooted.testing import check_agent, check_learner

    check_agent(lambda: MyAgent(problem.space, problem.horizon), problem)

`make` returns a new agent, built with the same arguments and the same seed each time.
"""

import pickle
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from surefooted import solve
from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.player import Player
from surefooted.errors import SurefootedError
from surefooted.evaluation.margins import MARGIN_ROUNDING, Margins, evaluate
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import EpisodicRun, Run, simulate
from surefooted.tables.policy import Policy

Make = Callable[[], Any]


def check_agent(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """All rules of an agent, those of the four checks below."""
    check_decisions(make, problem, steps, seed)
    check_refusals(make, problem)
    check_restoring(make, problem, steps, seed)
    check_simulation(make, problem, steps, seed)


def check_decisions(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """Decisions are complete, asking twice gives the same answer, and the same seed gives the same run."""
    live = Live(make(), problem, seed)
    for step in range(steps):
        live.begin_if_due()
        before = _copy(live.agent)
        decision, again = live.agent.act(live.s), live.agent.act(live.s)
        at = f"step {step}, state {live.s}"
        _require(isinstance(decision, Decision), f"{at}: act must return a Decision, not {decision!r}")
        _require(decision == again, f"{at}: asked twice, it answered {decision} and {again}")
        _require(same(before, live.agent.state_dict()), f"{at}: asking changed its state")
        _require(decision.role in ("baseline", "optimistic"), f"{at}: there is no role {decision.role!r}")
        _require(decision.reason.endswith("."), f"{at}: the reason must be a sentence, not {decision.reason!r}")
        _require(decision.action in problem.space.actions(live.s), f"{at}: action {decision.action} is not available")
        live.step()
    other = Live(make(), problem, seed)
    other.play(steps)
    _require(other.history == live.history, "built twice alike, it played two different runs in the same world")


def check_refusals(make: Make, problem: Problem) -> None:
    """What is impossible is refused with an error of the project, and changes nothing."""
    agent, space = make(), problem.space
    _refuses(lambda: agent.act(problem.start), "act before begin(s)")
    _refuses(lambda: agent.begin(space.n_states), "begin in a state that does not exist")
    live = Live(agent, problem, 0)
    for _ in range(3):
        live.begin_if_due()
        s, a = live.s, live.agent.act(live.s).action
        elsewhere = (s + 1) % space.n_states
        others = [int(b) for b in space.actions(s) if b != a]
        bad: list[tuple[str, tuple[Any, ...]]] = [
            ("an action that does not exist", (s, space.n_actions, 0.0, s)),
            ("a next state that does not exist", (s, a, 0.0, space.n_states)),
            ("a reward that is not a number", (s, a, float("nan"), s)),
            ("an infinite reward", (s, a, float("inf"), s)),
        ]
        bad += [("another action than it asked for", (s, others[0], 0.0, s))] if others else []
        if elsewhere != s:
            bad.append(("a step that begins elsewhere", (elsewhere, int(space.actions(elsewhere)[0]), 0.0, s)))
        before = _copy(live.agent)
        for what, step in bad:
            _refuses(lambda step=step: live.agent.observe(*step), what)  # type: ignore[misc]
            _require(same(before, live.agent.state_dict()), f"{what} was refused, but changed its state")
        live.step()


def check_restoring(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """Saved anywhere with `state_dict` (which can be pickled) and restored, it plays the same future."""
    live = Live(make(), problem, seed)
    for stop in (1, 2, 7, steps // 2):
        live.play(stop)
        live.begin_if_due()
        twin = Live(make(), problem, seed)
        twin.agent.load_state_dict(pickle.loads(pickle.dumps(live.agent.state_dict())))
        twin.s, twin.left, twin.world = live.s, live.left, pickle.loads(pickle.dumps(live.world))
        _require(same(twin.agent.state_dict(), live.agent.state_dict()), "restored, its state is another")
        first = len(live.history)
        live.play(steps // 2)
        twin.play(steps // 2)
        _require(twin.history == live.history[first:], f"restored after {first} steps, it plays another future")


def check_simulation(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """`simulate` gives the run that `begin`, `act` and `observe` give, and leaves the same agent behind."""
    agent: Any = make()
    live = Live(make(), problem, seed)
    if not isinstance(agent, EpisodicPlayer | Player):
        return  # the simulator does not play it
    if isinstance(agent, EpisodicPlayer):
        episodes = max(1, steps // agent.horizon)
        run: Any = simulate(problem, agent, episodes=episodes, seed=seed)
        live.play(episodes * agent.horizon)
    else:
        run = simulate(problem, agent, steps, seed)
        live.play(steps)
    columns = (run.pairs, run.rewards, run.next_states)
    simulated = list(zip(*(column.ravel().tolist() for column in columns), strict=True))
    _require(simulated == [step[:3] for step in live.history], "simulated and played live, it made two different runs")
    _require(same(_copy(agent), _copy(live.agent)), "simulated and played live, it ended in two states")


def check_learner(make: Make, problem: Problem, episodes: int = 50, seed: int = 0, tolerance: float = 1e-9) -> None:
    """A learner of episodes: proposals are policies, and its bounds hold for them and for any other policy.

    The bounds may fail with the learner's own probability delta, no more often; a failure is the same for the same
    seed, so try another before you doubt it.
    """
    learner, horizon = make(), problem.horizon
    assert horizon is not None, "the problem has no horizon"
    rng, live = np.random.default_rng(seed), Live(learner, problem, seed)
    for episode in range(episodes):
        proposed = learner.propose()
        _require(isinstance(proposed, Policy), f"episode {episode}: propose must return a Policy, not {proposed!r}")
        _require(proposed.space == problem.space, f"episode {episode}: the proposal is on {proposed.space}")
        _require(proposed.horizon in (None, horizon), f"episode {episode}: {proposed.horizon} decision rules")
        policies = [proposed, problem.baseline, _any_policy(problem, rng)]
        exact = np.stack([solve.policy_values(problem.mdp, policy, horizon)[0] for policy in policies])
        low, high = learner.bound(policies, "pessimistic"), learner.bound(policies, "optimistic")
        for bound in (low, high):
            _require(np.shape(bound) == exact.shape, f"episode {episode}: bounds have shape {np.shape(bound)}")
        _require(bool(np.all(low <= exact + tolerance)), f"episode {episode}: a pessimistic bound is above the truth")
        _require(bool(np.all(high >= exact - tolerance)), f"episode {episode}: an optimistic bound is below the truth")
        live.play(horizon)


def check_promise(make: Make, problem: Problem, alpha: float, length: int = 300, seed: int = 0) -> None:
    """A conservative agent's promise in one run: no violation, and no budget above the exact margin.

    It may fail with the agent's own probability delta.
    """
    agent = make()
    run: Run | EpisodicRun
    result: Margins
    if isinstance(agent, EpisodicPlayer):
        run = simulate(problem, agent, episodes=length, seed=seed)
        result, unit, when = evaluate(run, problem, alpha), "episode", list(range(length))
    else:
        run = simulate(problem, agent, length, seed)
        result, unit, when = evaluate(run, problem, alpha), "step", [decision.t for decision in run.decisions]
    _require(result.violations == 0, f"the condition is violated after {result.violations} {unit}s")
    exact, earned = np.r_[0.0, result.margin], np.r_[0.0, result.baseline]
    for t, decision in zip(when, run.decisions, strict=True):
        if decision.budget is None:
            _require(unit == "step", f"episode {t}: there is no budget")
        else:
            _require(
                decision.budget <= exact[t] + MARGIN_ROUNDING * max(1.0, float(earned[t])),
                f"{unit} {t}: a budget of {decision.budget} where {exact[t]} is the exact margin",
            )


class Live:
    """An agent played one step at a time in a problem's own world."""

    def __init__(self, agent: Any, problem: Problem, seed: int) -> None:
        self.agent, self.problem, self.world = agent, problem, np.random.default_rng(seed)
        self.s, self.left = -1, 0  # steps left until the next beginning
        self.history: list[tuple[Any, ...]] = []

    def begin_if_due(self) -> None:
        """Begin a run, or an episode."""
        if self.left == 0:
            self.s = self.problem.start
            self.left = self.agent.horizon if isinstance(self.agent, EpisodicPlayer) else -1
            self.agent.begin(self.s)

    def step(self) -> None:
        """Play one step."""
        self.begin_if_due()
        decision = self.agent.act(self.s)
        pair = self.problem.space.pair(self.s, decision.action)
        r, s_next = self.problem.mdp.draw(self.world, pair)
        self.agent.observe(self.s, decision.action, r, s_next)
        self.history.append((pair, r, s_next, decision.role))
        self.s, self.left = s_next, self.left - 1

    def play(self, steps: int) -> None:
        """Play some steps."""
        for _ in range(steps):
            self.step()


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal, down to the last digit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if is_dataclass(a) and type(a) is type(b) and not isinstance(a, Policy):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    return bool(a == b)


def _any_policy(problem: Problem, rng: np.random.Generator) -> Policy:
    """A randomised policy with a decision rule for each stage."""
    weights = rng.random((problem.horizon or 1, problem.space.n_pairs)) ** 3 + 1e-3
    sums = np.add.reduceat(weights, problem.space.pair_ptr[:-1], axis=1)
    return Policy(problem.space, weights=weights / np.repeat(sums, np.diff(problem.space.pair_ptr), axis=1))


def _copy(agent: Any) -> Any:
    """Its state, detached."""
    return pickle.loads(pickle.dumps(agent.state_dict()))


def _refuses(action: Callable[[], Any], what: str) -> None:
    try:
        action()
    except SurefootedError:
        return
    raise AssertionError(f"{what}: must be refused with a SurefootedError")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
