"""Dynamics that depend on the stage of an episode: one table for each stage."""

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from surefooted.arrays import freeze
from surefooted.errors import InvalidInput
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats, Ints, Space

T = TypeVar("T", bound=np.generic)


class StagedMDP:
    """A finite-horizon MDP with p_h and r_h: a table for each stage, with the same pairs and the same noise.

    >>> import surefooted as sf
    >>> early, late = sf.problems.garnet(seed=1).mdp, sf.problems.garnet(seed=2).mdp
    >>> mdp = sf.StagedMDP([early, early, late])
    >>> sf.solve.optimal_values(mdp, horizon=3).values.shape
    (4, 50)

    `next_ptr`, `next_state`, `p` and `r` hold all stages, one after the other: pair k of stage h is row h K + k.

    - `tables`: the table of each stage, [H].
    """

    def __init__(self, tables: Sequence[TabularMDP]) -> None:
        faults = [] if tables else ["there is no stage"]
        for h, table in enumerate(tables[1:], 1):
            if table.space != tables[0].space:
                faults.append(f"stage {h} is on {table.space}, stage 0 on {tables[0].space}")
            if table.noise != tables[0].noise:
                faults.append(f"stage {h} has {table.noise}, stage 0 {tables[0].noise}")
        if faults:
            raise InvalidInput("these stages do not fit together", faults)
        self.tables = tuple(tables)

    @property
    def space(self) -> Space:
        """The state–action pairs."""
        return self.tables[0].space

    @property
    def noise(self) -> Noise:
        """How rewards deviate from their means."""
        return self.tables[0].noise

    @property
    def stages(self) -> int:
        """H."""
        return len(self.tables)

    @property
    def n_states(self) -> int:
        """S."""
        return self.space.n_states

    @property
    def r_max(self) -> float:
        """The largest reward, counted from `low`."""
        return self.space.r_max

    def stage(self, h: int) -> TabularMDP:
        """The dynamics of stage h."""
        return self.tables[h if self.stages > 1 else 0]

    @cached_property
    def next_ptr(self) -> Ints:
        """[H K + 1]."""
        sizes = np.concatenate([np.diff(table.next_ptr) for table in self.tables])
        return _joined([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])

    @cached_property
    def next_state(self) -> Ints:
        """[nnz of all stages]."""
        return _joined([table.next_state for table in self.tables])

    @cached_property
    def p(self) -> Floats:
        """[nnz of all stages]."""
        return _joined([table.p for table in self.tables])

    @cached_property
    def r(self) -> Floats:
        """[H K]."""
        return _joined([table.r for table in self.tables])

    @cached_property
    def r_counted(self) -> Floats:
        """The mean rewards, counted from `low`, [H K]."""
        return _joined([table.r_counted for table in self.tables])


def _joined(arrays: Sequence[NDArray[T]]) -> NDArray[T]:
    """The arrays one after the other, frozen as those of one table are: kernels are compiled for one kind."""
    joined: NDArray[T] = np.concatenate(arrays)
    freeze(joined)
    return joined


Dynamics = TabularMDP | StagedMDP
