"""Shared noise: its table, what steps decide, and bounds that hold for every law that the counts allow."""

import itertools
import math
import pickle
from importlib import import_module

import numpy as np
import pytest
from scipy.optimize import linprog

import surefooted as sf
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import intervals, shared_noise
from surefooted.kernels.successors import Transitions
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.problems import Problem, inventory, maintenance
from surefooted.sets.confidence import bernstein, likelihood, simplified_bernstein
from surefooted.tables.space import Space

ALL = (likelihood, bernstein, simplified_bernstein)
VALID = (likelihood, bernstein)
names = {"ids": lambda function: function.__name__}


def stock_room(capacity=3, demands=None, reward=None):
    """s' = max(0, s + a - demand): the pairs with s + a <= capacity."""
    n, demands = capacity + 1, capacity + 1 if demands is None else demands
    space = Space.from_available(np.add.outer(np.arange(n), np.arange(n)) <= capacity)
    return Mechanics.of(space, lambda s, a, d: max(0, s + a - d), demands, reward=reward)


def dice(space=None):
    """Two dice of three sides with the same law; the state is their sum, whatever was done."""
    space = Space.full(5, 1) if space is None else space
    return Mechanics.of(space, lambda s, a, xi: xi[0] + xi[1], 3, law=(0, 0))


def machines(levels=3, laws=2):
    """Two machines that wear up to the last level, where they stay; once one is there, another law holds."""
    states = list(itertools.product(range(levels), repeat=2))
    worn = levels - 1

    def wear(s, a, xi):
        after = [x if x == worn else min(x + w, worn) for x, w in zip(states[s], xi, strict=True)]
        return states.index((0, 0)) if a else states.index(tuple(after))

    return Mechanics.of(
        Space.full(len(states), 2), wear, (levels,) * laws, law=lambda s, a: (int(worn in states[s]) % laws,) * 2
    )


