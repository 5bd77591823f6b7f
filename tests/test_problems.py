"""Each problem is the table that its text describes, computed here a second time and from the books' numbers."""

import itertools
import re
from collections import defaultdict, deque
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import poisson

from surefooted import problems, solve
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.problems import Problem, garnet, gridworld, inventory, maintenance, riverswim
from surefooted.problems.extras import is_installed
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space
from surefooted.testing import check_problem

nan, inf = np.nan, np.inf
HERE = [name for name in problems.ALL if is_installed(name) and name != "icu_sepsis"]  # which takes long to check


def table(problem):
    """{(s, a): (mean reward in the original units, {s': p})}, as the problem has it."""
    mdp = problem.mdp
    return {
        (s, a): (
            mdp.reward_offset + mdp.reward_scale * mdp.r[mdp.space.pair(s, a)],
            dict(zip(*map(list, row), strict=True)),
        )
        for s in range(mdp.n_states)
        for a in mdp.space.actions(s).tolist()
        for row in [mdp.row(s, a)]
    }


def assert_same_table(ours, theirs):
    assert ours.keys() == theirs.keys()
    for pair, (reward, row) in theirs.items():
        assert ours[pair][0] == pytest.approx(reward, abs=1e-10), pair
        assert ours[pair][1] == pytest.approx({y: p for y, p in row.items() if p > 0}, abs=1e-12), pair


@pytest.mark.parametrize("name", HERE)
def test_every_problem_keeps_the_rules(name):
    check_problem(lambda: problems.make(name))
    problem = problems.make(name)
    assert problem.name == name and problem.mdp.r_max == 1.0
    quiet = problems.make(name, noise=Noise())
    assert quiet.mdp.noise == Noise() and np.array_equal(quiet.mdp.r, problem.mdp.r)


RIVER = riverswim()
BROKEN = {
    "two states have the same label": {"state_labels": ["here"] * 6},
    "two actions have the same label": {"action_labels": ["go", "go"]},
    "two states have the same position": {"positions": np.zeros((6, 2)), "axes": ("row", "column")},
    "2 names of axes": {"axes": ("row", "column")},
}


@pytest.mark.parametrize(("sentence", "change"), BROKEN.items(), ids=BROKEN)
def test_the_check_of_problems_notices_a_broken_rule(sentence, change):
    with pytest.raises(AssertionError, match=sentence):
        check_problem(lambda: replace(RIVER, **change))


def test_the_check_of_problems_notices_another_table():
    seeds = itertools.count()
    with pytest.raises(AssertionError, match="built twice"):
        check_problem(lambda: garnet(seed=next(seeds)))
    stock = inventory()
    with pytest.raises(AssertionError, match="other transitions"):
        check_problem(lambda: replace(stock, laws=([0.5, 0.5, 0, 0, 0, 0, 0],)))
    dearer = replace(stock, mechanics=inventory(price=9.0).mechanics)
    with pytest.raises(AssertionError, match="other mean rewards"):
        check_problem(lambda: dearer)
    with pytest.raises(AssertionError, match="must return a Problem"):
        check_problem(lambda: stock.mdp)


@pytest.mark.parametrize(
    ("name", "noise"),
    [("inventory", Noise("gaussian", 0.1)), ("maintenance", Noise("gaussian", 0.1)), ("gridworld", Noise())]
    + [("riverswim", Noise()), ("garnet", Noise("bernoulli"))],
)
def test_the_default_noise_is_that_of_the_papers_experiments(name, noise):
    assert problems.make(name).mdp.noise == noise


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("inventroy", "inventory"), ("Maintenance", "maintenance"), ("grid-world", "gridworld"), ("river", "riverswim")],
)
def test_make_suggests_the_nearest_name(wrong, right):
    with pytest.raises(SurefootedError, match=f"there is no problem '{wrong}'; did you mean '{right}'"):
        problems.make(wrong)


def test_make_lists_the_names_when_none_is_near_and_passes_parameters_on():
    with pytest.raises(SurefootedError, match="the problems are inventory, maintenance, gridworld, riverswim, garnet"):
        problems.make("chess")
    assert problems.make("riverswim", n_states=9).space.n_states == 9


