"""Problems that people know, against their own numbers, closed forms, and the models of the environments themselves."""

import itertools
import json
import re
from collections import deque

import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

from surefooted import problems, solve
from surefooted.errors import InvalidInput, MissingExtra
from surefooted.evaluation.hardness import hardness
from surefooted.evaluation.summary import LISTED, listed
from surefooted.problems import (
    cliff_walking,
    deep_sea,
    double_chain,
    forest,
    frozen_lake,
    icu_sepsis,
    planned_inventory,
    simple_grid,
    taxi,
    wet_chicken,
)
from surefooted.problems.extras import EXTRAS, is_installed

SLOW_TO_MEASURE = {"maintenance", "taxi", "icu_sepsis"}  # their diameters


def gain(problem):
    return solve.gain_and_bias(problem.mdp, problem.baseline).gain


def row_of(problem, s, a):
    return dict(zip(*(column.tolist() for column in problem.mdp.row(s, a)), strict=True))


def reward_of(problem, s, a):
    return problem.mdp.r[problem.space.pair(s, a)]


# -- forest -----------------------------------------------------------------------------------------------------------


def test_forest_has_the_values_that_the_toolbox_prints():
    # pymdptoolbox's documentation: PolicyIteration(*forest(), 0.9).V and RelativeValueIteration's average reward
    p, r, _ = forest(unit="points").mdp.to_arrays()
    values = np.zeros(3)
    for _ in range(2_000):
        values = (r + 0.9 * p @ values).max(axis=1)
    assert values == pytest.approx([26.244, 29.484, 33.484], abs=1e-9)
    assert solve.optimal_gain(forest(unit="points").mdp).gain == pytest.approx(3.24)


@pytest.mark.parametrize(("n_ages", "fire"), [(3, 0.1), (6, 0.25), (2, 0.5)])
def test_forest_baselines_earn_what_renewal_theory_says(n_ages, fire):
    keep = 1 - fire
    spared = keep ** (n_ages - 1)  # the probability to grow old without a fire
    until_old = (1 - spared) / (fire * spared)  # the expected years until n_ages - 1 in a row without a fire
    options = {"n_ages": n_ages, "fire": fire, "wait_reward": 5.0, "cut_reward": 3.0, "unit": "points"}
    assert gain(forest(**options)) == pytest.approx(3.0 / (until_old + 1))
    assert gain(forest(**options, baseline="wait")) == pytest.approx(5.0 * spared)
    first = 3.0 if n_ages == 2 else 1.0  # what cutting earns at the second age
    assert gain(forest(**options, baseline="early")) == pytest.approx(first / (1 / keep + 1))


# -- chains -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 5])
def test_double_chain_row_by_row(length):
    problem = double_chain(length, unit="points")
    for chain, place in [(0, 0), *itertools.product((1, 2), range(1, length))]:
        s = problem.state_labels.index(f"{chain}.{place}" if chain else "0")
        last = place == length - 1
        ahead = f"{chain or 1}.{place if last else place + 1}"
        back = "0" if chain else "2.1"
        for a, (goal, earned) in enumerate([(ahead, {1: 2, 2: 1}[chain or 1] * length if last else 0), (back, 2)]):
            assert row_of(problem, s, a) == {problem.state_labels.index(goal): 1.0}
            assert reward_of(problem, s, a) == earned


def test_double_chain_slips_into_the_other_action_and_has_three_baselines():
    assert [gain(double_chain(baseline=name, unit="points")) for name in ("loop", "second", "first")] == [2, 5, 10]
    sure, slippery = double_chain(unit="points"), double_chain(slip=0.2, unit="points")
    (p, r, _), (q, z, _) = sure.mdp.to_arrays(), slippery.mdp.to_arrays()
    assert q == pytest.approx(0.8 * p + 0.2 * p[:, ::-1]) and z == pytest.approx(0.8 * r + 0.2 * r[:, ::-1])


