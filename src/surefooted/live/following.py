"""An advisor follows the journal: its machine is rebuilt from a snapshot and the events since.

Each call is one transaction: follow the journal, decide or check, write the event, commit; only then is it answered. If
anything fails, nothing was decided, and a machine that is ahead of the journal is rebuilt before it is used again.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from surefooted import __version__, codec
from surefooted.agents.fleet_steps import Seen
from surefooted.live import outcomes
from surefooted.live.definition import Definition
from surefooted.live.machine import Machine
from surefooted.live.outcomes import Outcome
from surefooted.live.stacking import packed, unpacked
from surefooted.live.store import Event, Store
from surefooted.tables.space import Space

SNAPSHOT = 5  # the format of snapshots
EVERY = 5_000  # events between two snapshots: what a process that begins must read, at most
IDLE = 1.0  # seconds without a transaction, after which others may have written much


class Following:
    """What an advisor does with the journal of its deployment.

    Parameters
    ----------
    store : where the journal is
    id : of the deployment
    name : of the deployment
    definition : what it was created with

    """

    def __init__(self, store: Store, id: int, name: str, definition: Definition) -> None:
        self.store, self.id, self.name, self.definition = store, id, name, definition
        self._machine: Machine | None = None
        self._snapshot_at = 0
        self._read_to = (-1, -1)  # epoch of the store, and its last event when the journal was followed
        self._changed = 0.0  # when the last transaction ended, by the monotonic clock
        self._is_ahead = False  # whether the machine has taken effects that are not committed

    @property
    def space(self) -> Space:
        """The states and their actions."""
        return self.definition.space

    def machine(self) -> Machine:
        """The deployment as the journal has left it."""
        last, machine = self.store.last, self._machine
        epoch = self.store.epoch
        is_ahead = machine is not None and machine.n > last  # of effects that were never committed
        if machine is None or is_ahead or self._read_to[0] != epoch:
            machine = self._machine = self._restored()
            self._read_to = (epoch, machine.n)
        elif last in (machine.n, self._read_to[1]):
            return machine
        try:
            for event in self.store.events(self.id, max(machine.n, self._read_to[1])):
                machine.apply(event, self._steps(event.n))
        except BaseException:
            self._machine = None
            raise
        if not self.store.is_changed:  # what is not committed may never be
            self._read_to = (epoch, last)
        return machine

    def _catch_up(self) -> None:
        """Read what others have written, if that may be much; called with the lock."""
        if self._machine is None or time.monotonic() - self._changed > IDLE:
            self.machine()

    def _forget(self) -> None:
        """The machine may be ahead of the journal: it is rebuilt before it is used again."""
        self._machine = None

    def _restored(self) -> Machine:
        """From the newest snapshot that this version can use, or from nothing."""
        for n, body in self.store.snapshots(self.id):
            try:
                state = codec.decode(body)
                made_by = {name: state.pop(name) for name in ("format", "surefooted", "fingerprint")}
                if made_by == self._made_by:
                    machine = Machine(self.definition)
                    machine.load(unpacked(state))
                    self._snapshot_at = n
                    return machine
            except Exception:  # damaged, forged, or of another version: the journal has it all
                continue
        self._snapshot_at = 0
        return Machine(self.definition)

    def is_snapshot_of(self, machine: Machine, body: bytes) -> bool:
        """Whether a snapshot holds the state of a machine to the last bit; other versions are not judged."""
        try:
            state = codec.decode(body)
            made_by = {name: state.pop(name) for name in ("format", "surefooted", "fingerprint")}
            return made_by != self._made_by or codec.payload(state) == codec.payload(packed(machine.state_dict()))
        except Exception:  # damaged
            return False

    @property
    def _made_by(self) -> dict[str, Any]:
        """What must be the same for a snapshot to be used."""
        return {"format": SNAPSHOT, "surefooted": __version__, "fingerprint": self.definition.fingerprint}

    def snapshot(self) -> None:
        """Write down where the deployment is, so that it opens quickly; the journal does not need it."""
        with self._changing() as machine:
            self._write_snapshot(machine)

    def _write_snapshot(self, machine: Machine) -> None:
        """Keep this snapshot and the one before it."""
        body = codec.encode(packed(machine.state_dict()) | self._made_by)
        self.store.put_snapshot(self.id, machine.n, body)
        self._snapshot_at = machine.n

    @contextmanager
    def _changing(self) -> Iterator[Machine]:
        """A transaction, in which the machine has followed the journal."""
        with self.store.lock:
            self._catch_up()  # before it is our turn: others need not wait while we read
            try:
                with self.store.transaction():
                    machine = self.machine()
                    self._lapse(machine)
                    yield machine
                    if machine.n - self._snapshot_at >= EVERY:
                        self._write_snapshot(machine)
            except BaseException:
                if self._is_ahead:
                    self._machine = None
                raise
            finally:
                self._is_ahead, self._changed = False, time.monotonic()

    def _write(self, machine: Machine, kind: str, body: dict[str, Any], decision: int | None = None) -> Event:
        """Write an event, and take its effect."""
        self._is_ahead = True
        event = self.store.append(self.id, kind, body)
        if decision is not None:
            self.store.index_told(decision, event.n)
        alarm = machine.fleet.alarm
        machine.apply(event, self._steps(event.n))
        self._note_alarm(machine, alarm)
        return event

    def _note_alarm(self, machine: Machine, before: str | None) -> None:
        """Write down that an alarm was raised; its effect has been taken already."""
        if machine.fleet.alarm is not None and before is None:
            since = {"since": self._changed_since(machine), "since_time": self._alarm_since(machine)}
            machine.note(self.store.append(self.id, "alarm", {"what": machine.fleet.alarm} | since))

    @staticmethod
    def _changed_since(machine: Machine) -> int | None:
        """The decision up to which nothing had changed, if there is an alarm."""
        drift = machine.fleet.drift
        return None if drift is None or drift.alarm is None else drift.since or None

    def _alarm_since(self, machine: Machine) -> str | None:
        """When the decision was made up to which nothing had changed, if there is an alarm; called with the lock."""
        decision = self._changed_since(machine)
        return None if decision is None else self.store.event(decision).at

    def _lapse(self, machine: Machine) -> None:
        """What waited for a person for too long is not played: the baseline is."""
        if machine.waiting:
            now = self.store.now()
            for decision in [n for n, deadline in machine.waiting.items() if deadline <= now]:
                self._write(machine, "lapse", {"decision": decision}, decision)

    def _steps(self, until: int) -> Callable[[int], Iterator[Seen]]:
        """All complete steps whose decision was made after an event, as of event `until`."""

        def since(n: int) -> Iterator[Seen]:
            def before() -> Iterator[Event]:
                return takewhile(lambda event: event.n < until, self.store.events(self.id, n))

            for found in outcomes.complete(before, len(self.definition.rules.guardrails)):
                assert found.reward is not None and found.next_state is not None
                yield Seen(found.pair_played, found.reward, found.next_state, found.noise)

        return since

    def known(self, decision: int) -> Outcome:
        """What is known of a decision, by the journal."""
        event = self.store.event(decision)
        found, guardrails = outcomes.begin(event), len(self.definition.rules.guardrails)
        for about in self.store.about(event.n):
            found.take(about, guardrails)
        return found
