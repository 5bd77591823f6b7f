"""Random calls of the advisor, against a slow model that is written from docs/live.md."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import surefooted as sf
from live_help import Clock, deployed, replayed, state_of

SITES = ("a", "b")
REWARDS = (0.0, 0.25, 1.0)
RAILS = ("service", "failures")


class Model(RuleBasedStateMachine):
    """What docs/live.md says: decisions by key, what was told of them, where sites are, who may ask."""

    def __init__(self):
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.path = self.address()

    def address(self):
        return self.place / "x.db"

    @initialize(
        arrival=st.sampled_from(["any", "independent"]),
        accounts=st.sampled_from(["shared", "own", "both"]),
        guarded=st.booleans(),
    )
    def begin(self, arrival, accounts, guarded):
        self.problem = sf.problems.riverswim(4)
        options = {"arrival": arrival, "accounts": accounts, "allowance": 4.0, "strict": False, "alpha": 0.5}
        self.rails = RAILS if guarded else ()
        terms = {"gain": 0.5, "bias": np.zeros(4), "tolerance": 0.5, "allowance": 4.0}
        options["guardrails"] = tuple(sf.live.Guardrail(name, **terms) for name in self.rails)
        self.store, self.advisor = deployed(self.path, self.problem, SITES, clock=Clock(), **options)
        self.asked, self.told, self.done = {}, {}, {}  # by (site, key); by id; complete or expired ids
        self.last, self.at = dict.fromkeys(SITES), dict.fromkeys(SITES)  # the last id, and the state that is known
        self.mode, self.paused, self.closed, self.number, self.since = "live", set(), set(), 0, 0

    @property
    def taught(self):
        """The learner has learnt from every complete decision since the data were last chosen."""
        return sum(how == "complete" and n > self.since for n, how in self.done.items())

    def learn_state(self, site, s):
        """A question says where the last decision of the site led."""
        n = self.last[site]
        if n is not None and n not in self.done and "next_state" not in self.told[n]:
            self.told[n]["next_state"] = s
            self.settle(n)

    def is_overridden(self, n):
        """Whether something else was played, as far as that is settled."""
        return n in self.done and self.advisor.known(n).played not in (None, self.advisor.known(n).pair)

    def settle(self, n):
        if {"reward", "next_state", *self.rails} <= self.told[n].keys():
            self.done[n] = "complete"

    @rule(site=st.sampled_from(SITES), s=st.integers(0, 3))
    def ask(self, site, s):
        key = f"key {self.number}"
        self.number += 1
        expected = self.at[site]
        refused = site in self.closed or (expected is not None and expected != s)
        refused |= self.last[site] in self.advisor.status()["waiting"]
        if refused:
            with pytest.raises(sf.InvalidInput):
                self.advisor.ask(site, s, key=key)
            return
        self.learn_state(site, s)
        decision = self.advisor.ask(site, s, key=key)
        assert decision.state == s and decision.site == site
        assert decision.action in self.problem.space.actions(s)
        if self.mode == "shadow" or {site, None} & self.paused:
            assert not decision.departs and decision.action == self.problem.baseline.actions[s]
        if self.mode == "live" and not {site, None} & self.paused:
            assert decision.departs == decision.would_depart
        assert (decision.status == "waiting") == (
            self.mode == "approval" and decision.would_depart and not {site, None} & self.paused
        )
        self.asked[site, key] = decision
        self.told[decision.id] = {}
        self.last[site], self.at[site] = decision.id, None

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def ask_again(self, data):
        (site, key), decision = data.draw(st.sampled_from(sorted(self.asked.items(), key=lambda x: x[1].id)))
        again = self.advisor.ask(site, decision.state, key=key)
        assert (again.id, again.time, again.reason) == (decision.id, decision.time, decision.reason)
        if decision.status == "play":
            assert again == decision

    def some(self, data):
        return data.draw(st.sampled_from(sorted(self.asked.values(), key=lambda x: x.id)))

    @precondition(lambda self: self.asked)
    @rule(
        data=st.data(),
        reward=st.sampled_from([None, *REWARDS]),
        s=st.sampled_from([None, 0, 1, 2, 3]),
        numbers=st.fixed_dictionaries({}, optional={name: st.sampled_from([0.25, 0.5]) for name in RAILS}),
    )
    def tell(self, data, reward, s, numbers):
        decision = self.some(data)
        n, given = decision.id, {k: v for k, v in (("reward", reward), ("next_state", s)) if v is not None}
        numbers = {name: value for name, value in numbers.items() if name in self.rails}
        arguments, given = given | ({"guardrails": numbers} if numbers else {}), given | numbers
        known = self.told[n]
        differs = any(name in known and known[name] != value for name, value in given.items())
        fresh = any(name not in known for name in given)
        waits = n in self.advisor.status()["waiting"]
        if not given or differs or (fresh and (waits or self.done.get(n) == "expired")):
            with pytest.raises(sf.InvalidInput):
                self.advisor.tell(decision, **arguments)
            return
        before = self.store.last
        self.advisor.tell(decision, **arguments)
        assert (self.store.last > before) == fresh
        known |= given
        if "next_state" in given and self.last[decision.site] == n and n not in self.done:
            self.at[decision.site] = s
        if n not in self.done:
            self.settle(n)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), a=st.integers(0, 1))
    def override(self, data, a):
        decision = self.some(data)
        n = decision.id
        if n in self.done or n in self.advisor.status()["waiting"] or "action" in self.told[n]:
            return
        self.advisor.tell(decision, action=a)
        played = self.advisor.known(n)
        if played.played is not None:
            self.told[n]["action"] = a

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def expire(self, data):
        decision = self.some(data)
        if decision.id in self.done or decision.id in self.advisor.status()["waiting"]:
            with pytest.raises(sf.InvalidInput):
                self.advisor.expire(decision)
        else:
            self.advisor.expire(decision, who="Ada")
            self.done[decision.id] = "expired"

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), reward=st.sampled_from(REWARDS), s=st.integers(0, 3))
    def correct(self, data, reward, s):
        decision = self.some(data)
        n = decision.id
        waits = n in self.advisor.status()["waiting"]
        if waits or not (self.told[n] or self.done.get(n) == "expired"):
            return
        numbers = dict.fromkeys(self.rails, reward)
        more = {"guardrails": numbers} if numbers else {}
        self.advisor.correct(decision, reward=reward, next_state=s, who="Ada", **more)
        self.told[n], self.done[n] = {"reward": reward, "next_state": s} | numbers, "complete"
        if self.last[decision.site] == n:
            self.at[decision.site] = s

    @rule(site=st.sampled_from(SITES), s=st.integers(0, 3))
    def relocate(self, site, s):
        if self.last[site] in self.advisor.status()["waiting"]:
            return
        self.advisor.relocate(site, s, "counted")
        self.last[site], self.at[site] = None, s

    @rule(site=st.sampled_from([None, *SITES]), on=st.booleans())
    def pause(self, site, on):
        (self.advisor.pause if on else self.advisor.resume)(site, who="Ada")
        (self.paused.add if on else self.paused.discard)(site)

    @rule(site=st.sampled_from(SITES), on=st.booleans())
    def close(self, site, on):
        if on == (site in self.closed):
            with pytest.raises(sf.InvalidInput, match="there is nothing to"):
                (self.advisor.close_site if on else self.advisor.reopen_site)(site)
        elif on:
            self.advisor.close_site(site)
            self.closed.add(site)
        elif self.last[site] not in self.advisor.status()["waiting"]:
            self.advisor.reopen_site(site)
            self.closed.discard(site)
            self.last[site], self.at[site] = None, None

    @rule(mode=st.sampled_from(["shadow", "approval", "live"]))
    def set_mode(self, mode):
        self.advisor.set_mode(mode, who="Ada")
        self.mode = mode

    @rule(data=st.data(), keep=st.booleans())
    def trust(self, data, keep):
        """Go on with all data, or with those of the decisions since an event."""
        if keep:
            self.advisor.trust(who="Ada")
        else:
            self.since = data.draw(st.integers(0, self.store.last))
            self.advisor.trust(keep_since=self.since, who="Ada")
        with pytest.raises(sf.InvalidInput, match="is no event"):
            self.advisor.trust(keep_since=self.store.last + 1)

    @rule(yes=st.booleans())
    def answer(self, yes):
        for n in list(self.advisor.status()["waiting"]):
            decision = (self.advisor.approve if yes else self.advisor.reject)(n, who="Ada")
            assert decision.status == ("approved" if yes else "rejected")
            assert (decision.action == decision.proposed) == yes or decision.proposed == decision.action

    @rule()
    def restart(self):
        """Another process, with or without a snapshot, is in the same state to the last bit."""
        before = state_of(self.advisor)
        self.advisor.snapshot()
        fresh = sf.live.open(self.path).deployment("shop")
        assert state_of(fresh) == before
        assert state_of(replayed(self.path)) == before

    def teardown(self):
        if hasattr(self, "advisor"):
            seen = self.store.verify()
            assert seen.is_whole, seen.faults
            fleet = self.advisor.machine().fleet
            assert fleet.t == len(self.asked) and fleet.learner.counts.total == self.taught
            assert set(fleet.open) == set(self.told) - set(self.done)
            departed = [n for n in self.told if self.advisor.decision(n).departs and not self.is_overridden(n)]
            assert self.advisor.status()["departures"] == len(departed)
            self.store.close()
        shutil.rmtree(self.place, ignore_errors=True)


TestAdvisor = Model.TestCase
TestAdvisor.settings = settings(max_examples=25, stateful_step_count=40)


class OnPostgres(Model):
    """The same on a PostgreSQL server."""

    server = None

    def address(self):
        return self.server.address()


@pytest.fixture(scope="module")
def running(postgres):
    OnPostgres.server = postgres


@pytest.mark.slow
@pytest.mark.usefixtures("running")
class TestAdvisorOnPostgres(OnPostgres.TestCase):
    settings = settings(max_examples=6, stateful_step_count=30)
