"""The advisor: asking and telling, people, modes, fleets, alarms, and what is written down of it all."""

import csv
import json
import re
from datetime import timedelta

import numpy as np
import pyarrow.parquet
import pytest

import surefooted as sf
from live_help import Clock, deployed, known, opened, replayed, shop, state_of


@pytest.fixture
def place(everywhere):
    """Each test runs on every database, and over HTTP."""
    return everywhere


def play(advisor, problem, steps, seed=0, site="a", s=None):
    """Ask and tell in order, complete; the pairs that were played."""
    rng, s, pairs = np.random.default_rng(seed), problem.start if s is None else s, []
    for i in range(steps):
        decision = advisor.ask(site, s, key=f"{site} {seed} {i}")
        pairs.append(problem.space.pair(s, decision.action))
        reward, s_next = problem.mdp.draw(rng, pairs[-1])
        advisor.tell(decision, reward=float(reward), next_state=int(s_next))
        s = int(s_next)
    return pairs, s


@pytest.mark.parametrize("name, options", [
    ("inventory", {}), ("riverswim", {}), ("inventory", {"strict": False, "allowance": 3.0}),
    ("inventory", {"learner": "psrl", "seed": 3}), ("randomised", {"seed": 5}), ("knowledge", {}),
])  # fmt: skip
def test_in_order_and_complete_it_is_the_run_that_simulate_gives(place, name, options):
    problem = sf.problems.riverswim() if name == "riverswim" else shop()
    if name == "randomised":
        mixed = problem.baseline.mixed_with(sf.Policy.uniform(problem.space), 0.2)
        problem = sf.Problem("mixed", problem.mdp, mixed, problem.start)
    if name == "knowledge":
        options = options | {
            "knowledge": sf.Knowledge(problem.space, successors=lambda s, a: range(problem.space.n_states))
        }
    given = {key: value for key, value in options.items() if key not in ("learner",)}
    if options.get("learner") == "psrl":
        given["learner"] = sf.PSRL(problem.space, seed=3).learner
    if "knowledge" in given and "learner" not in given:
        given["delta"] = 0.05
    agent = sf.CUCRL2(problem.space, baseline=known(problem), alpha=0.2, condition="decisions", **given)
    run = sf.simulate(problem, agent, steps=700, seed=1)
    _, advisor = deployed(place / "x.db", problem, alpha=0.2, drift=0.0, **options)
    s, roles = run.start, []
    for i in range(run.steps):
        decision = advisor.ask("a", s, key=str(i))
        assert problem.space.pair(s, decision.action) == run.pairs[i]
        roles.append(decision.role == "optimistic")
        s = int(run.next_states[i])
        advisor.tell(decision, reward=float(run.rewards[i]), next_state=s)
    assert np.sum(roles) == agent.explored > 0
    ledger = advisor.machine().fleet.books.shared[0]
    assert ledger.worth == agent.account.worth and ledger.steps == 700


def test_the_same_key_gives_the_same_decision_for_ever(place):
    _, advisor = deployed(place / "x.db")
    first = advisor.ask("a", 0, key="monday")
    advisor.tell(first, reward=0.2, next_state=1)
    advisor.ask("a", 1, key="tuesday")
    assert advisor.ask("a", 0, key="monday") == first
    assert opened(place / "x.db").deployment("shop").ask("a", 0, key="monday") == first
    with pytest.raises(sf.InvalidInput, match="was asked in state 0, now in 2"):
        advisor.ask("a", 2, key="monday")


def test_outcomes_in_parts_out_of_order_and_repeated(place):
    store, advisor = deployed(place / "x.db", sites=("a", "b"))
    one = advisor.ask("a", 0, key="1")
    two = advisor.ask("a", 2, key="2")  # says that the first led to state 2
    three = advisor.ask("b", 1, key="1")
    assert advisor.known(one.id).next_state == 2
    advisor.tell(three, reward=0.5)
    advisor.tell(two, next_state=4, reward=0.25)
    advisor.tell(one, reward=0.125)
    events = store.last
    advisor.tell(one, reward=0.125, next_state=2)  # the same again
    advisor.tell(site="a", key="2", reward=0.25)
    advisor.tell(three, reward=0.5)
    assert store.last == events and sorted(advisor.machine().fleet.open) == [three.id]
    with pytest.raises(sf.InvalidInput, match=r"reward was told as 0.125, and now as 0.5") as error:
        advisor.tell(one, reward=0.5)
    assert "correct(" in error.value.hint
    with pytest.raises(sf.InvalidInput, match="next_state was told as 2, and now as 3"):
        advisor.tell(one, next_state=3)
    assert advisor.machine().fleet.learner.counts.total == 2


