"""The log of a run's policies: same answers as a list, whatever is kept as a difference."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from surefooted import Policy, Space
from surefooted.tables.policy_log import PolicyLog


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
    assert len(log) == 3_000 and kept_whole == 3
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
