"""The rules that every problem keeps."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from surefooted.problems.problem import Problem
from surefooted.testing.live import require, same

PROBABILITY_ROUNDING = 1e-12  # how far two ways to compute a probability or mean reward may differ


def check_problem(make: Callable[[], Problem]) -> None:
    """The parts of a problem fit together; building, saving and drawing from it work as agents expect.

    - `make` builds the same table each time, and a saved problem is the same after loading.
    - The labels are distinct, and positions, if there are any, too; there is one axis, or two with positions.
    - Each pair can be played, and its rewards lie in [0, r_max] if the noise is bounded.
    - The mechanics, if there are any, give the table.

    >>> import surefooted as sf
    >>> sf.testing.check_problem(lambda: sf.problems.gridworld(slip=0.1))
    """
    problem = make()
    require(isinstance(problem, Problem), f"make must return a Problem, not {problem!r}")
    mdp, space, positions = problem.mdp, problem.space, problem.positions
    require(_same_problem(problem, make()), "built twice, it is two different problems")
    with tempfile.TemporaryDirectory() as folder:
        problem.save(Path(folder) / "problem.npz")
        require(_same_problem(problem, Problem.load(Path(folder) / "problem.npz")), "saved and loaded, it is another")
    for what, labels in (("state", problem.state_labels), ("action", problem.action_labels)):
        require(len(set(labels)) == len(labels), f"two {what}s have the same label")
    if positions is not None:
        require(len(np.unique(positions, axis=0)) == space.n_states, "two states have the same position")
    axes = 1 if positions is None else 2
    require(len(problem.axes) == axes, f"it has {len(problem.axes)} names of axes, and its picture has {axes}")
    rng = np.random.default_rng(0)
    for pair in range(space.n_pairs):
        reward, s_next = mdp.draw(rng, pair)
        at = f"state {space.pair_state[pair]}, action {space.pair_action[pair]}"
        require(0 <= s_next < space.n_states, f"{at}: leads to state {s_next}, which does not exist")
        require(not mdp.noise.bounded or 0 <= reward <= space.r_max, f"{at}: reward {reward} is outside [0, r_max]")
    if problem.mechanics is not None:
        next_ptr, next_state, p, r = problem.mechanics.table(problem.laws)
        is_same = np.array_equal(next_ptr, mdp.next_ptr) and np.array_equal(next_state, mdp.next_state)
        is_same = is_same and np.allclose(p, mdp.p, rtol=0, atol=PROBABILITY_ROUNDING)
        require(is_same, "the mechanics with their laws give other transitions than the table")
        if r is not None:
            is_same = np.allclose(r, mdp.r, rtol=0, atol=PROBABILITY_ROUNDING)
            require(is_same, "the mechanics with their laws give other mean rewards than the table")


def _same_problem(a: Problem, b: Problem) -> bool:
    """Whether two problems are equal, mechanics left aside."""
    names = ("name", "baseline", "start", "horizon", "state_labels", "action_labels", "positions", "axes")
    return same(a.mdp.columns(), b.mdp.columns()) and all(same(getattr(a, n), getattr(b, n)) for n in names)