@pytest.mark.parametrize(("size", "slip", "share"), [(10, 0.0, 0.9), (6, 0.1, 0.5), (1, 0.3, 1.0)])
def test_deep_sea_is_worth_its_chest_less_what_the_way_costs(size, slip, share):
    problem = deep_sea(size, slip, right_share=share, unit="points")
    hold, cost = 1 - slip, 0.01 / size
    best = hold**size - cost * sum(hold**k for k in range(size))  # right as long as the chest can be reached
    assert solve.optimal_values(problem.mdp, size).values[0, 0] == pytest.approx(best)
    played = (share * hold) ** size - cost * size * share
    assert solve.policy_values(problem.mdp, problem.baseline, size)[0, 0] == pytest.approx(played)
    assert problem.space.n_states == size * (size + 1) // 2 and problem.horizon == size


# -- grids ------------------------------------------------------------------------------------------------------------


def test_wet_chicken_moves_as_its_formulas_say():
    # Hans & Udluft (2009): flow 3 y / w, turbulence (3.5 - flow) times a uniform number on [-1, 1], rounded
    length, width, n = 5, 4, 40_000
    problem = wet_chicken(length, width, unit="points")
    luck = (np.arange(n) + 0.5) / n * 2 - 1
    index = {cell: s for s, cell in enumerate(itertools.product(range(length), range(width)))}
    moves = [(0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1)]
    for ((x, y), s), (a, (along, across)) in itertools.product(index.items(), enumerate(moves)):
        flow = 3 * y / width
        ends = np.floor(x + along + flow + (3.5 - flow) * luck + 0.5)
        row = np.zeros(len(index))
        for end, count in zip(*np.unique(ends, return_counts=True), strict=True):
            falls = end >= length
            column = 0 if falls else min(max(y + across, 0), width - 1)
            row[index[0 if falls else max(int(end), 0), column]] += count / n
        found = np.zeros(len(index))
        for goal, mass in row_of(problem, s, a).items():
            found[goal] = mass
        assert found == pytest.approx(row, abs=5 / n), (x, y, a)  # each end of a cell is off by one point at most
        earned = sum(mass * (goal // width) for goal, mass in row_of(problem, s, a).items())
        assert reward_of(problem, s, a) == pytest.approx(earned)


def test_wet_chicken_baselines_differ_in_quality():
    qualities = [gain(wet_chicken(baseline=name)) for name in ("hold", "drift", "middle")]
    assert qualities == sorted(qualities) and len(set(qualities)) == 3
    middle = wet_chicken(baseline="middle").baseline.actions.reshape(5, 5)
    assert middle[:, 2].tolist() == [0, 0, 1, 2, 2] and set(middle[:, :2].ravel()) == {4}
    assert set(middle[:, 3:].ravel()) == {3}


@pytest.mark.parametrize(("pays", "best"), [("and", {8}), ("nand", {0, 2, 6}), ("or", {2, 6, 8}), ("xor", {2, 6})])
@pytest.mark.parametrize("lazy", [0.0, 0.3])
def test_simple_grid_row_by_row(pays, best, lazy):
    problem = simple_grid(3, pays, lazy)
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0), (0, 0)]
    for (s, (x, y)), (a, (dx, dy)) in itertools.product(
        enumerate(itertools.product(range(3), repeat=2)), enumerate(moves)
    ):
        goal = min(max(x + dx, 0), 2) * 3 + min(max(y + dy, 0), 2)
        row = {goal: 1 - lazy} if goal != s else {s: 1.0}
        if lazy and goal != s:
            row[s] = lazy
        assert row_of(problem, s, a) == pytest.approx(row)
        here = 0.5 if s not in (0, 2, 6, 8) else float(s in best)
        assert reward_of(problem, s, a) == pytest.approx(0.5 + row.get(s, 0.0) * (here - 0.5))
    assert problem.start == 4 and solve.optimal_gain(problem.mdp).gain == pytest.approx(1.0)


def test_simple_grid_baselines_stay_wander_or_find_a_corner():
    assert gain(simple_grid()) == pytest.approx(0.5)
    assert gain(simple_grid(baseline="corner")) == pytest.approx(1.0)
    wander = simple_grid(baseline="wander")
    shares = np.full(25, 1 / 25)  # the walk is symmetric
    r = wander.mdp.to_arrays()[1].mean(axis=1)
    assert gain(wander) == pytest.approx(shares @ r)
    assert 0.5 < gain(simple_grid(baseline="corner", random_share=0.3)) < 1.0