def random_mechanics(seed, product=True):
    """Any function of noise with one or two components and one to three laws."""
    rng = np.random.default_rng(seed)
    S, A, C = int(rng.integers(2, 6)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    C = 1 if product else C
    sizes = tuple(int(size) for size in rng.integers(1, 5, size=rng.integers(1, 4)))
    space = Space.full(S, A)
    law = rng.integers(len(sizes), size=(space.n_pairs, C))
    n = int(np.prod(np.array(sizes)[law], axis=1).sum())
    return Mechanics(space, sizes, law, rng.integers(S, size=n)), rng


def played(mechanics, laws, rng, n, choose=None):
    """Counts of n steps, and the noise of each, with pairs chosen by (rng, state, last next state)."""
    space, counts = mechanics.space, Counts(mechanics.space)
    s, pairs, noise, after = 0, [], [], []
    sums, which, tables = [np.cumsum(q)[:-1] for q in laws], mechanics.law.tolist(), {}
    for _ in range(n):
        first, last = space.pair_ptr[s], space.pair_ptr[s + 1]
        k = int(rng.integers(first, last)) if choose is None else choose(rng, s, first, last)
        xi = tuple(int(sums[i].searchsorted(rng.random(), side="right")) for i in which[k])
        if k not in tables:
            tables[k] = mechanics.outcomes(k)
        s = int(tables[k][xi])
        pairs.append(k), noise.append(xi), after.append(s)
    counts.add_steps(np.array(pairs, dtype=np.int64), np.zeros(n), np.array(after, dtype=np.int64))
    return counts, np.array(pairs), np.array(noise)


def random_laws(mechanics, rng):
    return [rng.dirichlet(np.full(size, 0.7)) for size in mechanics.sizes]


def read(known, *question):
    """The set and the conflicts."""
    return known.plausible(*question), known.conflicts(*question)


def cells(mechanics, k):
    """{y: set of noise tuples}, by asking f for every noise."""
    found = {}
    for xi in np.ndindex(*mechanics.shape(k)):
        found.setdefault(int(mechanics.outcomes(k)[xi]), set()).add(xi)
    return found


def needed_events(mechanics):
    """{(law, frozenset)}: cells of one component, or projections of cells that are products."""
    events = set()
    for k in range(mechanics.space.n_pairs):
        for cell in cells(mechanics, k).values():
            sides = [frozenset(xi[c] for xi in cell) for c in range(mechanics.n_components)]
            assert len(cell) == math.prod(map(len, sides)), "not a product"
            events |= {(int(i), side) for i, side in zip(mechanics.law[k], sides, strict=True)}
    return {(i, side) for i, side in events if len(side) < mechanics.sizes[i]}


def draws_of(mechanics, counts, law, event):
    """N_E and n_E: only components whose every cell says whether the noise was in the event."""
    ptr, state, count = counts.rows()
    n = hits = 0
    for k, c in itertools.product(range(mechanics.space.n_pairs), range(mechanics.n_components)):
        sides = {y: {xi[c] for xi in cell} for y, cell in cells(mechanics, k).items()}
        if mechanics.law[k, c] == law and all(side <= event or not side & event for side in sides.values()):
            for m in range(k, counts.n_rows, mechanics.space.n_pairs):
                n += int(counts.visits[m])
                row = slice(ptr[m], ptr[m + 1])
                hits += sum(int(x) for y, x in zip(state[row], count[row], strict=True) if sides[int(y)] <= event)
    return n, hits


def canonical(mechanics, events):
    """One of each event and its complement, of those that some pair decides."""
    some = Counts(mechanics.space)
    K = mechanics.space.n_pairs
    first = np.array([mechanics.outcomes(k).ravel()[0] for k in range(K)])
    some.add_steps(np.arange(K), np.zeros(K), first)
    decided = {(i, e) for i, e in events if draws_of(mechanics, some, i, e)[0] > 0}
    return {(i, min(e, frozenset(range(mechanics.sizes[i])) - e, key=sorted)) for i, e in decided}


def interval(kind, hits, n, J, delta):
    """The definition of an interval, without the package's kernel where that is easy."""
    if n == 0:
        return 0.0, 1.0
    if kind is likelihood:
        return intervals.likelihood_interval(float(hits), float(n), math.log(J / delta))
    x, linear = math.log(3 * J * n * (n + 1) / delta), 3.0
    p = hits / n
    width = math.sqrt(p * (1 - p)) * math.sqrt(2 * x / n) + linear * x / n
    return max(p - width, 0.0), min(p + width, 1.0)


def constraints(mechanics, counts, kind, delta):
    """By law: the rows of A q <= b that the intervals of all needed events mean."""
    events = needed_events(mechanics)
    J = len(canonical(mechanics, events)) + counts.n_rows
    rows = [([], []) for _ in mechanics.sizes]
    for i, event in events:
        n, hits = draws_of(mechanics, counts, i, event)
        low, high = interval(kind, hits, n, J, delta)
        indicator = np.isin(np.arange(mechanics.sizes[i]), list(event)).astype(float)
        rows[i][0].extend([indicator, -indicator])
        rows[i][1].extend([high, -low])
    return [(np.array(a).reshape(-1, size), np.array(b)) for (a, b), size in zip(rows, mechanics.sizes, strict=True)]


def extreme_law(constraint, direction):
    """The law that goes furthest in a direction among those allowed; None if there is none."""
    a, b = constraint
    a, b = (a, b) if b.size else (None, None)
    found = linprog(-direction, A_ub=a, b_ub=b, A_eq=np.ones((1, direction.size)), b_eq=[1.0], bounds=(0, 1))
    return found.x if found.status == 0 else None


def aligned(mechanics, plausible, laws):
    """The true probability of each stored transition of a set."""
    ptr, state, p, _ = mechanics.table(laws)
    dense = np.zeros((mechanics.space.n_pairs, mechanics.space.n_states))
    dense[np.repeat(np.arange(mechanics.space.n_pairs), np.diff(ptr)), state] = p
    pair = np.repeat(np.arange(plausible.n_rows), np.diff(plausible.next_ptr)) % mechanics.space.n_pairs
    return dense[pair, plausible.next_state]


def holds(mechanics, plausible, laws, tolerance=1e-12):
    p = aligned(mechanics, plausible, laws)
    return bool(np.all((p >= plausible.p_lower - tolerance) & (p <= plausible.p_upper + tolerance)))


# The table


@pytest.mark.parametrize(
    "problem",
    [
        inventory(),
        inventory(normalise="realised"),
        inventory(capacity=4, demand=[0.1, 0.0, 0.2, 0.0, 0.0, 0.3, 0.4]),
        inventory(capacity=5, demand=[0.0, 1.0], price=np.sqrt),
        maintenance(),
        maintenance(components=1, failed_level=3, threshold=2),
        maintenance(components=3, failed_level=2, threshold=1, load_sharing=2.0),
    ],
    ids=["inventory", "realised", "large demand", "sure demand", "maintenance", "one machine", "three machines"],
)
def test_the_mechanics_of_a_problem_with_its_laws_are_its_table(problem):
    ptr, state, p, r = problem.mechanics.table(problem.laws)
    assert np.array_equal(ptr, problem.mdp.next_ptr) and np.array_equal(state, problem.mdp.next_state)
    assert p == pytest.approx(problem.mdp.p, abs=1e-14)
    if problem.name == "inventory":
        assert r == pytest.approx(problem.mdp.r, abs=1e-13)
    else:
        assert r is None
    assert problem.mechanics.n_components == (1 if problem.name == "inventory" else len(problem.laws))


def test_parks_too_large_have_no_mechanics_and_other_problems_neither(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("surefooted.problems.maintenance"), "LARGE", 100)
    park = maintenance(failed_level=4)
    assert park.mechanics is None and park.laws == ()
    assert sf.problems.riverswim().mechanics is None
    problem = inventory()
    problem.save(tmp_path / "room.npz")
    assert Problem.load(tmp_path / "room.npz").mechanics is None  # as documented


def test_a_problem_refuses_mechanics_and_laws_that_are_not_its_own():
    a, b = inventory(), inventory(capacity=3)
    parts = {"name": "x", "mdp": a.mdp, "baseline": a.baseline, "start": 0}
    with pytest.raises(InvalidInput, match="the mechanics are on Space"):
        Problem(**parts, mechanics=b.mechanics, laws=b.laws)
    with pytest.raises(InvalidInput, match="0 laws are given for 1"):
        Problem(**parts, mechanics=a.mechanics)


def test_the_table_of_two_dice_by_hand():
    ptr, state, p, r = dice().table([[0.5, 0.3, 0.2]])
    assert ptr.tolist() == [0, 5, 10, 15, 20, 25] and state[:5].tolist() == [0, 1, 2, 3, 4]
    assert p[:5] == pytest.approx([0.25, 0.3, 0.29, 0.12, 0.04]) and r is None
    assert (
        Mechanics.of(Space.full(5, 1), lambda s, a, xi: sum(xi), (3, 3)).table([[1, 0, 0], [0, 0, 1]])[1].tolist()
        == [2] * 5
    )


def test_mechanics_survive_pickling_and_lose_only_their_rewards_when_asked():
    room = stock_room(reward=lambda s, a, d: 0.1 * d)
    again = pickle.loads(pickle.dumps(room))
    assert np.array_equal(again.next_state, room.next_state) and again.sizes == room.sizes
    with pytest.raises(ValueError):
        again.next_state[0] = 1
    bare = room.without_rewards()
    assert bare.reward is None and np.array_equal(bare.next_state, room.next_state)
    assert "sizes=(4,)" in repr(room)


# Validation


def test_everything_wrong_is_said_at_once():
    space = Space.full(2, 1)
    good = {"space": space, "sizes": (2,), "law": [[0], [0]], "next_state": [0, 1, 0, 1]}
    Mechanics(**good)
    cases = [
        ({"sizes": ()}, ["there is no law", "component 0 has law 0"]),
        ({"sizes": (0,)}, ["law 0: size 0 must be a positive whole number"]),
        ({"sizes": (2.5,)}, ["law 0: size 2.5"]),
        ({"law": [[0]]}, [r"law has shape \(1, 1\); it must be \[K, C\] with K = 2"]),
        ({"law": [[0], [1]]}, ["state 1, action 0: component 0 has law 1; the laws are 0 to 0"]),
        ({"law": [["x"], ["y"]]}, ["law must be whole numbers"]),
        ({"next_state": [0, 1, 0]}, [r"next_state has shape \(3,\); all pairs together have 4"]),
        ({"next_state": [0, 1, 0, 2]}, ["state 1, action 0, noise 1: leads to state 2, which does not exist"]),
        ({"next_state": [0, 1, 0.5, 1]}, ["next_state must be whole numbers, not 0.5"]),
        ({"reward": [0, 1, 2]}, [r"reward has shape \(3,\)"]),
        ({"reward": [0, 1, np.nan, np.inf]}, ["noise 0: reward nan is not finite", "noise 1: reward inf"]),
        ({"observed": "yes"}, ["observed must be True or False"]),
    ]
    for change, sentences in cases:
        for sentence in sentences:
            with pytest.raises(InvalidInput, match=sentence):
                Mechanics(**(good | change))
    with pytest.raises(InvalidInput, match=r"noise \(1, 2\): leads to state 9"):
        Mechanics.of(space, lambda s, a, xi: 9 if xi == (1, 2) and s else 0, (2, 3))
    with pytest.raises(InvalidInput, match="state 1, action 0: has 2 components of noise, the first pair 1"):
        Mechanics.of(space, lambda s, a, xi: 0, 2, law=lambda s, a: (0,) * (s + 1))
    with pytest.raises(InvalidInput, match=r"laws \(3,\); the laws are 0 to 0"):
        Mechanics.of(space, lambda s, a, xi: 0, 2, law=3)
    with pytest.raises(InvalidInput, match="law 0: size -1"):
        Mechanics.of(space, lambda s, a, xi: 0, -1)


@pytest.mark.parametrize(
    ("laws", "sentence"),
    [
        ([], "0 laws are given for 1"),
        ([[0.5, 0.5]], r"law 0: has shape \(2,\), not \(4,\)"),
        ([[0.5, 0.5, 0.5, 0.5]], "law 0: must be probabilities that sum to 1"),
        ([[1.5, -0.5, 0, 0]], "law 0: must be probabilities"),
        ([["a", "b", "c", "d"]], "law 0 must be numbers"),
    ],
)
def test_laws_are_checked(laws, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        stock_room().table(laws)


# What is counted


def test_the_intervals_of_a_stock_room_by_hand():
    """Capacity 3, demands 0 .. 3. Level u = s + a: sales tell d = 0 .. u - 1 apart, and d >= u.

    Events: d = 0, 1, 2 and d >= 1, 2, 3 (which is d = 3). {0} and {1, 2, 3} are complements: five intervals.
    """
    room = stock_room()
    assert room.index.n_intervals == 5
    counts = Counts(room.space)
    for s, a, y, times in ((0, 0, 0, 7), (0, 1, 1, 10), (0, 1, 0, 30), (0, 3, 2, 6), (0, 3, 0, 4), (2, 0, 1, 5)):
        for _ in range(times):
            counts.add(s, a, 0.0, y)
    # d = 0: level 1 (10 of 40), level 3 (0 of 10), level 2 (0 of 5). d = 1: levels 2 and 3, 5 + 6 of 15.
    # d >= 2: levels 2 and 3, 4 of 15. d = 2 and d = 3: level 3 only, 0 and 4 of 10.
    assert draws_of(room, counts, 0, {0}) == (55, 10) and draws_of(room, counts, 0, {1}) == (15, 11)
    assert draws_of(room, counts, 0, {2, 3}) == (15, 4) and draws_of(room, counts, 0, {3}) == (10, 4)
    known = Knowledge(room.space, mechanics=room)
    x = math.log((5 + 10) / 0.1)  # five events and a reward interval for each of ten pairs
    plausible = known.plausible(likelihood, counts, 0.1)
    k = room.space.pair(1, 1)  # level 2, never tried: d >= 2, d = 1, d = 0
    row = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
    assert plausible.next_state[row].tolist() == [0, 1, 2] and plausible.unseen[k] == 0.0
    seen = ((4.0, 15.0), (4.0, 10.0), (11.0, 15.0), (10.0, 55.0))
    tail, three, one, none = (intervals.likelihood_interval(*q, x) for q in seen)
    least = max(tail[0], three[0])  # d >= 2 is at least as likely as d = 3
    assert least == three[0]
    assert plausible.p_lower[row] == pytest.approx([least, one[0], none[0]], abs=1e-11)
    expected = [min(tail[1], 1 - one[0] - none[0]), min(one[1], 1 - least - none[0]), min(none[1], 1 - one[0] - least)]
    assert plausible.p_upper[row] == pytest.approx(expected, abs=1e-11)
    level_0 = room.space.pair(0, 0)  # nothing in stock: stays at 0 for sure
    assert plausible.p_lower[plausible.next_ptr[level_0]] == 1.0 == plausible.p_upper[plausible.next_ptr[level_0]]
    x = math.log(3 * (5 + 10) * 55 * 56 / 0.1)
    width = math.sqrt(2 * x / 55) * math.sqrt(10 * 45) / 55 + 3 * x / 55
    wide = known.plausible(bernstein, counts, 0.1)
    k = room.space.pair(1, 0)
    assert wide.p_upper[wide.next_ptr[k] + 1] == pytest.approx(min(10 / 55 + width, 1.0))
    x = math.log(4 * 4 / 0.1)  # S A
    width = math.sqrt(x / 55) * math.sqrt(10 * 45) / 55 + x / 55
    narrow = known.plausible(simplified_bernstein, counts, 0.1)
    j = narrow.next_ptr[k]
    assert (narrow.p_lower[j + 1], narrow.p_upper[j + 1]) == pytest.approx((max(10 / 55 - width, 0), 10 / 55 + width))
    assert (narrow.p_lower[j], narrow.p_upper[j]) == pytest.approx((45 / 55 - width, min(45 / 55 + width, 1)))


def test_two_machines_with_one_law_give_two_draws_a_step():
    park = machines(levels=3, laws=2)
    rng = np.random.default_rng(0)
    laws = random_laws(park, rng)
    counts, pairs, noise = played(park, laws, rng, 400)
    states = list(itertools.product(range(3), repeat=2))
    levels = np.array([states[s] for s in park.space.pair_state[pairs]])
    waits = park.space.pair_action[pairs] == 0
    for i, event in itertools.product(range(2), ({0}, {1}, {2}, {1, 2})):
        least = 2 if event in ({1}, {2}) else 1  # levels of room that it takes to tell the event
        told = waits[:, None] & (park.law[pairs] == i) & (2 - levels >= least)
        expected = int(told.sum()), int((told & np.isin(noise, list(event))).sum())
        assert draws_of(park, counts, i, event) == expected
    intervals = canonical(park, needed_events(park))
    assert park.index.n_intervals == len(intervals) == 2 * 3  # {0}, {1}, {2}; {1, 2} is the complement of {0}


@pytest.mark.parametrize("seed", range(30))
def test_events_and_draws_are_those_of_a_search(seed):
    mechanics, rng = random_mechanics(seed)
    laws = random_laws(mechanics, rng)
    counts, _, _ = played(mechanics, laws, rng, 120)
    events = needed_events(mechanics)
    index, found = mechanics.index, mechanics.index.events
    assert index.n_intervals == len(canonical(mechanics, events))
    drawn, classes = np.zeros(index.n_partitions, dtype=np.int64), np.zeros(index.n_classes, dtype=np.int64)
    shared_noise.count_classes(
        Transitions(counts.visits, *counts.rows()),
        index.cells,
        index.draws,
        np.full(mechanics.space.n_states, -1),
        shared_noise.Tally(drawn, classes),
        np.zeros(mechanics.space.n_pairs, dtype=np.int64),
    )
    ours = {}
    for e, mask in enumerate(index.masks):
        i = found.interval[e]
        if i >= 0:
            n = drawn[found.decides[found.decides_ptr[i] : found.decides_ptr[i + 1]]].sum()
            hits = classes[found.inside[found.inside_ptr[i] : found.inside_ptr[i + 1]]].sum()
            ours[int(found.law[e]), mask] = (n, n - hits if found.flipped[e] else hits)
    for i, event in events:
        n, hits = draws_of(mechanics, counts, i, event)
        assert ours.get((i, sum(1 << int(value) for value in event)), (0, 0)) == (n, hits)


# Bounds hold for every law that the counts allow


@pytest.mark.parametrize("kind", VALID, **names)
@pytest.mark.parametrize("seed", range(25))
def test_no_law_that_the_intervals_allow_leaves_the_row_bounds(seed, kind):
    """The extreme laws by linear programming, one component: the exact range of each p(y | k) lies in its bounds."""
    mechanics, rng = random_mechanics(seed)
    truth = random_laws(mechanics, rng)
    counts, _, _ = played(mechanics, truth, rng, int(rng.choice([5, 60, 3000])))
    known = Knowledge(mechanics.space, mechanics=mechanics)
    plausible, conflicts = read(known, kind, counts, 0.3)
    allowed = constraints(mechanics, counts, kind, 0.3)
    assert not conflicts
    for k in range(mechanics.space.n_pairs):
        i = int(mechanics.law[k, 0])
        for j in range(plausible.next_ptr[k], plausible.next_ptr[k + 1]):
            cell = (mechanics.outcomes(k) == plausible.next_state[j]).astype(float)
            least, most = (float(cell @ extreme_law(allowed[i], sign * cell)) for sign in (-1, 1))
            assert plausible.p_lower[j] <= least + 1e-9 and most - 1e-9 <= plausible.p_upper[j]
    assert np.all(plausible.unseen == 0.0)


@pytest.mark.parametrize("kind", VALID, **names)
def test_the_bounds_of_a_stock_room_are_as_tight_as_linear_programming(kind):
    room, rng = stock_room(capacity=5), np.random.default_rng(5)
    law = rng.dirichlet(np.ones(6))
    counts, _, _ = played(room, [law], rng, 3000)
    plausible = Knowledge(room.space, mechanics=room).plausible(kind, counts, 0.1)
    (allowed,) = constraints(room, counts, kind, 0.1)
    for j, k in enumerate(np.repeat(np.arange(room.space.n_pairs), np.diff(plausible.next_ptr))):
        cell = (room.outcomes(k) == plausible.next_state[j]).astype(float)
        least, most = (float(cell @ extreme_law(allowed, sign * cell)) for sign in (-1, 1))
        assert (plausible.p_lower[j], plausible.p_upper[j]) == pytest.approx((least, most), abs=1e-8)
        assert plausible.p_lower[j] <= least + 1e-9 and most - 1e-9 <= plausible.p_upper[j]


@pytest.mark.parametrize("kind", VALID, **names)
@pytest.mark.parametrize("n", [3, 100, 4000])
def test_no_pair_of_laws_that_the_intervals_allow_leaves_the_bounds_of_two_machines(kind, n):
    park, rng = machines(levels=4), np.random.default_rng(n)
    truth = random_laws(park, rng)
    counts, _, _ = played(park, truth, rng, n)
    plausible = Knowledge(park.space, mechanics=park).plausible(kind, counts, 0.3)
    allowed = constraints(park, counts, kind, 0.3)
    for _ in range(60):
        laws = [extreme_law(constraint, rng.normal(size=4)).clip(0) for constraint in allowed]
        assert holds(park, plausible, [law / law.sum() for law in laws], 1e-7)
    if n == 4000:
        seen = plausible.p_upper - plausible.p_lower
        assert seen.mean() < 0.2  # the statement is not empty


@pytest.mark.parametrize("seed", range(12))
def test_cells_that_are_no_products_are_learnt_too(seed):
    """Sums of dice decide nothing of one die; the cells have intervals of their own, and laws that fit them all fit."""
    mechanics = dice() if seed == 0 else random_mechanics(100 + seed, product=False)[0]
    rng = np.random.default_rng(seed)
    truth = random_laws(mechanics, rng)
    counts, _, _ = played(mechanics, truth, rng, 5000)
    known = Knowledge(mechanics.space, mechanics=mechanics)
    plausible, conflicts = read(known, likelihood, counts, 0.1)
    assert not conflicts and holds(mechanics, plausible, truth)
    visited = np.repeat(counts.visits > 500, np.diff(plausible.next_ptr))
    assert np.all((plausible.p_upper - plausible.p_lower)[visited] < 0.35)
    if seed == 0:
        assert known.declared.n_row_intervals == 5  # the five sums; every pair counts for each
        sums = np.bincount(counts.rows()[1], weights=counts.rows()[2])
        x = math.log((5 + 5) / 0.1)
        for j in range(5):
            low, high = intervals.likelihood_interval(sums[j], 5000.0, x)
            assert low - 1e-11 <= plausible.p_lower[j] and plausible.p_upper[j] <= high + 1e-11


def test_products_that_are_no_grid_have_intervals_of_their_own():
    """ξ_2 is told only if ξ_1 is 1: one component decides its events, the other does not, and the cells are learnt."""
    mechanics = Mechanics.of(Space.full(3, 1), lambda s, a, xi: 0 if xi[0] == 0 else 1 + xi[1], (2, 2))
    laws, rng = [np.array([0.5, 0.5]), np.array([0.3, 0.7])], np.random.default_rng(0)
    counts, _, _ = played(mechanics, laws, rng, 3000)
    known = Knowledge(mechanics.space, mechanics=mechanics)
    assert known.declared.n_row_intervals == 1 + 3  # ξ_1 = 0; three cells of the joint noise
    plausible, conflicts = read(known, likelihood, counts, 0.1)
    assert not conflicts and holds(mechanics, plausible, laws)
    assert np.all(plausible.p_upper - plausible.p_lower < 0.1)


@pytest.mark.parametrize("seed", range(10))
def test_a_product_of_any_laws_within_the_bounds_of_events_is_in_the_rows(seed):
    """Blocks that are sums of products: the row of random laws, with each event's probability taken as known."""
    mechanics, rng = random_mechanics(200 + seed, product=False)
    index = mechanics.index
    for _ in range(20):
        laws = random_laws(mechanics, rng)
        joint = {}
        for k in range(mechanics.space.n_pairs):
            mass = np.ones(1)
            for i in mechanics.law[k]:
                mass = np.multiply.outer(mass, laws[i]).ravel()
            joint[tuple(mechanics.law[k])] = mass
        exact = np.full(len(index.masks), np.nan)
        for e, mask in enumerate(index.masks):
            i = int(index.events.law[e])
            if i < len(laws):
                exact[e] = laws[i][[value for value in range(len(laws[i])) if mask >> value & 1]].sum()
        blocks = index.blocks._replace(joint=np.full_like(index.blocks.joint, -1))
        low, high = np.empty(blocks.joint.size), np.empty(blocks.joint.size)
        shared_noise.bound_blocks(blocks, exact, exact, low, high)
        ptr, state, p, _ = mechanics.table(laws)
        dense = np.zeros((mechanics.space.n_pairs, mechanics.space.n_states))
        dense[np.repeat(np.arange(mechanics.space.n_pairs), np.diff(ptr)), state] = p
        pair = np.repeat(np.arange(mechanics.space.n_pairs), np.diff(index.cells.next_ptr))
        assert low == pytest.approx(dense[pair, index.cells.next_state], abs=1e-12) and np.array_equal(low, high)


# As often as promised


def cautious(rng, s, first, last):
    """Orders little after a month that sold out, much otherwise: the choice depends on what was drawn before."""
    return int(first) if s == 0 and rng.random() < 0.8 else int(rng.integers(first, last))


RUNS, STEPS, DELTA = 2000, 90, 0.1


@pytest.fixture(scope="module")
def runs():
    """2 000 adaptive runs of 90 months in a stock room of 3, as counts after every sixth month."""
    room, law = stock_room(), np.array([0.1, 0.2, 0.3, 0.4])
    found = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        _, pairs, noise = played(room, [law], rng, STEPS, cautious)
        after = np.maximum(room.space.pair_state[pairs] + room.space.pair_action[pairs] - noise[:, 0], 0)
        found.append((pairs, after))
    return room, law, found


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", VALID, **names)
def test_the_truth_stays_in_the_set_at_all_times_as_often_as_promised(runs, kind):
    # δ + 4 standard deviations over 2 000 runs: a false alarm once in 30 000
    room, law, found = runs
    known, failures = Knowledge(room.space, rewards=np.zeros(10), mechanics=room), 0
    p = None
    for pairs, after in found:
        counts = Counts(room.space)
        for t in range(0, STEPS, 6):
            counts._add_checked(pairs[t : t + 6], np.zeros(6), after[t : t + 6])
            plausible = known.plausible(kind, counts, DELTA)
            p = aligned(room, plausible, [law]) if p is None else p
            if np.any(p < plausible.p_lower - 1e-12) or np.any(p > plausible.p_upper + 1e-12):
                failures += 1
                break
    assert failures <= RUNS * DELTA + 4 * math.sqrt(RUNS * DELTA * (1 - DELTA))


@pytest.mark.parametrize("naive", ["undecided steps are misses", "a step counts if it happens to tell"])
def test_naive_counts_under_censoring_fail_the_same_test(runs, naive):
    """Demand 2 in the last month of a run, with one interval at all of δ: these estimators are wrong, and it shows."""
    room, law, found = runs
    level = room.space.pair_state + room.space.pair_action
    failures = honest = 0
    for pairs, after in found:
        u = level[pairs]
        sold_out, two = after == 0, (u - after == 2) & (after > 0)  # exactly two were sold and some were left
        if naive == "undecided steps are misses":
            n, hits = STEPS, int(two.sum())
        else:
            told = ~sold_out | (u <= 0)
            n, hits = int(told.sum()), int(two.sum())
        low, high = intervals.likelihood_interval(float(hits), float(n), math.log(1 / DELTA)) if n else (0.0, 1.0)
        failures += not low <= law[2] <= high
        decided = u >= 3
        n, hits = int(decided.sum()), int((decided & (u - after == 2)).sum())
        low, high = intervals.likelihood_interval(float(hits), float(n), math.log(1 / DELTA)) if n else (0.0, 1.0)
        honest += not low <= law[2] <= high
    limit = RUNS * DELTA + 4 * math.sqrt(RUNS * DELTA * (1 - DELTA))
    assert honest <= limit < failures


def test_two_draws_a_step_and_shared_laws_keep_the_promise():
    # 400 runs of 60 steps of two machines at δ = 0.3, checked every 5 steps; δ + 4 standard deviations
    park, delta, runs, failures = machines(), 0.3, 400, 0
    laws = [np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])]
    known = Knowledge(park.space, rewards=np.zeros(park.space.n_pairs), mechanics=park)
    p = aligned(park, known.plausible(likelihood, Counts(park.space), delta), laws)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        _, pairs, noise = played(park, laws, rng, 60)
        after = np.array([park.outcomes(k)[tuple(xi)] for k, xi in zip(pairs, noise, strict=True)])
        counts = Counts(park.space)
        for t in range(0, 60, 5):
            counts._add_checked(pairs[t : t + 5], np.zeros(5), after[t : t + 5])
            plausible = known.plausible(likelihood, counts, delta)
            if np.any(p < plausible.p_lower - 1e-12) or np.any(p > plausible.p_upper + 1e-12):
                failures += 1
                break
    assert failures <= runs * delta + 4 * math.sqrt(runs * delta * (1 - delta))


