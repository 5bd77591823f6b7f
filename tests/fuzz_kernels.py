"""Hostile arguments to everything public that reaches a kernel: `python tests/fuzz_kernels.py SEED CALLS`.

`tests/test_fuzz.py` runs it in a process of its own with NUMBA_BOUNDSCHECK=1, where a kernel that reads or writes
beyond an array raises an IndexError. A call must succeed or raise a clear error: SurefootedError, TypeError or
ValueError. Prints the number of calls, and of those that were refused.
"""

import sys

import numpy as np

import surefooted as sf
from surefooted import planning
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates.martingale import SumOfMeans
from surefooted.errors import SurefootedError
from surefooted.kernels.structs import Table
from surefooted.sets.plausible import Plausible

SPACE = sf.Space.from_available([[True, True], [True, False], [True, True]])
K, S, H = SPACE.n_pairs, SPACE.n_states, 3
POLICY = sf.Policy(SPACE, pair=np.array([0, 2, 3]))
DRIFT = sf.Mechanics.of(SPACE, lambda s, a, xi: (s + xi) % S, 2, observed=True)
CLEAR = (SurefootedError, TypeError, ValueError)


class Hostile:
    """Draws arguments: some right, most of them wrong in one way or another."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one_of(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def number(self):
        huge = (1 << 62, -(1 << 62), 1e300, 1 << 70)
        return self.one_of(0, 1, 2, 3, -1, 7, 10**6, 0.5, 1.7, np.nan, np.inf, -np.inf, None, "1", True, 1j, *huge)

    def array(self, n, top):
        """About n numbers, about below `top`."""
        n = max(0, n + self.one_of(0, 0, 0, 0, -1, 1, 5, -n))
        values = self.rng.integers(0, max(top, 1), size=n).astype(
            self.one_of(np.int64, np.float64, np.int32, np.uint64)
        )
        for _ in range(self.one_of(0, 0, 1, 2) if n else 0):
            bad = self.one_of(-1, top, top + 10**7, 0.5, np.nan, np.inf, -(2**62), 2**62)
            if values.dtype.kind != "f":
                bad = int(bad) if np.isfinite(bad) else 0
                values = values.astype(np.int64)
            values[int(self.rng.integers(n))] = bad
        shape = self.one_of(None, None, None, None, None, (1, n), (n, 1))
        return self.one_of(values, values, values.tolist(), values if shape is None else values.reshape(shape))

    def column(self, n, top):
        """n whole numbers below `top`, most of the time."""
        return self.array(n, top) if self.rng.random() < 0.4 else self.rng.integers(0, top, size=n)

    def shares(self, n, scale=1.0):
        values = self.rng.random(n) * scale
        return (
            values
            if self.rng.random() < 0.7
            else np.where(self.rng.random(n) < 0.3, self.one_of(np.nan, -1, 2), values)
        )


def counts_state(h):
    counts = sf.Counts(SPACE)
    n = int(h.rng.integers(1, 30))
    counts.add_steps(h.rng.integers(0, K, size=n), h.rng.random(n), h.rng.integers(0, S, size=n))
    state = counts.state_dict()
    for _ in range(h.one_of(0, 1, 1, 2)):
        name = h.one_of(*state)
        if isinstance(state[name], np.ndarray):
            state[name] = h.one_of(h.array(state[name].size, S), _touched(h, state[name]))
        else:
            state[name] = h.number()
    return state


def _touched(h, array):
    array = array.copy()
    if array.size:
        with np.errstate(all="ignore"):
            array.flat[int(h.rng.integers(array.size))] = h.one_of(-1, 1 << 40, 0, 9)
    return array


def use_counts(h):
    counts = sf.Counts.from_state_dict(SPACE, counts_state(h))
    counts.add_steps(h.column(4, K), h.shares(4), h.column(4, S))
    counts.merge(sf.Counts.from_state_dict(SPACE, counts_state(h)))
    planning.optimistic_gain(sf.confidence.likelihood(counts, 0.1), 0.1, most=20)


def add_steps(h):
    sf.Counts(SPACE, stages=h.one_of(1, 2)).add_steps(h.column(4, K), h.shares(4), h.column(4, S))


def add_history(h):
    sf.Counts(SPACE).add_history(h.column(4, S), h.column(4, 1), h.shares(4), h.column(4, S))


def own_set(h):
    sizes = h.rng.integers(0, S + 1, size=K)
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    state = np.concatenate([h.rng.permutation(S)[:n] for n in sizes]) if ptr[-1] else np.zeros(0, dtype=np.int64)
    low, nnz = h.shares(K), int(ptr[-1])
    if h.rng.random() < 0.4:
        ptr = h.array(K + 1, nnz + 1)
    if h.rng.random() < 0.4:
        state = h.array(nnz, S)
    p = h.shares(nnz, 0.3)
    rows = (ptr, state, p, h.one_of(p, p + 0.7, h.shares(nnz)), h.one_of(np.ones(K), h.shares(K), h.array(K, 2)))
    width = h.one_of(None, None, h.shares(K))
    plausible = Plausible(
        SPACE, low, h.one_of(low, low + 0.1, h.shares(K)), *rows, width, h.one_of(1, 1, 2, h.number())
    )
    planning.optimistic_gain(
        plausible, h.one_of(0.1, h.number()), h.one_of(None, h.array(S, 2)), h.one_of(9, h.number())
    )
    planning.policy_gain(plausible, own_policy(h), 0.1, h.one_of("optimistic", "pessimistic", "x"), most=20)
    planning.policy_values(plausible, own_policy(h), h.one_of(H, h.number()))
    planning.optimistic_values(plausible, h.one_of(H, h.number()))


def own_policy(h):
    shape = h.one_of((S,), (S,), (H, S))
    pairs = np.array([h.one_of(0, 1), 2, h.one_of(3, 4)])
    pair = np.broadcast_to(pairs, shape) if h.rng.random() < 0.7 else h.array(S, K)
    return h.one_of(sf.Policy.of_pairs, lambda space, pair: sf.Policy(space, pair=pair))(SPACE, pair)


def policies(h):
    policy = own_policy(h)
    sf.solve.gain_and_bias(MDP, policy)
    sf.solve.policy_values(MDP, policy, h.one_of(H, 2, h.number()))


def drawn(h):
    sizes = np.full(K, 2)
    table = Table(
        np.concatenate([[0], np.cumsum(sizes)]),
        h.column(2 * K, S),
        h.one_of(np.full(2 * K, 0.5), h.shares(2 * K)),
        h.shares(K),
    )
    planning.sampled_gain(SPACE, table, h.one_of(0.1, h.number()))


def live(h):
    make = h.one_of(
        lambda: sf.UCRL2(SPACE),
        lambda: sf.CUCRL2(SPACE, baseline=sf.Baseline(POLICY, 0.3, np.zeros(S)), alpha=0.5, condition="decisions"),
        lambda: sf.CUCBVI(SPACE, H, baseline=sf.Baseline(POLICY), alpha=0.5),
        lambda: sf.UCRL2(SPACE, knowledge=sf.Knowledge(SPACE, mechanics=DRIFT)),
    )
    agent = make()
    agent.begin(h.one_of(0, 1, h.number()))
    s = agent.state
    for _ in range(4):
        a = agent.act(s).action
        noise = (h.one_of(0, 1, h.number()),) if agent.learner.belief.noise is not None else ()
        s_next = h.one_of(0, 1, 2, h.number())
        agent.observe(
            h.one_of(s, s, h.number()), h.one_of(a, a, a, h.number()), h.one_of(0.5, h.number()), s_next, *noise
        )
        s = agent.state


def absorb(h):
    agent = h.one_of(
        lambda: sf.UCRL2(SPACE),
        lambda: sf.CUCRL2(SPACE, baseline=sf.Baseline(POLICY, 0.3, np.zeros(S)), alpha=0.5, condition="decisions"),
        lambda: sf.UCBVI(SPACE, 4),
    )()
    agent.begin(0)
    agent.absorb(h.column(4, K), h.shares(4), h.column(4, S), *h.one_of((), (), (h.array(4, 2),)))


def learn(h):
    learner = h.one_of(lambda: UCRL2Learner(SPACE), lambda: UCBVILearner(SPACE, 4, stage_dependent=True))()
    pairs, next_states = (np.nan_to_num(np.asarray(h.column(4, top), dtype=float)).astype(np.int64) for top in (K, S))
    learner.learn(pairs, h.shares(4), next_states)
    planning.optimistic_values(learner.plausible(), 4)


def saved_agent(h):
    """A state whose checksum is right and whose content is not."""
    from surefooted.agents.identity import fingerprint

    agent = h.one_of(
        lambda: sf.UCRL2(SPACE),
        lambda: sf.CUCRL2(SPACE, baseline=sf.Baseline(POLICY, 0.3, np.zeros(S)), alpha=0.5),
        lambda: sf.CUCRL2(SPACE, baseline=sf.Baseline(POLICY, 0.3, np.zeros(S)), alpha=0.5, condition="decisions"),
        lambda: sf.UCBVI(SPACE, H),
        lambda: sf.CUCBVI(SPACE, H, baseline=sf.Baseline(POLICY), alpha=0.5),
    )()
    agent.begin(0)
    for _ in range(2):
        agent.observe(agent.state, agent.act(agent.state).action, 0.5, int(h.rng.integers(S)))
    state = agent.state_dict()
    inner, names = state, []
    for _ in range(3):
        name = h.one_of(*(key for key in inner if key not in ("identity", "checksum")))
        names.append(name)
        if not isinstance(inner[name], dict):
            break
        inner = inner[name]
    old = inner[name]
    inner[name] = h.one_of(h.array(old.size, 3), _touched(h, old)) if isinstance(old, np.ndarray) else h.number()
    for part in (state["learner"], state):
        part["checksum"] = fingerprint({key: part[key] for key in part if key not in ("identity", "checksum")})
    agent.load_state_dict(state)
    try:
        for _ in range(4):
            if getattr(agent, "h", 0) == H:
                agent.begin(0)
            agent.observe(agent.state, agent.act(agent.state).action, 0.5, int(h.rng.integers(S)))
    except (AttributeError, KeyError, AssertionError, ZeroDivisionError, OverflowError):
        pass  # who forges a checksum may get an error of Python, and no more than that


def noise(h):
    from surefooted.knowledge.noise_counts import NoiseCounts

    told = NoiseCounts(DRIFT)
    told.add_steps(h.column(4, K), h.one_of(h.array(4, 2), h.rng.integers(0, 2, size=(4, 1))))
    sf.Knowledge(SPACE, mechanics=DRIFT).contradictions(h.column(4, K), h.shares(4), h.column(4, S))


def bounds(h):
    bound = SumOfMeans(h.one_of(1.0, h.number()), h.one_of(0.1, h.number()))
    bound.add(h.one_of(0.5, h.number()), h.one_of(0.5, h.number()))
    ellipsoid = sf.bandits.Ellipsoid(2, sigma=0.1, bound=1.0)
    agent = sf.bandits.ConservativeLinearUCB(2, alpha=0.5, sigma=0.1, bound=1.0)
    agent.act(
        h.one_of([[0.1, 0.2], [0.3, 0.1]], h.array(4, 2)), h.one_of(0, h.number()), h.one_of(None, 0.5, h.number())
    )
    agent.observe(h.one_of(0.5, h.number()))
    ellipsoid.bounds(h.one_of(np.ones((2, 2)), h.array(4, 2)))


MDP = sf.problems.garnet(S, 2, 2, seed=0).mdp
MDP = sf.TabularMDP.from_pairs(
    {(int(s), int(a)): (0.5, {0: 0.5, 2: 0.5}) for s, a in zip(SPACE.pair_state, SPACE.pair_action, strict=True)}
)
ENTRIES = [
    use_counts,
    add_steps,
    add_history,
    own_set,
    policies,
    drawn,
    live,
    absorb,
    learn,
    saved_agent,
    noise,
    bounds,
]


def main(seed, calls):
    hostile, refused = Hostile(seed), 0
    for i in range(calls):
        entry = ENTRIES[i % len(ENTRIES)]
        try:
            with np.errstate(all="ignore"):
                entry(hostile)
        except CLEAR:
            refused += 1
        except BaseException:
            print(f"call {i}: {entry.__name__}", file=sys.stderr)
            raise
    print(calls, refused)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
