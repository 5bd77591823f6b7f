"""One law for all: what shared noise proves of an unknown baseline, against linear programs, the truth, and runs."""

import numpy as np
import pytest
from scipy.optimize import linprog

import adversarial_account
import adversarial_coupling
import surefooted as sf
from surefooted.certificates.baseline_log import own_steps
from surefooted.certificates.coupling import couple
from surefooted.certificates.martingale import LARGEST
from surefooted.certificates.unknown import UnknownAccount
from surefooted.kernels import coupling as kernels
from surefooted.kernels import telescope
from surefooted.kernels.structs import Steps
from surefooted.knowledge.belief import Belief
from surefooted.sets.confidence import likelihood
from surefooted.sets.shared_noise import SharedNoise


def law_around(rng, q, width):
    """Bounds on the values and tails of a law, some of them tight."""
    tails = np.cumsum(q[::-1])[::-1]
    bounds = []
    for p in (q, tails):
        below, above = (width * rng.random(q.size) * (rng.random(q.size) < 0.8) for _ in range(2))
        bounds += [np.maximum(p - below, 0.0), np.minimum(p + above, 1.0)]
    return kernels.LawBounds(*bounds)


@pytest.mark.parametrize("kernel", [kernels.least_mean, kernels.least_mean.py_func])
def test_the_least_mean_is_that_of_two_linear_programs(kernel):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 7))
        q, w = rng.dirichlet(np.ones(n)), rng.normal(size=n)
        law = law_around(rng, q, 0.4)
        values = linprog(w, A_eq=np.ones((1, n)), b_eq=[1], bounds=np.c_[law.value_low, law.value_high]).fun
        rises = np.diff(w)  # by parts: over all P(tail j), each within its bounds
        tails = w[0] + linprog(rises, bounds=np.c_[law.tail_low, law.tail_high][1:]).fun if n > 1 else w[0]
        found = kernel(w, law, rng.permutation(n))
        assert found == pytest.approx(max(values, tails), abs=1e-9)
        assert found <= q @ w + 1e-9


def set_of(problem, law=None, delta=0.3):
    """The set of no data, or one whose law is known exactly."""
    plausible = Belief(sf.Counts(problem.space), likelihood, delta, problem.knowledge("mechanics")).plausible()
    if law is not None:
        shared, n = plausible.shared, len(law)
        masks = tuple(range(1, (1 << n) - 1))
        p = np.array([sum(law[i] for i in range(n) if mask >> i & 1) for mask in masks])
        exact = SharedNoise(shared.next_state, shared.reward, masks, p, p)
        object.__setattr__(plausible, "shared", exact)
    return plausible