# Rewards


def test_rewards_that_the_successor_decides_lie_in_the_range_over_the_row():
    problem = inventory()
    rng = np.random.default_rng(0)
    counts, _, _ = played(problem.mechanics, problem.laws, rng, 500)
    plausible = problem.knowledge("mechanics").plausible(simplified_bernstein, counts, 0.1)
    reward, ptr = problem.mechanics.reward, problem.mechanics.noise_ptr
    for k in range(problem.space.n_pairs):
        row = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
        outcome = problem.mechanics.outcomes(k)
        value = np.array([reward[ptr[k] : ptr[k + 1]][outcome == y][0] for y in plausible.next_state[row]])
        bounds = np.stack([plausible.p_lower[row], plausible.p_upper[row]], axis=1)
        ends = []
        for sign in (1, -1):
            found = linprog(sign * value, A_eq=np.ones((1, value.size)), b_eq=[1.0], bounds=bounds)
            ends.append(sign * found.fun)
        assert (plausible.r_lower[k], plausible.r_upper[k]) == pytest.approx(np.clip(ends, 0, 1), abs=1e-9)
    assert np.all((plausible.r_lower <= problem.mdp.r + 1e-9) & (problem.mdp.r <= plausible.r_upper + 1e-9))


def test_rewards_that_depend_on_unseen_noise_use_what_other_pairs_tell():
    """Unmet demand costs: r depends on d beyond s', and d = 2 and d = 3 are told apart only at level 3."""
    room = stock_room(reward=lambda s, a, d: 0.9 - 0.2 * max(0, d - s - a))
    law, rng = np.array([0.1, 0.2, 0.3, 0.4]), np.random.default_rng(1)
    truth = room.table([law])[3]
    counts, _, _ = played(room, [law], rng, 4000)
    plausible = Knowledge(room.space, mechanics=room).plausible(simplified_bernstein, counts, 0.1)
    assert np.all((plausible.r_lower <= truth + 1e-12) & (truth <= plausible.r_upper + 1e-12))
    k = room.space.pair(1, 0)
    assert plausible.r_upper[k] - plausible.r_lower[k] < 0.1
    blind = Counts(room.space)  # only level 1 was ever seen: {1, 2, 3} together have 3/4, apart anything
    for i in range(4000):
        blind.add(1, 0, 0.5, int(i % 4 == 0))
    plausible = Knowledge(room.space, mechanics=room).plausible(simplified_bernstein, blind, 0.1)
    width = math.sqrt(math.log(160) / 4000) * math.sqrt(3 / 16) + math.log(160) / 4000
    low, high = 0.9 - 0.4 * (0.75 + width), 0.9  # all of it on 3, all of it on 1
    assert (plausible.r_lower[k], plausible.r_upper[k]) == pytest.approx((low, high), abs=1e-9)


