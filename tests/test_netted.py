"""How much more a policy earns than the baseline in one plausible MDP: an oracle, every MDP of the set, by hand."""

import numpy as np
import pytest

import oracles
import surefooted as sf
from surefooted.certificates.netted import Netted, split
from surefooted.kernels import netted as kernels
from surefooted.planning import policy_values
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from test_robust import both, forms, plausible


def some_policies(space, horizon, rng):
    """Two policies that choose alike in some places, deterministic, randomised or one rule for each stage."""
    first = np.diff(space.pair_ptr)

    def one():
        if rng.random() < 0.4:
            return Policy.of_pairs(space, space.pair_ptr[:-1] + rng.integers(0, first, (horizon, space.n_states)))
        weights = rng.random((horizon, space.n_pairs)) * (rng.random((horizon, space.n_pairs)) < 0.7) + 1e-9
        return Policy(space, weights=weights / np.repeat(np.add.reduceat(weights, space.pair_ptr[:-1], 1), first, 1))

    policy, baseline = one(), one()
    alike = rng.random((horizon, space.n_states))[:, space.pair_state] < 0.5
    return policy, Policy(space, weights=np.where(alike, policy.dense_weights, baseline.dense_weights))


def by_definition(known, policy, baseline, horizon, kappa, low, high):
    """Bounds on V and V - κ V^b of every stage by linear programs, one row at a time."""
    space, S = known.space, known.space.n_states
    pi, b = (np.broadcast_to(p.dense_weights, (horizon, space.n_pairs)) for p in (policy, baseline))
    values, net = np.zeros((2, horizon + 1, S))
    for h in reversed(range(horizon)):
        for s in range(S):
            own, gained = 0.0, 0.0
            for k in range(space.pair_ptr[s], space.pair_ptr[s + 1]):
                row, m = oracles.row_set(known, k), min(pi[h, k], b[h, k])
                q = known.r_lower[k] + oracles.extreme_mean(row, values[h + 1], -1)
                shared = (1 - kappa) * known.r_lower[k] + oracles.extreme_mean(row, net[h + 1], -1)
                theirs = known.r_upper[k] + oracles.extreme_mean(row, high[h + 1], 1)
                own += pi[h, k] * q
                gained += m * shared + (pi[h, k] - m) * q - kappa * (b[h, k] - m) * theirs
            values[h, s] = max(own, kappa * low[h, s] + gained)
            net[h, s] = max(gained, values[h, s] - kappa * high[h, s])
    return values, net


def an_mdp(known, rng):
    """A corner of the set, or a point between two: rows [K, S] and rewards [K]."""
    K, S = known.space.n_pairs, known.space.n_states
    p, share = np.empty((K, S)), rng.random() * rng.integers(0, 2)
    for k in range(K):
        (kind, low, high), ends = oracles.row_set(known, k), []
        for _ in range(2):
            if kind == "ball":
                corners = oracles.row_vertices((kind, low, high))
                ends.append(corners[rng.integers(len(corners))])
                continue
            row, rest = low.copy(), 1 - low.sum()
            for y in rng.permutation(S):
                more = min(high[y] - low[y], rest)
                row[y], rest = row[y] + more, rest - more
            ends.append(row)
        p[k] = share * ends[0] + (1 - share) * ends[1]
    r = np.where(rng.random(K) < 0.5, known.r_lower, known.r_upper)
    return p, share * (known.r_lower + known.r_upper) / 2 + (1 - share) * r


def value(p, r, space, policy, horizon):
    """V_1 [S] of a policy in an MDP of these rows."""
    weights, v = np.broadcast_to(policy.dense_weights, (horizon, space.n_pairs)), np.zeros(space.n_states)
    for h in reversed(range(horizon)):
        v = np.add.reduceat(weights[h] * (r + p @ v), space.pair_ptr[:-1])
    return v


@forms
@pytest.mark.parametrize("kappa", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_are_what_their_definition_says(form, seed, kappa):
    rng, known = np.random.default_rng(seed), plausible(form, seed)[0]
    policy, baseline = some_policies(known.space, 3, rng)
    netted = Netted(known, baseline, 3)
    found = netted.compare(policy, kappa)
    values, net = by_definition(known, policy, baseline, 3, kappa, netted.low, netted.high)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.net, net, rtol=0, atol=1e-10)