@pytest.mark.parametrize("seed", range(12))
def test_a_known_law_gives_the_exact_bias_and_advantages(seed):
    rng = np.random.default_rng(seed)
    problem = adversarial_coupling.a_problem(rng, rewards=True)
    _, bias, advantage = adversarial_account.exactly(problem)
    found = couple(set_of(problem, problem.laws[0]), problem.baseline)
    assert found.difference == pytest.approx(bias[:, None] - bias, abs=2e-3)
    assert np.all(found.difference <= bias[:, None] - bias + 1e-9)
    assert found.worth == pytest.approx(advantage.ravel(), abs=4e-3)
    assert np.all(found.worth <= advantage.ravel() + 1e-9)
    assert np.ptp(bias) <= found.span + 1e-9 <= np.ptp(bias) + 3e-3
    low, high = found.around(1)
    assert np.all(low <= bias - bias[1] + 1e-9) and np.all(bias - bias[1] <= high + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_for_every_law_that_is_allowed(seed):
    """Of many laws around the estimate, those within all bounds never have a smaller difference or advantage."""
    rng = np.random.default_rng(seed)
    problem = adversarial_coupling.a_problem(rng, rewards=bool(seed % 2))
    counts = sf.Counts(problem.space)
    _, pairs, rewards, next_states = adversarial_account.a_log(rng, problem, 300)
    counts.add_steps(pairs, rewards, next_states)
    plausible = Belief(counts, likelihood, 0.3, problem.knowledge("mechanics")).plausible()
    found, shared, tried = couple(plausible, problem.baseline), plausible.shared, 0
    if found is None:  # what was seen does not prove that copies meet
        return
    for spread in (1000.0, 100.0, 20.0, 5.0) * 40:
        q = rng.dirichlet(problem.laws[0] * spread + 0.05)
        inside = [shared.lower[e] <= sum(q[i] for i in range(q.size) if mask >> i & 1) <= shared.upper[e]
                  for e, mask in enumerate(shared.masks)]  # fmt: skip
        if not all(inside):
            continue
        tried += 1
        other = adversarial_coupling.with_law(problem, q)
        _, bias, advantage = adversarial_account.exactly(other)
        assert np.all(found.difference <= bias[:, None] - bias + 1e-9)
        assert np.all(found.worth <= advantage.ravel() + 1e-9)
    assert tried > 10


def test_what_cannot_be_coupled():
    rng = np.random.default_rng(0)
    problem = adversarial_coupling.a_problem(rng, rewards=True)
    plausible = set_of(problem, problem.laws[0])
    assert couple(plausible, problem.baseline) is not None
    assert couple(plausible, problem.baseline.mixed_with(sf.Policy.uniform(problem.space), 0.5)) is None
    assert couple(set_of(problem), problem.baseline) is None  # nothing is known of the law: copies may never meet
    two = sf.problems.maintenance(2, 3, threshold=1, noise=sf.Noise())  # a noise of two components
    assert Belief(sf.Counts(two.space), likelihood, 0.1, two.knowledge("mechanics")).plausible().shared is None
    swap = sf.Mechanics.of(sf.Space.full(2, 1), lambda s, a, noise: 1 - s, sizes=2)  # two copies never meet
    plausible = Belief(sf.Counts(swap.space), likelihood, 0.1, sf.Knowledge(swap.space, mechanics=swap)).plausible()
    assert couple(plausible, sf.Policy.always(swap.space, 0)) is None


@pytest.mark.slow
def test_bounds_fail_no_more_often_than_promised_and_the_condition_is_kept():
    tally = adversarial_coupling.run_campaign(20, 4, steps=150)  # false alarm 3e-6
    assert tally.violations == [] and tally.departed > 200 and tally.coupled > 10


@pytest.mark.slow
def test_a_longer_campaign():
    tally = adversarial_coupling.run_campaign(300, 5, steps=400)
    assert tally.violations == [] and tally.departed > 10_000


def test_guesses_by_the_bias_are_as_documented():
    """The interval of a surprise holds the true one, whatever the bias within its bounds."""
    rng = np.random.default_rng(2)
    space = sf.Space.full(4, 1)
    account = UnknownAccount(space, sf.Baseline(sf.Policy.always(space, 0)), 0.1, 0.1)
    bias, doubt = rng.normal(size=4), np.abs(rng.normal(size=4)) * 0.2
    middle = bias[:, None] - bias + doubt[:, None] * rng.uniform(-1, 1, (4, 4))
    middle = (middle - middle.T) / 2
    spread = np.abs(middle - (bias[:, None] - bias)) + 0.01
    terms = account.arrays.terms._replace(span=float(np.ptp(bias)), coupled=True, most=1 + float(np.ptp(bias)))
    arrays = account.arrays._replace(terms=terms, middle=middle, spread=spread)
    s, gained, most = 0, [], 1 + np.ptp(bias)
    for _ in range(200):
        reward, s_next = rng.random(), int(rng.integers(4))
        x, slack = telescope.guess_by_bias(arrays, s, reward, s_next)
        y = reward + bias[s_next] - bias[s]
        guess = np.mean(gained) if gained else 0.5
        cut = np.clip(guess + bias[s], bias.min(), 1 + bias.max()) - bias[s]  # to what is possible
        assert x - slack - 1e-9 <= y - guess <= x + slack + 1e-9 or abs(y - guess) > most
        assert min(x - slack, 0) - 1e-9 <= y - cut <= max(x + slack, 0) + 1e-9
        assert abs(x) + slack <= most + 1e-9
        gained.append(y)
        s = s_next


def test_only_steps_that_are_the_baselines_bound_its_gain():
    space = sf.Space.full(2, 2)
    policy = sf.Policy.deterministic(space, [0, 1])
    steps = Steps(np.array([0, 1, 3, 2]), np.full(4, 0.5), np.array([0, 1, 1, 0]))
    assert own_steps(sf.Baseline(policy), steps).pairs.tolist() == [0, 3]
    assert own_steps(sf.Baseline(policy, read_off=True), steps).pairs.size == 0
    mixed = sf.Policy.uniform(space)
    assert own_steps(sf.Baseline(mixed), steps).pairs.size == 0  # who says that it drew them?
    assert own_steps(sf.Baseline(mixed, history=object()), steps).pairs.size == 4  # `from_history` does


def test_a_log_of_several_episodes_that_alternate_has_no_order():
    space = sf.Space.full(2, 1)
    rows = [{"episode": e, "state": 0, "action": 0, "reward": 0.5, "next_state": 0} for e in ("a", "b", "a", "b")]
    assert sf.read_history(rows, space).in_order is None
    plain = sf.read_history([{key: row[key] for key in row if key != "episode"} for row in rows[:1]], space)
    assert plain.in_order.pairs.tolist() == [0] and plain.in_order.rewards.tolist() == [0.5]


def test_a_log_that_begins_anew_costs_one_span_for_each_stretch():
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    _, pairs, rewards, next_states = adversarial_account.a_log(np.random.default_rng(0), problem, 4000)
    bounds = []
    for kept in (np.ones(4000, dtype=bool), np.arange(4000) % 40 > 0):
        account = UnknownAccount(problem.space, sf.Baseline(problem.baseline, span=1.2), 0.1, 0.1)
        account.remember(Steps(pairs[kept], rewards[kept], next_states[kept]))
        jumps = np.sum(problem.space.pair_state[pairs[kept]][1:] != next_states[kept][:-1])
        assert account.arrays.now[telescope.RESTS] == 2 + jumps
        bounds.append(np.ptp(account.gain_bounds))
    assert bounds[1] > bounds[0] + 0.02 and jumps > 50


def test_a_span_that_a_set_proves_has_its_share_of_delta():
    """Which bets are made may depend on the log: each choice has a share of its own, and is made once."""
    rng = np.random.default_rng(1)
    problem = adversarial_coupling.a_problem(rng, rewards=True)
    account = UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.2)
    account.review(set_of(problem, problem.laws[0]))
    terms, largest = account.arrays.terms, account.arrays.below.lambda_.max()
    scale = np.log2(LARGEST / largest / problem.space.r_max)  # the bets are made for surprises up to r_max 2^scale
    assert scale == pytest.approx(round(scale), abs=1e-9) and terms.coupled and terms.most <= 2.0**scale
    share = 6 * 2.0 ** abs(scale + 1)
    assert terms.threshold == pytest.approx(np.log(share / 0.1))
    assert terms.of_gain == pytest.approx(np.log(share / 0.05))
    rank = account.rank
    account.forget_sets()
    account.next_review = None
    account.review(set_of(problem, problem.laws[0]))
    assert account.rank == rank and account.arrays.terms.span == np.inf  # never the same choice again
    shares = 0.0
    for scale in range(-20, 60):
        for uncoupled in (0, 1):
            account.rank = 2 * (scale + 20) + uncoupled
            shares += 1 / account._bets(1.0)[1] if scale >= 1 or not uncoupled else 0.0
    assert shares == pytest.approx(1.0)