def test_rewards_known_up_to_noise_that_does_not_matter_are_exact():
    room = stock_room(reward=lambda s, a, d: 0.25 + 0.1 * a)
    plausible = Knowledge(room.space, mechanics=room).plausible(likelihood, Counts(room.space), 0.1)
    assert np.array_equal(plausible.r_lower, plausible.r_upper)
    assert plausible.r_lower == pytest.approx(0.25 + 0.1 * room.space.pair_action)


def test_normalised_by_means_realised_rewards_may_leave_the_range_and_intervals_do_not():
    problem = inventory()
    assert problem.mechanics.reward.min() < 0 and problem.mechanics.reward.max() > 1
    plausible = problem.knowledge("mechanics").plausible(likelihood, Counts(problem.space), 0.1)
    assert plausible.r_lower.min() >= 0 and plausible.r_upper.max() <= 1


# Observed noise


def test_observed_noise_decides_every_event_with_every_draw():
    room = stock_room()
    seen = Mechanics(room.space, room.sizes, room.law, room.next_state, observed=True)
    noise, counts = NoiseCounts(seen), Counts(room.space)
    rng, law = np.random.default_rng(0), np.array([0.1, 0.2, 0.3, 0.4])
    for _ in range(200):  # always at level 0, which tells nothing of itself
        d = int(rng.choice(4, p=law))
        noise.add(0, d)
        counts.add(0, 0, 0.0, 0)
    known = Knowledge(room.space, rewards=np.zeros(10), mechanics=seen)
    plausible = known.plausible(likelihood, counts, 0.1, noise)
    x = math.log(5 / 0.095)  # five events; 5 % of δ go to the comparison of rewards
    k = room.space.pair(0, 1)  # level 1
    low, high = intervals.likelihood_interval(float(noise.values[0][0]), 200.0, x)
    j = plausible.next_ptr[k] + 1
    assert (plausible.p_lower[j], plausible.p_upper[j]) == pytest.approx((low, high), abs=1e-11)
    blind = Knowledge(room.space, rewards=np.zeros(10), mechanics=room).plausible(likelihood, counts, 0.1)
    assert (blind.p_lower[j], blind.p_upper[j]) == (0.0, 1.0)
    again = NoiseCounts.from_state_dict(seen, noise.state_dict())
    assert all(np.array_equal(a, b) for a, b in zip(again.values, noise.values, strict=True))
    again.add(0, 3)
    assert again.values[0].sum() == 201 and noise.values[0].sum() == 200