def test_a_jump_must_be_said(place):
    _, advisor = deployed(place / "x.db")
    decision = advisor.ask("a", 0, key="1")
    advisor.tell(decision, reward=0.1, next_state=1)
    with pytest.raises(sf.InvalidInput, match="was left in state 1, not 3") as error:
        advisor.ask("a", 3, key="2")
    assert "relocate" in error.value.hint
    advisor.relocate("a", 3, "stock was counted", who="Ada")
    with pytest.raises(sf.InvalidInput, match="was left in state 3, not 1"):
        advisor.ask("a", 1, key="2")
    second = advisor.ask("a", 3, key="2")
    advisor.relocate("a", 0, "fire")  # the outcome of the last one is not where the site is now
    advisor.ask("a", 0, key="3")
    assert advisor.known(second.id).next_state is None


def exploring(path, steps=400, **options):
    """An advisor whose accounts pay for everything, and that has begun to explore."""
    problem = shop()
    store, advisor = deployed(path, problem, allowance=500.0, **options)
    _, s = play(advisor, problem, steps)
    return store, advisor, problem, s


def departure(advisor, problem, s, site="a"):
    """Play on until a decision departs from the baseline."""
    rng, first = np.random.default_rng(7), advisor.store.last
    for i in range(500):
        decision = advisor.ask(site, s, key=f"from event {first}, {i}")
        if decision.departs or decision.status == "waiting":
            return decision
        reward, y = problem.mdp.draw(rng, problem.space.pair(s, decision.action))
        advisor.tell(decision, reward=float(reward), next_state=int(y))
        s = int(y)
    raise AssertionError("nothing departs")


def test_what_a_person_plays_teaches_and_is_on_no_account(place):
    _, advisor, problem, s = exploring(place / "x.db")
    decision = departure(advisor, problem, s)
    ledger = advisor.machine().fleet.books.shared[0]
    made, wealth = int(ledger.arrays.account.departures.sum()), ledger.arrays.account.bets.log_wealth.copy()
    other = next(int(a) for a in problem.space.actions(decision.state) if a != decision.action)
    pair = problem.space.pair(decision.state, other)
    visits = int(advisor.machine().fleet.learner.counts.visits[pair])
    evidence = int(ledger.arrays.account.visits[pair])
    advisor.tell(decision, action=other)
    advisor.tell(decision, reward=0.0, next_state=0)
    assert int(ledger.arrays.account.departures.sum()) == made - 1 and ledger.open == 0
    assert np.array_equal(ledger.arrays.account.bets.log_wealth, wealth)
    assert int(ledger.arrays.account.visits[pair]) == evidence
    assert int(advisor.machine().fleet.learner.counts.visits[pair]) == visits + 1
    row = next(row for row in advisor.table() if row["decision"] == decision.id)
    assert row["override"] and row["played"] == str(other)


def test_until_it_is_complete_a_departure_counts_at_its_worst_and_expire_makes_that_final(place):
    _, advisor, problem, s = exploring(place / "x.db")
    balance = lambda: advisor.status()["accounts"][0]["balance"]  # noqa: E731
    decision = departure(advisor, problem, s)
    worst = balance()
    advisor.tell(decision, next_state=3)
    assert balance() == pytest.approx(worst)  # an override may still be told
    advisor.expire(decision, who="Ada", note="the till was lost")
    expired = balance()
    assert expired >= worst - 1e-9
    with pytest.raises(sf.InvalidInput, match="it has expired"):
        advisor.tell(decision, reward=1.0)
    advisor.correct(decision, reward=1.0, next_state=3, who="Ada", note="the till was found")
    assert balance() > expired
    assert not advisor.machine().fleet.open
    assert any("corrects decision" in line for line in advisor.status()["outside_guarantee"])