def test_inventory_is_putermans_example():
    demand = [0.25, 0.5, 0.25]  # Puterman (1994), Sec. 3.2.1
    problem = inventory(capacity=3, fixed_cost=4, demand=demand, order_below=3, order_up_to=3, price=8)
    rewards = {(0, 0): 0, (0, 1): -1, (0, 2): -2, (0, 3): -5, (1, 0): 5, (1, 1): 0, (1, 2): -3, (2, 0): 6, (2, 1): -1}
    rewards[3, 0] = 5
    rows = [[1, 0, 0, 0], [0.75, 0.25, 0, 0], [0.25, 0.5, 0.25, 0], [0, 0.25, 0.5, 0.25]]  # by s + a
    assert_same_table(table(problem), {(s, a): (r, dict(enumerate(rows[s + a]))) for (s, a), r in rewards.items()})
    assert problem.baseline.actions.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"normalise": "realised"},
        {"normalise": (-100.0, 50.0)},
        {"capacity": 4, "demand": [0.1, 0.0, 0.2, 0.0, 0.0, 0.3, 0.4]},  # demands above the capacity
        {"capacity": 5, "demand": [0.0, 1.0]},
        {"capacity": 4, "unit_cost": lambda u: u**2, "holding_cost": lambda u: 3.0 * (u > 2), "price": np.sqrt},
        {"fixed_cost": 0.0, "unit_cost": 0.5, "holding_cost": 0.0, "price": 1.5},
    ],
    ids=lambda p: ",".join(p),
)
def test_inventory_follows_putermans_formulas(parameters):
    problem = inventory(**parameters)
    m = parameters.get("capacity", 6)
    law = np.array(parameters.get("demand", np.full(m + 1, 1 / (m + 1))))
    p = np.concatenate([law, np.zeros(m + 1)])  # p[j] = P(D = j), q[u] = P(D >= u)
    q = p[::-1].cumsum()[::-1]
    cost, holding, price = (
        parameters.get(name, default) for name, default in (("unit_cost", 2.0), ("holding_cost", 1.0), ("price", 8.0))
    )
    c, h, f = (x if callable(x) else lambda u, x=x: x * u for x in (cost, holding, price))
    expected = {}
    for s, a in itertools.product(range(m + 1), repeat=2):
        u = s + a
        if u <= m:
            revenue = sum(f(j) * p[j] for j in range(u)) + f(u) * q[u]
            order = parameters.get("fixed_cost", 4.0) + c(a) if a else 0.0
            row = {0: q[u]} | {j: p[u - j] for j in range(1, u + 1)}
            expected[s, a] = (revenue - order - h(u), row)
    assert_same_table(table(problem), expected)
    assert problem.mdp.space.n_pairs == (m + 1) * (m + 2) // 2
    means = np.array([reward for reward, _ in expected.values()])
    if "normalise" not in parameters:
        assert (problem.mdp.r.min(), problem.mdp.r.max()) == (0.0, 1.0)
        assert problem.mdp.reward_offset == pytest.approx(means.min())


def test_inventory_is_normalised_by_the_rewards_that_can_be_realised():
    mdp = inventory(capacity=2, demand=[0.0, 0.5, 0.5, 0.0], normalise="realised").mdp
    assert mdp.reward_offset == -4 - 2 * 2 - 2 + 8  # orders 2, sells 1; without stock one earns 0
    assert mdp.reward_offset + mdp.reward_scale == -2 + 2 * 8  # sells 2 from stock


def test_inventory_baseline_orders_up_to_a_level_when_below_another():
    baseline = inventory(order_below=2, order_up_to=5).baseline
    assert baseline.actions.tolist() == [5, 4, 0, 0, 0, 0, 0]
    assert inventory().baseline.actions.tolist() == [4, 3, 2, 1, 0, 0, 0]
    assert inventory(capacity=2).baseline.actions.tolist() == [2, 1, 0]
    assert inventory(order_below=0, order_up_to=0).baseline == Policy.always(inventory().space, 0)


