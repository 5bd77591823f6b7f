"""Mistakes in an order that nobody expects: choices of data, corrections, numbers in parts, and garbage."""

import numpy as np
import pytest

import surefooted as sf
from live_help import deployed, known, replayed, shop, state_of
from surefooted import codec
from surefooted.errors import UnreadableFile
from surefooted.knowledge.mechanics import Mechanics
from surefooted.live.definition import Definition
from surefooted.live.store import StoreFault


def test_late_outcomes_and_corrections_of_old_decisions_teach_nothing_after_a_choice_of_data(place):
    _, advisor = deployed(place / "x.db", drift=0.0)
    old = [advisor.ask("a", s, key=str(s)) for s in range(4)]
    advisor.tell(old[0], reward=0.5)
    advisor.trust(keep_since=advisor.store.last, who="Ada", note="a new supplier")
    counts = advisor.machine().fleet.learner.counts
    assert counts.total == 0
    advisor.tell(old[1], reward=0.5)  # it led to state 2, and was decided before
    assert counts.total == 0
    advisor.correct(old[0], reward=0.25, next_state=1, who="Ada")  # it is not in the counts, and stays out of them
    assert counts.total == 0
    new = advisor.ask("a", 5, key="new")
    advisor.tell(new, reward=0.5, next_state=1)
    advisor.correct(new, reward=0.75, next_state=1, who="Ada")
    assert counts.total == 1 and counts.reward_sum.sum() == 0.75
    assert state_of(replayed(place / "x.db")) == state_of(advisor)
    assert advisor.store.verify().is_whole


def test_what_cannot_be_meant_is_refused(place):
    _, advisor = deployed(place / "x.db")
    decision = advisor.ask("a", 0, key="1")
    before = (advisor.store.last, state_of(advisor))
    for call, said in (
        (lambda: advisor.trust(keep_since=99), "keep_since 99 is no event: the last one has the number 4"),
        (lambda: advisor.trust(keep_since=-1), "keep_since -1 is no event"),
        (lambda: advisor.trust(keep_since=1.5), "is no event"),
        (lambda: advisor.reopen_site("a"), "site a is not closed"),
        (lambda: advisor.relocate("a", 3, " "), "say why"),
        (lambda: advisor.ask("a", 0, key=None), "it has no key"),
        (lambda: advisor.ask("a", 0, key=""), "it has no key"),
        (lambda: advisor.tell("4", reward=0.5), "no decision '4'"),
        (lambda: advisor.tell(2**70, reward=0.5), "no decision"),
        (lambda: advisor.tell(decision, guardrails={"service": 1}), "guardrails service: this deployment has none"),
        (lambda: advisor.decision(99), "no decision 99"),
    ):
        with pytest.raises(sf.InvalidInput, match=said):
            call()
    assert (advisor.store.last, state_of(advisor)) == before
    advisor.close_site("a")
    with pytest.raises(sf.InvalidInput, match="site a is closed already"):
        advisor.close_site("a")
    advisor.tell(np.int64(decision.id), reward=0.5)
    assert advisor.known(decision.id).reward == 0.5


def guarded(path):
    rails = (
        sf.live.Guardrail("service", gain=0.9, bias=np.zeros(7), tolerance=0.05),
        sf.live.Guardrail("failures", gain=2.0, bias=np.zeros(7), tolerance=0.5, high=10.0, better="lower"),
    )
    return deployed(path, guardrails=rails)


def test_guardrails_come_in_parts_too(place):
    store, advisor = guarded(place / "x.db")
    decision = advisor.ask("a", 0, key="1")
    advisor.tell(decision, reward=0.5, next_state=1, guardrails={"failures": 1})
    assert decision.id in advisor.machine().fleet.open
    events = store.last
    advisor.tell(decision, guardrails={"failures": 1})
    assert store.last == events
    with pytest.raises(sf.InvalidInput, match="failures was told as 1, and now as 2"):
        advisor.tell(decision, guardrails={"failures": 2, "service": 0.5})
    with pytest.raises(sf.InvalidInput, match=r"failures 11.0 is outside \[0, 10\]"):
        advisor.tell(decision, guardrails={"failures": 11})
    advisor.tell(decision, guardrails={"failures": 1, "service": 0.5})
    assert not advisor.machine().fleet.open
    (row,) = advisor.table()
    assert (row["service"], row["failures"]) == (0.5, 1.0)
    advisor.correct(decision, reward=0.5, next_state=1, guardrails={"service": 1.0}, who="Ada")
    assert decision.id in advisor.machine().fleet.open and advisor.table()[0]["failures"] is None
    advisor.tell(decision, guardrails={"failures": 3})
    assert not advisor.machine().fleet.open and advisor.table()[0]["failures"] == 3.0
    assert state_of(replayed(place / "x.db")) == state_of(advisor) and store.verify().is_whole


