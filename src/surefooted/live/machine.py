"""What a deployment is after some events: replaying the journal through this is the only way to restore it.

`ask` makes the decision of an "ask" event. `apply` takes the effect of any event. Both change the machine in the same
way, in the process that writes the event and in every process that replays it. Nothing here reads the clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from surefooted.agents.fleet_steps import Answer, Seen, Settled, Step
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import AS_BUILT
from surefooted.live.decision import Mode
from surefooted.live.definition import Definition, knowledge_as_plain, knowledge_from_plain
from surefooted.live.store import Event
from surefooted.live.tracks import Tracks

Steps = Callable[[int], Iterable[Seen]]  # all complete steps since an event
KINDS: dict[str, Any] = {  # what snapshots hold beside the sites and the fleet
    "n": int, "mode": str, "paused": str | None, "waiting": dict, "played": dict, "noise": dict, "rewards": int,
    "earned": float, "outside": list,
}  # fmt: skip


@dataclass
class LiveSite:
    """A site as the journal has left it."""

    name: str
    last: int = 0  # its last decision, 0 if there is none or the site was moved since
    expects: int | None = None  # the state that the last outcome led to, if it is known
    paused: str | None = None  # why
    closed: bool = False
    mode: Mode | None = None  # if it has one of its own


class Machine:
    """One deployment, rebuilt from events.

    Parameters
    ----------
    definition : what it was created with

    """

    def __init__(self, definition: Definition) -> None:
        self.definition, self.fleet, self.space = definition, definition.build(), definition.space
        self.n = 0  # the last event that was applied
        self.sites: list[LiveSite] = []
        self._numbers: dict[str, int] = {}  # of the sites, by name
        self.mode: Mode = "live"
        self.paused: str | None = None
        self.waiting: dict[int, str] = {}  # decisions that wait for a person, until when
        self.played: dict[int, int] = {}  # open decisions at which something else was played, and what
        self.noise: dict[int, list[int]] = {}  # of open decisions whose mechanics observe it
        self.rewards, self.earned = 0, 0.0  # how many rewards were told, and what they add up to, counted from low
        self.outside: list[str] = []  # what happened that no proof covers, since the beginning
        self.tracks = Tracks()  # for pages

    def site(self, name: str) -> int:
        """The number of the site of that name, -1 if there is none."""
        return self._numbers.get(name, -1)

    def mode_of(self, site: int) -> Mode:
        """The mode in which decisions of a site are made now."""
        return self.sites[site].mode or self.mode

    def ask(self, n: int, site: int, s: int, recorded: tuple[int, bool] | None = None) -> Answer:
        """Make decision n: in state s of a site, which also says where the last decision has led.

        What the journal has `recorded` counts, even if another decision would be made now.
        """
        where = self.sites[site]
        if where.last in self.fleet.open and self.fleet.open[where.last].s_next is None:
            self._see(where.last, None, s, None)
        mode, paused = self.mode_of(site), where.paused or self.paused
        allowed = paused is None and mode != "shadow"
        answer = self.fleet.ask(n, site, s, allowed, mode == "approval", recorded)
        where.last, where.expects = n, None
        return answer

    def apply(self, event: Event, steps: Steps) -> Answer | None:
        """Take the effect of an event; the answer to an "ask" as it is computed now."""
        answer, body, again = None, event.body, self.tracks.doubts(self, event)
        if event.kind == "ask":
            recorded = (body["pair"], body["departs"] or body["status"] == "waiting")
            answer = self.ask(event.n, body["site"], body["state"], recorded)
            if body["status"] == "waiting":
                self.waiting[event.n] = body["deadline"]
        elif (effect := getattr(self, f"_on_{event.kind}", None)) is not None:
            effect(event, steps)
        self.note(event, again)
        return answer

    def note(self, event: Event, again: bool = False) -> None:
        """The effect of an event has been taken."""
        self.n = event.n
        self.tracks.note(self, event, again)

    def _on_site(self, event: Event, steps: Steps) -> None:
        self.fleet.add_site()
        self._numbers.setdefault(event.body["name"], len(self.sites))
        self.sites.append(LiveSite(event.body["name"]))

    def _on_tell(self, event: Event, steps: Steps) -> None:
        body = event.body
        n = body["decision"]
        if body.get("played") is not None:
            self.played[n] = body["played"]
        if body.get("noise") is not None:
            self.noise[n] = body["noise"]
        if body.get("reward") is not None:
            self.rewards, self.earned = self.rewards + 1, self.earned + body["reward"]
        self._see(n, body.get("reward"), body.get("next_state"), body.get("guards"))

    def _see(self, n: int, reward: float | None, s_next: int | None, guards: list[float | None] | None) -> None:
        """Something of an outcome is known; settle it if that is all of it."""
        step = self.fleet.open[n]
        where = self.sites[step.site]
        if s_next is not None and where.last == n:
            where.expects = s_next
        if self.fleet.see(n, reward, s_next, guards):
            pair, told = step.pair if n not in self.played else self.played[n], self.noise.pop(n, None)
            noise = None if told is None else self.fleet.learner.belief.check_noise(pair, tuple(told))
            self.fleet.settle(n, self.played.pop(n, None), noise)

    def _on_expire(self, event: Event, steps: Steps) -> None:
        n = event.body["decision"]
        self.noise.pop(n, None)
        self.fleet.expire(n, self.played.pop(n, None))

    def _on_approve(self, event: Event, steps: Steps) -> None:
        del self.waiting[event.body["decision"]]

    def _on_reject(self, event: Event, steps: Steps) -> None:
        n = event.body["decision"]
        del self.waiting[n]
        self.fleet.reject(n)

    _on_lapse = _on_reject

    def _on_correct(self, event: Event, steps: Steps) -> None:
        """A wrong outcome is taken back, and the right one is told."""
        body = event.body
        n, was = body["decision"], body["was"]
        if n not in self.fleet.open:
            terms = [None if kept is None else (kept[0], kept[1], int(kept[2])) for kept in was["terms"]]
            self.fleet.reopen(n, Settled(Step(**was["step"]), was["played"], terms, was["lost"], was.get("noise")))
        else:
            self.fleet.forget(n)
        self.outside.append(f"event {event.n}: corrects decision {n}; decisions in between rested on a wrong number")
        if was["step"]["reward"] is not None:
            self.rewards, self.earned = self.rewards - 1, self.earned - was["step"]["reward"]
        self.played.pop(n, None)
        self.noise.pop(n, None)
        self._on_tell(event, steps)

    def _on_relocate(self, event: Event, steps: Steps) -> None:
        where = self.sites[event.body["site"]]
        where.last, where.expects = 0, event.body["state"]

    def _on_mode(self, event: Event, steps: Steps) -> None:
        site, mode = event.body["site"], event.body["mode"]
        if site is None:
            self.mode = mode
            for where in self.sites:
                where.mode = None
        else:
            self.sites[site].mode = mode

    def _on_pause(self, event: Event, steps: Steps) -> None:
        site, why = event.body["site"], event.body["note"] or "by a person"
        if site is None:
            self.paused = why
        else:
            self.sites[site].paused = why

    def _on_resume(self, event: Event, steps: Steps) -> None:
        site = event.body["site"]
        if site is None:
            self.paused = None
        else:
            self.sites[site].paused = None

    def _on_close(self, event: Event, steps: Steps) -> None:
        self.sites[event.body["site"]].closed = True

    def _on_reopen(self, event: Event, steps: Steps) -> None:
        where = self.sites[event.body["site"]]
        where.closed, where.last, where.expects = False, 0, None

    def _on_trust(self, event: Event, steps: Steps) -> None:
        body, belief = event.body, self.fleet.learner.belief
        knowledge = belief.knowledge if body["knowledge"] == "keep" else None
        if body["knowledge"] == "as built":
            knowledge = belief.built_with
        since = body["keep_since"]
        self.fleet.trust(knowledge, None if since is None else steps(since), since)
        if since is not None:
            self.outside.append(
                f"event {event.n}: data were chosen by a person; sets and single pairs prove nothing now"
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything, as plain values and arrays."""
        fleet = self.fleet.state_dict()
        belief = fleet["learner"]["belief"]
        if not isinstance(belief["trusted"], str):
            belief["trusted"] = knowledge_as_plain(belief["trusted"])
        return {name: getattr(self, name) for name in KINDS} | {
            "sites": [asdict(site) for site in self.sites],
            "fleet": fleet,
            "tracks": self.tracks.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken; a new machine of the same definition."""
        for name, kind in KINDS.items():
            if not isinstance(state[name], kind):
                raise InvalidInput("this snapshot cannot be used", [f"{name} is {state[name]!r}"])
        belief = state["fleet"]["learner"]["belief"]
        if belief["trusted"] != AS_BUILT:
            belief["trusted"] = knowledge_from_plain(self.space, belief["trusted"])
        self.fleet.load(state["fleet"])
        for name in KINDS:
            setattr(self, name, state[name])
        self.sites = [LiveSite(**site) for site in state["sites"]]
        self._numbers = {site.name: i for i, site in enumerate(self.sites)}
        self.tracks.load(state["tracks"])
