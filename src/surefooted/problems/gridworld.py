"""A gridworld with a goal and a pit, over a finite horizon (the paper's App. C, experiments).

The paper gives 3 × 4 cells, H = 10 and rewards -2 (any cell), 10 (goal) and -20 (pit), mapped to [0, 1]. Its baseline
goes around the pit, and is undecided in the two cells beside the goal and in one cell of the last line. The paper does
not give the map (a figure), whether moves slip, or what happens at the goal. The map and baseline here come from a
public re-implementation whose author had them from the paper's first author. Here the goal absorbs and moves do not
slip: see `docs/problems.md`.
"""

from typing import Any, Literal

import numpy as np

from surefooted.errors import InvalidInput
from surefooted.problems.baselines import nearest
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats

PAPER_MAP = """
...G
.X..
S...
"""
PAPER_BASELINE = """
↓ ←  ←/→ ↑
↓ →  ↑   ←/↑
→ →  ↑/→ ↑
"""
ARROWS = ("↑", "↓", "←", "→")
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
SIDEWAYS = ((2, 3), (2, 3), (0, 1), (0, 1))  # where a move may slip

Ending = Literal["absorb", "restart", "pass"]


def gridworld(
    map: str = PAPER_MAP,
    baseline: str | None = None,
    *,
    slip: float = 0.0,
    goal: Ending = "absorb",
    pit: Ending = "pass",
    step_reward: float = -2.0,
    goal_reward: float = 10.0,
    pit_reward: float = -20.0,
    horizon: int | None = 10,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    r"""Moves on a grid with goals and pits.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld("S..#\n.X.G", slip=0.1, horizon=20)
    >>> problem.mdp
    TabularMDP(n_states=7, n_pairs=28, nnz=70)

    - `map`: one line per row; `S` is the start, `G` a goal, `X` a pit, `#` a wall, `.` a free cell.
    - `baseline`: arrows in the layout of the map, with `↑/→` for each with probability 1/2. By default the paper's map
      has the paper's baseline, and any other map the shortest ways to a goal around the pits.
    - `slip`: a move goes to each side with probability slip / 2. Against a wall or the edge, one stays.
    - `goal`, `pit`: what happens there: "absorb" (stay for ever), "restart" (back to `S`) or "pass" (as in any cell).
    - `step_reward`, `goal_reward`, `pit_reward`: the reward of a step that begins in a free cell, a goal, or a pit.
    - `horizon`: the length of an episode, or None for average reward.
    - `noise`: reward noise.
    - `unit`: None (the paper): rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.
    """
    rows = [line.strip() for line in map.strip().splitlines()]
    cells = [(i, j) for i, row in enumerate(rows) for j, mark in enumerate(row) if mark != "#"]
    marks = [rows[i][j] for i, j in cells]
    unknown = sorted(set("".join(rows)) - set("SGX.#"))
    require(
        "gridworld",
        {
            "the map must have rows of one length": len({len(row) for row in rows}) == 1,
            f"the map has marks {unknown}; it may have S, G, X, # and .": not unknown,
            f"the map must have one start S, not {marks.count('S')}": marks.count("S") == 1,
            f"slip {slip} must be a probability": 0 <= slip <= 1,
            f"goal {goal!r} must be 'absorb', 'restart' or 'pass'": goal in ("absorb", "restart", "pass"),
            f"pit {pit!r} must be 'absorb', 'restart' or 'pass'": pit in ("absorb", "restart", "pass"),
            "a goal that absorbs or restarts must be on the map": "G" in marks or goal == "pass",
        },
    )
    index = {cell: s for s, cell in enumerate(cells)}
    start, n = marks.index("S"), len(cells)
    target = np.array([[index.get((i + di, j + dj), index[i, j]) for di, dj in MOVES] for i, j in cells])  # [S, 4]
    reward = {"G": goal_reward, "X": pit_reward}
    endings: dict[str, Ending] = {"G": goal, "X": pit}
    moves = []  # (s, a, s_next, probability, reward)
    for s, mark in enumerate(marks):
        ending, earned = endings.get(mark, "pass"), reward.get(mark, step_reward)
        for a in range(4):
            if ending == "pass":
                moves.append((s, a, target[s, a], 1 - slip, earned))
                moves += [(s, a, target[s, side], slip / 2, earned) for side in SIDEWAYS[a]]
            else:
                moves.append((s, a, s if ending == "absorb" else start, 1.0, earned))
    low, high = min(step_reward, goal_reward, pit_reward), max(step_reward, goal_reward, pit_reward)
    columns = [list(column) for column in zip(*moves, strict=True)]
    state, action, after, mass, rewards = columns
    scale: dict[str, Any] = {"rewards": (low, high), "unit": unit or ""}
    mdp = TabularMDP.from_transitions(state, action, after, mass, rewards, noise, n_states=n, **scale)
    mdp = mdp if unit is not None else mdp.normalised()
    if baseline is None and rows == PAPER_MAP.split():
        baseline = PAPER_BASELINE
    goals, free = np.array([mark == "G" for mark in marks]), np.array([mark != "X" for mark in marks])
    probabilities = nearest(target, goals, free) if baseline is None else _arrows(baseline, rows, index)
    is_paper = rows == PAPER_MAP.split() and horizon == 10
    return Problem(
        name="gridworld",
        mdp=mdp,
        baseline=Policy.randomised(mdp.space, probabilities),
        start=start,
        horizon=horizon,
        state_labels=tuple(
            f"({i},{j})" + (mark if mark in "SGX" else "") for (i, j), mark in zip(cells, marks, strict=True)
        ),
        action_labels=ARROWS,
        positions=np.array(cells),
        axes=("row", "column"),
        paper={"horizon": 10.0} if is_paper else {},
    )


def _arrows(text: str, rows: list[str], index: dict[tuple[int, int], int]) -> Floats:
    """The probabilities [S, 4] of a baseline drawn with arrows; the entries of walls are ignored."""
    lines = [line.split() for line in text.strip().splitlines()]
    faults = []
    if [len(line) for line in lines] != [len(row) for row in rows]:
        raise InvalidInput("this baseline does not fit its map", ["it must have an entry for each cell of the map"])
    probabilities = np.zeros((len(index), 4))
    for (i, j), s in index.items():
        arrows = lines[i][j].split("/")
        if not set(arrows) <= set(ARROWS):
            faults.append(f"row {i}, column {j}: {lines[i][j]!r} is not made of {' '.join(ARROWS)} and /")
            continue
        for arrow in arrows:
            probabilities[s, ARROWS.index(arrow)] += 1 / len(arrows)
    if faults:
        raise InvalidInput("this baseline does not fit its map", faults)
    return probabilities
