"""Tracks against the curves that replay the whole journal, on a year with every kind of event."""

import numpy as np
import pytest

import live_help
from surefooted import codec
from surefooted.live import curve
from surefooted.live.tracks import SIZE, Reading, Track


def play(advisor, steps, seed=0):
    """Asks, late and lost outcomes, overrides, corrections, trust; returns nothing."""
    rng = np.random.default_rng(seed)
    problem = live_help.shop()
    sites = [site.name for site in advisor.machine().sites]
    where, late = dict.fromkeys(sites, 0), []
    for t in range(steps):
        for site in sites:
            s = where[site]
            decision = advisor.ask(site, s, str(t))
            if decision.status == "waiting":
                answer = advisor.approve if rng.random() < 0.7 else advisor.reject
                decision = answer(decision, who="Ada")
            pair = problem.space.pair(s, decision.action)
            reward, after = problem.mdp.draw(rng, pair)
            where[site] = after
            u = rng.random()
            if u < 0.1:
                late.append((decision, reward, after))
            elif u < 0.15:
                advisor.expire(decision)
            else:
                advisor.tell(decision, reward=reward, next_state=after)
                if u > 0.97:
                    advisor.correct(decision, reward=reward, next_state=after, who="Ada")
        if late and rng.random() < 0.3:
            decision, reward, after = late.pop(0)
            advisor.tell(decision, reward=reward, next_state=after)
    advisor.trust(who="Ada")
    return late


@pytest.mark.slow
@pytest.mark.parametrize("accounts", ["shared", "own", "both"])
def test_a_track_is_the_curve_of_the_whole_journal(tmp_path, accounts):
    store, advisor = live_help.deployed(
        tmp_path / "a.db", sites=("a", "b"), accounts=accounts, allowance=20.0, mode="approval"
    )
    late = play(advisor, 40)
    tracks = advisor.machine().tracks
    names = {-1: "all sites", 0: "a", 1: "b"}
    curves = {each.name: each for each in curve.curves(advisor)}
    assert len(curves) == len(tracks.accounts)
    for (site, _), track in tracks.accounts.items():
        drawn = curves[f"{names[site]}, reward"]
        columns = track.columns
        assert track.width == 1
        times = [at.timestamp() for at in drawn.time]
        at = [times.index(t) for t in columns["at"]]
        for name in ("balance", "deposits"):
            assert columns[name] == pytest.approx([getattr(drawn, name)[i] for i in at])
        assert columns["margin"][-1] == pytest.approx(drawn.margin[-1])
        margin = [drawn.margin[i] for i in at]
        assert np.all(np.array(columns["margin"]) <= np.array(margin) + 1e-9)  # never above what the curve proves
        assert sum(columns["departures"]) == len(drawn.departures) > 0
    assert [facts.decisions for facts in tracks.sites] == [40, 40]
    assert set(tracks.due) == set(advisor.machine().fleet.open) == {decision.id for decision, *_ in late}
    assert tracks.first == min(facts.first for facts in tracks.sites)
    store.close()


def test_tracks_are_the_same_however_the_machine_was_made(tmp_path):
    store, advisor = live_help.deployed(tmp_path / "a.db", sites=("a", "b"), accounts="own", allowance=20.0)
    play(advisor, 10)
    advisor.snapshot()
    play_more = advisor.ask("a", advisor.machine().sites[0].expects or 0, "more")
    advisor.tell(play_more, reward=0.0)
    written = codec.payload(advisor.machine().tracks.state_dict())
    from_snapshot = codec.payload(store.deployment("shop").machine().tracks.state_dict())
    store.close()
    from_nothing = codec.payload(live_help.replayed(tmp_path / "a.db").machine().tracks.state_dict())
    assert written == from_snapshot == from_nothing


def test_what_was_told_since_the_last_decision_counts_now(tmp_path):
    """A track is read when something is decided: deposits of that time are not those of now."""
    store, advisor = live_help.deployed(tmp_path / "a.db", allowance=20.0, seed=1)
    asks = [advisor.ask("a", 0, str(t)) for t in range(60)]
    machine = advisor.machine()
    tracks, track = machine.tracks, machine.tracks.accounts[-1, 0]
    asked = tracks.now(machine, -1, 0)
    assert asked.margin == track.columns["margin"][-1] and asked.deposits == track.columns["deposits"][-1] > 0
    for decision in asks:
        advisor.tell(decision, reward=1.0, next_state=0)
    before, now = live_help.state_of(advisor), tracks.now(machine, -1, 0)
    assert sum(decision.departs for decision in asks) > 5
    assert now.margin > asked.margin + 1 and now.deposits == 0 and now.paid_in == asked.paid_in
    assert now.balance == advisor.status()["accounts"][0]["balance"]
    shown = track.until(now)
    assert shown["margin"][-1] == now.margin == shown["high"][-1] and shown["n"] == track.columns["n"]
    assert (
        track.columns["margin"][-1] == asked.margin and live_help.state_of(advisor) == before
    )  # looking changes nothing
    store.close()


def test_an_outcome_is_overdue_after_three_more_decisions(tmp_path):
    store, advisor = live_help.deployed(tmp_path / "a.db", sites=("a", "b"))
    first = advisor.ask("a", 0, "0")
    for t in range(1, 4):
        assert advisor.machine().tracks.overdue() == {}
        decision = advisor.ask("a", 0, str(t))
        advisor.tell(decision, reward=0.0, next_state=0)
    assert advisor.machine().tracks.overdue() == {first.id: 0}
    advisor.tell(first, reward=0.0)
    assert advisor.machine().tracks.overdue() == {}
    store.close()


@pytest.mark.parametrize("n", [1, SIZE, SIZE + 1, 12_345])
def test_merging_keeps_peaks_counts_and_the_end(n):
    rng = np.random.default_rng(n)
    margins, departs = rng.normal(size=n), rng.random(n) < 0.01
    track = Track()
    for i in range(n):
        track.add(i, float(i), Reading(margins[i], 0.0, -margins[i], 0.0), int(departs[i]))
    columns = track.columns
    assert len(columns["n"]) <= SIZE and columns["n"][-1] == n - 1 and columns["margin"][-1] == margins[-1]
    assert min(columns["low"]) == margins.min() and max(columns["high"]) == margins.max()
    assert max(columns["deposits"]) == -margins.min() and sum(columns["departures"]) == departs.sum()
    bounds = [0, *(int(x) + 1 for x in columns["n"])]  # every point stands for its own stretch
    for low, high, begin, end in zip(columns["low"], columns["high"], bounds, bounds[1:], strict=False):
        assert low == margins[begin:end].min() and high == margins[begin:end].max()


def test_a_departure_that_is_not_played_is_not_counted(tmp_path):
    store, advisor = live_help.deployed(tmp_path / "a.db", allowance=20.0, mode="approval")
    for t, answer in enumerate((advisor.reject, advisor.approve, advisor.reject)):
        decision = advisor.ask("a", 0, str(t))
        assert decision.status == "waiting"
        assert advisor.machine().tracks.sites[0].departures == 1 + (t == 2)
        answer(decision, who="Ada")
        advisor.tell(decision, reward=0.5, next_state=0)
    assert advisor.machine().tracks.sites[0].departures == 1
    store.close()
