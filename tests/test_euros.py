"""Every conservative agent, with all that may be lost, judged by a referee who shares no code with the package.

The sets and learners mean harm: sets hold the truth by construction, so that what may be lost is spent to the last
cent, and what is proposed loses money. `euros` has the referee. Bounds from outcomes may fail with probability `DELTA`.
"""

import numpy as np
import pytest

import adversarial
import adversarial_money as campaign
import euros
import surefooted as sf
from surefooted.bandits import ConservativeLinearUCB, ConservativeUCB, SafeSetLinearUCB, SafeSetUCB
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.sets.plausible import Plausible

DELTA = 1e-6
SHARES = {
    "a share": {"alpha": 0.1},
    "a share, an amount a step and one in all": {"alpha": 0.05, "tolerance": 0.5, "allowance": 60.0},
    "a share at the end of each quarter": {"alpha": 0.1, "checkpoints": euros.QUARTER},
    "a share at dates": {"alpha": 0.05, "tolerance": 0.5, "checkpoints": [13, 26, 52]},
}
WITHOUT = {  # these have a meaning even for a baseline that loses
    "above a floor": {"alpha": 0.2, "floor": -60.0},
    "an amount in all": {"alpha": 0, "allowance": 400.0},
    "an amount a step": {"alpha": 0, "tolerance": 2.0},
    "both, at dates": {"alpha": 0, "tolerance": 1.0, "allowance": 150.0, "checkpoints": [13, 26, 52]},
}
GIVEN = [("keeps", name, given) for name, given in (SHARES | WITHOUT).items()]
GIVEN += [("loses", name, given) for name, given in WITHOUT.items()]
SETTINGS = pytest.mark.parametrize(("rule", "given"), [(rule, given) for rule, _, given in GIVEN],
                                   ids=[f"{rule}, {name}" for rule, name, _ in GIVEN])  # fmt: skip
RULES = {"keeps": euros.KEEPS, "loses": euros.LOSES}
ROUNDING = 1e-7  # euros


def shop(rule, horizon=None):
    """The shop as a problem, and today's rule as probabilities [S, A]."""
    p, r = euros.tables()
    options = {"rewards": (euros.LOW, euros.HIGH), "unit": "€", "noise": sf.Noise()}
    mdp = sf.TabularMDP.from_arrays(p, r, **options)
    baseline = sf.Policy.deterministic(mdp.space, RULES[rule])
    return Problem("shop", mdp, baseline, euros.START, horizon=horizon), euros.always(RULES[rule])