@pytest.mark.parametrize(
    ("normalise", "optimal", "baseline", "span", "units"),
    [("realised", 0.4919, 0.4688, 0.2852, (-22.0, 64.0)), ("mean", 0.5304, 0.4488, 1.0059, None)],
)
def test_inventory_has_the_gains_of_the_notes(normalise, optimal, baseline, span, units):
    problem = inventory(normalise=normalise)
    evaluated = solve.gain_and_bias(problem.mdp, problem.baseline)
    found = (solve.optimal_gain(problem.mdp).gain, evaluated.gain, evaluated.span)
    assert found == pytest.approx((optimal, baseline, span), abs=5.1e-5)  # g_b is 0.46875, printed 0.4688
    if units:
        assert (problem.mdp.reward_offset, problem.mdp.reward_scale) == units


@pytest.mark.parametrize(
    "parameters",
    [
        {"failed_level": 4, "threshold": 2},
        {"components": 1, "failed_level": 5, "rate": 0.3},
        {"components": 3, "failed_level": 2, "threshold": 1, "load_sharing": 1.7, "rate": 0.7, "random_share": 0.0},
        {
            "failed_level": 3,
            "threshold": 0,
            "preventive_cost": 5.0,
            "corrective_cost": 1.0,
            "penalty": 0.0,
            "rate": 40.0,
        },
        {"failed_level": 3, "threshold": 3, "random_share": 1.0, "load_sharing": 1.0, "setup_cost": 0.0},
    ],
    ids=str,
)
def test_maintenance_wears_by_poisson_numbers_and_pays_its_costs(parameters):
    problem = maintenance(**parameters)
    values = {"components": 2, "failed_level": 10, "rate": 2.5, "load_sharing": 1.5, "preventive_cost": 2.0}
    values |= {"corrective_cost": 4.0, "setup_cost": 2.0, "penalty": 10.0, "threshold": 4, "random_share": 0.3}
    values |= parameters
    n, failed, share = values["components"], values["failed_level"], values["random_share"]
    states = [tuple(map(int, label.split("-"))) for label in problem.state_labels]
    subsets = [{int(j) - 1 for j in label if j != "–"} for label in problem.action_labels]
    assert set(states) == set(itertools.product(range(failed + 1), repeat=n)) and len(subsets) == 2**n
    expected, law = {}, np.zeros((len(states), len(subsets)))
    for (s, levels), (a, replaced) in itertools.product(enumerate(states), enumerate(subsets)):
        bill = sum(values["corrective_cost" if levels[j] == failed else "preventive_cost"] for j in replaced)
        bill += values["setup_cost"] * bool(replaced) + values["penalty"] * (min(levels) == failed)
        after = [0 if j in replaced else level for j, level in enumerate(levels)]
        wear = poisson(values["rate"] * values["load_sharing"] ** after.count(failed))
        steps, tails = wear.pmf(np.arange(failed + 1)), wear.sf(np.arange(-1, failed))  # P(W = w), P(W >= w)
        row = {}
        for y, goal in enumerate(states):
            row[y] = 1.0
            for now, then in zip(after, goal, strict=True):
                if now == failed:
                    row[y] *= then == failed
                else:
                    row[y] *= 0.0 if then < now else tails[failed - now] if then == failed else steps[then - now]
        expected[s, a] = (-bill, row)
        due = {j for j, level in enumerate(levels) if level >= values["threshold"]}
        law[s, a] = share / len(subsets) + (1 - share) * (replaced == due)
    assert_same_table(table(problem), expected)
    assert problem.baseline.probabilities == pytest.approx(law)
    assert states[problem.start] == (0,) * n


def test_maintenance_has_the_gains_of_the_notes():
    problem = maintenance()
    evaluated = solve.gain_and_bias(problem.mdp, problem.baseline)
    found = (solve.optimal_gain(problem.mdp).gain, evaluated.gain)
    assert (problem.space.n_states, problem.space.n_actions) == (121, 4)
    assert found == pytest.approx((0.8884, 0.8225), abs=5e-5) and evaluated.span == pytest.approx(0.975, abs=5e-4)
    assert (problem.mdp.reward_offset, problem.mdp.reward_scale) == (-20.0, 20.0)


ARROWS = {"↑": (-1, 0), "↓": (1, 0), "←": (0, -1), "→": (0, 1)}
WALLED = """
S.#..G
..#.X.
.##...
.....X
"""


def cells(problem):
    """(row, column) of each state, from the labels."""
    return [tuple(map(int, re.findall(r"\d+", label))) for label in problem.state_labels]