# -- toy text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slippery", [True, False])
def test_frozen_lake_follows_its_rules_and_starts_again(slippery):
    problem = frozen_lake(slippery=slippery)
    lake = FrozenLakeEnv(is_slippery=slippery)
    marks = lake.desc.astype(str)
    cells = [tuple(map(int, re.findall(r"\d+", label))) for label in problem.state_labels]
    reached = {cell for cell in np.ndindex(4, 4) if marks[cell] in "SF"}
    assert set(cells) == reached and cells[problem.start] == (0, 0)
    moves = [(0, -1), (1, 0), (0, 1), (-1, 0)]
    for s, (i, j) in enumerate(cells):
        for a in range(4):
            row, earned = {}, 0.0
            drawn = [(a + turn) % 4 for turn in (-1, 0, 1)] if slippery else [a]
            for di, dj in (moves[way] for way in drawn):
                end = min(max(i + di, 0), 3), min(max(j + dj, 0), 3)
                earned += (marks[end] == "G") / len(drawn)
                goal = cells.index((0, 0) if marks[end] in "GH" else end)
                row[goal] = row.get(goal, 0.0) + 1 / len(drawn)
            assert row_of(problem, s, a) == pytest.approx(row)
            assert reward_of(problem, s, a) == pytest.approx(earned)


def test_frozen_lake_baselines():
    lake = frozen_lake(horizon=100, unit="crossings")
    crossed = [
        solve.policy_values(lake.mdp, frozen_lake(horizon=100, unit="crossings", baseline=name).baseline, 100)[0, 0]
        for name in ("random", "direct", "careful")
    ]
    assert crossed == sorted(crossed) and crossed[2] > 3 * crossed[1] > 0
    assert lake.space.n_states == 16 and lake.start == 0
    dry = frozen_lake(slippery=False, horizon=20, baseline="direct")
    assert solve.policy_values(dry.mdp, dry.baseline, 20)[0, 0] == pytest.approx(1.0)
    assert solve.policy_values(dry.mdp, dry.baseline, 5)[0, 0] == 0.0  # the way takes six steps


@pytest.mark.parametrize("slippery", [False, True])
def test_cliff_walking_is_gymnasiums_table(slippery):
    problem, model = cliff_walking(slippery, unit="points"), CliffWalkingEnv(is_slippery=slippery).P
    done = problem.state_labels.index("done")
    for s, a in itertools.product(range(48), range(4)):
        row, earned = {}, 0.0
        for p, goal, reward, over in model[s][a]:
            goal = done if over else int(goal)
            row[goal] = row.get(goal, 0.0) + p
            earned += p * reward
        assert row_of(problem, s, a) == pytest.approx(row) and reward_of(problem, s, a) == pytest.approx(earned)
    assert row_of(problem, done, 0) == {done: 1.0} and reward_of(problem, done, 0) == 0.0


def test_cliff_walking_baselines_take_seventeen_and_thirteen_steps():
    for name, steps in (("safe", 17), ("direct", 13)):
        problem = cliff_walking(baseline=name, unit="points")
        assert solve.policy_values(problem.mdp, problem.baseline, 40)[0, problem.start] == pytest.approx(-steps)


# the walls of Dietterich's map, between cells of one row
WALLS = {((0, 1), (0, 2)), ((1, 1), (1, 2)), ((3, 0), (3, 1)), ((4, 0), (4, 1)), ((3, 2), (3, 3)), ((4, 2), (4, 3))}
PLACES = [(0, 0), (0, 4), (4, 0), (4, 3)]


def taxi_distances(goal):
    """The steps to a cell from every cell of Dietterich's map."""
    steps, queue = {goal: 0}, deque([goal])
    while queue:
        i, j = cell = queue.popleft()
        for other in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            inside = 0 <= other[0] < 5 and 0 <= other[1] < 5
            if inside and other not in steps and tuple(sorted((cell, other))) not in WALLS:
                steps[other] = steps[cell] + 1
                queue.append(other)
    return steps