@pytest.mark.parametrize("strict", [True, False])
def test_departures_are_valued_again_and_the_reserve_is_kept(strict):
    rng = np.random.default_rng(5)
    problem = adversarial_coupling.a_problem(rng, rewards=True)
    gain, bias, advantage = adversarial_account.exactly(problem)
    account = UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.2, strict)
    account.arrays.departures[:] = np.arange(problem.space.n_pairs)
    account.arrays.now[telescope.STEPS] = 1000
    account.review(set_of(problem, problem.laws[0]))
    worth = float(np.arange(problem.space.n_pairs) @ advantage.ravel())
    assert account.worth == pytest.approx(worth, abs=0.2) and account.worth <= worth + 1e-9
    low, reserve = account.gain_bounds[0], np.ptp(bias) if strict else 0.0
    assert low <= gain and account.balance == pytest.approx(worth + 100 * low - reserve, abs=0.2)
    other = UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.2, strict)
    plausible = set_of(problem, problem.laws[0])
    wide = np.clip(plausible.shared.lower - 0.05, 0, 1), np.clip(plausible.shared.upper + 0.05, 0, 1)
    shared = SharedNoise(plausible.shared.next_state, plausible.shared.reward, plausible.shared.masks, *wide)
    object.__setattr__(plausible, "shared", shared)
    other.review(plausible)
    found = couple(plausible, problem.baseline).difference
    assert other.arrays.spread == pytest.approx((-found - found.T) / 2) and other.arrays.spread.max() > 0.01
    assert other.arrays.middle == pytest.approx((found - found.T) / 2)


