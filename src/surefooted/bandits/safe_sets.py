"""Safe sets and checkpoints: Garcelon, Ghavamzadeh, Lazaric & Pirotta (AAAI 2020), CLUCB2.

Their paper is "Improved algorithms for conservative exploration in bandits". (Kazerouni et al. call another algorithm
CLUCB2.)

CLUCB looks at one arm only, the optimistic one: if it is not safe, the baseline is played. But another arm may be safe
and better than the baseline. So let the *safe set* of round t be

    C_t = {arms after which the condition provably holds}, and the baseline,

and play the arm of C_t with the largest upper bound. The condition is that of `ConservativeUCB` or of
`ConservativeLinearUCB`, and so is its proof: it holds after every round, whichever arm of C_t is played.

The paper's second improvement is that the rewards of the past bound what was earned, at once and not arm by arm. Here
this is `pooled`, on by default in both agents. Its third is a condition that is kept at checkpoints only, every T
rounds: rounds of the baseline that come before the next checkpoint count already. Here this is `checkpoints`.

We could read the paper's abstract and introduction only. The safe set and the checkpoints are its ideas; the bounds
are ours: intervals or one ellipsoid for all rounds, and the mixture of `certificates.pooled` for rewards, where the
paper uses an inequality of Freedman's kind.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from surefooted.bandits.conservative_linear_ucb import ConservativeLinearUCB
from surefooted.bandits.conservative_ucb import ConservativeUCB
from surefooted.tables.space import Floats


class SafeSetUCB(ConservativeUCB):
    """Plays the arm with the largest upper bound among those that are proved safe; takes what `ConservativeUCB` takes.

    >>> import surefooted as sf
    >>> agent = sf.bandits.SafeSetUCB(n_arms=3, alpha=0.1, baseline=0, checkpoints=50)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=1.0)
    """

    def _wishes(self, upper: Floats) -> Iterable[int]:
        return by_optimism(upper)


class SafeSetLinearUCB(ConservativeLinearUCB):
    """Plays the arm with the largest upper bound among those that are proved safe.

    It takes what `ConservativeLinearUCB` takes, and uses the bound from all rewards unless `pooled` is False.

    >>> import surefooted as sf
    >>> agent = sf.bandits.SafeSetLinearUCB(dimension=2, alpha=0.1, sigma=0.5, bound=1.0)
    >>> decision = agent.act(features=[[0.5, 0.0], [0.6, 0.3]], baseline=0, baseline_mean=0.5)
    >>> agent.observe(reward=1.0)

    - `dimension`: the length of a feature vector.
    - `pooled`: whether all rewards together bound what was earned.
    - `settings`: of `ConservativeLinearUCB`.
    """

    def __init__(self, dimension: int, *, pooled: bool = True, **settings: Any) -> None:
        super().__init__(dimension, pooled=pooled, **settings)

    def _wishes(self, phi: Floats, upper: Floats) -> Iterable[int]:
        return by_optimism(upper)


def by_optimism(upper: Floats) -> Iterable[int]:
    """The arms, the one with the largest upper bound first; ties go to the first arm."""
    return [int(arm) for arm in np.argsort(-upper, kind="stable")]
