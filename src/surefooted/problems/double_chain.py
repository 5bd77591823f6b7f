"""Double chain: two chains that share their first state; the long wait pays more in one of them than in the other.

A problem of Furmston & Barber (2010), after the chain of Dearden, Friedman & Russell (1998). The rewards are those of
public implementations; the paper's own text was not at hand.
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.baselines import chosen
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

FORWARD, BACK = 0, 1


def double_chain(
    length: int = 5,
    slip: float = 0.0,
    *,
    baseline: str = "loop",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """Two chains of `length` states with a common first state.

    >>> import surefooted as sf
    >>> sf.solve.optimal_gain(sf.problems.double_chain(unit="points").mdp).gain
    10.0

    - `length`: of each chain, at least 2. Going forward earns nothing before the last state, where it stays: 2 `length`
      in the first chain, `length` in the second. Going back earns 2 and leads to the first state; there it leads into
      the second chain.
    - `slip`: the probability that the other action happens. Dearden et al. have 0.2 in their chain.
    - `baseline`: "loop" (always back: 2 a step), "second" (to the end of the second chain) or "first" (optimal).
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.
    """
    length = as_whole(length)
    require(
        "double_chain",
        {
            f"length {length} must be a whole number of at least 2": is_whole(length, 2),
            f"slip {slip} must be a probability": 0 <= slip <= 1,
        },
    )
    n, ends = 2 * length - 1, (length - 1, 2 * length - 2)
    onward, reward = np.zeros((n, 2), dtype=np.int64), np.zeros((n, 2))
    onward[:, FORWARD] = np.arange(n) + 1
    onward[ends, FORWARD] = ends
    onward[0] = 1, length
    reward[:, BACK], reward[ends, FORWARD] = 2.0, (2.0 * length, 1.0 * length)
    p = np.zeros((n, 2, n))
    for a in (FORWARD, BACK):
        p[np.arange(n), a, onward[:, a]] += 1 - slip
        p[np.arange(n), a, onward[:, 1 - a]] += slip
    r = (1 - slip) * reward + slip * reward[:, ::-1]
    mdp = TabularMDP.from_arrays(p, r, noise=noise, rewards=(0.0, 2.0 * length), unit=unit or "")
    mdp = mdp if unit is not None else mdp.normalised()
    first = np.zeros(n, dtype=np.int64)
    second = np.where(np.arange(n) < length, BACK, FORWARD)
    policies = {"loop": first + BACK, "second": second, "first": np.where(np.arange(n) < length, FORWARD, BACK)}
    named = {name: Policy.deterministic(mdp.space, actions) for name, actions in policies.items()}
    places = ["0", *(f"1.{i}" for i in range(1, length)), *(f"2.{i}" for i in range(1, length))]
    return Problem(
        name="double_chain",
        mdp=mdp,
        baseline=chosen("double_chain", named, baseline, random_share),
        start=0,
        state_labels=tuple(places),
        action_labels=("→", "↩"),
        positions=np.array([(0, i) for i in range(length)] + [(1, i) for i in range(1, length)]),
        axes=("chain", "place"),
    )
