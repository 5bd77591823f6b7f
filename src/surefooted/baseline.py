"""The policy in use today, and what is known of it."""

from dataclasses import dataclass

import numpy as np

from surefooted.errors import InvalidTable
from surefooted.policy import Policy
from surefooted.space import Floats


@dataclass(frozen=True, eq=False)
class Baseline:
    """A policy with its gain and bias (Asm. `asm:baseline`), or without: then both are estimated while it is played.

    The bias may be shifted by any constant. Both or neither must be given.
    """

    policy: Policy
    gain: float | None = None
    bias: Floats | None = None  # [S]

    def __post_init__(self) -> None:
        """Refuse what no policy could have."""
        faults, r_max = [], self.policy.space.r_max
        if self.policy.horizon is not None:
            faults.append(f"the policy has {self.policy.horizon} decision rules: an average-reward baseline has one")
        if (self.gain is None) != (self.bias is None):
            faults.append("give both gain and bias, or neither")
        if self.gain is not None and not 0 <= self.gain <= r_max:
            faults.append(f"gain {self.gain} is outside [0, {r_max:g}]: no policy could have it")
        if self.bias is not None:
            bias = np.array(self.bias, dtype=np.float64)
            if bias.shape != (self.policy.space.n_states,):
                faults.append(f"bias has shape {bias.shape}, not ({self.policy.space.n_states},)")
            elif not np.all(np.isfinite(bias)):
                faults.append("bias has entries that are not finite")
            bias.flags.writeable = False
            object.__setattr__(self, "bias", bias)
        if faults:
            raise InvalidTable("this baseline is not valid", faults)

    @property
    def is_known(self) -> bool:
        """Whether gain and bias were given."""
        return self.gain is not None