@forms
@pytest.mark.parametrize("seed", range(20))
def test_no_bound_is_above_any_mdp_of_the_set(form, seed):
    rng, known, H = np.random.default_rng(seed), plausible(form, seed, n_states=3)[0], 4
    policy, baseline = some_policies(known.space, H, rng)
    netted, gap = Netted(known, baseline, H), []
    for _ in range(40):
        p, r = an_mdp(known, rng)
        ours, theirs = (value(p, r, known.space, one, H) for one in (policy, baseline))
        assert np.all(netted.low[0] <= theirs + 1e-9) and np.all(netted.high[0] >= theirs - 1e-9)
        for kappa in (0.0, 0.6, 1.0):
            found = netted.compare(policy, kappa)
            assert np.all(found.values[0] <= ours + 1e-9)
            assert np.all(found.net[0] <= ours - kappa * theirs + 1e-9)
            told = Netted(known, baseline, H, theirs).compare(policy, kappa)  # the values of the starts are declared
            assert np.all(told.net[0] <= ours - kappa * theirs + 1e-9)
        gap.append(ours - theirs - netted.compare(policy).net[0])
    assert np.min(gap) < 1.5  # some MDP comes near


@pytest.mark.parametrize("seed", range(10))
def test_in_one_mdp_the_bound_is_exact(seed):
    rng = np.random.default_rng(seed)
    p, r, available = oracles.random_mdp("sparse", seed)
    mdp = sf.TabularMDP.from_arrays(p, r, available=available)
    policy, baseline = some_policies(mdp.space, 5, rng)
    ours, theirs = (sf.solve.policy_values(mdp, one, 5) for one in (policy, baseline))
    netted = Netted(Plausible.exactly(mdp), baseline, 5)
    for kappa in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(netted.compare(policy, kappa).net, ours - kappa * theirs, rtol=0, atol=1e-12)
    after = netted.preceded(netted.compare(policy), 2)
    leaves = Policy(mdp.space, weights=np.concatenate([baseline.dense_weights[:2], policy.dense_weights[2:]]))
    np.testing.assert_allclose(after.net, sf.solve.policy_values(mdp, leaves, 5) - theirs, rtol=0, atol=1e-12)


@forms
@pytest.mark.parametrize("seed", range(10))
def test_a_policy_that_is_the_baseline_loses_nothing_however_little_is_known(form, seed):
    known = plausible(form, seed)[0]
    _, baseline = some_policies(known.space, 4, np.random.default_rng(seed))
    assert not np.any(Netted(known, baseline, 4).compare(baseline).net)


def test_by_hand():
    """Two states. Both walk 0 -> 1 with a probability in [.2, 1]; in 1 one earns [.5, .6], the other [0, .9]."""
    space = sf.Space.full(n_states=2, n_actions=2)
    ptr, states = np.array([0, 2, 4, 5, 6]), np.array([0, 1, 0, 1, 1, 1])
    low, high = np.array([0.0, 0.2, 0.0, 0.2, 1.0, 1.0]), np.array([0.8, 1.0, 0.8, 1.0, 1.0, 1.0])
    lower, upper = np.array([0.0, 0.0, 0.5, 0.0]), np.array([1.0, 1.0, 0.6, 0.9])
    known = Plausible(space, lower, upper, ptr, states, low, high, np.zeros(4))
    ours, theirs = Policy.always(space, 0), Policy.deterministic(space, [0, 1])
    net = Netted(known, theirs, 2).compare(ours).net
    assert net[:, 1].tolist() == pytest.approx([-0.8, -0.4, 0.0])  # 2 x (.5 - .9)
    assert net[0, 0] == pytest.approx(-0.4)  # the reward of state 0, though unknown, is the same; at worst it walks
    apart = policy_values(known, ours, 2)[0, 0] - policy_values(known, theirs, 2, "optimistic")[0, 0]
    assert apart == pytest.approx(0.2 * 0.5 - 1 - (0.2 * 0.9 + 0.8 * 1))


@both(kernels.net_stages)
def test_compiled_and_as_plain_python(kernel, monkeypatch):
    known = plausible("box", 3)[0]
    policy, baseline = some_policies(known.space, 3, np.random.default_rng(3))
    monkeypatch.setattr(kernels, "net_stages", kernel)
    netted = Netted(known, baseline, 3)
    _, net = by_definition(known, policy, baseline, 3, 0.5, netted.low, netted.high)
    np.testing.assert_allclose(netted.compare(policy, 0.5).net, net, rtol=0, atol=1e-10)


def test_the_parts_of_two_policies_add_up_to_them():
    space = sf.Space.full(n_states=3, n_actions=3)
    policy, baseline = some_policies(space, 2, np.random.default_rng(0))
    parts = split(policy, baseline)
    np.testing.assert_allclose(parts.both + parts.more, policy.dense_weights)
    np.testing.assert_allclose(parts.both + parts.less, baseline.dense_weights)
    assert not np.any(parts.more * parts.less)