def played(agent, steps, seed, horizon=None, starts=None):
    """Weeks in the shop, asked and told one by one: stocks, orders, and what was said to be played, [T] each."""
    rng, s = np.random.default_rng(seed), euros.START
    stocks, orders, policies = [], [], []
    for t in range(steps):
        if t % (horizon or steps) == 0:
            s = int(starts[t // horizon]) if starts is not None else s
            agent.begin(s)
        decision = agent.act(s)
        a, demand = decision.action, int(rng.choice(euros.DEMAND.size, p=euros.DEMAND))
        said = np.asarray(agent.policies[decision.policy].probabilities)
        reward, after = euros.week(s, a, demand)
        agent.observe(s, a, reward, after)
        stocks, orders, policies = [*stocks, s], [*orders, a], [*policies, said]
        s = after
    return np.array(stocks), np.array(orders), policies


# -- the referee itself -----------------------------------------------------------------------------------------------


def test_the_referee_knows_what_a_shop_earns():
    """Against the mean of many weeks, and by hand for a rule that never orders."""
    for rule in RULES:
        weights, rng = euros.always(RULES[rule]), np.random.default_rng(1)
        gain, bias = euros.gain_and_bias(weights)
        P, r = euros.chain(weights)
        assert r + P @ bias == pytest.approx(gain + bias)
        s, total = euros.START, 0.0
        for demand in rng.choice(euros.DEMAND.size, size=20_000, p=euros.DEMAND):
            earned, s = euros.week(s, RULES[rule][s], int(demand))
            total += earned
            assert euros.LOW <= earned <= euros.HIGH
        assert total / 20_000 == pytest.approx(gain, abs=1.5)
        assert gain > 20 if rule == "keeps" else gain < 0
    idle = euros.always((0,) * euros.LEVELS)
    assert euros.gain_and_bias(idle)[0] == pytest.approx(0, abs=1e-9)
    assert euros.values(idle, 1)[0, 0] == 0 and euros.values(idle, 1)[0, 1] == pytest.approx(25 * 0.95 - 2)


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "kind", ["rounds", "quarters, replay", "quarters, decisions", "weeks, replay", "weeks, decisions"]
)
def test_the_referee_sees_a_broken_promise(kind):
    """A share that is measured from the end of the range, as if rewards were mapped, is not a share of the euros."""
    broken, judged, condition = {"alpha": 0.1, "floor": euros.LOW}, {"alpha": 0.1}, kind.rpartition(" ")[2]
    if kind == "rounds":
        margins, _ = rounds(ConservativeUCB, "keeps", broken, True, "harmful", judged=judged)
    elif kind.startswith("quarters"):
        margins, _ = episodes(condition, "keeps", broken, n=100, judged=judged)
    else:
        margins, _ = average(condition, "keeps", broken, 700, judged=judged)
    assert euros.least(judged, margins) < -100


# -- average reward ---------------------------------------------------------------------------------------------------


def average(condition, rule, given, steps, judged=None):
    """The margins of CUCRL2 after each week, and in how many it departed from today's rule.

    If something else is to be `judged` than what was agreed, nothing but a rule that loses money is proposed.
    """
    problem, today = shop(rule)
    gain, bias = euros.gain_and_bias(today)
    learner = adversarial.Mischief(problem, adversarial.Knowing(problem.mdp, "exact", 0.05, 1), 2)
    if condition == "decisions":
        learner.propose = campaign.deterministic(learner)
    if judged:
        ruin = sf.Policy.deterministic(problem.space, euros.LOSES)
        learner.propose = lambda *_: Plan(ruin, 0.0, 1.0, np.zeros(euros.LEVELS), 1, True)
    options = {"delta": DELTA} if condition == "decisions" else {"minimum": 1, "patience": 0.0}
    baseline = sf.Baseline(problem.baseline, gain, bias)
    agent = sf.CUCRL2(problem.space, baseline=baseline, learner=learner, condition=condition, **options, **given)
    stocks, orders, policies = played(agent, steps, 3)
    assert not agent.contradictions
    departed = today[stocks, orders] < 1
    if condition == "decisions":
        return euros.decided(judged or given, stocks, orders, today), int(departed.sum())
    chances = np.array([said[s, a] for said, s, a in zip(policies, stocks, orders, strict=True)])
    assert np.all(chances > 0)  # what it says to play is what it plays
    return euros.replayed(judged or given, policies, today), int(departed.sum())


@pytest.mark.first(3)
@SETTINGS
@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_weeks_keep_the_promise_in_euros(condition, rule, given):
    margins, departed = average(condition, rule, given, 260 if condition == "replay" else 780)
    assert departed > 0 and euros.least(given, margins) >= -ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_fifty_years_of_an_honest_agent_keep_the_promise_in_euros(condition):
    problem, today = shop("keeps")
    gain, bias = euros.gain_and_bias(today)
    baseline = sf.Baseline(problem.baseline, gain, bias)
    agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.1, condition=condition)
    stocks, orders, policies = played(agent, 2600, 4)
    given = {"alpha": 0.1}
    if condition == "decisions":
        margins = euros.decided(given, stocks, orders, today)
    else:
        margins = euros.replayed(given, policies, today)
    assert np.any(today[stocks, orders] < 1) and margins.min() >= -ROUNDING


# -- episodes ---------------------------------------------------------------------------------------------------------


