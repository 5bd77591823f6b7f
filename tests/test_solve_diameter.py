"""Hitting times, the diameter and the worst-case diameter: closed forms, enumeration, what cannot be reached."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from surefooted.errors import InvalidInput, NotConverged
from surefooted.problems import garnet, riverswim
from surefooted.solve import diameter, distances, hitting_times, systems, worst_case_diameter
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

every_kind = pytest.mark.parametrize("kind", oracles.KINDS)
examples = settings(max_examples=60, deadline=None, derandomize=True)
tables = given(kind=st.sampled_from(oracles.KINDS), seed=st.integers(0, 10_000))


def without_rewards(rows):
    """The MDP of {(s, a): {s_next: probability}}."""
    return TabularMDP.from_pairs({pair: (0.0, row) for pair, row in rows.items()})


@pytest.mark.parametrize("there", [(0.2, 0.5), (1.0, 1e-3), (1e-9, 1e-6), (1e-12, 1e-12)])
def test_two_states_wait_for_a_geometric_time(there):
    """Jaksch et al. (2010), Fig. 3, has D = 1 / δ; a slower action makes Υ."""
    back = 0.25
    rows = {(0, a): {0: 1 - q, 1: q} for a, q in enumerate(there)} | {(1, 0): {0: back, 1: 1 - back}}
    mdp = without_rewards({pair: {y: q for y, q in row.items() if q} for pair, row in rows.items()})
    assert diameter(mdp) == pytest.approx(max(1 / max(there), 1 / back), rel=1e-12)
    assert worst_case_diameter(mdp) == pytest.approx(max(1 / min(there), 1 / back), rel=1e-12)


@pytest.mark.parametrize("n", [3, 6, 20, 60])
def test_diameter_of_the_river_is_the_way_against_the_current(n):
    times = [1 / 0.60]  # from each state to the one on its right: t = 1 + 0.05 (t' + t) + 0.60 t
    for _ in range(n - 2):
        times.append((1 + 0.05 * times[-1]) / 0.35)
    mdp = riverswim(n).mdp
    assert diameter(mdp) == pytest.approx(max(sum(times), n - 1), rel=1e-12)
    assert hitting_times(mdp, Policy.always(mdp.space, 1), n - 1)[0] == pytest.approx(sum(times), rel=1e-12)
    assert worst_case_diameter(mdp) == np.inf  # one may stay on the left bank


def test_diameter_of_the_usual_river_is_the_one_known_from_the_literature():
    assert diameter(riverswim(6).mdp) == pytest.approx(14.72, abs=0.005)


def test_a_fair_walk_of_many_states_is_solved_in_line():
    n = 5_000  # 2.5e7 steps: no iteration would end
    rows = {(s, 0): {s - 1: 0.5, s + 1: 0.5} for s in range(1, n)} | {(0, 0): {1: 1}, (n, 0): {n - 1: 1}}
    mdp = without_rewards(rows)
    times = hitting_times(mdp, Policy.always(mdp.space, 0), n)
    assert times == pytest.approx(n**2 - np.arange(n + 1.0) ** 2, rel=1e-10)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_a_fair_walk_between_a_wall_and_the_target_takes_squared_time(n):
    rows = {(s, 0): {s - 1: 0.5, s + 1: 0.5} for s in range(1, n)} | {(0, 0): {1: 1}, (n, 0): {n - 1: 1}}
    mdp = without_rewards(rows)
    times = hitting_times(mdp, Policy.always(mdp.space, 0), n)
    assert times == pytest.approx(n**2 - np.arange(n + 1) ** 2, rel=1e-12)
    assert diameter(mdp) == worst_case_diameter(mdp) == pytest.approx(n**2, rel=1e-12)


@pytest.mark.parametrize("direct", [systems.SMALL, -1])
@every_kind
@pytest.mark.parametrize("seed", range(10))
def test_diameters_are_those_of_the_fastest_and_slowest_policies(kind, seed, direct, monkeypatch):
    monkeypatch.setattr(systems, "SMALL", direct)
    monkeypatch.setattr(systems, "SHORT", direct)
    p, r, available = oracles.random_mdp(kind, seed, n_states=2 + seed % 3, n_actions=1 + seed % 2)
    mdp = TabularMDP.from_arrays(p, r, available)
    fastest, slowest = oracles.extreme_times(p, available, exactly=kind in ("slow", "near absorbing"))
    assert diameter(mdp) == pytest.approx(fastest.max(), rel=1e-8)
    assert worst_case_diameter(mdp) == pytest.approx(slowest.max(), rel=1e-8)


@every_kind
@pytest.mark.parametrize("seed", range(6))
def test_hitting_times_solve_their_linear_system(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    weights = np.random.default_rng(seed).random(available.shape) * available
    weights /= weights.sum(axis=1, keepdims=True)
    q, _ = oracles.mixed_chain(p, r, weights)
    policy = Policy.randomised(mdp.space, weights[:, : mdp.space.n_actions])
    for target in range(mdp.n_states):
        assert hitting_times(mdp, policy, target) == pytest.approx(
            oracles.hitting_times(oracles.exact(q), target), rel=1e-12
        )


@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-11, 1e-12])
@pytest.mark.parametrize("detour_first", [False, True])
def test_rare_events_do_not_hide_a_detour(eps, detour_first):
    """Each try succeeds with probability eps; after a failure one way tries again at once, the other a step later."""
    retry, detour = {0: 1 - eps, 2: eps}, {1: 1 - eps, 2: eps}
    actions = [detour, retry] if detour_first else [retry, detour]
    mdp = without_rewards({(0, 0): actions[0], (0, 1): actions[1], (1, 0): {0: 1}, (2, 0): {0: 0.5, 1: 0.5}})
    p, _, available = mdp.to_arrays()
    fastest, slowest = oracles.extreme_times(p, available, exactly=True)
    assert fastest.max() == pytest.approx(1 / eps, rel=1e-5) and slowest.max() == pytest.approx(2 / eps, rel=1e-5)
    assert diameter(mdp) == pytest.approx(fastest.max(), rel=1e-9)
    assert worst_case_diameter(mdp) == pytest.approx(slowest.max(), rel=1e-9)


def test_a_bad_first_guess_does_not_hide_a_short_way():
    """Two steps lead from any state to any other, but some policies need 1e16 of them: too many to count by ones."""
    e = 1e-8
    rows = {(0, 0): {0: 1 - e, 2: e}, (0, 1): {1: 1}, (1, 0): {0: e, 2: 1 - e}, (1, 1): {0: 1 - e, 2: e}}
    mdp = without_rewards(rows | {(2, 0): {2: 1}, (2, 1): {0: 1 - e, 1: e}})
    assert diameter(mdp) == pytest.approx(2.00000002, rel=1e-12)


@pytest.mark.parametrize("seed", [*range(8), 44, 50, 85, 250, 303])  # the last five once gave inf, or never ended
@pytest.mark.parametrize("eps", [1e-4, 1e-8, 1e-10, 1e-12])
def test_diameters_of_tables_full_of_rare_events(eps, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    p = np.zeros((n, 2, n))
    for s, a in np.ndindex(n, 2):
        usual, rare = rng.integers(n, size=2)
        p[s, a, usual] += 1 - eps
        p[s, a, rare] += eps
    fastest, slowest = oracles.extreme_times(p, np.ones((n, 2), dtype=bool), exactly=True)
    mdp = TabularMDP.from_arrays(p, np.zeros((n, 2)))
    assert diameter(mdp) == pytest.approx(fastest.max(), rel=1e-9)
    assert worst_case_diameter(mdp) == pytest.approx(slowest.max(), rel=1e-9)


@pytest.mark.parametrize(
    "rows",
    [
        {(0, 0): {0: 1}, (1, 0): {1: 1}},  # two islands
        {(0, 0): {1: 1}, (1, 0): {1: 1}},  # no way back
        {(0, 0): {0: 0.5, 1: 0.5}, (1, 0): {0: 0.5, 2: 0.5}, (2, 0): {2: 1}},  # a trap on the way
        {(0, 0): {1: 0.5, 2: 0.5}, (1, 0): {0: 1}, (2, 0): {2: 1}, (2, 1): {2: 1}},
    ],
)
def test_states_that_may_never_be_reached_make_both_infinite(rows):
    assert diameter(without_rewards(rows)) == np.inf
    assert worst_case_diameter(without_rewards(rows)) == np.inf


def test_communicating_but_not_ergodic():
    mdp = without_rewards({(s, a): {(s + a) % 4: 1} for s in range(4) for a in (0, 1)})  # one may stay anywhere
    assert diameter(mdp) == 3
    assert worst_case_diameter(mdp) == np.inf


def test_a_risky_shortcut_is_not_taken_when_it_may_end_in_a_trap():
    """The shortcut reaches state 2 in one step or the trap 3, from which it takes 100 steps on average."""
    rows = {(0, 0): {2: 0.5, 3: 0.5}, (0, 1): {1: 1}, (1, 0): {2: 1}, (2, 0): {0: 1}, (3, 0): {3: 0.99, 0: 0.01}}
    mdp = without_rewards(rows | {(2, 1): {3: 1}})
    assert diameter(mdp) == pytest.approx(102)  # out of the trap to 0, then 1, then 2
    times = hitting_times(mdp, Policy.deterministic(mdp.space, [0, 0, 0, 0]), 2)
    assert times == pytest.approx([102, 1, 0, 202])  # t = 1 + (100 + t) / 2


def test_hitting_times_are_infinite_only_where_the_target_may_be_missed():
    mdp = without_rewards({(0, 0): {1: 1}, (1, 0): {1: 1}, (2, 0): {0: 0.5, 3: 0.5}, (3, 0): {3: 1}, (4, 0): {0: 1}})
    assert hitting_times(mdp, Policy.always(mdp.space, 0), 1).tolist() == [1, 0, np.inf, np.inf, 2]


def test_a_time_that_no_double_holds_is_an_error_with_a_name():
    e = 1e-200
    mdp = without_rewards({(0, 0): {0: 1 - e, 1: e}, (1, 0): {0: 1 - e, 2: e}, (2, 0): {0: 1}})
    with pytest.raises(NotConverged, match="beyond the range of doubles"):  # 1e400 steps
        hitting_times(mdp, Policy.always(mdp.space, 0), 2)


def test_one_state_is_nowhere_far_from_itself():
    mdp = without_rewards({(0, 0): {0: 1}})
    assert diameter(mdp) == worst_case_diameter(mdp) == 0
    assert hitting_times(mdp, Policy.always(mdp.space, 0), 0).tolist() == [0]


@tables
@examples
def test_diameter_is_the_smaller_and_names_do_not_matter(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    rng = np.random.default_rng(seed)
    state, action = rng.permutation(p.shape[0]), rng.permutation(p.shape[1])
    mdp = TabularMDP.from_arrays(p, r, available)
    renamed = np.ix_(state, action)
    other = TabularMDP.from_arrays(p[np.ix_(state, action, state)], r[renamed], available[renamed])
    d, worst = diameter(mdp), worst_case_diameter(mdp)
    assert 1 <= d <= worst * (1 + 1e-9)
    assert diameter(other) == pytest.approx(d, rel=1e-8)
    assert worst_case_diameter(other) == pytest.approx(worst, rel=1e-8)


def test_no_policy_is_faster_than_the_diameter_or_slower_than_the_worst():
    mdp = garnet(25, 3, 4, seed=5).mdp
    d, worst = diameter(mdp), worst_case_diameter(mdp)
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy = Policy.deterministic(mdp.space, rng.integers(3, size=25))
        largest = max(hitting_times(mdp, policy, target).max() for target in range(25))
        assert d - 1e-9 <= largest <= worst + 1e-9


def test_progress_counts_the_targets():
    calls = []
    diameter(riverswim(4).mdp, lambda done, of: calls.append((done, of)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_does_not_fit_is_refused():
    mdp = riverswim().mdp
    for target in (-1, 6, 0.5):
        with pytest.raises(InvalidInput, match="the states are 0 to 5"):
            hitting_times(mdp, Policy.always(mdp.space, 0), target)
    with pytest.raises(InvalidInput, match="policy and MDP do not fit"):
        hitting_times(mdp, Policy.always(Space.full(3, 2), 0), 0)
    with pytest.raises(InvalidInput, match="only a stationary policy"):
        hitting_times(mdp, Policy.deterministic(mdp.space, np.zeros((2, 6), dtype=int)), 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3])
def test_times_far_beyond_the_digits_of_a_double_are_still_the_slowest(seed):
    """1e24 steps and more: no other choice in any one state takes longer, so no other policy does."""
    mdp = garnet(40, 20, 3, seed=seed).mdp
    each = [distances._extreme_times(mdp, target, -1, None) for target in range(40)]
    slowest, pair = max(each, key=lambda found: found[0].max())
    assert slowest.max() > 1e24 and worst_case_diameter(mdp) == pytest.approx(slowest.max(), rel=1e-9)
    target = int(np.argmin(slowest))
    for k in range(mdp.space.n_pairs):
        other = pair.copy()
        other[mdp.space.pair_state[k]] = k
        assert hitting_times(mdp, Policy(mdp.space, pair=other), target).max() <= slowest.max() * (1 + 1e-9)
