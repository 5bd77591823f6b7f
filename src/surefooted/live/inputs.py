"""What users give, as the journal takes it: sites, states, actions and numbers, checked and counted from `low`."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput
from surefooted.live.decision import Decision
from surefooted.live.following import Following
from surefooted.live.machine import Machine
from surefooted.live.outcomes import Outcome

MOST = 2**63 - 1  # numbers that a database takes
NOTHING = "Tell a reward, a next state, an action, or guardrails."


@dataclass(frozen=True)
class Given:
    """What somebody says of an outcome, in the user's words and unit."""

    reward: float | None = None
    next_state: int | str | None = None
    action: int | str | None = None
    guardrails: Mapping[str, float] | None = None
    noise: Any = None


def tidy(name: str) -> str:
    """The name of a site, or a key, as it is written down: without spaces around it, in one way of writing Unicode."""
    return unicodedata.normalize("NFC", name).strip()


def is_one_line(name: str) -> bool:
    """Whether a text is not empty, and has no characters that begin a line or control a terminal."""
    return bool(name) and not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(character) for character in name}


class Inputs(Following):
    """Checks what users give."""

    def _site(self, machine: Machine, name: str) -> int:
        """The number of a site."""
        i = machine.site(name)
        if i < 0 and isinstance(name, str):
            i = machine.site(tidy(name))
        if i < 0:
            listed = ", ".join(site.name for site in machine.sites[:12]) or "none yet"
            how = f"Add it first: add_site({name!r}), or `surefooted live site`."
            raise InvalidInput("no such site", [f"{name!r}; there are: {listed}"], how)
        return i

    def _state(self, state: int | str) -> int:
        """The number of a state."""
        names = self.space.state_names
        if isinstance(state, str):
            if names is None or state not in names:
                raise InvalidInput("no such state", [f"state {state!r}: {_known(names)}"])
            return names.index(state)
        return self.space.check_state(state)

    def _action(self, action: int | str) -> int:
        """The number of an action."""
        names = self.space.action_names
        if isinstance(action, str):
            if names is None or action not in names:
                raise InvalidInput("no such action", [f"action {action!r}: {_known(names)}"])
            return names.index(action)
        return action

    def _number(self, decision: Decision | int) -> int:
        """The id of a decision of this deployment."""
        n = decision.id if isinstance(decision, Decision) else decision
        found = is_whole(n, 1) and int(n) <= MOST
        if not found or not self.store.has_decision(int(n), self.id):
            raise InvalidInput("no such decision", [f"{self.name} has made no decision {n!r}"])
        return int(n)

    def _find(self, machine: Machine, decision: Decision | int | None, site: str | None, key: str | None) -> int:
        """A decision, by itself, its id, or the site and key of its question; if both are given, they must agree."""
        number = None
        if decision is not None:
            n = decision.id if isinstance(decision, Decision) else decision
            is_open = is_whole(n) and n in machine.fleet.open  # then it need not be looked up
            number = int(n) if is_open else self._number(decision)
        if number is not None and site is None and key is None:
            return number
        if site is None or key is None:
            raise InvalidInput("no such decision", ["give the decision, its id, or the site and key of its question"])
        found = self._asked(self._site(machine, site), key)
        if found is None:
            raise InvalidInput("no such decision", [f"nothing was asked at site {site} with key {key!r}"])
        if number not in (None, found):
            fault = f"decision {number} is not the one of site {site} with key {key!r}, which is decision {found}"
            raise InvalidInput("no such decision", [fault])
        return found

    def _asked(self, site: int, key: str) -> int | None:
        """The decision for a key at a site, if one was made; older stores have keys that are not tidy."""
        if any(unicodedata.category(character) == "Cs" for character in str(key)):  # half a character
            return None
        found = self.store.decision_for(self.id, site, str(key))
        return found if found is not None else self.store.decision_for(self.id, site, tidy(str(key)))

    def _open(self, machine: Machine, n: int) -> int:
        """A decision, if its outcome is not complete."""
        if n not in machine.fleet.open:
            found = self.known(n)
            what = "expired" if found.lost else "complete"
            raise InvalidInput("this decision is not open", [f"decision {n}: its outcome is {what}"])
        if n in machine.waiting:
            fault = f"decision {n} waits for a person: approve or reject it first"
            raise InvalidInput("this decision was not played yet", [fault])
        return n

    def _told(self, machine: Machine, n: int, given: Given) -> dict[str, Any]:
        """What is said of an outcome, as the journal takes it."""
        space, money, told, faults = self.space, self.space.money, dict[str, Any](), list[str]()
        if given.reward is not None:
            number = _number(given.reward)
            if not (np.isfinite(number) and money.contains(number)):
                faults.append(f"reward {given.reward} is outside {money.words}")
            told["reward"] = float(money.counted(number))
        if given.next_state is not None:
            told["next_state"] = self._state(given.next_state)
        if given.action is not None:
            told["played"] = space.pair(self.store.event(n).body["state"], self._action(given.action))
        if given.guardrails is not None:
            told["guards"] = self._guards(given.guardrails, faults)
        if given.noise is not None:
            values = np.atleast_1d(np.asarray(given.noise)).tolist()
            told["noise"] = [int(value) for value in values]
        if machine.fleet.learner.belief.noise is None and given.noise is not None:
            faults.append("no mechanics that observe their noise were declared, and noise is given")
        if faults:
            raise InvalidInput("this outcome cannot be told", [f"decision {n}: {fault}" for fault in faults])
        if not told:
            raise InvalidInput("nothing was told", [f"decision {n}"], NOTHING)
        return told

    def _guards(self, given: Mapping[str, float], faults: list[str]) -> list[float | None]:
        """Guardrails as accounts count them; None where nothing is said."""
        guardrails = self.definition.rules.guardrails
        names, counted = [guardrail.name for guardrail in guardrails], list[float | None]()
        if unknown := [str(name) for name in given if name not in names]:
            known = f"there are {', '.join(names)}" if names else "this deployment has none"
            faults.append(f"guardrails {', '.join(unknown)}: {known}")
        for guardrail in guardrails:
            if guardrail.name not in given:
                counted.append(None)
                continue
            number = _number(given[guardrail.name])
            if not guardrail.low <= number <= guardrail.high:
                faults.append(f"{guardrail.name} {number} is outside [{guardrail.low:g}, {guardrail.high:g}]")
            counted.append(float(guardrail.counted(number)))
        return counted

    def _new(self, machine: Machine, n: int, told: dict[str, Any]) -> dict[str, Any]:
        """What of this is not known yet; an error if something else is known."""
        step, waits = machine.fleet.open.get(n), n in machine.waiting
        if step is not None and not waits:
            played = machine.played.get(n)
            known: dict[str, Any] = {
                "reward": step.reward,
                "next_state": step.s_next,
                "guards": step.guards,
                "played": played,
            }
            known["noise"], pair, lost = machine.noise.get(n), step.pair, False
        else:
            found: Outcome = self.known(n)
            names = ("reward", "next_state", "guards", "played", "noise")
            known, pair, lost = {name: getattr(found, name) for name in names}, found.pair, found.lost
        if told.get("played") == pair and known["played"] is None:
            told = {name: value for name, value in told.items() if name != "played"}
        said, guards = {name: value for name, value in told.items() if name != "guards"}, told.get("guards")
        fresh = {name: value for name, value in said.items() if known[name] is None}
        faults = [
            f"decision {n}: {name} was told as {self._shown(name, known[name])}, and now as {self._shown(name, value)}"
            for name, value in said.items()
            if name not in fresh and known[name] != value
        ]
        if guards is not None:
            fresh |= self._new_guards(n, known["guards"] or [None] * len(guards), guards, faults)
        if faults:
            hint = "If the first was a mistake, put it right: correct(decision, ..., who=, note=)."
            raise InvalidInput("something else was told before", faults, hint)
        if fresh and (waits or lost or step is None):
            why = "it waits for a person" if waits else "it has expired: correct(...) takes that back"
            if "played" in fresh and not lost and not waits:
                why = "its outcome is complete, and was played as asked: correct(...) says otherwise"
            raise InvalidInput("this outcome cannot be told", [f"decision {n}: {why}"])
        if fresh and step is not None:
            pair = fresh.get("played", machine.played.get(n, step.pair))
            self._check_noise(machine, fresh, machine.noise.get(n), pair)
        return fresh

    def _new_guards(
        self, n: int, known: list[float | None], given: list[float | None], faults: list[str]
    ) -> dict[str, Any]:
        """The guardrails that are not known yet, if there are any; a fault for each that is known to be another."""
        for rail, before, now in zip(self.definition.rules.guardrails, known, given, strict=True):
            if before is not None and now is not None and before != now:
                then = f"{rail.name} was told as {rail.told(before):g}, and now as {rail.told(now):g}"
                faults.append(f"decision {n}: {then}")
        fresh = [now if before is None else None for before, now in zip(known, given, strict=True)]
        return {"guards": fresh} if any(number is not None for number in fresh) else {}

    def _check_noise(self, machine: Machine, fresh: dict[str, Any], known: list[int] | None, pair: int) -> None:
        """Mechanics that observe their noise need it with a part of an outcome; nothing else is `known` of it."""
        belief = machine.fleet.learner.belief
        if belief.noise is not None and fresh.get("noise", known) is None and {"reward", "next_state"} & set(fresh):
            raise InvalidInput("this outcome cannot be told", ["the mechanics observe their noise: give it"])
        if "noise" in fresh:
            belief.check_noise(pair, tuple(fresh["noise"]))

    def _shown(self, name: str, value: Any) -> str:
        """A value of the journal for people."""
        if name == "reward":
            return self.space.amount(float(self.space.money.earned(value)))
        if name == "next_state":
            return self.space.state_words(value)
        return self.space.words(value) if name == "played" else str(value)


def _known(names: tuple[str, ...] | None) -> str:
    return "the space has no names" if names is None else f"there are {', '.join(names[:12])}"


def _number(value: Any) -> float:
    """A number, or nan; yes and no are none."""
    if isinstance(value, bool | np.bool_):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