def test_a_reason_names_the_guardrail_that_does_not_pay(place):
    """The reward has plenty; the service level may lose 0.3 in all, and a first departure could cost 0.9."""
    for allowance, said in ((0.3, "could make service worse by 0.9 in the long run; 0.3"), (0.0, "needs 0.3 more")):
        bias = np.zeros(7) if allowance else np.array([0.3, 0, 0, 0, 0, 0, 0])
        rail = sf.live.Guardrail("service", gain=0.9, bias=bias, tolerance=1e-9, allowance=allowance)
        _, advisor = deployed(place / f"{allowance}.db", guardrails=(rail,), allowance=1_000.0, people="more")
        reasons = []
        for i in range(8):
            decision = advisor.ask("a", 0, key=str(i))
            advisor.tell(decision, reward=0.5, next_state=0, guardrails={"service": 0.9})
            assert not decision.departs
            reasons.append(decision.reason)
        assert any(said in reason for reason in reasons), reasons


@pytest.fixture
def observed(place):
    """An advisor of an inventory whose demand is seen each day."""
    problem = shop()
    mechanics = Mechanics.of(problem.space, lambda s, a, d: max(s + a - d, 0), 7, observed=True)
    knowledge = sf.Knowledge(problem.space, mechanics=mechanics)
    return deployed(place / "x.db", problem, knowledge=knowledge)[1]


def test_noise_is_told_once_corrected_and_chosen_like_everything_else(observed, place):
    advisor = observed
    with pytest.raises(sf.InvalidInput, match="observe their noise: give it"):
        advisor.tell(advisor.ask("a", 3, key="0"), reward=0.5)
    first = advisor.ask("a", 3, key="0")
    advisor.tell(first, reward=0.5, noise=1)
    events = advisor.store.last
    advisor.tell(first, reward=0.5, noise=1)
    assert advisor.store.last == events
    with pytest.raises(sf.InvalidInput, match="noise was told as"):
        advisor.tell(first, noise=2)
    after = 3 + first.action - 1
    advisor.tell(first, next_state=after)
    values = lambda: advisor.machine().fleet.learner.belief.noise.values[0].tolist()  # noqa: E731
    assert values()[:3] == [0, 1, 0]
    with pytest.raises(sf.InvalidInput, match="observe their noise: give it"):
        advisor.correct(first, reward=0.25, next_state=after - 1, who="Ada")
    advisor.correct(first, reward=0.25, next_state=after - 1, noise=2, who="Ada")
    assert values()[:3] == [0, 0, 1]
    second = advisor.ask("a", after - 1, key="1")
    there = second.state + second.action
    advisor.tell(second, reward=0.5, next_state=there, noise=0)
    assert values()[:3] == [1, 0, 1]
    advisor.trust(keep_since=second.id - 1, who="Ada")
    assert values()[:3] == [1, 0, 0] and advisor.machine().fleet.learner.counts.total == 1
    assert state_of(replayed(place / "x.db")) == state_of(advisor)


def test_garbage_in_place_of_a_definition_or_snapshot_is_named(place):
    """Bytes whose digest is right, and that no version of this package wrote."""
    problem = shop()
    good = Definition(problem.space, known(problem), 0.1).plain()
    for name in good:
        for wrong in (None, "x", -1, [], {}, np.zeros(3)):
            for plain in ({**good, name: wrong}, {key: value for key, value in good.items() if key != name}):
                try:
                    Definition.decode(codec.encode(plain)).build()
                except sf.SurefootedError:
                    pass
    with pytest.raises(UnreadableFile, match="cannot be read"):
        Definition.decode(codec.encode([1, 2]))
    store, advisor = deployed(place / "x.db")
    advisor.ask("a", 0, key="1")
    advisor.snapshot()
    whole, (body,) = state_of(advisor), store.read("SELECT body FROM snapshots")[0]
    state = codec.decode(body)
    for name in [*state, *state["fleet"]]:
        forged = codec.decode(body)
        (forged if name in state else forged["fleet"])[name] = b"garbage"
        with store.transaction():
            store.write("UPDATE snapshots SET body = ?", codec.encode(forged))
        assert state_of(sf.live.open(place / "x.db").deployment("shop")) == whole, name
        if name not in ("format", "surefooted", "fingerprint"):
            assert store.verify().faults[0].startswith("snapshot at event 4: it is damaged, or not what"), name
    forged = codec.decode(body)
    forged["fleet"]["t"] += 1  # garbage that looks like a state
    with store.transaction():
        store.write("UPDATE snapshots SET body = ?", codec.encode(forged))
    assert store.verify().faults[0].startswith("snapshot at event 4")
    with store.transaction():
        store.write("DELETE FROM snapshots")
    assert store.verify().is_whole