@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
@pytest.mark.parametrize(("goal", "pit"), [("absorb", "pass"), ("restart", "absorb"), ("pass", "restart")])
@pytest.mark.parametrize("text", ["...G\n.X..\nS...", WALLED, "SG"], ids=["paper", "walled", "tiny"])
def test_gridworld_moves_slips_and_ends_as_it_says(text, goal, pit, slip):
    problem = gridworld(text, slip=slip, goal=goal, pit=pit, step_reward=-1.0, goal_reward=5.0, pit_reward=-3.0)
    marks = {(i, j): c for i, row in enumerate(text.split()) for j, c in enumerate(row) if c != "#"}
    index = {cell: s for s, cell in enumerate(cells(problem))}
    assert index.keys() == marks.keys() and problem.action_labels == tuple(ARROWS)
    assert [tuple(cell) for cell in problem.positions] == list(index)
    start = next(cell for cell, mark in marks.items() if mark == "S")
    assert problem.start == index[start]
    expected = {}
    for (cell, s), (a, (di, dj)) in itertools.product(index.items(), enumerate(ARROWS.values())):
        mark, row = marks[cell], defaultdict(float)
        ending = {"G": goal, "X": pit}.get(mark, "pass")
        if ending != "pass":
            row[index[cell if ending == "absorb" else start]] = 1.0
        else:
            for (mi, mj), p in [((di, dj), 1 - slip), ((dj, di), slip / 2), ((-dj, -di), slip / 2)]:
                row[index.get((cell[0] + mi, cell[1] + mj), s)] += p
        expected[s, a] = ({"G": 5.0, "X": -3.0}.get(mark, -1.0), row)
    assert_same_table(table(problem), expected)


def test_gridworld_has_the_baseline_of_the_notes():
    problem = gridworld()
    notes = "(0,0)↓ (0,1)← (0,2)←/→ (1,0)↓ (1,1)→ (1,2)↑ (1,3)←/↑ (2,0)→ (2,1)→ (2,2)↑/→ (2,3)↑"
    for entry in notes.split():
        i, j, arrows = int(entry[1]), int(entry[3]), entry[5:].split("/")
        played = problem.baseline.probabilities[cells(problem).index((i, j))]
        assert dict(zip(ARROWS, played, strict=True)) == {x: (x in arrows) / len(arrows) for x in ARROWS}


@pytest.mark.parametrize(("goal", "optimal", "baseline"), [("absorb", 8.0, 7.15), ("restart", 6.4, 6.25)])
def test_gridworld_has_the_values_of_the_notes(goal, optimal, baseline):
    problem = gridworld(goal=goal)
    assert sorted(set(problem.mdp.r)) == pytest.approx([0.0, 0.6, 1.0])
    found = solve.optimal_values(problem.mdp, 10).values, solve.policy_values(problem.mdp, problem.baseline, 10)
    assert [values[0, problem.start] for values in found] == pytest.approx([optimal, baseline])


@pytest.mark.parametrize("text", [WALLED, "SX.\n.XG\n...", "S#G\n.#.\n###", "GSG", "XS\nGX"])
def test_gridworld_baseline_of_another_map_is_every_shortest_way_around_the_pits(text):
    problem = gridworld(text)
    where = cells(problem)
    marks = {cell: text.split()[cell[0]][cell[1]] for cell in where}
    distance = {cell: 0 for cell in where if marks[cell] == "G"}
    queue = deque(distance)
    while queue:  # breadth first, backwards; one may leave a pit but not enter it
        i, j = cell = queue.popleft()
        for before in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            if marks[cell] != "X" and before in marks and before not in distance:
                distance[before] = distance[cell] + 1
                queue.append(before)
    for cell, played in zip(where, problem.baseline.probabilities, strict=True):
        if marks[cell] == "G":
            continue
        targets = [(cell[0] + di, cell[1] + dj) for di, dj in ARROWS.values()]
        onward = [x in marks and marks[x] != "X" and distance.get(x, inf) == distance.get(cell, 0) - 1 for x in targets]
        best = np.array(onward if any(onward) else [True] * 4, dtype=float)
        assert played == pytest.approx(best / best.sum()), cell


