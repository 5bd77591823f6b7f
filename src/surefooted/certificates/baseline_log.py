"""Which steps of a log tell what an unknown baseline earns."""

import numpy as np

from surefooted.kernels.structs import Steps
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space


def own_steps(baseline: Baseline, steps: Steps) -> Steps:
    """The steps of a log, in order, that count as the baseline's; none if it cannot be told.

    Whoever chose it, a step that a deterministic baseline would have played is as good as its own: given state and
    action, the outcome is a fresh draw. A randomised one must have played the whole log, which `Baseline.from_history`
    declares. A policy that was read off a log was chosen after its rewards were seen, so that these prove nothing.
    """
    ours = baseline.policy.dense_weights[steps.pairs] > 0
    declared = baseline.history is not None and bool(ours.all())
    if baseline.read_off or not (baseline.policy.is_deterministic or declared):
        ours[:] = False
    return Steps(steps.pairs[ours], steps.rewards[ours], steps.next_states[ours])


def bounds_its_gain(baseline: Baseline) -> bool:
    """Whether the rewards of its log, one after the other, can bound the gain of a baseline."""
    if baseline.is_known or baseline.history is None or baseline.history.in_order is None:
        return False
    return len(own_steps(baseline, baseline.history.in_order).pairs) > 0


def log_faults(space: Space, policy: Policy, start: int, pairs: Ints, rewards: Floats, next_states: Ints) -> list[str]:
    """Why the baseline cannot have played these pairs one after the other from `start`."""
    if not len(pairs) == len(rewards) == len(next_states):
        return [f"{len(pairs)} pairs, {len(rewards)} rewards, {len(next_states)} next states"]
    pairs, states = np.asarray(pairs), np.r_[start, np.asarray(next_states)]
    faults = [f"there is no state {s}" for s in np.unique(states) if not 0 <= s < space.n_states]
    faults += [f"there is no pair {k}" for k in np.unique(pairs) if not 0 <= k < space.n_pairs]
    if faults:
        return faults
    jumps = np.flatnonzero(space.pair_state[pairs] != states[:-1])
    never = np.flatnonzero(policy.dense_weights[pairs] <= 0)
    faults += [f"step {jumps[0] + 1} does not begin where the one before ended"] if jumps.size else []
    return faults + ([f"step {never[0] + 1} is none that the baseline plays"] if never.size else [])
