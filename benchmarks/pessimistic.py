"""How long it takes to bound what 1, 10 and 100 policies earn at the least, as a review of the past does.

Average reward: `planning.policy_gains` to 1e-3. Finite horizon (H = 20): `EpisodicLearner.bound`, all
policies in one call. Boxes (`simplified_bernstein`) after 2 000 samples per pair, since after 50 the worst is to earn
nothing; random policies. Beside it the same with NumPy on dense arrays. Both are checked equal first.
"""

from typing import Any

import numpy as np
from cases import Case, Sampled, scattered
from evi import Dense
from measure import Table, at_once, beside_limit, machine, race, ratio

import surefooted as sf
from surefooted import planning

EPSILON, HORIZON, VISITS = 1e-3, 20, 2_000
LARGE = 50_000  # policies x states that NumPy is spared


def numpy_backup(dense: Dense, r: Any, pairs: Any, v: Any) -> Any:
    """The pessimist's L v of the policy that plays `pairs` [S]."""
    order = np.argsort(v)
    low = dense.low[pairs]
    filled = np.minimum(np.cumsum(dense.room[pairs][:, order], axis=1), 1.0 - low.sum(axis=1, keepdims=True))
    return r[pairs] + low @ v + np.diff(filled, axis=1, prepend=0.0) @ v[order]


def numpy_gain(dense: Dense, r: Any, pairs: Any) -> float:
    """The pessimistic gain of one policy."""
    v = np.zeros(pairs.shape[-1])
    while True:
        change = numpy_backup(dense, r, pairs, v) - v
        if np.ptp(change) <= EPSILON:
            return float((change.max() + change.min()) / 2)
        v = v + 0.9 * change


def numpy_values(dense: Dense, r: Any, pairs: Any) -> Any:
    """The pessimistic values [S] of a policy `pairs` [H, S]."""
    v = np.zeros(pairs.shape[-1])
    for rule in pairs[::-1]:
        v = numpy_backup(dense, r, rule, v)
    return v


def questions(case: Case, many: int) -> dict[str, Any]:
    """What is asked of so many random policies: the bytes of the rows they play, and how ours and NumPy answer.

    One of the policies is checked equal.
    """
    sampled, rng = Sampled(case, VISITS), np.random.default_rng(2)
    plausible, space = sampled.boxes(), case.space
    dense, r = Dense(case, plausible), plausible.r_lower
    learner = sf.UCBVI(space, HORIZON, confidence=sf.confidence.simplified_bernstein)
    learner.counts.merge(sampled.counts())
    rules = rng.integers(case.n_actions, size=(many, HORIZON, case.n_states))
    staged = [sf.Policy.deterministic(space, rule) for rule in rules]
    fixed = [sf.Policy.deterministic(space, rule[0]) for rule in rules]
    agree(planning.policy_gain(plausible, fixed[0], EPSILON).gain, numpy_gain(dense, r, fixed[0].pair), EPSILON)
    agree(learner.bound(staged)[0], numpy_values(dense, r, staged[0].pair), 1e-9)
    lengths = np.diff(plausible.next_ptr)
    rows = {
        "average reward": np.concatenate([policy.pair for policy in fixed]),
        "finite horizon": np.concatenate([policy.pair.ravel() for policy in staged]),
    }
    sizes = {criterion: int(24 * lengths[played].sum() + 40 * played.size) for criterion, played in rows.items()}
    return {
        "average reward": (
            sizes["average reward"],
            lambda: planning.policy_gains(plausible, fixed, EPSILON),
            lambda: [numpy_gain(dense, r, policy.pair) for policy in fixed],
        ),
        "finite horizon": (
            sizes["finite horizon"],
            lambda: learner.bound(staged),
            lambda: [numpy_values(dense, r, policy.pair) for policy in staged],
        ),
    }


def main() -> None:
    print(machine())
    columns = (("case", 8), ("criterion", 14), ("policies", 8), ("ours s", 9), ("us each", 8), ("NumPy s", 8))
    table = Table(*columns, ("ratio", 7), ("limit s", 8), ("of limit", 8))
    for case in (scattered(121, 4), scattered(500, 10)):
        for many in (1, 10, 100):
            for criterion, (size, ours, theirs) in questions(case, many).items():
                contestants = {"ours": at_once(ours)}
                if many * case.n_states < LARGE:
                    contestants["NumPy"] = at_once(theirs)
                best = race(contestants)
                cells = (best.get("NumPy", "-"), ratio(best.get("NumPy"), best["ours"]))
                limit = beside_limit(best["ours"], size)
                table.row(case.name, criterion, many, best["ours"], 1e6 * best["ours"] / many, *cells, *limit)


def agree(ours: Any, theirs: Any, tolerance: float) -> None:
    if np.abs(ours - theirs).max() > tolerance:
        raise SystemExit(f"NumPy disagrees by {np.abs(ours - theirs).max()}")


if __name__ == "__main__":
    main()
