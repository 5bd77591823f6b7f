"""Inventory with an (s, S) policy from a planner's textbook as the baseline: computed by the package `stockpyl`.

The planner knows the costs and has a forecast of the mean demand, which may be wrong: this is what makes the baseline
good or bad. `stockpyl` is an extra; it follows Snyder & Shen (2019). Lost sales cost the price less the costs of buying
and of holding a unit: with this, and orders that arrive at once, its models with backlogs have the same optimal (s, S).
"""

import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from scipy.stats import poisson

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.extras import folder_of
from surefooted.problems.inventory import inventory
from surefooted.problems.problem import Problem, require
from surefooted.tables.reward_noise import Noise

PLANNERS = ("exact", "power")


def planned_inventory(
    planner: str = "power",
    forecast: float | None = None,
    *,
    demand_mean: float = 5.0,
    capacity: int = 20,
    fixed_cost: float = 10.0,
    unit_cost: float = 2.0,
    holding_cost: float = 0.5,
    price: float = 8.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """Stock of one product under Poisson demand; the baseline is the policy (s, S) that a planner computes.

    - `planner`: "exact" (Zheng & Federgruen 1991) or "power", the power approximation (Ehrhardt & Mosier 1984).
    - `forecast`: the mean demand that the planner expects; by default 40 % less than the true one.
    - `demand_mean`: the true mean demand of a month.
    - `capacity`, `fixed_cost`, `unit_cost`, `holding_cost`, `price`, `noise`, `unit`: those of `inventory`.

    >>> import surefooted as sf
    >>> sf.problems.planned_inventory("exact", capacity=10).space.n_states
    11
    """
    folder_of("planned_inventory")
    capacity, forecast = as_whole(capacity), 0.6 * demand_mean if forecast is None else forecast
    margin = price - unit_cost - holding_cost
    require(
        "planned_inventory",
        {
            f"planner {planner!r} must be one of {', '.join(PLANNERS)}": planner in PLANNERS,
            f"capacity {capacity} must be a positive whole number": is_whole(capacity, 1),
            f"demand_mean {demand_mean} and forecast {forecast} must be positive": demand_mean > 0 and forecast > 0,
            f"fixed_cost {fixed_cost} and holding_cost {holding_cost} must be positive": min(fixed_cost, holding_cost)
            > 0,
            f"price {price} must be above the costs of buying and holding a unit": margin > 0,
        },
    )
    with warnings.catch_warnings():  # Python warns of escapes in its docstrings
        warnings.simplefilter("ignore")
        ss: Any = import_module("stockpyl.ss")
    if planner == "exact":
        s, up_to, _ = ss.s_s_discrete_exact(holding_cost, margin, fixed_cost, True, forecast)
    else:
        s, up_to = ss.s_s_power_approximation(holding_cost, margin, fixed_cost, forecast, forecast**0.5)
    up_to = min(max(round(up_to), 0), capacity)
    law = poisson.pmf(np.arange(capacity + 1), demand_mean)
    law[-1] += poisson.sf(capacity, demand_mean)  # what exceeds every stock sells it out
    problem = inventory(
        capacity,
        fixed_cost=fixed_cost,
        unit_cost=unit_cost,
        holding_cost=holding_cost,
        price=price,
        demand=law / law.sum(),
        order_below=min(max(round(s) + 1, 0), up_to),
        order_up_to=up_to,
        noise=noise,
        unit=unit,
    )
    return replace(problem, name="planned_inventory", paper={})