def quarters(make, rule, given, is_known, n=60, ruin=False, **options):
    """Quarters played by an agent whose learner means harm: the agent, starts, stocks, orders and what was said."""
    problem, today = shop(rule, euros.QUARTER)
    confidence = adversarial.Knowing(problem.mdp, "exact", 0.05, 1)
    learner = campaign.Wicked(problem.space, euros.QUARTER, confidence=confidence, delta=DELTA / 2).harm(problem, 2)
    if ruin:
        learner.propose = lambda: sf.Policy.deterministic(problem.space, euros.LOSES)
    known = sf.Baseline(problem.baseline, values=euros.values(today) if is_known else None)
    agent = make(problem.space, euros.QUARTER, baseline=known, learner=learner, **options, **given)
    starts = np.random.default_rng(5).integers(0, euros.LEVELS, n)
    told = played(agent, n * euros.QUARTER, 6, euros.QUARTER, starts)
    assert not agent.contradictions
    stocks, orders, policies = told
    return agent, today, starts, stocks, orders, policies[:: euros.QUARTER]


def episodes(condition, rule, given, is_known=True, n=60, judged=None):
    """The margins of CUCB-VI after each quarter, and in how many weeks it departed from today's rule; see `average`."""
    options = {"condition": condition, "delta": DELTA, "ruin": judged is not None}
    _, today, starts, stocks, orders, said = quarters(sf.CUCBVI, rule, given, is_known, n, **options)
    base, own = euros.values(today), (today[stocks, orders] < 1).astype(float)
    if condition == "decisions":
        p, r = euros.tables()
        h = np.arange(len(stocks)) % euros.QUARTER
        worth = r[stocks, orders] + (p[stocks, orders] * base[h + 1]).sum(axis=1) - base[h, stocks]
        earned = base[0][starts] + (worth * own).reshape(-1, euros.QUARTER).sum(axis=1)
    else:
        earned = [euros.values(policy)[0][s] for policy, s in zip(said, starts, strict=True)]
        h = np.arange(len(stocks)) % euros.QUARTER
        rules = [np.broadcast_to(policy, (euros.QUARTER, *today.shape)) for policy in said]
        chances = [rules[t // euros.QUARTER][h[t], s, a] for t, (s, a) in enumerate(zip(stocks, orders, strict=True))]
        assert min(chances) > 0
    return euros.of_each(judged or given, earned, base[0][starts], euros.QUARTER), int(own.sum())


@pytest.mark.first(3)
@SETTINGS
@pytest.mark.parametrize(("condition", "is_known"), [("replay", True), ("decisions", True), ("replay", False)],
                         ids=["replay", "decisions", "replay, values unknown"])  # fmt: skip
def test_quarters_keep_the_promise_in_euros(condition, is_known, rule, given):
    margins, departed = episodes(condition, rule, given, is_known, n=60 if condition == "replay" else 200)
    assert departed > 0 and euros.least(given, margins) >= -ROUNDING


EACH = [
    ("keeps", {"alpha": 0.1}),
    ("keeps", {"alpha": 0.05, "tolerance": 0.5}),
    ("loses", {"alpha": 0, "tolerance": 2.0}),
]
EACH += [(rule, {"alpha": 0.2, "floor": -60.0}) for rule in RULES]


@pytest.mark.first(2)
@pytest.mark.parametrize(("rule", "given"), EACH)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("make", [sf.StepMix, sf.EpsMix])
def test_every_quarter_keeps_the_promise_in_euros(make, is_known, rule, given):
    agent, today, starts, stocks, orders, said = quarters(make, rule, given, is_known)
    base, departed = euros.values(today), today[stocks, orders] < 1
    earned = [euros.values(policy)[0][s] for policy, s in zip(said, starts, strict=True)]
    if make is sf.EpsMix:  # on average over its coin
        mixed = [(euros.values(agent.policies[i].probabilities)[0], weight) for i, weight in agent.mixtures]
        pairs = zip(mixed, starts, strict=True)
        earned = [weight * value[s] + (1 - weight) * base[0][s] for (value, weight), s in pairs]
    each = np.array(earned) - [euros.promised(given, b, euros.QUARTER) for b in base[0][starts]]
    assert departed.sum() > 5 and each.min() >= -ROUNDING


# -- bandits ----------------------------------------------------------------------------------------------------------

ARMS = {"keeps": np.array([12.0, -9.0, 18.0, 3.0, 9.0]), "loses": np.array([-3.0, -15.0, 8.0, -9.0, -1.0])}
SIDES = (-20.0, 40.0)  # each round pays one of these


class Harmful:
    """Intervals of arms that hold the means and end there: the worst arms look best, and what they cost is exact."""

    def __init__(self, means):
        self.means = means - SIDES[0]

    def __call__(self, counts, delta):
        n, one = self.means.size, np.ones(self.means.size)
        upper = np.full(n, counts.space.r_max) - np.argsort(np.argsort(self.means)) * 0.1
        upper[0] = self.means[0] + 0.5 / np.sqrt(1.0 + counts.visits[0])  # the baseline's own, if it is unknown
        arms = np.arange(n + 1)
        return Plausible(counts.space, self.means, upper, arms, np.zeros(n, dtype=np.int64), one, one, np.zeros(n))


def paid(rng, mean):
    """One reward of an arm."""
    low, high = SIDES
    return high if rng.random() * (high - low) < mean - low else low


def rounds(make, rule, given, is_known, style, n=400, judged=None):
    """The margins of a bandit agent after each round, and how often it played another arm than the baseline's."""
    means, rng = ARMS[rule], np.random.default_rng(7)
    options = {"confidence": Harmful(means)} if style == "harmful" else {}
    options |= {"baseline_mean": float(means[0]) if is_known else None, "delta": DELTA}
    agent = make(means.size, rewards=SIDES, unit="€", **options, **given)
    arms = []
    for _ in range(n):
        arms.append(agent.act().action)
        agent.observe(arms[-1], paid(rng, means[arms[-1]]))
    assert not agent.contradictions
    return euros.of_each(judged or given, means[arms], np.full(n, means[0]), 1), int(np.sum(np.array(arms) != 0))


@pytest.mark.first(12)
@SETTINGS
@pytest.mark.parametrize("style", ["harmful", "its own"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("make", [ConservativeUCB, SafeSetUCB])
def test_rounds_keep_the_promise_in_euros(make, is_known, style, rule, given):
    margins, others = rounds(make, rule, given, is_known, style)
    assert euros.least(given, margins) >= -ROUNDING
    if style == "harmful":
        assert others > 3


@pytest.mark.parametrize(("rule", "given"), EACH)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_every_round_keeps_the_promise_in_euros(is_known, rule, given):
    """A decision draws one of two arms: what counts is the mean before the draw."""
    means, rng, others = ARMS[rule], np.random.default_rng(8), 0
    mean = float(means[0]) if is_known else None
    agent = sf.bandits.StageWiseUCB(5, baseline_mean=mean, confidence=Harmful(means), rewards=SIDES, unit="€", **given)
    for _ in range(300):
        decision = agent.act()
        drawn = (decision.tried, decision.chance), (decision.partner, 1 - decision.chance)
        earned = sum(means[arm] * p for arm, p in drawn) if hasattr(decision, "tried") else means[decision.action]
        assert earned >= euros.promised(given, means[0], 1) - ROUNDING
        agent.observe(decision.action, paid(rng, means[decision.action]))
        others += decision.action != 0
    assert others > 3


class Reckless:
    """An algorithm that proposes arms at random, bad ones above all."""

    def __init__(self, n_arms, seed):
        self.n_arms, self.rng, self.next = n_arms, np.random.default_rng(seed), 1

    def act(self):
        return self.next

    def observe(self, arm, reward):
        self.next = int(self.rng.choice([1, 1, 1, *range(self.n_arms)]))


@pytest.mark.first(12)
@SETTINGS
@pytest.mark.parametrize("kind", ["sample path", "reduction"])
def test_guards_of_any_algorithm_keep_the_promise_in_euros(kind, rule, given):
    """The rewards themselves, to the last cent; or the means, with a regret that the algorithm surely has."""
    means, rng, others = ARMS[rule], np.random.default_rng(9), 0
    if kind == "sample path":
        options = {"least": SIDES[0]}
        agent = sf.bandits.SamplePath(Reckless(5, 1), baseline_mean=float(means[0]), unit="€", **options, **given)
    else:
        gap = float(means.max() - means.min())
        regret = {"regret": lambda n: gap * n, "sigma": 30.0, "delta": DELTA}
        agent = sf.bandits.Reduction(Reckless(5, 1), baseline_mean=float(means[0]), unit="€", **regret, **given)
    earned = []
    for _ in range(400):
        arm = agent.act().action
        reward = float(means[0]) if arm == 0 and kind == "sample path" else paid(rng, means[arm])
        agent.observe(arm, reward)
        earned.append(reward if kind == "sample path" else means[arm])
        others += arm != 0
    margins = euros.of_each(given, earned, np.full(400, means[0]), 1)
    assert others > 3 and euros.least(given, margins) >= -ROUNDING


THETA = np.array([24.0, -14.0, 9.0])
EXACT = {"sigma": 0.01, "lambda_": 1e-4}  # the ellipsoid is small, so that what may be lost is spent


class OnlyBad(ConservativeLinearUCB):
    """Would like to play the worst arm, whatever it knows."""

    def _wishes(self, phi, upper):
        return [int(np.argmin(upper))]


class WorstFirst(SafeSetLinearUCB):
    """Would like to play the worst arm, then the next one, and so on."""

    def _wishes(self, phi, upper):
        return np.argsort(upper).tolist()


def offers(rng, floor):
    """Features of a round, [5, 3], and their means; today's offer is the first, and its mean is above the floor."""
    phi = rng.uniform(-1, 1, (60, 3))
    phi = phi[[int(np.flatnonzero(phi @ THETA > floor)[0]), *range(4)]]
    return phi, phi @ THETA


LINEAR = [(given, is_known) for given in (SHARES | WITHOUT).values() for is_known in (True, False)]


@pytest.mark.first(16)
@pytest.mark.parametrize(("given", "is_known"), LINEAR)
@pytest.mark.parametrize("make", [OnlyBad, ConservativeLinearUCB, WorstFirst, SafeSetLinearUCB])
def test_rounds_with_features_keep_the_promise_in_euros(make, given, is_known):
    """Known means may be negative; unknown ones must not be below the floor, as the agent says."""
    rng, others, earned, base = np.random.default_rng(10), 0, [], []
    agent = make(3, bound=30.0, delta=DELTA, unit="€", **EXACT, **given)
    for _ in range(400):
        phi, means = offers(rng, -np.inf if is_known else given.get("floor", 0.0))
        arm = agent.act(phi, 0, float(means[0]) if is_known else None).action
        agent.observe(float(means[arm] + EXACT["sigma"] * rng.choice([-1, 1])))
        others += arm != 0
        earned, base = [*earned, means[arm]], [*base, means[0]]
    assert not agent.contradictions
    margins = euros.of_each(given, earned, base, 1)
    assert others > 3 and euros.least(given, margins) >= -ROUNDING
    assert (min(base) < 0) == (is_known or given.get("floor", 0.0) < 0)


@pytest.mark.parametrize("given", [given for rule, given in EACH if rule == "keeps"])
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("sampling", [False, True])
def test_every_round_with_features_keeps_the_promise_in_euros(is_known, sampling, given):
    rng, others = np.random.default_rng(11), 0
    options = {"bound": 30.0, "delta": DELTA, "least": -50.0, "sampling": sampling, "sigma": 3.0}
    agent = sf.bandits.StageWiseLinearUCB(3, unit="€", **options, **given)
    for _ in range(300):
        phi, means = offers(rng, given.get("floor", 0.0))
        decision = agent.act(phi, 0, float(means[0]) if is_known else None)
        drawn = (getattr(decision, "tried", 0), getattr(decision, "partner", 0)), getattr(decision, "chance", 1.0)
        earned = means[drawn[0][0]] * drawn[1] + means[drawn[0][1]] * (1 - drawn[1])
        assert earned >= euros.promised(given, means[0], 1) - ROUNDING
        agent.observe(float(means[decision.action] + 3.0 * rng.choice([-1, 1])))
        others += decision.action != 0
    assert others > 3
