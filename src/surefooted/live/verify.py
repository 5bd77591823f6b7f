"""Is this journal whole? Every hash is computed again, and every decision is made again from the journal alone."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from surefooted.errors import SurefootedError
from surefooted.live.advisor import Advisor
from surefooted.live.machine import Machine
from surefooted.live.outcomes import indexed
from surefooted.live.store import GENESIS, Store, chain


@dataclass
class Verification:
    """What was checked, and every fault with its place; `is_whole` if there is none.

    - `events`, `decisions`: how many were checked.
    - `faults`: what is wrong, a sentence each.

    >>> import surefooted as sf
    >>> with sf.live.open(":memory:") as store:
    ...     found = store.verify()
    >>> found.is_whole, found.events
    (True, 0)
    """

    events: int = 0
    decisions: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def check_file(store: Store, seen: Verification) -> None:
    """Whether the database finds its own files sound."""
    seen.faults += store.faults()


def check_chain(store: Store, seen: Verification) -> None:
    """Whether each event is the one that was written after the event before it, and is in the index."""
    digest, n, at, end = GENESIS, 0, "", store.last  # others may go on writing
    decisions, told = {row for row in store.indexed_decisions() if not _is_later(row[0], end)}, set[tuple[int, int]]()
    for number, deployment, time, kind, body, written in takewhile(lambda line: line[0] <= end, store.lines()):
        if number != n + 1:
            seen.faults.append(
                f"event {n + 1} is missing" + (f", and so are those up to {number - 1}" if number > n + 2 else "")
            )
        n, digest = number, chain(digest, number, deployment, time, kind, body)
        if digest != written:
            seen.faults.append(
                f"event {n} ({kind}, {time}): was changed after it was written, or the one before it was"
            )
            digest = written
        if time < at:
            seen.faults.append(f"event {n}: has an earlier time than the one before it")
        at, seen.events = time, seen.events + 1
        try:
            told |= _indexed(n, deployment, kind, json.loads(body), decisions, seen)
        except (ValueError, KeyError, TypeError) as error:
            seen.faults.append(f"event {n} ({kind}): cannot be read: {error}")
    seen.faults += [f"decision {row[0]} is in the index, and no event made it" for row in sorted(decisions, key=str)]
    listed = {row for row in store.indexed_told() if not _is_later(row[1], end)}
    missing, wrong = (sorted(rows, key=str) for rows in (told - listed, listed - told))
    seen.faults += [f"event {n} about decision {d} is missing in the index" for d, n in missing]
    seen.faults += [f"event {n} is not about decision {d}, as the index says" for d, n in wrong]


def _is_later(n: object, end: int) -> bool:
    """Whether a number of the index is of an event after the end; what is no number was damaged."""
    return isinstance(n, int) and n > end


def _indexed(
    n: int, deployment: int, kind: str, body: dict[str, Any], decisions: set[tuple[object, ...]], seen: Verification
) -> set[tuple[int, int]]:
    """Take the decision of an event from those of the index; what it is about."""
    row, about = indexed(n, deployment, kind, body)
    if row is not None and row not in decisions:
        seen.faults.append(f"decision {n} is missing in the index")
    decisions.discard(row or ())
    return set() if about is None else {about}


def check_definitions(store: Store, seen: Verification) -> None:
    """Whether each deployment is what its event says."""
    end = store.last
    definitions = {id_: (definition, fingerprint) for id_, _, fingerprint, definition in store.definitions()}
    for event in takewhile(lambda event: event.n <= end, store.events()):
        if event.kind == "deployment":
            found = definitions.get(event.deployment)
            if found is None or hashlib.sha256(found[0]).hexdigest() != event.body["definition"]:
                seen.faults.append(f"deployment {event.body['name']}: its definition was changed or is missing")
            elif found[1] != event.body["fingerprint"]:
                seen.faults.append(f"deployment {event.body['name']}: its fingerprint was changed")


def check_decisions(advisor: Advisor, seen: Verification) -> None:
    """Whether every decision is the one that the journal before it gives."""
    machine, names = Machine(advisor.definition), ("pair", "departs", "deposit", "balance", "role")
    kept = dict(advisor.store.read("SELECT n, body FROM snapshots WHERE deployment = ?", advisor.id))
    for event in advisor.journal():
        try:
            answer = machine.apply(event, advisor._steps(event.n))
        except Exception as error:
            seen.faults.append(f"event {event.n} ({event.kind}): cannot have happened: {type(error).__name__}: {error}")
            return
        if event.n in kept and not advisor.is_snapshot_of(machine, kept[event.n]):
            why = "it is damaged, or not what the journal gives; delete it, the journal does not need it"
            seen.faults.append(f"snapshot at event {event.n}: {why}")
        if answer is None:
            continue
        seen.decisions += 1
        told = event.body | ({"departs": True, "role": "optimistic"} if event.body["status"] == "waiting" else {})
        wrong = [name for name in names if getattr(answer, name) != told[name]]
        if wrong:
            now, then = ({name: source(name) for name in wrong} for source in (lambda x: getattr(answer, x), told.get))  # noqa: B023
            seen.faults.append(f"decision {event.n}: the journal says {then}, and gives {now}")


def verify(store: Store, deployments: Callable[[], list[str]], advisor: Callable[[str], Advisor]) -> Verification:
    """Check the file, the chain, the definitions, and every decision."""
    seen, names = Verification(), list[str]()
    for check in (check_file, check_chain, check_definitions):
        try:
            check(store, seen)
        except (SurefootedError, ValueError, KeyError) as error:
            seen.faults.append(f"{check.__name__}: {error}")
    try:
        names = deployments()
    except SurefootedError as error:
        seen.faults.append(f"deployments: {error}")
    for name in names:
        try:
            check_decisions(advisor(name), seen)
        except (SurefootedError, ValueError, KeyError, TypeError) as error:
            seen.faults.append(f"deployment {name}: {error}")
    return seen
