"""The rules that every agent, learner and problem keeps, as checks to run on your own.

Each check raises an AssertionError that says which rule is broken. `make` must return a new object each time, built
with the same arguments and the same seed.

    >>> import surefooted as sf
    >>> from surefooted.testing import check_agent, check_problem
    >>> check_problem(lambda: sf.problems.gridworld(slip=0.1))
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> check_agent(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=50)
"""

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefooted import solve
from surefooted.agents.agent import Decision
from surefooted.agents.average import AveragePlayer
from surefooted.agents.episode_settings import EACH_EPISODE
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.explorer import Explorer
from surefooted.errors import SurefootedError
from surefooted.evaluation.margin import MARGIN_ROUNDING, Margin
from surefooted.evaluation.margins import evaluate
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import simulate
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.policy import Policy

Make = Callable[[], Any]

PROBABILITY_ROUNDING = 1e-12  # how far two ways to compute a probability or mean reward may differ


def check_problem(make: Callable[[], Problem]) -> None:
    """The parts of a problem fit together; building, saving and drawing from it work as agents expect.

    - `make` builds the same table each time, and a saved problem is the same after loading.
    - The labels are distinct, and positions, if there are any, too; there is one axis, or two with positions.
    - Each pair can be played, and its rewards lie in [0, r_max] if the noise is bounded.
    - The mechanics, if there are any, give the table.
    """
    problem = make()
    _require(isinstance(problem, Problem), f"make must return a Problem, not {problem!r}")
    mdp, space, positions = problem.mdp, problem.space, problem.positions
    _require(_same_problem(problem, make()), "built twice, it is two different problems")
    with tempfile.TemporaryDirectory() as folder:
        problem.save(Path(folder) / "problem.npz")
        _require(_same_problem(problem, Problem.load(Path(folder) / "problem.npz")), "saved and loaded, it is another")
    for what, labels in (("state", problem.state_labels), ("action", problem.action_labels)):
        _require(len(set(labels)) == len(labels), f"two {what}s have the same label")
    if positions is not None:
        _require(len(np.unique(positions, axis=0)) == space.n_states, "two states have the same position")
    axes = 1 if positions is None else 2
    _require(len(problem.axes) == axes, f"it has {len(problem.axes)} names of axes, and its picture has {axes}")
    rng = np.random.default_rng(0)
    for pair in range(space.n_pairs):
        reward, s_next = mdp.draw(rng, pair)
        at = f"state {space.pair_state[pair]}, action {space.pair_action[pair]}"
        _require(0 <= s_next < space.n_states, f"{at}: leads to state {s_next}, which does not exist")
        _require(not mdp.noise.bounded or 0 <= reward <= space.r_max, f"{at}: reward {reward} is outside [0, r_max]")
    if problem.mechanics is not None:
        next_ptr, next_state, p, r = problem.mechanics.table(problem.laws)
        is_same = np.array_equal(next_ptr, mdp.next_ptr) and np.array_equal(next_state, mdp.next_state)
        is_same = is_same and np.allclose(p, mdp.p, rtol=0, atol=PROBABILITY_ROUNDING)
        _require(is_same, "the mechanics with their laws give other transitions than the table")
        if r is not None:
            is_same = np.allclose(r, mdp.r, rtol=0, atol=PROBABILITY_ROUNDING)
            _require(is_same, "the mechanics with their laws give other mean rewards than the table")


