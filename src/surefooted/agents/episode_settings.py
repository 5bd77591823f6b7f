"""What CUCB-VI can be asked for: which baselines and conditions, and what is wrong with others."""

from typing import Literal

import numpy as np

from surefooted.errors import not_among
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space

Condition = Literal["replay", "decisions"]
CONDITIONS: tuple[Condition, ...] = ("replay", "decisions")
EACH_EPISODE = "each episode"  # the condition of StepMix and EpsMix


def baseline_faults(baseline: Baseline, space: Space, horizon: int) -> list[str]:
    """Why a baseline is none for episodes of a space."""
    faults, values = [], baseline.values
    if baseline.policy.space != space:
        faults.append(f"the baseline is on {baseline.policy.space}, the agent on {space}")
    if baseline.policy.horizon not in (None, horizon):
        faults.append(f"the baseline has {baseline.policy.horizon} decision rules, the horizon is {horizon}")
    if baseline.gain is not None:
        faults.append("the baseline has a gain: over a finite horizon give its `values`, or neither")
    if values is not None and values.ndim == 2 and len(values) != horizon + 1:
        faults.append(f"the baseline's values have {len(values)} stages, not [S] or [{horizon + 1}, S]")
    counted, slack = baseline.values_counted(horizon), horizon * space.money.slack
    if counted is not None and np.any(counted > horizon * space.r_max + slack):
        faults.append(f"the baseline's values exceed {horizon} x {space.high:g}: no policy could have them")
    if counted is not None and np.any(counted < -slack):
        faults.append(f"the baseline's values are below {horizon} x {space.low:g}: no policy could have them")
    return faults


def condition_faults(condition: str, baseline: Baseline) -> list[str]:
    """Why a condition cannot be kept."""
    if condition not in CONDITIONS:
        return [not_among("condition", condition, CONDITIONS)]
    faults, values = list[str](), baseline.values
    if condition == "replay":
        return faults
    if values is None or values.ndim != 2:
        what = "declare the values of all stages, [H + 1, S], as `solve.policy_values` gives them"
        faults.append(f'condition="decisions" compares each step with the baseline\'s: {what}, or choose "replay"')
    elif np.any(values[-1] != 0):
        faults.append("the baseline's values after the last stage must be 0")
    return faults