def test_observed_noise_of_several_components_goes_to_their_laws():
    park = machines()
    seen = Mechanics(park.space, park.sizes, park.law, park.next_state, observed=True)
    noise = NoiseCounts(seen)
    noise.add(0, (1, 2))  # state (0, 0): law 0 twice
    noise.add_steps([4, 4], [[0, 0], [2, 0]])  # state (0, 2): law 1 twice
    assert noise.values[0].tolist() == [0, 1, 1] and noise.values[1].tolist() == [3, 0, 1]


def test_noise_that_cannot_be_is_refused_whole():
    noise = NoiseCounts(stock_room())
    for pairs, values, sentence in (
        ([0], [4], "step 0: component 0 is 4; its values are 0 to 3"),
        ([0, 99], [1, 1], "step 1: there is no pair 99"),
        ([0], [[1, 2]], r"noise \(1, 2\); they must be \[n\] and \[n, 1\]"),
        ([0], [0.5], "noise must be whole numbers"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            noise.add_steps(pairs, values)
    assert noise.values[0].sum() == 0
    with pytest.raises(InvalidInput, match="counts of other mechanics"):
        NoiseCounts.from_state_dict(stock_room(), {"noise_values": np.zeros(3)})


def test_noise_is_given_when_and_only_when_it_is_observed():
    room = stock_room()
    seen = Mechanics(room.space, room.sizes, room.law, room.next_state, observed=True)
    counts = Counts(room.space)
    with pytest.raises(InvalidInput, match="no NoiseCounts are given"):
        Knowledge(room.space, mechanics=seen).plausible(likelihood, counts, 0.1)
    with pytest.raises(InvalidInput, match="no mechanics that observe"):
        Knowledge(room.space, mechanics=room).plausible(likelihood, counts, 0.1, NoiseCounts(seen))
    other = Mechanics.of(room.space, lambda s, a, d: 0, 2, observed=True)
    with pytest.raises(InvalidInput, match="sizes"):
        Knowledge(room.space, mechanics=seen).plausible(likelihood, counts, 0.1, NoiseCounts(other))


# Contradictions


def test_data_that_no_law_fits_are_a_conflict_and_the_rows_may_be_anything():
    """Demand told at level 1 is 0 always; at level 2 it is 2 always. One law cannot be both."""
    room = stock_room()
    counts, known = Counts(room.space), Knowledge(room.space, mechanics=room)
    conflicts = []
    for _ in range(200):
        counts.add(0, 1, 0.5, 1)
        counts.add(0, 2, 0.5, 0)
        plausible, conflicts = read(known, likelihood, counts, 0.1)
        assert bool(conflicts) == bool(plausible.unseen.any())
    # pooled, d = 0 has 1/2, d >= 2 has 1 of the draws that decide it: 1/2 and 1 do not fit together
    assert conflicts == known.conflicts(likelihood, counts, 0.1) and any("no law fits all" in c for c in conflicts)
    k = room.space.pair(0, 3)
    row = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
    assert np.all(plausible.p_lower[row] == 0) and np.all(plausible.p_upper[row] == 1) and plausible.unseen[k] == 1
    sure = room.space.pair(0, 0)  # level 0 depends on no demand
    assert plausible.unseen[sure] == 0 and plausible.p_lower[plausible.next_ptr[sure]] == 1


def test_a_sum_that_its_parts_do_not_explain_is_a_conflict_of_its_row():
    """Action 0 tells two coins apart, action 1 their sum. Seen apart both are fair; together they are always equal."""
    mechanics = Mechanics.of(Space.full(4, 2), lambda s, a, xi: sum(xi) if a else 2 * xi[0] + xi[1], 2, law=(0, 0))
    counts = Counts(mechanics.space)
    for y in range(4):
        for _ in range(500):
            counts.add(0, 0, 0.5, y)
    for y in (0, 2):
        for _ in range(1000):
            counts.add(0, 1, 0.5, y)
    plausible, conflicts = read(Knowledge(mechanics.space, mechanics=mechanics), likelihood, counts, 0.1)
    assert conflicts == [f"state {s}, action 1: no row fits what was counted and declared" for s in range(4)]
    assert plausible.unseen.tolist() == [0.0, 1.0] * 4


def test_a_step_that_no_noise_explains_puts_its_laws_in_doubt():
    room = stock_room()
    counts = Counts(room.space)
    counts.add(0, 1, 0.5, 3)
    plausible, conflicts = read(Knowledge(room.space, mechanics=room), likelihood, counts, 0.1)
    assert conflicts == ["state 0, action 1: led to state 3, which no noise explains"]
    assert plausible.unseen.tolist() == [0.0] + [1.0] * 9


def test_each_law_of_a_step_that_no_noise_explains_is_in_doubt():
    """Action 0 leads where the first coin says, action 1 where the second does; of both, one step led to state 2."""
    space, one = Space.full(3, 2), np.array([True, False] * 3)
    coins = Mechanics.of(space, lambda s, a, xi: xi[a], (2, 2))
    for faulty, doubtful in (((0,), one), ((1,), ~one), ((0, 1), one | ~one)):
        counts = Counts(space)
        for _ in range(30):
            counts.add(1, 0, 0.5, 0)
            counts.add(1, 1, 0.5, 1)
        for a in faulty:
            counts.add(0, a, 0.5, 2)
        plausible = Knowledge(space, mechanics=coins).plausible(likelihood, counts, 0.1)
        assert plausible.unseen.tolist() == doubtful.astype(float).tolist()


def test_stages_pool_their_draws_and_repeat_the_rows():
    room, rng = stock_room(), np.random.default_rng(0)
    law = np.array([0.1, 0.2, 0.3, 0.4])
    flat, pairs, noise = played(room, [law], rng, 300)
    after = np.maximum(room.space.pair_state[pairs] + room.space.pair_action[pairs] - noise[:, 0], 0)
    staged = Counts(room.space, stages=3)
    staged.add_steps(pairs + room.space.n_pairs * (np.arange(300) % 3), np.zeros(300), after)
    known = Knowledge(room.space, rewards=np.zeros(10), mechanics=room)
    for kind in VALID:
        one, three = known.plausible(kind, flat, 0.1), known.plausible(kind, staged, 0.1)
        assert three.stages == 3 and three.n_rows == 30
        for name in ("next_state", "p_lower", "p_upper", "unseen"):
            assert np.array_equal(np.tile(getattr(one, name), 3), getattr(three, name)), name
        assert three.next_ptr[-1] == 3 * one.next_ptr[-1] and three.rows.slack.shape == (30,)