def test_gridworld_takes_a_baseline_drawn_with_arrows():
    problem = gridworld("S#G\n...", baseline="↓ # ↑\n→ ↑/→/← ↑")
    assert problem.baseline.probabilities[[0, 1, 2, 4]].tolist() == np.eye(4)[[1, 0, 3, 0]].tolist()
    assert problem.baseline.probabilities[3] == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert gridworld(horizon=None).horizon is None


def test_riverswim_row_by_row():
    left = {(s, 0): (0.0, {max(s - 1, 0): 1.0}) for s in range(4)}
    right = {(s, 1): (0.0, {s - 1: 0.05, s: 0.6, s + 1: 0.35}) for s in (1, 2)}
    ends = {(0, 0): (0.005, {0: 1.0}), (0, 1): (0.0, {0: 0.4, 1: 0.6}), (3, 1): (1.0, {2: 0.4, 3: 0.6})}
    assert_same_table(table(riverswim(4)), left | right | ends)
    assert riverswim().space.n_states == 6 and riverswim().baseline == Policy.always(riverswim().space, 0)


def test_riverswim_earns_what_its_birth_and_death_chain_says():
    problem = riverswim()
    up, down = [0.6, 0.35, 0.35, 0.35, 0.35], [0.05, 0.05, 0.05, 0.05, 0.4]  # detailed balance
    shares = np.cumprod([1.0, *np.divide(up, down)])
    assert solve.optimal_gain(problem.mdp).gain == pytest.approx(shares[-1] / shares.sum())
    assert solve.gain_and_bias(problem.mdp, problem.baseline).gain == pytest.approx(0.005)