def test_taxi_earns_what_its_map_says():
    to = {place: taxi_distances(place) for place in PLACES}
    rides = [
        to[PLACES[a]][cell] + to[PLACES[b]][PLACES[a]] + 2
        for cell in itertools.product(range(5), repeat=2)
        for a, b in itertools.permutations(range(4), 2)
    ]
    mean = np.mean(rides)  # steps of a ride: it earns 20 - (steps - 1)
    problem = taxi(random_share=0.0, unit="points")
    assert gain(problem) == pytest.approx((21 - mean) / mean)
    assert solve.optimal_gain(problem.mdp).gain == pytest.approx((21 - mean) / mean)
    assert gain(taxi(unit="points")) < gain(problem)
    env = TaxiEnv()
    assert problem.space.n_states == 400 and problem.state_labels[problem.start].split()[1] != "taxi"
    s = problem.state_labels.index("(2,2) taxi to green")
    assert row_of(problem, s, 0) == {problem.state_labels.index("(3,2) taxi to green"): 1.0}
    assert reward_of(problem, s, 4) == reward_of(problem, s, 5) == -10 and len(env.P) == 500


# -- extras -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_extra_is_named(monkeypatch, name):
    monkeypatch.setattr("surefooted.problems.extras.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match=f'pip install "surefooted\\[{EXTRAS[name]}\\]"'):
        problems.make(name)


def unlimited(problem, policy):
    """The share of patients that survive, and the mean length of a stay, if stays may be as long as they take."""
    p, r, _ = problem.mdp.to_arrays()
    law = policy.probabilities
    step, earned = np.einsum("sa,sat->st", law, p), (law * r).sum(axis=1)
    inside = np.r_[np.arange(713), 716]
    system = np.eye(inside.size) - step[np.ix_(inside, inside)]
    survival, stay = np.linalg.solve(system, np.column_stack([earned[inside], np.ones(inside.size)])).T
    return survival[-1], stay[-1] - 1  # the step that admits a patient does not count


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("icu_sepsis"), reason="icu-sepsis is not installed")
def test_icu_sepsis_has_the_numbers_that_its_package_prints():
    # Its description prints average returns 0.78, 0.78 and 0.88, and average lengths 9.45, 9.22 and 10.99 (simulated).
    problem = icu_sepsis()
    assert (problem.space.n_states, problem.space.n_actions) == (716 + 1, 25)
    best = solve.optimal_values(problem.mdp, 300)
    first = best.policy.rule(0)
    expected = {"random": (0.78, 9.45), "expert": (0.78, 9.22), "optimal": (0.88, 10.99)}
    policies = {"random": icu_sepsis(baseline="random").baseline, "expert": problem.baseline, "optimal": first}
    found = {name: unlimited(problem, policy) for name, policy in policies.items()}
    assert {name: round(survival, 2) for name, (survival, _) in found.items()} == {
        name: survival for name, (survival, _) in expected.items()
    }
    for name, (_, stay) in expected.items():
        assert found[name][1] == pytest.approx(stay, abs=0.02), name
    assert best.values[0, problem.start] == pytest.approx(found["optimal"][0], abs=1e-6)
    few = icu_sepsis(actions="admissible")
    assert few.space.n_pairs < problem.space.n_pairs / 2
    assert round(unlimited(few, few.baseline)[0], 2) == 0.78
    assert solve.optimal_values(few.mdp, 300).values[0, few.start] == pytest.approx(best.values[0, problem.start])


@pytest.mark.skipif(not is_installed("planned_inventory"), reason="stockpyl is not installed")
@pytest.mark.parametrize(("demand", "price", "fixed"), [(5.0, 8.0, 10.0), (2.5, 4.0, 3.0), (7.0, 12.0, 30.0)])
def test_a_planner_with_the_right_forecast_is_optimal_and_costs_what_stockpyl_says(demand, price, fixed):
    options = {"demand_mean": demand, "price": price, "fixed_cost": fixed, "capacity": 40, "unit": "€"}
    problem = planned_inventory("exact", demand, **options)
    from stockpyl.ss import s_s_discrete_exact

    margin = price - 2.0 - 0.5
    s, up_to, cost = s_s_discrete_exact(0.5, margin, fixed, True, demand)
    assert s >= 0 and up_to <= 40
    assert gain(problem) == pytest.approx(margin * demand - cost, abs=1e-6)
    assert gain(problem) == pytest.approx(solve.optimal_gain(problem.mdp).gain, abs=1e-6)
    worse = [
        gain(planned_inventory(planner, share * demand, **options)) for planner, share in (("power", 1), ("power", 0.5))
    ]
    assert gain(problem) >= worse[0] > worse[1]