def test_a_correction_leaves_the_counts_as_if_it_had_been_told_right(place):
    def run(path, mistake):
        _, advisor = deployed(path, drift=0.0)
        for i in range(60):
            decision = advisor.ask("a", i % 7, key=str(i))
            reward = 0.125 * (i % 8)
            if i == 20 and mistake:
                advisor.tell(decision, reward=1.0, next_state=5)
                advisor.correct(decision, reward=reward, next_state=(i + 1) % 7, who="Ada", note="typed wrong")
            else:
                advisor.tell(decision, reward=reward, next_state=(i + 1) % 7)
            if i == 20 and mistake:
                advisor.relocate("a", (i + 1) % 7, "as corrected")
        return advisor.machine().fleet

    one, other = run(place / "a.db", True), run(place / "b.db", False)
    for name in ("visits", "reward_sum", "reward_square"):
        assert getattr(one.learner.counts, name) == pytest.approx(getattr(other.learner.counts, name))
    assert one.check._surprises.sums == pytest.approx(other.check._surprises.sums)
    assert one.books.shared[0].worth == pytest.approx(other.books.shared[0].worth)


def test_an_override_whose_outcome_never_comes_costs_nothing(place):
    _, advisor, problem, s = exploring(place / "x.db")
    before = advisor.status()["accounts"][0]["departures"]
    decision = departure(advisor, problem, s)
    advisor.tell(decision, action=int(problem.baseline.actions[decision.state]), who="Ada", note="by hand")
    advisor.expire(decision, who="Ada")
    assert advisor.status()["accounts"][0]["departures"] >= before - 1e-9
    assert [event.body.get("who") for event in advisor.journal() if event.kind == "tell"][-1].endswith("Ada")
    advisor.correct(decision, reward=0.5, next_state=1, who="Ada")
    assert advisor.store.verify().is_whole


def test_looking_changes_nothing_that_is_decided(place):
    store, advisor, problem, s = exploring(place / "x.db", steps=0, mode="live")
    rng = np.random.default_rng(0)
    for i in range(300):
        decision = advisor.ask("a", s, key=str(i))
        before = state_of(advisor)
        advisor.status()
        assert state_of(advisor) == before
        reward, s = problem.mdp.draw(rng, problem.space.pair(s, decision.action))
        advisor.tell(decision, reward=float(reward), next_state=int(s))
    assert store.verify().is_whole


def test_pause_plays_the_baseline_from_the_next_question_on(place):
    _, advisor, problem, s = exploring(place / "x.db")
    for site, resumed in ((None, None), ("a", "a")):
        advisor.pause(site, who="Ada", note="inventory")
        _, s = play(advisor, problem, 40, seed=100 if site else 101, s=s)
        asked = [event.body for event in advisor.journal() if event.kind == "ask"][-40:]
        assert not any(body["departs"] for body in asked) and any(body["would_depart"] for body in asked)
        assert any("paused (inventory)" in body["reason"] for body in asked)
        advisor.resume(resumed, who="Ada")
    assert departure(advisor, problem, s).departs


def test_shadow_records_what_would_have_been_done(place):
    _, advisor, problem, _ = exploring(place / "x.db", mode="shadow")
    asked = [event.body for event in advisor.journal() if event.kind == "ask"]
    assert not any(body["departs"] for body in asked) and sum(body["would_depart"] for body in asked) > 20
    assert advisor.machine().fleet.books.shared[0].arrays.account.departures.sum() == 0
    baseline = problem.baseline.actions
    assert all(body["action"] == baseline[body["state"]] for body in asked)
    assert any("Would explore" in body["reason"] for body in asked)


