"""The rules that every agent keeps: what it decides, refuses, remembers, and plays in a simulation."""

import pickle
from collections.abc import Callable
from typing import Any

from surefooted.agents.agent import Decision
from surefooted.errors import SurefootedError
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import simulate
from surefooted.testing.live import Live, horizon_of, require, same, state_of

Make = Callable[[], Any]


def check_agent(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """All rules of an agent: `check_decisions`, `check_refusals`, `check_restoring` and `check_simulation`.

    - `make`: builds the agent.
    - `problem`: what it plays; the agent must fit it.
    - `steps`: how many steps each check plays.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_agent(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=30)
    """
    check_decisions(make, problem, steps, seed)
    check_refusals(make, problem)
    check_restoring(make, problem, steps, seed)
    check_simulation(make, problem, steps, seed)


def check_decisions(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """Decisions are complete, asking twice gives the same answer, and the same seed gives the same run.

    - `make`: builds the agent, with the same arguments and seed each time.
    - `problem`: what it plays.
    - `steps`: how many.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_decisions(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=30)
    """
    live = Live(make(), problem, seed)
    for step in range(steps):
        live.begin_if_due()
        before = state_of(live.agent)
        decision, again = live.agent.act(live.s), live.agent.act(live.s)
        at = f"step {step}, state {live.s}"
        require(isinstance(decision, Decision), f"{at}: act must return a Decision, not {decision!r}")
        require(decision == again, f"{at}: asked twice, it answered {decision} and {again}")
        require(same(before, live.agent.state_dict()), f"{at}: asking changed its state")
        require(decision.role in ("baseline", "optimistic"), f"{at}: there is no role {decision.role!r}")
        require(decision.reason.endswith("."), f"{at}: the reason must be a sentence, not {decision.reason!r}")
        require(decision.action in problem.space.actions(live.s), f"{at}: action {decision.action} is not available")
        live.step()
    other = Live(make(), problem, seed)
    other.play(steps)
    require(other.history == live.history, "built twice alike, it played two different runs in the same world")


def check_refusals(make: Make, problem: Problem) -> None:
    """Impossible calls raise a SurefootedError and change nothing.

    - `make`: builds the agent, with the same arguments and seed each time.
    - `problem`: what it plays.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_refusals(lambda: sf.UCBVI(problem.space, problem.horizon), problem)
    """
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
        before = state_of(live.agent)
        for what, step in bad:
            _refuses(lambda step=step: live.agent.observe(*step), what)  # type: ignore[misc]
            require(same(before, live.agent.state_dict()), f"{what} was refused, but changed its state")
        live.step()


def check_restoring(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """An agent restored from a pickled `state_dict` plays the same future, wherever it was saved.

    - `make`: builds the agent, with the same arguments and seed each time.
    - `problem`: what it plays.
    - `steps`: how many.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_restoring(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=30)
    """
    live = Live(make(), problem, seed)
    for stop in (1, 2, 7, steps // 2):
        live.play(stop)
        live.begin_if_due()
        twin = Live(make(), problem, seed)
        twin.agent.load_state_dict(pickle.loads(pickle.dumps(live.agent.state_dict())))
        twin.s, twin.left, twin.rng = live.s, live.left, pickle.loads(pickle.dumps(live.rng))
        require(same(twin.agent.state_dict(), live.agent.state_dict()), "restored, its state is another")
        first = len(live.history)
        live.play(steps // 2)
        twin.play(steps // 2)
        require(twin.history == live.history[first:], f"restored after {first} steps, it plays another future")


def check_simulation(make: Make, problem: Problem, steps: int = 300, seed: int = 0) -> None:
    """`simulate` gives the same run as `begin`, `act` and `observe`, and leaves the agent in the same state.

    - `make`: builds the agent, with the same arguments and seed each time.
    - `problem`: what it plays.
    - `steps`: how many.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_simulation(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=30)
    """
    agent: Any = make()
    live = Live(make(), problem, seed)
    if horizon := horizon_of(agent, problem):
        episodes = max(1, steps // horizon)
        run: Any = simulate(problem, agent, episodes=episodes, seed=seed)
        live.play(episodes * horizon)
    else:
        run = simulate(problem, agent, steps, seed)
        live.play(steps)
    columns = (run.pairs, run.rewards, run.next_states)
    simulated = list(zip(*(column.ravel().tolist() for column in columns), strict=True))
    require(simulated == [step[:3] for step in live.history], "simulated and played live, it made two different runs")
    require(same(state_of(agent), state_of(live.agent)), "simulated and played live, it ended in two states")


def _refuses(action: Callable[[], Any], what: str) -> None:
    try:
        action()
    except SurefootedError:
        return
    raise AssertionError(f"{what}: must be refused with a SurefootedError")