# -- what the list says -----------------------------------------------------------------------------------------------


def _check_listed(name):
    row = json.loads(LISTED.read_text())[name]
    for key, value in listed(problems.make(name)).items():
        assert row[key] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value), key


@pytest.mark.parametrize("name", [name for name in problems.ALL if name not in {*SLOW_TO_MEASURE, *EXTRAS}])
def test_the_list_of_problems_is_true(name):
    _check_listed(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*SLOW_TO_MEASURE, *EXTRAS}))
def test_the_rest_of_the_list_is_true(name):
    if not is_installed(name):
        pytest.skip(f"{EXTRAS[name]} is not installed")
    _check_listed(name)


def test_the_list_has_every_problem_once():
    assert list(json.loads(LISTED.read_text())) == list(problems.ALL)


@pytest.mark.parametrize("make", [wet_chicken, forest, lambda: double_chain(slip=0.2)])
def test_hardness_of_steps_is_what_very_long_runs_lose(make):
    problem, steps = make(), 3_000
    p, r, _ = problem.mdp.to_arrays()
    law = problem.baseline.probabilities
    best, played = np.zeros(len(p)), np.zeros(len(p))
    for _ in range(steps):  # value iteration: one step changed at the beginning of a very long run
        q, z = r + p @ best, r + p @ played
        gaps, loss = q.max(axis=1)[:, None] - q, (law * z).sum(axis=1)[:, None] - z
        best, played = q.max(axis=1), (law * z).sum(axis=1)
    each = ((law * (r + p @ played)).sum(axis=1) - played)[problem.start]
    found = hardness(problem)
    assert found.smallest_gap == pytest.approx(gaps[gaps > 1e-6].min(), rel=1e-6)
    assert found.reserve == pytest.approx(loss.max() / each, rel=1e-6)
    assert found.to_gain == pytest.approx(((r + p @ best).max(axis=1) - best)[problem.start] / each - 1, rel=1e-6)
    assert found.span == pytest.approx(np.ptp(best), rel=1e-6)


def test_hardness_of_episodes_by_hand():
    problem = deep_sea(2, right_share=0.5, unit="points")
    found, cost = hardness(problem), 0.005
    played = 0.25 - cost  # V_b of the start
    assert found.to_gain == pytest.approx((1 - 2 * cost) / played - 1)
    assert found.smallest_gap == pytest.approx(cost)  # right in the last row, left of the chest
    assert found.reserve == pytest.approx((0.5 - cost / 2) / played)  # left in front of the chest
    assert found.span == pytest.approx(1 - cost)


@pytest.mark.parametrize(
    ("name", "parameters", "faults"),
    [
        ("forest", {"n_ages": 1, "wait_reward": 0.0, "fire": 2.0}, ["n_ages 1", "wait_reward 0.0", "fire 2.0"]),
        ("forest", {"baseline": "burn", "random_share": 2.0}, ["'burn'", "random_share 2.0"]),
        ("double_chain", {"length": 1, "slip": -1.0}, ["length 1", "slip -1.0"]),
        ("deep_sea", {"size": 0, "slip": 2.0, "right_share": 3.0}, ["size 0", "slip 2.0", "right_share 3.0"]),
        ("wet_chicken", {"length": 1, "width": 0}, ["length 1", "width 0"]),
        ("simple_grid", {"size": 1, "pays": "nor", "lazy": 2.0}, ["size 1", "'nor'", "lazy 2.0"]),
        ("frozen_lake", {"map": "SFX"}, ["map 'SFX'"]),
        ("frozen_lake", {"map": "SG\nF"}, ["of one length"]),
        ("cliff_walking", {"baseline": "jump"}, ["'jump'"]),
        ("taxi", {"random_share": -1.0}, ["random_share -1.0"]),
    ],
    ids=str,
)
def test_bad_parameters_are_named(name, parameters, faults):
    with pytest.raises(InvalidInput) as caught:
        problems.make(name, **parameters)
    for fault in faults:
        assert fault in str(caught.value)