def test_approval_waits_for_a_person_until_the_deadline(place):
    clock = Clock()
    _, advisor, problem, s = exploring(place / "x.db", mode="approval", steps=0, clock=clock)
    decision = departure(advisor, problem, s)
    assert decision.status == "waiting" and decision.role == "baseline"
    assert decision.action == problem.baseline.actions[decision.state] != decision.proposed
    with pytest.raises(sf.InvalidInput, match="waits for a person"):
        advisor.tell(decision, reward=0.1)
    with pytest.raises(sf.InvalidInput, match="still waits"):
        advisor.ask("a", 0, key="next")
    yes = advisor.approve(decision, who="Ada")
    assert (yes.status, yes.action, yes.role) == ("approved", decision.proposed, "optimistic")
    assert advisor.ask("a", decision.state, key=decision.key) == yes
    advisor.tell(yes, reward=0.5, next_state=2)
    ledger = advisor.machine().fleet.books.shared[0]
    assert ledger.arrays.account.departures.sum() == 1
    asks = departure(advisor, problem, 2)
    assert advisor.reject(asks, who="Ada", note="too risky").status == "rejected"
    advisor.tell(asks, reward=0.5, next_state=1)
    late = departure(advisor, problem, 1)
    clock.now += timedelta(days=2)
    advisor.add_site("another")
    assert advisor.decision(late.id).status == "lapsed"
    with pytest.raises(sf.InvalidInput, match="does not wait"):
        advisor.approve(late, who="Ada")
    assert ledger.arrays.account.departures.sum() == 1 and ledger.open == 0


def test_closed_sites_answer_no_questions(place):
    _, advisor = deployed(place / "x.db")
    decision = advisor.ask("a", 0, key="1")
    advisor.close_site("a", who="Ada")
    advisor.tell(decision, reward=0.1, next_state=2)
    with pytest.raises(sf.InvalidInput, match="is closed"):
        advisor.ask("a", 2, key="2")
    advisor.reopen_site("a", who="Ada")
    assert advisor.ask("a", 5, key="2").state == 5


def decisions(advisor):
    return [event.n for event in advisor.journal() if event.kind == "ask"]


def test_an_alarm_stops_exploring_until_somebody_decides_what_to_believe(place):
    _, advisor, _, s = exploring(place / "x.db", drift=0.01, mode="shadow")
    for i in range(400):  # the shop has changed: nothing is earned any more
        decision = advisor.ask("a", s, key=f"bad {i}")
        advisor.tell(decision, reward=0.0, next_state=0)
        s = 0
        if advisor.status()["alarm"]:
            break
    status = advisor.status()
    alarm, since = status["alarm"], int(re.search(r"decision (\d+)", status["alarm"])[1])
    last_good = max(made.id for made in map(advisor.decision, decisions(advisor)) if not made.key.startswith("bad"))
    assert 0 < since <= last_good + 60 and status["alarm_since"] == advisor.decision(since).time
    (told,) = [event.body for event in advisor.journal() if event.kind == "alarm"]
    assert told == {"what": alarm, "since": since, "since_time": status["alarm_since"]}
    decision = advisor.ask("a", 0, key="after")
    assert decision.role == "baseline" and alarm in decision.reason
    advisor.tell(decision, reward=0.0, next_state=0)
    since = advisor.machine().n - 20
    advisor.trust(keep_since=since, who="Ada", note="a new supplier")
    fleet = advisor.machine().fleet
    assert fleet.alarm is None and 0 < fleet.learner.counts.total <= 10
    assert not any(ledger.arrays.pairwise for ledger in fleet.books.all())
    assert advisor.status()["outside_guarantee"]
    assert state_of(replayed(place / "x.db")) == state_of(advisor)


def test_a_new_deployment_says_what_it_inherits(place):
    store, advisor = deployed(place / "x.db")
    problem = shop()
    play(advisor, problem, 30)
    new = store.create_deployment("next", space=problem.space, baseline=known(problem), alpha=0.2, inherits="shop")
    assert new.machine().fleet.learner.counts.total == 30
    assert "30 steps of shop, up to event 63" in new.definition.inherits
    assert new.definition.fingerprint != advisor.definition.fingerprint
    with pytest.raises(sf.InvalidInput, match="it cannot be changed"):
        store.create_deployment("shop", space=problem.space, baseline=known(problem), alpha=0.2)
    assert store.verify().is_whole