def identical(a, b):
    a, b = a.mdp.columns(), b.mdp.columns()
    return all(np.array_equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("seed", range(5))
def test_garnets_are_the_same_for_the_same_seed_only(seed):
    assert identical(garnet(seed=seed), garnet(seed=seed))
    assert not identical(garnet(seed=seed), garnet(seed=seed + 1))


def test_a_garnet_is_the_same_on_every_machine():
    mdp = garnet(seed=0).mdp
    assert mdp.row(0, 0)[0].tolist() == [8, 12, 29, 33, 39]
    assert (mdp.p[:2].tolist(), mdp.r[:2].tolist()) == (
        pytest.approx([0.16317297212776, 0.27214120057783]),
        pytest.approx([0.91338413809014, 0.81282961625225]),
    )


@pytest.mark.parametrize(
    ("n_states", "n_actions", "n_successors", "return_share"),
    [(50, 4, 5, 0.1), (10, 3, 10, 0.5), (7, 2, 1, 0.3), (1, 2, 1, 0.1), (30, 2, 2, 1e-3)],
)
@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_a_garnet_has_its_successors_and_steps_along_one_cycle(
    n_states, n_actions, n_successors, return_share, seed
):
    problem = garnet(n_states, n_actions, n_successors, seed, return_share)
    p, r, _ = problem.mdp.to_arrays()
    assert np.all((p > 0).sum(axis=2) == n_successors)
    assert np.array_equal(problem.baseline.actions, r.argmax(axis=1)) and r.min() >= 0 and r.max() <= 1
    common = (p >= return_share - 1e-12).all(axis=1)  # [S, S]: steps that every action takes with that share
    reached = {0}
    for _ in range(n_states):
        reached |= {y for s in reached for y in np.flatnonzero(common[s])}
    assert len(reached) == n_states


@pytest.mark.parametrize("seed", range(6))
def test_every_deterministic_policy_of_a_garnet_is_irreducible(seed):
    p, _, _ = garnet(4, 2, 1 + seed % 3, seed).mdp.to_arrays()
    for actions in itertools.product(range(2), repeat=4):
        step = np.eye(4) + (p[np.arange(4), list(actions)] > 0)
        assert np.all(np.linalg.matrix_power(step, 3) > 0)


@pytest.mark.parametrize(
    ("name", "parameters", "faults"),
    [
        ("inventory", {"capacity": 0}, ["capacity 0"]),
        ("inventory", {"capacity": 2.5}, ["capacity 2.5"]),
        ("inventory", {"capacity": nan}, ["capacity nan"]),
        ("inventory", {"start": 0.5}, ["start 0.5"]),
        (
            "inventory",
            {"start": 9, "order_below": 5, "order_up_to": 4, "demand": [0.5, 0.6], "normalise": "median"},
            ["start 9", "order_up_to 4", "demand must be probabilities that sum to 1, not [0.5, 0.6]", "'median'"],
        ),
        (
            "inventory",
            {"capacity": 0, "demand": [-1.0, 2.0], "normalise": "median"},
            ["capacity 0", "demand", "'median'"],
        ),
        ("inventory", {"demand": [nan, 1.0]}, ["demand"]),
        ("inventory", {"demand": []}, ["demand"]),
        ("inventory", {"normalise": (1.0, -1.0)}, ["(1.0, -1.0)"]),
        ("inventory", {"fixed_cost": nan}, ["nan"]),
        (
            "maintenance",
            {
                "components": 0,
                "failed_level": -1,
                "rate": 0.0,
                "load_sharing": 0.5,
                "penalty": -1.0,
                "random_share": 2.0,
            },
            [
                "components 0",
                "failed_level -1",
                "rate 0.0",
                "load_sharing 0.5",
                "costs",
                "threshold 4",
                "random_share 2.0",
            ],
        ),
        (
            "maintenance",
            {"rate": nan, "load_sharing": inf, "setup_cost": nan},
            ["rate nan", "load_sharing inf", "costs"],
        ),
        (
            "maintenance",
            {"preventive_cost": 0, "corrective_cost": 0, "setup_cost": 0, "penalty": 0},
            ["costs (0, 0, 0, 0)"],
        ),
        ("maintenance", {"failed_level": nan}, ["failed_level nan"]),
        ("gridworld", {"map": ""}, ["rows of one length", "one start S, not 0", "a goal that absorbs"]),
        (
            "gridworld",
            {"map": "SS?\n..", "slip": 1.5, "goal": "win", "pit": "die"},
            [
                "rows of one length",
                "marks ['?']",
                "one start S, not 2",
                "slip 1.5",
                "'win'",
                "'die'",
                "a goal that absorbs",
            ],
        ),
        ("gridworld", {"slip": nan, "horizon": 10}, ["slip nan"]),
        ("gridworld", {"horizon": 0}, ["horizon 0"]),
        ("gridworld", {"horizon": nan}, ["horizon nan"]),
        ("gridworld", {"step_reward": 1.0, "goal_reward": 1.0, "pit_reward": 1.0}, ["(1.0, 1.0)"]),
        ("gridworld", {"map": "SG", "baseline": "→"}, ["an entry for each cell"]),
        (
            "gridworld",
            {"map": "S.G", "baseline": "right → ↑↓"},
            ["row 0, column 0: 'right'", "row 0, column 2: '↑↓'"],
        ),
        ("riverswim", {"n_states": 2}, ["n_states 2"]),
        ("riverswim", {"n_states": 6.5}, ["n_states 6.5"]),
        ("riverswim", {"n_states": nan}, ["n_states nan"]),
        (
            "garnet",
            {"n_states": 0, "n_successors": 3, "return_share": 0.0},
            ["n_states 0", "n_successors 3", "return_share 0.0"],
        ),
        ("garnet", {"n_states": 3, "n_successors": 4, "return_share": nan}, ["n_successors 4", "return_share nan"]),
        ("garnet", {"n_states": 5.5}, ["n_states 5.5"]),
        ("garnet", {"seed": -1}, ["seed -1"]),
    ],
    ids=str,
)
def test_bad_parameters_are_all_named(name, parameters, faults):
    with pytest.raises(InvalidInput) as caught:
        problems.make(name, **parameters)
    for fault in faults:
        assert any(fault in found for found in caught.value.faults) and fault in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [("inventory", "capacity", 6.0), ("inventory", "start", 3.0), ("inventory", "order_up_to", 5.0)]
    + [("maintenance", "components", 2.0), ("maintenance", "failed_level", 10.0), ("gridworld", "horizon", 10.0)]
    + [("riverswim", "n_states", 6.0), ("garnet", "n_states", 50.0), ("garnet", "n_successors", 5.0)],
)
def test_a_whole_number_written_as_a_float_is_that_number_or_refused_by_name(name, parameter, value):
    try:
        problem = problems.make(name, **{parameter: value})
    except InvalidInput as error:
        assert parameter in str(error) and str(value) in str(error)
    else:
        whole = problems.make(name, **{parameter: int(value)})
        assert identical(problem, whole) and problem.baseline == whole.baseline
        assert [type(x) for x in (problem.start, problem.horizon)] == [type(x) for x in (whole.start, whole.horizon)]


