"""The advisor of a deployment: ask what to do, and tell what came of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from surefooted.errors import InvalidInput
from surefooted.live.decision import Decision, from_event, words
from surefooted.live.inputs import Given, is_one_line, tidy
from surefooted.live.machine import Machine
from surefooted.live.people import People
from surefooted.live.reports import Reports


class Advisor(People, Reports):
    """Decides for the sites of one deployment; `create_deployment` and `deployment` of a store return one.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> with sf.live.open(":memory:") as store:
    ...     river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    ...     river.add_site("east")
    ...     decision = river.ask("east", state=0, key="monday")
    ...     river.tell(decision, reward=0.005, next_state=0)
    >>> decision.action, decision.departs
    (0, False)
    """

    def add_site(self, name: str, *, who: str | None = None, note: str | None = None) -> None:
        """One more site."""
        name = tidy(name) if isinstance(name, str) else name
        if not isinstance(name, str) or not is_one_line(name):
            raise InvalidInput("this site cannot be added", [f"{name!r} is no name: a name is one line of text"])
        with self._changing() as machine:
            if machine.site(name) >= 0:
                raise InvalidInput("this site cannot be added", [f"there is a site {name} already"])
            self._write(machine, "site", {"name": name, "who": who, "note": note})

    def ask(self, site: str, state: int | str, key: str) -> Decision:
        """What to play in a state of a site. The same key gives the same decision for ever.

        If the outcome of the last decision at this site is not known yet, `state` also says where that has led.
        """
        if key is None or not tidy(str(key)):
            raise InvalidInput("this question cannot be answered", ["it has no key: give one, such as the date"])
        with self._changing() as machine:
            i, s = self._site(machine, site), self._state(state)
            where = machine.sites[i]
            found = self._asked(i, key)
            if found is not None:
                return self._same(where.name, found, s)
            key = tidy(str(key))
            faults = [] if is_one_line(key) else [f"key {key!r} is no key: a key is one line of text"]
            faults += [f"site {site} is closed: reopen it first"] if where.closed else []
            if where.last in machine.waiting:
                faults.append(f"decision {where.last} at site {site} still waits for a person: approve or reject it")
            if where.expects is not None and where.expects != s:
                said = self.space.state_words(where.expects)
                faults.append(f"site {site} was left in state {said}, not {self.space.state_words(s)}")
            if faults:
                hint = f'If something else moved the site, say so first: relocate("{site}", state, why).'
                hint = hint if where.expects not in (None, s) else ""
                raise InvalidInput("this question cannot be answered", faults, hint)
            return self._decide(machine, i, s, key)

    def _decide(self, machine: Machine, i: int, s: int, key: str) -> Decision:
        """Make and write down a decision."""
        where, fleet, n = machine.sites[i], machine.fleet, self.store.last + 1
        leads = where.last if where.last in fleet.open and fleet.open[where.last].s_next is None else 0
        alarm, mode = fleet.alarm, machine.mode_of(i)
        self._is_ahead = True
        answer = machine.ask(n, i, s)
        step, space = fleet.open[n], self.space
        waits = mode == "approval" and answer.departs
        deadline = None
        if waits:
            until = datetime.fromisoformat(self.store.now()) + timedelta(hours=self.definition.deadline)
            deadline = until.isoformat(timespec="microseconds")
        proposed = int(space.pair_action[answer.proposed]) if answer.proposed >= 0 else None
        pair = step.baseline if waits else answer.pair
        ledgers = zip(fleet.books.of(i), step.slots, strict=True)
        body = {
            "site": i, "key": key, "state": s, "leads": leads, "pair": answer.pair, "base": step.baseline,
            "action": int(space.pair_action[pair]), "role": "baseline" if waits else answer.role,
            "proposed": proposed, "departs": answer.departs and not waits, "would_depart": answer.would_depart,
            "explored": step.explored, "deposit": answer.deposit, "balance": answer.balance,
            "reason": words(space, answer, fleet, s, mode, where.paused or machine.paused), "mode": mode,
            "status": "waiting" if waits else "play", "deadline": deadline,
            "terms": [ledger.terms_of(slot) for (_, ledger), slot in ledgers if slot >= 0],
        }  # fmt: skip
        event = self.store.append(self.id, "ask", body)
        assert event.n == n
        self.store.index_decision(n, self.id, i, key)
        if leads:
            self.store.index_told(leads, n)
        if deadline is not None:
            machine.waiting[n] = deadline
        machine.note(event)
        self._note_alarm(machine, alarm)
        return from_event(where.name, event, space, [])

    def _same(self, site: str, n: int, s: int) -> Decision:
        """The decision that was made for this key."""
        event = self.store.event(n)
        if event.body["state"] != s:
            then, now = (self.space.state_words(x) for x in (event.body["state"], s))
            fault = f"key {event.body['key']!r} at site {site} was asked in state {then}, now in {now}"
            raise InvalidInput("this key belongs to another question", [fault], "Give each question a key of its own.")
        return from_event(site, event, self.space, self.store.about(n))

    def tell(
        self,
        decision: Decision | int | None = None,
        *,
        reward: float | None = None,
        next_state: int | str | None = None,
        action: int | str | None = None,
        guardrails: Mapping[str, float] | None = None,
        noise: Any = None,
        site: str | None = None,
        key: str | None = None,
        who: str | None = None,
        note: str | None = None,
    ) -> None:
        """What came of a decision: all of it, or a part of it; in any order, and as late as you like.

        The decision is given as such, by its id, or by the site and key of its question. `action` says what was played,
        if it was not what was asked for: then the step teaches, and is on no account. To tell the same again changes
        nothing; to tell something else is an error, and `correct` puts a mistake right.
        """
        with self._changing() as machine:
            n = self._find(machine, decision, site, key)
            told = self._told(machine, n, Given(reward, next_state, action, guardrails, noise))
            fresh = self._new(machine, n, told)
            if fresh:
                by = {name: said for name, said in (("who", who), ("note", note)) if said is not None}
                self._write(machine, "tell", {"decision": n} | fresh | by, n)
