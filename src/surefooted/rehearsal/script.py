"""A year at some sites: what the world does, what people do, and what arrives late, twice or never."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from surefooted.data.log_times import MONTHS, SECONDS, Step
from surefooted.errors import InvalidInput
from surefooted.problems.guardrails import FileGuardrail
from surefooted.problems.problem import Problem
from surefooted.rehearsal.client import Client, Refused

BEGINS = datetime(2026, 1, 5, 9, tzinfo=UTC)  # a Monday morning
MONTH = timedelta(days=30.436875)


@dataclass(frozen=True)
class Adversity:
    """How often each mishap happens, as probabilities per decision unless it says otherwise.

    - `late`: the reward arrives after 1 to `most_late` further steps.
    - `lost`: the reward never arrives; after `most_late` steps somebody says so (expire).
    - `repeated`: an outcome is told twice.
    - `overrides`: people play something else than what was asked for.
    - `moved`: something else moves the site, such as a stock-taking correction.
    - `pauses`: somebody stops exploring at all sites, for `most_late` steps.
    - `unanswered`, `rejected`: in approval mode, nobody answers, or somebody says no.
    - `crashes`: how often, in all, the advisor's process is killed with SIGKILL in the middle of a call.
    """

    late: float = 0.2
    lost: float = 0.02
    repeated: float = 0.1
    overrides: float = 0.05
    moved: float = 0.02
    pauses: float = 0.01
    unanswered: float = 0.1
    rejected: float = 0.1
    crashes: int = 4
    most_late: int = 5

    def __post_init__(self) -> None:
        """Check the numbers."""
        shares = ("late", "lost", "repeated", "overrides", "moved", "pauses", "unanswered", "rejected")
        faults = [f"{name} {getattr(self, name)} must be a probability" for name in shares
                  if not 0 <= getattr(self, name) <= 1]  # fmt: skip
        faults += [] if self.late + self.lost <= 1 else ["late and lost add up to more than 1"]
        faults += [] if self.unanswered + self.rejected <= 1 else ["unanswered and rejected add up to more than 1"]
        faults += [] if self.crashes >= 0 else [f"crashes {self.crashes} must not be negative"]
        faults += [] if self.most_late >= 1 else [f"most_late {self.most_late} must be at least 1"]
        if faults:
            raise InvalidInput("this cannot be rehearsed", faults)


@dataclass
class Seen:
    """What happened: how often each mishap, and everything that the advisor acknowledged."""

    decisions: int = 0
    late: int = 0
    lost: int = 0
    repeated: int = 0
    overrides: int = 0
    moved: int = 0
    pauses: int = 0
    approved: int = 0
    rejected: int = 0
    unanswered: int = 0
    asked: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)  # decision and label, by site and key
    told: dict[int, float] = field(default_factory=dict)  # complete outcomes: the reward, by decision


class World:
    """The truth: draws rewards, next states, noise and the numbers of guardrails."""

    def __init__(self, problem: Problem, rng: np.random.Generator, guardrails: Sequence[FileGuardrail] = ()) -> None:
        self.problem, self.rng, self.guardrails = problem, rng, guardrails
        mechanics, money = problem.mechanics, problem.space.money
        self.mechanics = mechanics
        self.pays_by_noise = mechanics is not None and mechanics.reward is not None
        if self.pays_by_noise and mechanics is not None:
            self.pays_by_noise = bool(np.all(money.contains(np.asarray(mechanics.reward))))

    def draw(self, pair: int) -> dict[str, Any]:
        """What is told of a step: reward, next state, guardrails, and the noise if it is observed."""
        reward, after = self.problem.mdp.draw(self.rng, pair)
        if self.mechanics is None:
            return {"reward": reward, "next_state": after} | self._guarded(pair, after, None)
        noise = self.mechanics.draw_noise(self.problem.laws, np.array([pair]), np.array([after]), self.rng)[0]
        if self.pays_by_noise and self.mechanics.reward is not None:
            place = int(self.mechanics.noise_ptr[pair]) + int(np.ravel_multi_index(noise, self.mechanics.shape(pair)))
            reward = float(self.mechanics.reward[place])
        drawn = [int(x) for x in noise]
        told: dict[str, Any] = {"reward": reward, "next_state": after} | self._guarded(pair, after, tuple(drawn))
        return told | ({"noise": drawn} if self.mechanics.observed else {})

    def _guarded(self, pair: int, after: int, noise: tuple[int, ...] | None) -> dict[str, Any]:
        """The numbers of all guardrails, if there are any."""
        s, a = int(self.problem.space.pair_state[pair]), int(self.problem.space.pair_action[pair])
        numbers = {rail.name: rail.value(s, a, after, noise) for rail in self.guardrails}
        return {"guardrails": numbers} if numbers else {}


class Year:
    """Plays the calendar: asks at every site in every step, and tells what came of it, late or never.

    Parameters
    ----------
    client : calls the advisor
    world : the truth
    sites : their names
    adversity : what goes wrong, and how often
    length : of a step in the calendar

    """

    def __init__(
        self, client: Client, world: World, sites: tuple[str, ...], adversity: Adversity, length: timedelta
    ) -> None:
        self.client, self.world, self.sites, self.adversity, self.length = client, world, sites, adversity, length
        self.rng, self.space, self.seen = world.rng, world.problem.space, Seen()
        self.where = dict.fromkeys(sites, world.problem.start)
        self.due: list[tuple[int, Callable[[datetime], None]]] = []  # step, and what is done then
        self.paused_until = -1

    def play(self, steps: int, progress: Callable[[int, int], None] | None = None) -> Seen:
        """All steps, and a few more in which everything that is late arrives."""
        for t in range(steps + self.adversity.most_late + 1):
            now = BEGINS + t * self.length
            for _, action in [entry for entry in self.due if entry[0] <= t]:
                action(now)
            self.due = [entry for entry in self.due if entry[0] > t]
            if t < steps:
                self._people(t, now)
                for site in self.sites:
                    self._step(t, now, site)
            if progress is not None and t < steps:
                progress(t + 1, steps)
        return self.seen

    def _happens(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _people(self, t: int, now: datetime) -> None:
        if t == self.paused_until:
            self.client.call("resume", now, who="rehearsal")
        elif t > self.paused_until and self._happens(self.adversity.pauses):
            self.client.call("pause", now, who="rehearsal", note="a pause that is rehearsed")
            self.paused_until, self.seen.pauses = t + self.adversity.most_late, self.seen.pauses + 1

    def _step(self, t: int, now: datetime, site: str) -> None:
        """One decision at a site, and what comes of it."""
        space, seen, adversity = self.space, self.seen, self.adversity
        if self._happens(adversity.moved):
            self.where[site] = int(self.rng.integers(space.n_states))
            self.client.call("relocate", now, site=site, state=self.where[site], why="stock-taking", who="rehearsal")
            seen.moved += 1
        s, key = self.where[site], now.date().isoformat() if self.length >= timedelta(days=1) else now.isoformat()
        decision = self.client.call("ask", now, site=site, state=s, key=key)
        seen.decisions += 1
        if decision["status"] == "waiting":
            decision = self._answer(decision, now)
        n, action = int(decision["id"]), int(decision["action"])
        seen.asked[site, key] = n, decision["label"]
        others = [a for a in space.actions(s).tolist() if a != action]
        if others and self._happens(adversity.overrides):
            action = int(self.rng.choice(others))
            self.client.call("tell", now, decision=n, action=action)
            seen.overrides += 1
        told = self.world.draw(space.pair(s, action))
        self.where[site] = int(told["next_state"])
        self._deliver(t, now, n, told)

    def _answer(self, decision: dict[str, Any], now: datetime) -> dict[str, Any]:
        """What a person says to a departure; the decision as it stands then."""
        n, u, seen = int(decision["id"]), self.rng.random(), self.seen
        soon = now + timedelta(seconds=1)
        if u < self.adversity.unanswered:
            seen.unanswered += 1
            late = datetime.fromisoformat(decision["deadline"]) + timedelta(seconds=1)
            return self._decision_after(n, late)
        what = "reject" if u < self.adversity.unanswered + self.adversity.rejected else "approve"
        try:
            answered = dict(self.client.call(what, soon, decision=n, who="rehearsal"))
        except Refused:  # it was answered before the process died
            answered = dict(self.client.call("decision", soon, id=n))
        if what == "reject":
            seen.rejected += 1
        else:
            seen.approved += 1
        return answered

    def _decision_after(self, n: int, now: datetime) -> dict[str, Any]:
        """A decision after its deadline: any call that writes lets it lapse."""
        self.client.call("resume", now, who="rehearsal", note="nobody answered")
        return dict(self.client.call("decision", now, id=n))

    def _deliver(self, t: int, now: datetime, n: int, told: dict[str, Any]) -> None:
        """The outcome arrives now, late, twice or never."""
        adversity, seen, u = self.adversity, self.seen, self.rng.random()
        twice = self._happens(adversity.repeated)
        if u < adversity.lost:
            seen.lost += 1
            self.due.append((t + adversity.most_late, lambda then: self._expire(n, then)))
        elif u < adversity.lost + adversity.late:
            seen.late += 1
            after = t + int(self.rng.integers(1, adversity.most_late + 1))
            self.due.append((after, lambda then: self._tell(n, told, twice, then)))
        else:
            self._tell(n, told, twice, now + self.length / 8)

    def _tell(self, n: int, told: dict[str, Any], twice: bool, now: datetime) -> None:
        for _ in range(1 + twice):
            self.client.call("tell", now, decision=n, **told)
        self.seen.told[n] = float(told["reward"])
        self.seen.repeated += twice

    def _expire(self, n: int, now: datetime) -> None:
        try:
            self.client.call("expire", now, decision=n, who="rehearsal", note="lost")
        except Refused:  # it was written before the process died
            pass


def length_of(step: Step | None) -> timedelta:
    """The length of a step; a day unless the file says otherwise."""
    if step is None:
        return timedelta(days=1)
    if step.unit in SECONDS:
        return timedelta(seconds=SECONDS[step.unit] * step.number)
    return MONTH * (MONTHS[step.unit] * step.number)