@pytest.mark.parametrize("left_over", [telescope.left_over, telescope.left_over.py_func])
def test_a_worth_between_two_gains_by_hand(left_over):
    """The set bounds W at the gains 0.2 and 0.6; steps of the baseline have proved a gain from 0.3 to 0.4."""
    problem = adversarial_coupling.a_problem(np.random.default_rng(5), rewards=True)
    arrays = UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.2).arrays
    arrays.ends[:], arrays.owed[:], arrays.kept[:] = (0.2, 0.6), (-4.0, -8.0), (1.0, 1.0)
    arrays.now[telescope.LOW], arrays.now[telescope.HIGH], arrays.now[telescope.STEPS] = 0.3, 0.4, 10
    arrays.by_set[:, 1] = -0.5, -0.1
    for pair, steps, low, high in ((-1, 10, -6.0, -7.0), (1, 11, -6.4, -7.3)):
        wanted = min(low + 0.1 * steps * 0.3, high + 0.1 * steps * 0.4)  # α is 0.1
        assert arrays.terms.allowance == arrays.terms.added == 0.0
        assert left_over(arrays, pair)[1] == pytest.approx(wanted, abs=1e-9)


def test_rewards_that_mechanics_tell_take_the_place_of_noisy_ones():
    after, reward = np.array([[0, 1, 1], [1, 0, 0]]), np.array([[0.1, 0.7, 0.7], [0.2, 0.3, 0.3]])
    shared = SharedNoise(after, reward, (), np.zeros(0), np.zeros(0))
    assert shared.told(2).tolist() == [[0.1, 0.7], [0.3, 0.2]]
    other = np.array([[0.1, 0.7, 0.8], [0.2, 0.3, 0.3]])  # two rewards with one next state: it does not tell
    assert SharedNoise(after, other, (), np.zeros(0), np.zeros(0)).told(2) is None
    for seed in range(10):
        problem = adversarial_coupling.a_problem(np.random.default_rng(seed), rewards=True)
        found = couple(set_of(problem, problem.laws[0]), problem.baseline)
        _, bias, _ = adversarial_account.exactly(problem)
        n = problem.mechanics.sizes[0]
        gets = problem.mechanics.reward.reshape(-1, n) + bias[problem.mechanics.next_state.reshape(-1, n)]
        apart = 1 + np.ptp(bias) if found.told is None else np.ptp(gets, axis=1).max()
        assert apart - 1e-9 <= found.most <= apart + 5e-3


def test_a_shop_with_a_log_and_mechanics_explores_within_a_few_years(tmp_path):
    """Two years of log and the mechanics: with one law for all the first departure comes five times sooner."""
    shop = sf.problems.inventory(
        12, order_below=6, order_up_to=9, start=6, unit="€", normalise=(-60, 110), noise=sf.Noise(),
        demand=np.array([0, 3, 5, 19, 14, 27, 16, 8, 8, 0, 0, 0, 0]) / 100,
        fixed_cost=0.0, unit_cost=4.0, holding_cost=1.0, price=9.0,
    )  # fmt: skip
    _, pairs, rewards, next_states = adversarial_account.a_log(np.random.default_rng(3), shop, 104)
    columns = {"state": shop.space.pair_state[pairs], "action": shop.space.pair_action[pairs]}
    sf.write_history(tmp_path / "log.parquet", columns | {"reward": rewards, "next_state": next_states})
    history = sf.read_history(tmp_path / "log.parquet", shop.space)
    baseline, known = sf.Baseline.from_history(history, shop.baseline), shop.knowledge("mechanics")
    first = {}
    for condition in ("decisions", "replay"):
        agent = sf.CUCRL2(shop.space, baseline=baseline, alpha=0.05, condition=condition, knowledge=known)
        run = sf.simulate(shop, agent, 1500, seed=2)
        found = sf.evaluate(run, shop, 0.05)
        assert (found.decisions if condition == "decisions" else found).violations == 0
        departed = np.flatnonzero(run.pairs != shop.baseline.pair[shop.space.pair_state[run.pairs]])
        first[condition] = departed[0] if departed.size else 1500
    assert first["decisions"] < 300 and 3 * first["decisions"] < first["replay"]
    estimate = sf.estimate_baseline(baseline, knowledge=known)
    exact = sf.solve.gain_and_bias(shop.mdp, shop.baseline)
    bias = exact.bias - exact.bias[estimate.landmark]
    assert np.all(estimate.bias[0] <= bias) and np.all(bias <= estimate.bias[1])
    assert np.max(estimate.bias[1] - estimate.bias[0]) < 40  # row by row it is more than € 1000
    assert estimate.gain[0] < exact.gain < estimate.gain[1]


def test_knowledge_that_is_contradicted_proves_nothing_more():
    rng = np.random.default_rng(3)
    problem = adversarial_coupling.a_problem(rng, rewards=True)
    knowledge = problem.knowledge("mechanics")
    agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.5, condition="decisions",
                      knowledge=knowledge, allowance=100.0)  # fmt: skip
    sf.simulate(problem, agent, 400, seed=1)
    agent.trust(None)
    assert not np.isfinite(agent.account.balance)
