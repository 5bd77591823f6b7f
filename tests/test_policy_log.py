"""The log of a run's policies: same answers as a list, whatever is kept as a difference."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from surefooted import Policy, Space
from surefooted.agents.identity import fingerprint
from surefooted.codec import decode, encode
from surefooted.tables import policy_log
from surefooted.tables.policy_log import CHAIN, OPEN, PolicyLog


def wandering(space, n, seed=0):
    """Policies, each a few states away from the one before; some come back, one is randomised."""
    rng, pair = np.random.default_rng(seed), np.arange(space.n_states) * space.n_actions
    policies = [Policy._of_pairs(space, pair)]
    for i in range(n):
        for s in rng.integers(space.n_states, size=rng.integers(1, 4)):
            pair[s] = s * space.n_actions + rng.integers(space.n_actions)
        policies.append(Policy._of_pairs(space, pair) if i % 7 else policies[rng.integers(len(policies))])
        if i == n // 2:
            policies.append(Policy.uniform(space))
    return policies


@pytest.mark.parametrize("whole", [0, 500, 1 << 26])
def test_a_log_is_a_list_of_distinct_policies(whole):
    space = Space.full(30, 3)
    log, distinct = PolicyLog(whole=whole), []
    for policy in wandering(space, 200):
        known = policy in distinct
        assert log.find(policy) == (distinct.index(policy) if known else None)
        if not known:
            distinct.append(policy)
        assert log.id_of(policy) == distinct.index(policy) == log.find(policy)
    assert len(log) == len(distinct) and list(log) == distinct
    assert log[-1] == distinct[-1] and log[3:9:2] == distinct[3:9:2]
    with pytest.raises(IndexError):
        log[len(log)]


def test_a_copy_is_on_its_own_and_survives_pickling():
    space = Space.full(12, 2)
    policies = wandering(space, 60)
    log = PolicyLog(policies[:20], whole=0)
    size, other = len(log), pickle.loads(pickle.dumps(log.copy()))
    for policy in policies:
        other.id_of(policy)
    assert len(log) == size and list(other)[:size] == list(log)
    assert [other.id_of(policy) for policy in policies] == [PolicyLog(policies).id_of(policy) for policy in policies]


@pytest.mark.parametrize("whole", [0, 500, 1 << 26])
def test_the_first_policies_of_a_log_are_a_log(whole):
    policies = wandering(Space.full(12, 2), 60)
    log = PolicyLog(policies, whole=whole)
    for n in (0, 1, 7, len(log)):
        first = log.first(n)
        assert list(first) == list(log)[:n]
        assert [first.id_of(policy) for policy in log] == list(range(len(log)))  # the others are new to it
        assert list(first) == list(log)


def test_long_chains_are_broken_and_memory_stays_small():
    space = Space.full(1_000, 2)
    pair, log = np.arange(1_000) * 2, PolicyLog(whole=0)
    for i in range(3_000):  # a counter in binary: all distinct
        for bit in range(12):
            pair[bit] = 2 * bit + (i >> bit & 1)
        log.id_of(Policy._of_pairs(space, pair))
    kept_whole = sum(isinstance(kept, Policy) for kept in log._kept)
    assert len(log) == 3_000 and kept_whole == 3_000 / CHAIN
    for i in (0, 1, 999, 1_000, 1_001, 2_999):
        assert sum((int(log[i].pair[bit]) - 2 * bit) << bit for bit in range(12)) == i


def test_a_log_knows_its_policies_in_another_process(tmp_path):
    """Hashes of bytes differ from process to process; a log that was saved must not depend on them."""
    space = Space.full(12, 2)
    policies = wandering(space, 30)
    (tmp_path / "log.pickle").write_bytes(pickle.dumps((PolicyLog(policies), policies)))
    code = (
        "import pickle; log, all = pickle.load(open('log.pickle', 'rb')); assert None not in map(log.find, all[::-1])"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": seed}, check=True
        )


def staged(space, horizon, n, seed=0):
    """Policies of several rules, each a few places away from the one before; some come back, one is randomised."""
    rng, pair = np.random.default_rng(seed), np.tile(np.arange(space.n_states) * space.n_actions, (horizon, 1))
    policies = [Policy._of_pairs(space, pair)]
    for i in range(n):
        for h, s in zip(rng.integers(horizon, size=2), rng.integers(space.n_states, size=2), strict=True):
            pair[h, s] = s * space.n_actions + rng.integers(space.n_actions)
        policies.append(Policy._of_pairs(space, pair) if i % 7 else policies[rng.integers(len(policies))])
        if i == n // 2:
            policies.append(Policy.uniform(space))
    return policies


@pytest.mark.parametrize("whole", [0, 4_000, 1 << 26])
def test_policies_of_several_rules_are_stored_as_differences_too(whole):
    space, horizon = Space.full(30, 3), 4
    log, distinct = PolicyLog(whole=whole, horizon=horizon), []
    for policy in staged(space, horizon, 300):
        if policy not in distinct:
            distinct.append(policy)
        assert log.id_of(policy) == distinct.index(policy) == log.find(policy)
    assert list(log) == distinct and [log[i] for i in range(len(log))][::-1] == distinct[::-1]
    assert any(isinstance(kept, tuple) for kept in log.stored) == (whole < 1 << 26)
    for n in (0, 1, 7, len(log)):
        assert list(log.first(n)) == distinct[:n]
    again = decode(encode(log))
    assert list(again) == distinct and again.horizon == horizon
    assert fingerprint(again) == fingerprint(log)  # it is stored as it was


def test_one_rule_for_all_stages_is_that_many_equal_rules():
    space, horizon = Space.full(3, 2), 4
    one, mixed = Policy.always(space, 1), Policy.uniform(space)
    each = Policy._of_pairs(space, np.tile(one.pair, (horizon, 1)))
    for first, second in ((one, each), (each, one)):
        log = PolicyLog([first, mixed], horizon=horizon)
        assert log.find(second) == 0 and log.id_of(second) == 0 and len(log) == 2
        assert log.find(Policy(space, weights=np.tile(mixed.weights, (horizon, 1)))) == 1
        assert log.find(Policy._of_pairs(space, np.tile(one.pair, (horizon - 1, 1)))) is None
    assert PolicyLog([one]).find(each) is None  # without a horizon they differ


def test_a_policy_that_differs_in_most_states_is_stored_completely():
    space = Space.full(10, 2)
    pair, log = np.arange(10) * 2, PolicyLog(whole=0)
    for changed in ([], [0, 1], [0, 1, 2, 3, 4], [5]):
        pair[changed] ^= 1
        log.id_of(Policy._of_pairs(space, pair))
    assert [isinstance(kept, Policy) for kept in log.stored] == [True, False, True, False]


def test_policies_that_are_open_are_few():
    space = Space.full(12, 2)
    log = PolicyLog(wandering(space, 300), whole=0)
    expected = list(log)
    for i in np.random.default_rng(0).integers(len(log), size=200).tolist():
        assert log[i] == expected[i]
    assert len(log._open) == OPEN


def test_policies_whose_keys_collide_are_told_apart(monkeypatch):
    monkeypatch.setattr(policy_log, "_hash", lambda key: 7)
    policies = wandering(Space.full(12, 2), 60)
    log, distinct = PolicyLog(whole=0), []
    for policy in policies:
        if policy not in distinct:
            distinct.append(policy)
        assert log.id_of(policy) == distinct.index(policy)
    assert list(log) == distinct