@pytest.mark.parametrize("arrival", ["any", "independent"])
def test_an_override_that_was_told_by_mistake_puts_its_departure_back_on_the_account(tmp_path, arrival):
    """Told twice as something else and then as asked: the account is that of who told it right from the start."""
    accounts = []
    for name in ("right", "wrong"):
        store, advisor = deployed(tmp_path / f"{name}.db", allowance=50.0, arrival=arrival)
        for t in range(2):
            decision = advisor.ask("a", 0, str(t))
            assert decision.departs
            if name == "wrong":
                for other in (4, 3):
                    call = advisor.tell if other == 4 else advisor.correct
                    call(decision, action=other, reward=0.9, next_state=2, who="Ada")
                    assert advisor.status()["departures"] == t
            elif t == 1:
                advisor.tell(decision, reward=1.0, next_state=3)
            if name == "wrong" or t == 1:
                advisor.correct(decision, reward=0.1, next_state=0, who="Ada")
            else:
                advisor.tell(decision, reward=0.1, next_state=0)
            assert advisor.status()["departures"] == t + 1
        accounts.append(advisor.status()["accounts"])
        assert store.verify().is_whole
        assert state_of(advisor) == state_of(replayed(tmp_path / f"{name}.db"))
        store.close()
    right, wrong = accounts
    assert [each["departures"] for each in wrong] == pytest.approx([each["departures"] for each in right])
    assert wrong[0]["departures"] < -0.2  # it has cost something


def test_names_and_keys_are_tidied_and_what_is_no_text_is_refused(tmp_path):
    store, advisor = deployed(tmp_path / "a.db", sites=(" Zu\u0308rich, Bahnhof ",))
    assert advisor.status()["sites"][0]["name"] == "Z\u00fcrich, Bahnhof"
    decision = advisor.ask("Zu\u0308rich, Bahnhof", 0, key=" monday ")
    assert advisor.ask("Z\u00fcrich, Bahnhof", 0, key="monday").id == decision.id
    advisor.tell(site="Z\u00fcrich, Bahnhof ", key="monday", reward=0.5)
    with pytest.raises(sf.InvalidInput, match="there is a site"):
        advisor.add_site("Z\u00fcrich, Bahnhof ")
    for name in ("", "  ", "a\nb", "\x1b[31m", "\udc80", None):
        with pytest.raises(sf.InvalidInput, match="is no name"):
            advisor.add_site(name)
    for key in ("a\nb", "\udc80"):
        with pytest.raises(sf.InvalidInput, match="is no key"):
            advisor.ask("Z\u00fcrich, Bahnhof", 0, key=key)
    advisor.add_site("station")
    other = advisor.ask("station", 0, key="monday")
    with pytest.raises(sf.InvalidInput, match=f"decision {decision.id} is not the one of site station"):
        advisor.tell(decision, site="station", key="monday", next_state=1)
    advisor.tell(other, site="station", key="monday", next_state=1)
    with pytest.raises(sf.InvalidInput, match="reward True"):
        advisor.tell(other, reward=True)
    for who in (object(), "\udc80"):
        with pytest.raises(sf.InvalidInput, match="cannot be written down"):
            advisor.pause(who=who)
    assert advisor.status()["paused"] is None and store.verify().is_whole


def test_who_answers_second_is_told_what_was_answered(tmp_path):
    _, advisor = deployed(tmp_path / "a.db", allowance=50.0, mode="approval")
    decision = advisor.ask("a", 0, "1")
    advisor.approve(decision, who="Ada")
    with pytest.raises(sf.InvalidInput, match="it was approved by Ada"):
        advisor.reject(decision, who="Bob")


def test_a_store_that_is_replaced_while_it_is_in_use_takes_nothing_more(tmp_path):
    path = tmp_path / "a.db"
    store, advisor = deployed(path)
    path.rename(tmp_path / "moved.db")
    with pytest.raises(StoreFault, match="moved, deleted or replaced"):
        advisor.ask("a", 0, "1")
    (tmp_path / "moved.db").rename(path)
    assert advisor.ask("a", 0, "1").id == store.last