def test_faults_are_listed_and_change_nothing(place):
    store, advisor = deployed(place / "x.db")
    problem = shop()
    with pytest.raises(sf.InvalidInput) as error:
        store.create_deployment("", space=problem.space, baseline=known(problem), alpha=0.1, mode="bold", patient=1)
    assert len(error.value.faults) >= 2  # over HTTP, options are looked at last
    decision, before = advisor.ask("a", 0, key="1"), (store.last, state_of(advisor))
    for call in (
        lambda: advisor.ask("b", 0, key="1"),
        lambda: advisor.ask("a", 99, key="2"),
        lambda: advisor.tell(decision, reward=1.5),
        lambda: advisor.tell(decision, reward=float("nan")),
        lambda: advisor.tell(decision),
        lambda: advisor.tell(999, reward=0.1),
        lambda: advisor.tell(decision, action=99),
        lambda: advisor.tell(decision, guardrails={"x": 1}),
        lambda: advisor.approve(decision, who="Ada"),
        lambda: advisor.add_site("a"),
        lambda: advisor.correct(decision, reward=0.1, who="Ada"),
        lambda: advisor.set_mode("bold"),
    ):
        with pytest.raises(sf.InvalidInput):
            call()
    assert (store.last, state_of(advisor)) == before


def test_guardrails_are_told_with_each_outcome(place):
    rail = sf.live.Guardrail("service", gain=0.9, bias=np.zeros(7), tolerance=0.05)
    fails = sf.live.Guardrail("failures", gain=2.0, bias=np.zeros(7), tolerance=0.5, high=10.0, better="lower")
    _, advisor = deployed(place / "x.db", guardrails=(rail, fails))
    decision = advisor.ask("a", 0, key="1")
    advisor.tell(decision, reward=0.5, next_state=1)
    assert decision.id in advisor.machine().fleet.open
    advisor.tell(decision, guardrails={"service": 0.95, "failures": 1.0})
    assert decision.id not in advisor.machine().fleet.open
    (row,) = advisor.table()
    assert (row["service"], row["failures"]) == (0.95, 1.0)
    names = [account["name"] for account in advisor.status()["accounts"]]
    assert names == ["all sites, reward", "all sites, service", "all sites, failures"]


def test_money_and_names_are_the_users(place):
    space = sf.Space.full(2, 2, rewards=(-100, 100), unit="€", states=["low", "high"], actions=["wait", "order"])
    baseline = sf.Baseline(sf.Policy.always(space, 0), gain=20.0, bias=np.zeros(2))
    store = opened(place / "x.db", Clock())
    advisor = store.create_deployment("shop", space=space, baseline=baseline, alpha=0.1, allowance=1_000.0)
    advisor.add_site("a")
    decision = advisor.ask("a", "low", key="1")
    assert decision.label in ("wait", "order")
    advisor.tell(decision, reward=-20.5, next_state="high")
    with pytest.raises(sf.InvalidInput, match=r"€ -20\.50, and now as € 3\.00"):
        advisor.tell(decision, reward=3)
    row = advisor.table()[0]
    assert (row["reward"], row["unit"], row["next_state"], row["state"]) == (-20.5, "€", "high", "low")
    reasons = []
    for i in range(40):
        decision = advisor.ask("a", "high", key=f"x{i}")
        reasons.append(decision.reason)
        advisor.tell(decision, reward=20, next_state="high")
    assert any("€" in reason for reason in reasons)


def test_exports_say_the_same_in_every_format(place):
    _, advisor = deployed(place / "x.db")
    play(advisor, shop(), 20)
    for kind in ("csv", "jsonl", "parquet"):
        advisor.export(place / f"x.{kind}")
    lines = [json.loads(line) for line in (place / "x.jsonl").read_text().splitlines()]
    assert lines == advisor.table() == pyarrow.parquet.read_table(place / "x.parquet").to_pylist()
    with (place / "x.csv").open(newline="") as file:
        assert [float(row["reward"]) for row in csv.DictReader(file)] == [line["reward"] for line in lines]
    with pytest.raises(sf.InvalidInput, match="no such format"):
        advisor.export(place / "x.xlsx")