def tiny(**changes):
    """A problem of two states and two actions, with some of its parts replaced."""
    mdp = TabularMDP.from_arrays(np.full((2, 2, 2), 0.5), [[0.1, 0.2], [0.3, 0.4]], noise=Noise("uniform", 0.1))
    return Problem(**({"name": "tiny", "mdp": mdp, "baseline": Policy.uniform(mdp.space), "start": 1} | changes))


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        (
            {"baseline": Policy.always(Space.full(3, 2), 0), "start": 2, "horizon": 0, "state_labels": ("a",)}
            | {"action_labels": ("a", "b", "c"), "positions": np.zeros((2, 3))},
            [
                "the baseline is on",
                "the start 2",
                "the horizon 0",
                "state_labels has 1",
                "action_labels has 3",
                "(2, 3)",
            ],
        ),
        ({"start": -1}, ["the start -1 is not one of the states 0 to 1"]),
        ({"start": 0.5}, ["the start 0.5"]),
        ({"horizon": 2.5}, ["the horizon 2.5"]),
        ({"horizon": nan}, ["the horizon nan"]),
        ({"baseline": Policy.uniform(Space.full(2, 2, 2.0))}, ["the baseline is on"]),
        (
            {"baseline": Policy.deterministic(Space.full(2, 2), [[0, 0]] * 3), "horizon": 4},
            ["the baseline has 3 decision rules, the horizon is 4"],
        ),
        (
            {"baseline": Policy.deterministic(Space.full(2, 2), [[0, 0]] * 3)},
            ["the baseline has 3 decision rules, the horizon is None"],
        ),
    ],
    ids=["everything", "start", "half a start", "half a stage", "nan", "r_max", "stages", "stages without horizon"],
)
def test_a_problem_whose_parts_do_not_fit_names_every_fault(changes, faults):
    with pytest.raises(InvalidInput, match="problem 'tiny' is not valid") as caught:
        tiny(**changes)
    assert len(caught.value.faults) == len(faults)
    for fault in faults:
        assert any(fault in found for found in caught.value.faults) and fault in str(caught.value)


def test_labels_are_numbers_by_default():
    assert tiny().state_labels == tiny().action_labels == ("0", "1") and tiny().axes == ("state",)


STAGES = np.random.default_rng(0).dirichlet([1, 1], (4, 2))


@pytest.mark.parametrize(
    "make",
    [
        *(problems.ALL[name] for name in HERE),
        lambda: tiny(baseline=Policy.deterministic(Space.full(2, 2), [[0, 1], [1, 0], [1, 1]]), horizon=3),
        lambda: tiny(baseline=Policy.randomised(Space.full(2, 2), STAGES), horizon=4),
        lambda: tiny(
            name="naïve – 名", state_labels=("a b", "ç"), positions=np.array([[0, 1], [2, 3]]), axes=("x", "y")
        ),
        lambda: tiny(paper={"optimal gain": 1 / 3, "β": -0.0}),
    ],
    ids=[*HERE, "rules", "randomised rules", "labels", "numbers"],
)
def test_a_problem_is_saved_and_loaded_to_the_last_bit(tmp_path, make):
    problem = make()
    problem.save(tmp_path / "problem.npz")
    again = Problem.load(tmp_path / "problem.npz")
    assert identical(problem, again) and problem.baseline == again.baseline
    for name in ("name", "start", "horizon", "state_labels", "action_labels", "axes", "paper"):
        assert getattr(problem, name) == getattr(again, name), name
    assert (problem.positions is None) == (again.positions is None)
    assert problem.positions is None or np.array_equal(problem.positions, again.positions)
    assert identical(
        problem, tiny(mdp=TabularMDP.load(tmp_path / "problem.npz"), baseline=Policy.uniform(problem.space))
    )
