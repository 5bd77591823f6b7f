"""What people do: every such event says who, and why."""

from collections.abc import Mapping
from typing import Any

from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput
from surefooted.live.decision import MODES, Decision, Mode, from_event
from surefooted.live.inputs import Given, Inputs
from surefooted.live.outcomes import Outcome

ANSWERS = {
    "approve": "it was approved by {}",
    "reject": "it was rejected by {}",
    "lapse": "nobody answered in time, and the baseline is played",
}


class People(Inputs):
    """Expire, correct, relocate, pause, close, change the mode, approve, trust."""

    def expire(self, decision: Decision | int, *, who: str | None = None, note: str | None = None) -> None:
        """The rest of an outcome will not come: it is charged at its worst for good."""
        with self._changing() as machine:
            n = self._open(machine, self._number(decision))
            self._write(machine, "expire", {"decision": n, "who": who, "note": note}, n)

    def correct(
        self,
        decision: Decision | int,
        *,
        reward: float | None = None,
        next_state: int | str | None = None,
        action: int | str | None = None,
        guardrails: Mapping[str, float] | None = None,
        noise: Any = None,
        who: str | None = None,
        note: str | None = None,
    ) -> None:
        """Put right what was told of a decision: the old outcome is taken back, and this one is told instead.

        What was decided in between rested on a wrong number, and is marked in the journal as outside the guarantee.
        """
        with self._changing() as machine:
            n = self._number(decision)
            found = self.known(n)
            said = (found.reward, found.next_state, found.guards, found.played)
            if all(part is None for part in said) and not found.lost:
                raise InvalidInput("there is nothing to correct", [f"decision {n}: nothing was told of it"])
            told, was = self._told(machine, n, Given(reward, next_state, action, guardrails, noise)), self._was(found)
            self._check_noise(machine, told, None, told.get("played", found.pair))
            body = {"decision": n, "was": was, "who": who, "note": note, "outside_guarantee": True}
            self._write(machine, "correct", body | told, n)

    def _was(self, found: Outcome) -> dict[str, Any]:
        """What `Fleet.reopen` needs to take back an outcome."""
        body, rejected = found.body, found.status in ("rejected", "lapsed")
        departs = bool(body["terms"]) and not rejected
        step = {"site": body["site"], "s": body["state"], "pair": found.pair, "baseline": body["base"]}
        step |= {"departs": departs, "explored": body["explored"] and not rejected, "put": body["deadline"] is not None}
        step |= {"reward": found.reward, "s_next": found.next_state, "guards": found.guards}
        n = len(self.machine().fleet.books.of(body["site"]))
        terms = body["terms"] if departs else [None] * n
        return {"step": step | {"slots": [-1] * n, "waiting": [-1.0] * n}, "played": found.pair_played, "terms": terms,
                "lost": found.lost, "noise": found.noise}  # fmt: skip

    def relocate(self, site: str, state: int | str, why: str, *, who: str | None = None) -> None:
        """Something else than a decision moved a site, or its state was wrong: it is in this state now."""
        with self._changing() as machine:
            if not isinstance(why, str) or not why.strip():
                raise InvalidInput("this site cannot be moved", [f"site {site}: say why; it stands in the journal"])
            body = {"site": self._site(machine, site), "state": self._state(state), "why": why, "who": who}
            self._write(machine, "relocate", body)

    def pause(self, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """From the next question on, the baseline is played: at one site, or at all."""
        self._command("pause", site, who, note)

    def resume(self, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """Take back `pause`."""
        self._command("resume", site, who, note)

    def close_site(self, site: str, *, who: str | None = None, note: str | None = None) -> None:
        """No more questions about a site are answered; outcomes may still be told."""
        self._command("close", site, who, note, closed=False)

    def reopen_site(self, site: str, *, who: str | None = None, note: str | None = None) -> None:
        """Take back `close_site`; the site may be in any state then."""
        self._command("reopen", site, who, note, closed=True)

    def set_mode(self, mode: Mode, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """Decide in another mode from now on, at one site or at all: "shadow", "approval" or "live"."""
        if mode not in MODES:
            raise InvalidInput("no such mode", [f"{mode!r}: there are {', '.join(MODES)}"])
        self._command("mode", site, who, note, {"mode": mode})

    def _command(
        self,
        kind: str,
        site: str | None,
        who: str | None,
        note: str | None,
        more: dict[str, Any] | None = None,
        *,
        closed: bool | None = None,
    ) -> None:
        """An event about a site, which must be `closed` or open if that is given, or about all of them."""
        with self._changing() as machine:
            i = None if site is None else self._site(machine, site)
            if i is not None and closed is not None and machine.sites[i].closed != closed:
                fault = f"site {site} is {'not closed' if closed else 'closed already'}"
                raise InvalidInput(f"there is nothing to {kind}", [fault])
            self._write(machine, kind, {"site": i, "who": who, "note": note} | (more or {}))

    def approve(self, decision: Decision | int, *, who: str, note: str | None = None) -> Decision:
        """A person says yes: what was proposed is played."""
        return self._answer("approve", decision, who, note)

    def reject(self, decision: Decision | int, *, who: str, note: str | None = None) -> Decision:
        """A person says no: the baseline is played."""
        return self._answer("reject", decision, who, note)

    def _answer(self, kind: str, decision: Decision | int, who: str, note: str | None) -> Decision:
        with self._changing() as machine:
            n = self._number(decision)
            if n not in machine.waiting:
                events = [event for event in self.store.about(n) if event.kind in ANSWERS]
                said = ANSWERS[events[-1].kind].format(events[-1].body.get("who")) if events else "it never did"
                fault = f"decision {n} does not wait for an answer: {said}"
                raise InvalidInput("there is no such question", [fault])
            self._write(machine, kind, {"decision": n, "who": who, "note": note}, n)
            return from_event(
                machine.sites[machine.fleet.open[n].site].name, self.store.event(n), self.space, self.store.about(n)
            )

    def trust(
        self, *, keep_since: int | None = None, knowledge: str = "keep", who: str | None = None, note: str | None = None
    ) -> None:
        """Go on after an alarm or a contradiction.

        `keep_since`: the learner keeps only steps decided after this event (the number of the last event: none); None
        keeps all, since the alarm was a false one. `knowledge`: "keep" what is believed, "as built", or "none".
        """
        if knowledge not in ("keep", "as built", "none"):
            raise InvalidInput("no such knowledge", [f"{knowledge!r}: there are 'keep', 'as built' and 'none'"])
        with self._changing() as machine:
            if keep_since is not None and not (is_whole(keep_since, 0) and keep_since <= self.store.last):
                fault = f"keep_since {keep_since} is no event: the last one has the number {self.store.last}"
                raise InvalidInput("these data cannot be chosen", [fault])
            keep_since = None if keep_since is None else int(keep_since)
            body = {"keep_since": keep_since, "knowledge": knowledge, "who": who, "note": note}
            self._write(machine, "trust", body | {"outside_guarantee": keep_since is not None})
