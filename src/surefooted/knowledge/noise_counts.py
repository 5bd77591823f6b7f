"""What was observed of the noise of steps, for mechanics whose noise is reported with each step."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import Ints, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.knowledge.mechanics import Mechanics, NoiseValue


class NoiseCounts:
    """How often each value of each law was drawn, for mechanics that observe their noise.

    `values[l]` is an array [sizes[l]]. Add every step: leaving out steps because of their noise would bias the laws.
    """

    def __init__(self, mechanics: Mechanics) -> None:
        self.mechanics = mechanics
        self.values = tuple(np.zeros(size, dtype=np.int64) for size in mechanics.sizes)

    def add(self, k: int, xi: NoiseValue) -> None:
        """The noise of one step of pair k."""
        self.add_steps(np.array([k]), np.atleast_2d(np.asarray(xi)))

    def add_steps(self, pairs: ArrayLike, noise: ArrayLike) -> None:
        """The noise [n, C] (or [n], if it has one component) of many steps; nothing changes if one is impossible."""
        law, xi = self.check(pairs, noise)
        for i, values in enumerate(self.values):
            values += np.bincount(xi[law == i], minlength=values.size)

    def remove(self, k: int, xi: NoiseValue) -> None:
        """Take back the noise of one step of pair k that was counted by mistake."""
        law, value = self.check(np.array([k]), np.atleast_2d(np.asarray(xi)))
        for i, v in zip(law[0].tolist(), value[0].tolist(), strict=True):
            if not self.values[i][v]:
                raise InvalidInput("this noise cannot be removed", [f"law {i} never had the value {v}"])
            self.values[i][v] -= 1

    def check(self, pairs: ArrayLike, noise: ArrayLike) -> tuple[Ints, Ints]:
        """The laws and the values of the noise of steps, [n, C] each; an error if one is impossible."""
        faults: list[str] = []
        k, xi = whole_numbers("pairs", pairs, faults), whole_numbers("noise", noise, faults)
        xi = xi[:, None] if xi.ndim == 1 else xi
        space, C = self.mechanics.space, self.mechanics.n_components
        if not faults and (k.ndim != 1 or xi.shape != (k.size, C)):
            faults.append(f"pairs have shape {k.shape}, noise {xi.shape}; they must be [n] and [n, {C}]")
        if not faults:
            lost = (k < 0) | (k >= space.n_pairs)
            faults += [f"step {i}: there is no pair {k[i]}" for i in np.flatnonzero(lost)]
        if not faults:
            law = self.mechanics.law[k]
            most = np.array(self.mechanics.sizes)[law]
            for i, c in np.argwhere((xi < 0) | (xi >= most)):
                faults.append(f"step {i}: component {c} is {xi[i, c]}; its values are 0 to {most[i, c] - 1}")
        if faults:
            raise InvalidInput("this noise cannot be counted", faults)
        return law, xi

    def state_dict(self) -> dict[str, Any]:
        """Everything, as arrays; `from_state_dict` continues from it exactly."""
        return {"noise_values": np.concatenate(self.values)}

    @classmethod
    def from_state_dict(cls, mechanics: Mechanics, state: Mapping[str, Any]) -> Self:
        """The counts that `state_dict` described."""
        counts, flat = cls(mechanics), np.asarray(state["noise_values"])
        if flat.shape != (sum(mechanics.sizes),):
            raise InvalidInput("counts of other mechanics", [f"{flat.size} values for laws of sizes {mechanics.sizes}"])
        for values, part in zip(counts.values, np.split(flat, np.cumsum(mechanics.sizes)[:-1]), strict=True):
            values[:] = part
        return counts
