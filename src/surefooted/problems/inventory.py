"""Single-product stochastic inventory control without backlogging (Puterman 1994, Sec. 3.2.1; the paper's App. D.1).

The state s is the number of units in stock, 0 .. M, at the beginning of a month. The action a is the number of units
ordered, 0 .. M - s, which are delivered at once. Then the demand D is drawn and s' = max(0, s + a - D). The month earns
f(units sold) - O(a) - h(s + a), where O(0) = 0 and O(a) = K + c(a) for a > 0.

The paper gives M = 6, K = 4, c(x) = 2 x, h(x) = x, f(x) = 8 x, a uniform demand and the baseline (σ, Σ) = (4, 4). It
gives neither the support of the demand nor the normalisation of rewards. No choice that we tried reproduces its printed
numbers: see `docs/problems.md`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from surefooted.arrays import SUM_TOLERANCE, as_whole, is_whole
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

Cost = float | Callable[[int], float]


def inventory(
    capacity: int = 6,
    *,
    fixed_cost: float = 4.0,
    unit_cost: Cost = 2.0,
    holding_cost: Cost = 1.0,
    price: Cost = 8.0,
    demand: Sequence[float] | None = None,
    order_below: int | None = None,
    order_up_to: int | None = None,
    normalise: Literal["mean", "realised"] | tuple[float, float] = "mean",
    noise: Noise | None = None,
    unit: str | None = None,
    start: int = 0,
) -> Problem:
    """Stock of one product under random demand.

    >>> import surefooted as sf
    >>> problem = sf.problems.inventory(capacity=10, price=5.0)
    >>> problem.mdp
    TabularMDP(n_states=11, n_pairs=66, nnz=506)

    - `capacity`: M, the most units in stock.
    - `fixed_cost`: K, the cost of any order.
    - `unit_cost`, `holding_cost`, `price`: c, h and f, each a number per unit or a function of the units.
    - `demand`: the probability of a demand of 0, 1, 2, … units; by default uniform on 0 .. capacity.
    - `order_below`, `order_up_to`: σ and Σ of the baseline. If the stock is below σ, it orders up to Σ. By default Σ is
      4 or the capacity, and σ is Σ.
    - `normalise`: the range that is mapped to [0, 1]: that of the means r(s, a) ("mean"), that of the realised
      r(s, a, s') ("realised"), or a given (low, high). With a unit, it is the range that is declared.
    - `noise`: by default the paper's `(1 + 0.1 η) r(s, a)`, which leaves [0, 1]. It multiplies the mean, and therefore
      "mean" is the default of `normalise`.
    - `start`: the units in stock at the start.
    - `unit`: None (the paper): rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.

    The problem has `mechanics`: their noise is the demand, their rewards are the month's earnings, in the same unit.
    """
    capacity, start = as_whole(capacity), as_whole(start)
    stock = capacity if is_whole(capacity, 1) else 6  # after a fault, to check the other parameters
    order_up_to = min(4, stock) if order_up_to is None else as_whole(order_up_to)
    order_below = order_up_to if order_below is None else as_whole(order_below)
    law = np.full(stock + 1, 1 / (stock + 1)) if demand is None else np.asarray(demand, dtype=np.float64)
    normalise = tuple(normalise) if isinstance(normalise, list) else normalise
    costs = {"unit_cost": unit_cost, "holding_cost": holding_cost, "price": price}
    require(
        "inventory",
        {
            f"{name} {cost!r} must be a number per unit, or a function of the units": callable(cost)
            or (isinstance(cost, int | float) and bool(np.isfinite(cost)))
            for name, cost in costs.items()
        }
        | {
            f"capacity {capacity} must be a positive whole number": is_whole(capacity, 1),
            f"fixed_cost {fixed_cost} must be finite": bool(np.isfinite(fixed_cost)),
            f"start {start} must be a stock between 0 and the capacity {capacity}": is_whole(start, 0)
            and start <= stock,
            f"order_up_to {order_up_to} must be between order_below {order_below} and the capacity {capacity}": (
                is_whole(order_below, 0) and is_whole(order_up_to, order_below) and order_up_to <= stock
            ),
            f"demand must be probabilities that sum to 1, not {law.tolist()}": (
                law.ndim == 1 and law.size > 0 and bool(np.all(law >= 0)) and abs(law.sum() - 1) <= SUM_TOLERANCE
            ),
            f"normalise {normalise!r} must be 'mean', 'realised' or (low, high)": (
                normalise in ("mean", "realised") or (isinstance(normalise, tuple) and len(normalise) == 2)
            ),
        },
    )
    ordering, holding, revenue = (_as_function(cost) for cost in costs.values())
    n = capacity + 1
    state, action = np.nonzero(np.add.outer(np.arange(n), np.arange(n)) <= capacity)
    sold = [np.minimum(np.arange(law.size), level) for level in range(n)]  # by each demand, from each level
    earned = [np.array([revenue(int(units)) for units in amounts]) for amounts in sold]
    spent = np.array(
        [
            holding(int(s + a)) + (fixed_cost + ordering(int(a)) if a else 0.0)
            for s, a in zip(state, action, strict=True)
        ]
    )
    level = state + action
    pair = np.repeat(np.arange(state.size), law.size)
    reward = np.concatenate([earned[y] for y in level]) - spent[pair]
    mass = np.tile(law, state.size)
    if isinstance(normalise, tuple):
        low, high = normalise
    elif normalise == "mean":
        base = reward[:: law.size]  # the same sums as in `from_transitions`, so that the ends are exactly 0 and 1
        means = base + np.add.reduceat(mass * (reward - base[pair]), np.arange(0, pair.size, law.size))
        low, high = float(means.min()), float(means.max())
    else:
        low, high = float(reward[mass > 0].min()), float(reward[mass > 0].max())
    noise = Noise("gaussian", 0.1) if noise is None else noise
    after = np.concatenate([y - sold[y] for y in level])
    scale: dict[str, Any] = {"rewards": (low, high), "unit": unit or ""}
    mdp = TabularMDP.from_transitions(state[pair], action[pair], after, mass, reward, noise, **scale)
    mdp = mdp if unit is not None else mdp.normalised()
    scaled = (reward - low) / (high - low) if unit is None else reward
    mechanics = Mechanics(mdp.space, (law.size,), np.zeros((state.size, 1), dtype=np.int64), after, scaled)
    is_paper = (capacity, fixed_cost, unit_cost, holding_cost, price) == (6, 4.0, 2.0, 1.0, 8.0)
    is_paper = is_paper and demand is None and order_below == order_up_to == 4
    orders = [order_up_to - s if s < order_below else 0 for s in range(n)]
    return Problem(
        name="inventory",
        mdp=mdp,
        baseline=Policy.deterministic(mdp.space, orders),
        start=start,
        state_labels=tuple(str(s) for s in range(n)),
        action_labels=tuple(f"+{a}" if a else "–" for a in range(n)),
        axes=("units in stock",),
        paper={"optimal gain": 0.603, "baseline gain": 0.565, "baseline span": 0.651} if is_paper else {},
        mechanics=mechanics,
        laws=(law,),
    )


def _as_function(cost: Cost) -> Callable[[int], float]:
    """A cost per unit as a function of the units."""
    return cost if callable(cost) else lambda units: cost * units