def check_agent(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """All rules of an agent: `check_decisions`, `check_refusals`, `check_restoring` and `check_simulation`.

    - `make`: builds the agent.
    - `problem`: what it plays; the agent must fit it.
    - `steps`: how many steps each check plays.
    - `seed`: of the problem's random numbers.
    """
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
    """Impossible calls raise a SurefootedError and change nothing."""
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
    """An agent restored from a pickled `state_dict` plays the same future, wherever it was saved."""
    live = Live(make(), problem, seed)
    for stop in (1, 2, 7, steps // 2):
        live.play(stop)
        live.begin_if_due()
        twin = Live(make(), problem, seed)
        twin.agent.load_state_dict(pickle.loads(pickle.dumps(live.agent.state_dict())))
        twin.s, twin.left, twin.rng = live.s, live.left, pickle.loads(pickle.dumps(live.rng))
        _require(same(twin.agent.state_dict(), live.agent.state_dict()), "restored, its state is another")
        first = len(live.history)
        live.play(steps // 2)
        twin.play(steps // 2)
        _require(twin.history == live.history[first:], f"restored after {first} steps, it plays another future")


def check_simulation(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """`simulate` gives the same run as `begin`, `act` and `observe`, and leaves the agent in the same state."""
    agent: Any = make()
    live = Live(make(), problem, seed)
    if horizon := _horizon(agent, problem):
        episodes = max(1, steps // horizon)
        run: Any = simulate(problem, agent, episodes=episodes, seed=seed)
        live.play(episodes * horizon)
    else:
        run = simulate(problem, agent, steps, seed)
        live.play(steps)
    columns = (run.pairs, run.rewards, run.next_states)
    simulated = list(zip(*(column.ravel().tolist() for column in columns), strict=True))
    _require(simulated == [step[:3] for step in live.history], "simulated and played live, it made two different runs")
    _require(same(_copy(agent), _copy(live.agent)), "simulated and played live, it ended in two states")


def check_learner(make: Make, problem: Problem, episodes: int = 50, seed: int = 0, tolerance: float = 1e-9) -> None:
    """A learner of episodes proposes policies, and its bounds hold for them and for other policies.

    The bounds may fail with the learner's own probability delta. A failure is reproducible: try several seeds before
    you conclude that a bound is wrong.
    """
    learner, horizon = make(), problem.horizon
    learner = learner.learner if isinstance(learner, EpisodicPlayer) else learner
    assert horizon is not None, "the problem has no horizon"
    rng, live = np.random.default_rng(seed), Live(Explorer(learner), problem, seed)
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
    """In one run, a conservative agent violates no condition, and no budget is above the exact margin.

    This may fail with the agent's own probability delta.
    """
    agent: Any = make()
    run: Run | EpisodicRun
    result: Margin
    if _horizon(agent, problem):
        run = simulate(problem, agent, episodes=length, seed=seed)
        judged = evaluate(run, problem, alpha)
        result, unit, when = judged, "episode", list(range(length))
        if getattr(agent, "condition", "replay") == EACH_EPISODE and judged.each is not None:
            result, when = judged.each, list(range(1, length + 1))  # a budget is of the episode that begins
    else:
        run = simulate(problem, agent, length, seed)
        found = evaluate(run, problem, alpha)
        result, unit, when = found, "step", [decision.t for decision in run.decisions]
        if getattr(agent, "condition", "replay") == "decisions":
            result = found.decisions
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
    """An agent that plays a problem one step at a time."""

    def __init__(self, agent: Any, problem: Problem, seed: int) -> None:
        self.agent, self.problem, self.rng = agent, problem, np.random.default_rng(seed)
        self.s, self.left = -1, 0  # steps left until the next beginning
        self.history: list[tuple[Any, ...]] = []

    def begin_if_due(self) -> None:
        """Begin the run, or the next episode, if it is time to."""
        if self.left == 0:
            self.s = self.problem.start
            self.left = _horizon(self.agent, self.problem) or -1
            self.agent.begin(self.s)

    def step(self) -> None:
        """Play one step."""
        self.begin_if_due()
        decision = self.agent.act(self.s)
        pair = self.problem.space.pair(self.s, decision.action)
        r, s_next = self.problem.mdp.draw(self.rng, pair)
        self.agent.observe(self.s, decision.action, r, s_next)
        self.history.append((pair, r, s_next, decision.role))
        self.s, self.left = s_next, self.left - 1

    def play(self, steps: int) -> None:
        """Play some steps."""
        for _ in range(steps):
            self.step()


def _horizon(agent: Any, problem: Problem) -> int | None:
    """The number of steps after which an agent begins again; None if it plays one long run."""
    if isinstance(agent, EpisodicPlayer):
        return agent.horizon
    return None if isinstance(agent, AveragePlayer) else problem.horizon


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal to the last digit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if is_dataclass(a) and type(a) is type(b) and not isinstance(a, Policy):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    return bool(a == b)


def _same_problem(a: Problem, b: Problem) -> bool:
    """Whether two problems are equal, mechanics left aside."""
    names = ("name", "baseline", "start", "horizon", "state_labels", "action_labels", "positions", "axes")
    return same(a.mdp.columns(), b.mdp.columns()) and all(same(getattr(a, n), getattr(b, n)) for n in names)


def _any_policy(problem: Problem, rng: np.random.Generator) -> Policy:
    """A randomised policy with a decision rule for each stage."""
    weights = rng.random((problem.horizon or 1, problem.space.n_pairs)) ** 3 + 1e-3
    sums = np.add.reduceat(weights, problem.space.pair_ptr[:-1], axis=1)
    return Policy(problem.space, weights=weights / np.repeat(sums, np.diff(problem.space.pair_ptr), axis=1))


def _copy(agent: Any) -> Any:
    """A copy of the agent's state."""
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
