"""Condition-based maintenance of components that share a load (Olde Keizer et al. 2016; the paper's App. D.2).

The state is the level of each component, 0 (new) .. L (failed). The action is the set of components to replace. Each
step one pays for the replacements, and a penalty if all components had failed. Replaced components are new at once.
Then each working component wears by a Poisson number of levels, up to L. The fewer components work, the faster they
wear.

The paper gives N = 2, 11 levels, 4 actions, a threshold baseline that plays at random with probability 0.3, and
g* = 0.89, g_b = 0.82. The rates and costs here are ours; they were chosen to bring the gains near the paper's: see
`docs/problems.md`.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefooted.arrays import as_whole, is_whole
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Bools, Floats, Ints, Space

LARGE = 4_000_000  # pairs times wears; larger problems have no mechanics


def maintenance(
    components: int = 2,
    failed_level: int = 10,
    *,
    rate: float = 2.5,
    load_sharing: float = 1.5,
    preventive_cost: float = 2.0,
    corrective_cost: float = 4.0,
    setup_cost: float = 2.0,
    penalty: float = 10.0,
    threshold: int = 4,
    random_share: float = 0.3,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """Components that wear, and can be replaced before or after they fail.

    >>> import surefooted as sf
    >>> problem = sf.problems.maintenance(failed_level=4, penalty=20.0)
    >>> problem.mdp
    TabularMDP(n_states=25, n_pairs=100, nnz=1600)

    - `components`: N.
    - `failed_level`: L, the level of a failed component.
    - `rate`, `load_sharing`: if k of N components work after replacement, each of them wears by
      Poisson(rate * load_sharing ** (N - k)) levels.
    - `preventive_cost`, `corrective_cost`: the cost of replacing a working component, and a failed one.
    - `setup_cost`: due once in a step with any replacement.
    - `penalty`: due in a step that begins with all components failed.
    - `threshold`, `random_share`: the baseline replaces every component at or above the threshold. With probability
      `random_share` it takes a random action instead, all equally likely.
    - `noise`: by default the paper's `(1 + 0.1 η) r(s, a)`, which leaves [0, 1].
    - `unit`: None (the paper): rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.

    Mapped to [0, 1], the reward of a step is 1 - cost / (the largest possible cost of a step).

    The problem has `mechanics`: their noise is the wear of each component, 0 .. L levels, where L stands for L or more.
    There is one law for each number of components that do not work. Problems with more than 4 000 000 pairs times wears
    have no mechanics.
    """
    components, failed_level, threshold = as_whole(components), as_whole(failed_level), as_whole(threshold)
    costs = (preventive_cost, corrective_cost, setup_cost, penalty)
    require(
        "maintenance",
        {
            f"components {components} must be a positive whole number": is_whole(components, 1),
            f"failed_level {failed_level} must be a positive whole number": is_whole(failed_level, 1),
            f"rate {rate} must be positive and finite": 0 < rate < math.inf,
            f"load_sharing {load_sharing} must be at least 1 and finite": 1 <= load_sharing < math.inf,
            f"costs {costs} must be finite, not negative, and not all 0": 0 < sum(costs) < math.inf and min(costs) >= 0,
            f"threshold {threshold} must be a level, 0 to {failed_level}": is_whole(threshold, 0)
            and threshold <= failed_level,
            f"random_share {random_share} must be a probability": 0 <= random_share <= 1,
        },
    )
    levels = failed_level + 1
    states = list(itertools.product(range(levels), repeat=components))
    actions = list(itertools.product((False, True), repeat=components))
    worst = setup_cost + max(components * corrective_cost + penalty, components * preventive_cost)
    wear = [_wear(rate * load_sharing**broken, failed_level) for broken in range(components)] + [np.eye(levels)]
    columns: list[list[NDArray[Any]]] = [[], [], [], [], []]
    for s, levels_now in enumerate(states):
        for a, replaced in enumerate(actions):
            cost = setup_cost * any(replaced) + penalty * all(level == failed_level for level in levels_now)
            for level, new in zip(levels_now, replaced, strict=True):
                if new:
                    cost += corrective_cost if level == failed_level else preventive_cost
            after = [0 if new else level for level, new in zip(levels_now, replaced, strict=True)]
            broken = sum(level == failed_level for level in after)
            row = np.ones(1)
            for level in after:
                row = np.kron(row, wear[broken][level])
            successors = np.flatnonzero(row)
            entries = np.broadcast_arrays(s, a, successors, row[successors], -cost)
            for column, values in zip(columns, entries, strict=True):
                column.append(values)
    state, action, next_state, p, reward = (np.concatenate(column) for column in columns)
    noise = Noise("gaussian", 0.1) if noise is None else noise
    scale: dict[str, Any] = {"rewards": (-worst, 0.0), "unit": unit or ""}
    mdp = TabularMDP.from_transitions(state, action, next_state, p, reward, noise, **scale)
    mdp = mdp if unit is not None else mdp.normalised()
    laws = tuple(matrix[0] for matrix in wear[:-1])
    mechanics = None
    if mdp.space.n_pairs * levels**components <= LARGE:
        mechanics = _mechanics(mdp.space, np.array(states), np.array(actions), failed_level)
    due = [actions.index(tuple(level >= threshold for level in state)) for state in states]
    careful = Policy.deterministic(mdp.space, due)
    return Problem(
        name="maintenance",
        mdp=mdp,
        baseline=careful.mixed_with(Policy.uniform(mdp.space), random_share),
        start=0,
        state_labels=tuple("-".join(str(level) for level in state) for state in states),
        action_labels=tuple(_replaces(action) for action in actions),
        positions=np.array(states) if components == 2 else None,
        axes=("level of component 1", "level of component 2") if components == 2 else ("levels of the components",),
        paper={"optimal gain": 0.89, "baseline gain": 0.82} if len(states) == 121 and random_share == 0.3 else {},
        mechanics=mechanics,
        laws=laws if mechanics is not None else (),
    )


def _mechanics(space: Space, states: Ints, actions: Bools, failed_level: int) -> Mechanics:
    """Where each wear leads, given the levels of each state [S, N] and what each action replaces [A, N]."""
    levels, components = failed_level + 1, states.shape[1]
    after = np.where(actions[space.pair_action], 0, states[space.pair_state])  # [K, N]
    broken = np.sum(after == failed_level, axis=1)
    law = np.repeat(np.minimum(broken, components - 1)[:, None], components, axis=1)
    wears = np.array(list(itertools.product(range(levels), repeat=components)))  # [n, N]
    later = np.minimum(after[:, None, :] + wears, failed_level)
    next_state = later @ (levels ** np.arange(components)[::-1])
    return Mechanics(space, (levels,) * components, law, next_state.ravel())


def _wear(rate: float, failed_level: int) -> Floats:
    """The probability of each next level of a working component, [L + 1, L + 1]: a Poisson number more, at most L."""
    most = failed_level + 200 + int(10 * min(rate, 1e3))  # the tail beyond has no mass that a double could show
    mass = [math.exp(n * math.log(rate) - rate - math.lgamma(n + 1)) for n in range(most)]
    matrix = np.zeros((failed_level + 1, failed_level + 1))
    matrix[failed_level, failed_level] = 1.0
    for level in range(failed_level):
        matrix[level, level:failed_level] = mass[: failed_level - level]
        tail = math.fsum(mass[failed_level - level :]) if rate < 1e3 else 1 - math.fsum(mass[: failed_level - level])
        matrix[level, failed_level] = tail
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def _replaces(action: tuple[bool, ...]) -> str:
    """The numbers of the replaced components, or `–`."""
    return "".join(str(j + 1) for j, new in enumerate(action) if new) or "–"
