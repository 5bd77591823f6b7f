"""The sentences that say how observations contradict what was declared."""

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.data.counts import Counts
from surefooted.kernels.successors import EMPTY, OUTSIDE, REWARD
from surefooted.knowledge.contradictions import ImpossibleSteps, impossible_transitions
from surefooted.knowledge.declared import Declared
from surefooted.knowledge.informed_set import Reading
from surefooted.tables.money import Money
from surefooted.tables.space import Space


def impossible_step(
    declared: Declared,
    found: ImpossibleSteps,
    i: int,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
    noise: Ints | None = None,
) -> list[str]:
    """Why step i is impossible; its reward is counted from `low`."""
    k, y, said = pairs[i] % declared.space.n_pairs, next_states[i], []
    at, mechanics = declared.space.words(k), declared.mechanics
    if found.lost[i]:
        said.append(_impossible_transitions(declared, at, np.array([y]), np.ones(1, dtype=np.int64)))
    if found.unpaid[i]:
        earned = declared.space.money.earned
        low, high, reward = (earned(x) for x in (declared.rewards.low[k], declared.rewards.high[k], rewards[i]))
        said.append(f"{at}: reward {reward:g} is outside [{low:g}, {high:g}]")
    if found.misled[i] and mechanics is not None and noise is not None:
        value = noise[i, 0] if noise.shape[1] == 1 else tuple(noise[i].tolist())
        wanted = mechanics.leads_to(np.array([k]), noise[i : i + 1])[0]
        said.append(f"{at}: noise {value} leads to state {wanted}, and it led to {y}")
    return said


def conflicts(declared: Declared, counts: Counts, reading: Reading) -> list[str]:
    """One sentence for each law and each row at which the counts contradict what was declared."""
    if not (reading.fault.any() or reading.crossed.any()):
        return []
    found = []
    n_laws = 0 if declared.mechanics is None else len(declared.mechanics.sizes)
    for i in np.flatnonzero(reading.crossed):
        of = f"law {i}" if i < n_laws else "the joint law of some components"
        found.append(f"{of}: the mechanics take it to be the same at all steps, and no law fits all that was observed")
    ptr, state, count = counts.rows()
    for m in np.flatnonzero(reading.fault).tolist():
        h, k = divmod(m, declared.space.n_pairs)
        at = f"stage {h}, " * (counts.stages > 1) + declared.space.words(k)
        if reading.fault[m] & OUTSIDE:
            row = slice(ptr[m], ptr[m + 1])
            lost = impossible_transitions(declared, np.full(row.stop - row.start, k), state[row])
            if lost.any():
                found.append(_impossible_transitions(declared, at, state[row][lost], count[row][lost]))
        if reading.fault[m] & EMPTY:
            found.append(f"{at}: no row fits what was counted and declared")
        if reading.fault[m] & REWARD:
            n = int(counts.visits[m])
            mean = f"{n} rewards with mean {counts.mean_rewards[m]:g}"
            found.append(f"{at}: {mean} do not fit what was declared of them")
    return found


def _impossible_transitions(declared: Declared, at: str, states: Ints, times: Ints) -> str:
    """A pair led to states that are impossible, to each of them `times` [n] times, if what was declared is true."""
    shown = ", ".join(f"{y} ({n} times)" if n > 1 else f"{y}" for y, n in zip(states, times, strict=True))
    why = "was declared impossible" if declared.mechanics is None else "no noise explains"
    return f"{at}: led to state {shown}, which {why}"


def declared_baseline(gain: float | None, worth: float | None, s: int, h: int | None, space: Space) -> str:
    """What was declared of a baseline, by gain and bias or by values; of one state (at a stage) if `worth` is given.

    Gain and values are in the user's unit.
    """
    if worth is None:
        return "the baseline's values were declared" if gain is None else _earns(gain, "a step", space)
    at = ("" if h is None else f"stage {h}, ") + f"state {space.state_words(s)}: "
    if gain is None:
        return at + _earns(worth, "from there", space)
    return f"{at}bias {space.amount(worth)} was declared"


def _earns(amount: float, where: str, space: Space) -> str:
    return f"the baseline was declared to earn {space.amount(amount)} {where}"


def wrong_baseline(declared: str, n: int, excess: float, unit: str, than: str, money: Money) -> str:
    """Over n steps or episodes, the baseline earned more (or less) than was declared, by `excess` in each."""
    shown, each = f"{n:,}".replace(",", " "), f"an {unit}" if unit[0] in "aeiou" else f"a {unit}"
    side, much = "more" if excess > 0 else "less", money.amount(abs(excess), ".3g")
    return f"{declared}; over {shown} {unit}{'s' * (n != 1)} it earned {much} {each} {side} than {than}"


def implausible_baseline(h: int | None, s: int, declared: float, bounds: tuple[float, float], space: Space) -> str:
    """No plausible MDP explains what was declared of a baseline in one state (at a stage); in the user's unit."""
    state = space.state_words(s)
    at = f"state {state}: gain and bias of the baseline make"
    if h is not None:
        at = f"stage {h}, state {state}: the value of the baseline is"
    low, high = (space.amount(bound) for bound in bounds)
    return f"{at} {space.amount(declared)}, and what was counted allows {low} to {high}"
