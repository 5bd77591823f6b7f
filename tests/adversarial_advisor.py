"""Everything at once, through the advisor: what its accounts have proved is compared with the exact worth of decisions.

Fleets with guardrails, drift and every mode: outcomes come late, in parts, out of order, twice or never, and bad news
comes later than good news. People override, approve, reject, do not answer, pause, move, close and reopen sites, tell
wrong numbers and correct them at once or later, and go on after alarms with all data or with some. In some worlds most
losses are lost, and are given up (`expire`). In some what departures earn changes one day, or turns into its opposite;
in some the least thing raises an alarm of drift. Advisors are rebuilt from the journal, with or without a snapshot.

δ is large, so that failures of the bounds are counted against what was promised; all accounts of a run have δ together.
Where no proof covers a bound (between a wrong number and its correction, or between a change and the choice of new
data), nothing is compared; from then on bounds are compared again. Margins count only in runs without such a time.

Run `python tests/adversarial_advisor.py 500 7` for 500 problems from seed 7; it prints one line.
"""

import sys
import tempfile
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

import adversarial_account
import surefooted as sf
from adversarial_account import Tally, exactly
from live_help import Clock
from surefooted.knowledge import drift
from surefooted.live import learners
from surefooted.tables.mdp import TabularMDP

TOLERANCE = 1e-9
DELTAS = (0.5, 0.05, 0.001)  # at the last one, a single mistake is seen soon
EASILY = 0.9  # the level of drift at which anything raises an alarm
MODES = ("live", "live", "live", "live", "live", "approval", "approval", "shadow")


class Rail:
    """A guardrail whose number is drawn by a mean of its own for every pair, 0 or 1 before it is scaled."""

    def __init__(self, rng, problem, name):
        space = problem.space
        means = rng.random(space.n_pairs) * (rng.random(space.n_pairs) < 0.8)
        own = sf.Space(space.pair_ptr, space.pair_action, 1.0)
        mdp = TabularMDP(own, problem.mdp.next_ptr, problem.mdp.next_state, problem.mdp.p, means)
        policy = sf.Policy.randomised(own, problem.baseline.probabilities)
        self.name, self.means = name, means
        gain, bias, self.advantage = exactly(sf.Problem(name, mdp, policy, problem.start))
        self.low, self.width, better = float(rng.normal()), float(rng.choice([0.5, 1.0, 20.0])), "higher"
        self.sign = 1.0
        if rng.random() < 0.5:
            better, self.sign = "lower", -1.0
        self.tolerance, self.allowance = (
            self.width * float(x) for x in (rng.choice([0.01, 0.1]), rng.choice([0, 10, 100]))
        )
        gain = float(np.clip(gain, 0, 1))
        self.declared = sf.live.Guardrail(
            name, self.told(gain), self.sign * self.width * bias, self.tolerance, self.low, self.low + self.width,
            better, self.allowance,
        )  # fmt: skip

    def told(self, x):
        """A number of which 1 is best, in the guardrail's own unit."""
        return self.low + self.width * (x if self.sign > 0 else 1 - x)

    def draw(self, rng, pair):
        return self.told(float(rng.random() < self.means[pair]))


@dataclass
class Fate:
    """What is to be told of a decision, and when; None: never."""

    n: int
    due: int | None
    told: dict
    action: int | None = None  # that was played, if somebody has told so
    wrong_since: bool = False

    @property
    def truth(self):
        """What a correction must say."""
        return self.told | ({} if self.action is None else {"action": self.action})


@dataclass
class Rehearsal:
    """One fleet with everything switched on."""

    problem: sf.Problem
    rng: np.random.Generator
    path: Path
    options: dict
    rails: list
    sites: list
    alpha: float
    changes: bool
    turns: bool  # what changes turns into its opposite
    loses: bool  # most losses are never told
    corrects_late: bool
    fates: list = field(default_factory=list)
    wrong: set = field(default_factory=set)  # decisions of which something wrong was told, and not yet corrected
    exact: dict = field(default_factory=dict)  # of each account: what its departures are worth
    counted: dict = field(default_factory=dict)
    held: bool = True
    least: float = np.inf
    departed: int = 0
    asked: int = 0
    alarms: int = 0
    expired: int = 0
    trusted: int = 0
    covered: bool = True  # whether bounds are proved now
    clean: bool = True  # whether they always were
    changed: bool = False  # and nobody has said so yet
    moved: set = field(default_factory=set)  # pairs that earn something else than at the beginning

    def begin(self):
        self.gain, self.bias, advantage = exactly(self.problem)
        space = self.problem.space
        self.each = [advantage[space.pair_state, space.pair_action]]
        self.each += [rail.width * rail.advantage[space.pair_state, space.pair_action] for rail in self.rails]
        self.means = self.problem.mdp.r.copy()
        self.clock = Clock()
        self.store = sf.live.open(self.path, self.clock)
        baseline = sf.Baseline(self.problem.baseline, float(np.clip(self.gain, 0, space.r_max)), self.bias)
        rails = tuple(rail.declared for rail in self.rails)
        self.advisor = self.store.create_deployment(
            "shop", space=space, baseline=baseline, alpha=self.alpha, learner="harm", guardrails=rails, deadline=1.0,
            **self.options,
        )  # fmt: skip
        for site in self.sites:
            self.advisor.add_site(site)
        self.where = dict.fromkeys(self.sites, self.problem.start)
        self.waits, self.closed = {}, set()

    def accounts(self):
        """Every account: its key, the number that it guards, and its ledger."""
        books = self.advisor.machine().fleet.books
        own = [((j, i), i, ledger) for j, of in enumerate(books.own) for i, ledger in enumerate(of)]
        return [*(((-1, i), i, ledger) for i, ledger in enumerate(books.shared)), *own]

    def count(self, site, pair):
        """A decision of a site; a departure if a pair is given."""
        j = self.sites.index(site)
        for key, i, _ in self.accounts():
            if key[0] in (-1, j):
                self.exact[key] = self.exact.get(key, 0.0) + (self.each[i][pair] if pair is not None else 0.0)

    def compare(self):
        """All accounts with the truth."""
        worth = 0.0
        for key, i, ledger in self.accounts():
            width = self.problem.space.r_max if i == 0 else self.rails[i - 1].width
            worth, t = self.exact.get(key, 0.0), ledger.steps
            if self.covered:
                self.held &= ledger.worth <= worth + TOLERANCE * width * max(1.0, self.asked)
            rate = self.alpha * self.gain if i == 0 else self.rails[i - 1].tolerance
            allowance = self.options["allowance"] if i == 0 else self.rails[i - 1].allowance
            self.least = min(self.least, (allowance + rate * t + worth) / width)

    def delay(self, s, reward, s_next):
        rng = self.rng
        if self.options["arrival"] == "independent":
            return int(rng.integers(0, 6)) if rng.random() < 0.95 else None
        if reward + self.bias[s_next] - self.bias[s] - self.gain >= 0:
            return 0
        return int(rng.integers(3, 40)) if rng.random() < (0.1 if self.loses else 0.8) else None

    def step(self, t, site):
        """One question at a site, and what becomes of the answer."""
        rng, advisor, problem = self.rng, self.advisor, self.problem
        if site in self.closed or site in self.waits:
            return
        s = self.where[site]
        if rng.random() < 0.02:
            s = self.where[site] = int(rng.integers(problem.space.n_states))
            advisor.relocate(site, s, "moved")
        decision = advisor.ask(site, s, key=str(t))
        self.asked += 1
        if decision.status == "waiting":
            self.waits[site] = decision
            if rng.random() < 0.7:
                self.answer(t, site)
            else:
                self.count(site, None)
        else:
            self.play(t, site, decision)
        self.compare()

    def answer(self, t, site, counted=False):
        """A person says yes or no."""
        decision = self.waits.pop(site)
        call = self.advisor.approve if self.rng.random() < 0.6 else self.advisor.reject
        self.play(t, site, call(decision, who="Ada"), counted)

    def play(self, t, site, decision, counted=False):
        """The action of a decision, or something else, is played; its outcome will be told."""
        rng, problem, s = self.rng, self.problem, decision.state
        pair, departs = problem.space.pair(s, decision.action), decision.departs
        played = None
        if rng.random() < 0.06:
            played = int(rng.choice(problem.space.actions(s)))
            departs &= played == decision.action
            pair = problem.space.pair(s, played)
        if counted and departs:
            self.counted_later(site, pair)
        elif not counted:
            self.count(site, pair if departs else None)
        self.departed += departs
        self.clean &= self.covered or not departs
        reward, s_next = problem.mdp.draw(rng, pair)
        if pair in self.moved:
            reward = float(rng.random() < self.means[pair]) * problem.space.r_max
        self.where[site] = int(s_next)
        told = {"reward": float(reward), "next_state": int(s_next)}
        if self.rails:
            told["guardrails"] = {rail.name: rail.draw(rng, pair) for rail in self.rails}
        if played is not None:
            self.advisor.tell(decision, action=played, who="Ada")
        late = self.delay(s, reward, s_next)
        self.fates.append(Fate(decision.id, None if late is None else t + late, told, played))

    def counted_later(self, site, pair):
        """A departure whose decision was counted when it was asked for."""
        j = self.sites.index(site)
        for key, i, _ in self.accounts():
            if key[0] in (-1, j):
                self.exact[key] += self.each[i][pair]

    def arrive(self, t):
        """What is due is told, in any order; some of what never comes is given up."""
        rng, advisor = self.rng, self.advisor
        due = [fate for fate in self.fates if fate.due is not None and fate.due <= t]
        self.fates = [fate for fate in self.fates if fate.due is None or fate.due > t]
        rng.shuffle(due)
        for fate in due:
            self.tell(t, fate)
        for fate in [fate for fate in self.fates if fate.due is None]:
            if rng.random() < (0.5 if self.loses else 0.05):
                advisor.expire(fate.n, who="Ada")
                self.fates.remove(fate)
                self.expired += 1
        if due:
            self.compare()

    def tell(self, t, fate):
        """All at once, in parts, twice, or wrong at first."""
        rng, advisor, told = self.rng, self.advisor, fate.told
        if fate.wrong_since:
            advisor.correct(fate.n, **fate.truth, who="Ada")
            self.wrong.discard(fate.n)
            self.covered = not self.wrong and not self.changed
            return
        way = int(rng.integers(6))
        if way == 0 and self.options["arrival"] == "any":
            advisor.tell(fate.n, next_state=told["next_state"])
        elif way == 1:
            advisor.tell(fate.n, reward=told["reward"])
        elif way == 2 and self.rails:
            first = self.rails[0].name
            advisor.tell(fate.n, guardrails={first: told["guardrails"][first]})
        elif way == 3:
            lie = told | {"reward": float(rng.choice([0.0, 1.0])) * self.problem.space.r_max}
            if self.rails:
                lie["guardrails"] = {rail.name: rail.told(float(rng.choice([0.0, 1.0]))) for rail in self.rails}
            if fate.action is None and rng.random() < 0.3:  # nobody has played something else
                lie["action"] = int(rng.choice(self.problem.space.actions(advisor.decision(fate.n).state)))
            if self.corrects_late:
                advisor.tell(fate.n, **lie)
                self.wrong.add(fate.n)
                self.covered = False
                self.fates.append(replace(fate, due=t + int(rng.integers(1, 20)), wrong_since=True))
                return
            advisor.tell(fate.n, **lie)
            advisor.correct(fate.n, **fate.truth, who="Ada")
        advisor.tell(fate.n, **told)
        if rng.random() < 0.1:
            advisor.tell(fate.n, **told)

    def people(self, t):
        """What people do between the questions."""
        rng, advisor = self.rng, self.advisor
        for site in list(self.waits):
            if rng.random() < 0.5:
                self.clock.now += timedelta(hours=2)
                advisor.pause(site) if rng.random() < 0.1 else advisor.resume(site)  # any call lets it lapse
                for other in list(self.waits):
                    decision = self.waits.pop(other)
                    self.play(t, other, advisor.decision(decision.id), counted=True)
                break
            self.answer(t, site, counted=True)
        site = str(rng.choice(self.sites))
        what = rng.random()
        if what < 0.05:
            advisor.set_mode(str(rng.choice(MODES)), site if rng.random() < 0.5 else None)
        elif what < 0.06:
            advisor.pause(None if rng.random() < 0.3 else site)
        elif what < 0.14:
            advisor.resume()
            for each in self.sites:
                advisor.resume(each)
        elif what < 0.16 and site not in self.closed and site not in self.waits:
            advisor.close_site(site)
            self.closed.add(site)
        elif what < 0.25 and site in self.closed:
            advisor.reopen_site(site)
            self.closed.discard(site)
            self.where[site] = int(rng.integers(self.problem.space.n_states))
        elif what < 0.27:
            self.restart()

    def restart(self):
        """Another process, with or without a snapshot."""
        if self.rng.random() < 0.5:
            self.advisor.snapshot()
        self.store.close()
        self.store = sf.live.open(self.path, self.clock)
        self.advisor = self.store.deployment("shop")

    def go_on(self, t):
        """Somebody decides what to believe: after an alarm, after a change, or for no reason."""
        rng, advisor, fleet = self.rng, self.advisor, self.advisor.machine().fleet
        self.alarms += fleet.alarm is not None
        if self.changed and rng.random() < (0.2 if fleet.alarm is not None else 0.03):
            advisor.trust(keep_since=self.store.last, who="Ada", note="it has changed")
            self.trusted += 1
            self.changed, self.covered = False, not self.wrong
        elif fleet.alarm is not None and not self.changed and rng.random() < 0.3:
            some = rng.random() < 0.5
            self.trusted += 1
            advisor.trust(keep_since=int(rng.integers(self.store.last)) if some else None, who="Ada")
        elif rng.random() < 0.005 and not self.changed:
            self.trusted += 1
            advisor.trust(keep_since=int(rng.integers(self.store.last)), who="Ada", note="for no reason")

    def change(self):
        """What departures earn changes; the baseline's own pairs stay as they are, and so do its gain and bias."""
        space, certain = self.problem.space, self.problem.baseline.probabilities
        self.moved = {k for k in range(space.n_pairs) if certain[space.pair_state[k], space.pair_action[k]] == 0}
        opposite = (self.problem.mdp.r < space.r_max / 2).astype(np.float64)
        self.means = opposite if self.turns else self.rng.random(space.n_pairs)
        self.each = [column.copy() for column in self.each]
        for k in self.moved:
            self.each[0][k] += self.means[k] * space.r_max - self.problem.mdp.r[k]
        self.changed, self.covered, self.clean = True, False, False


def rehearse(rehearsal, steps):
    """Play it; the world goes on after a change."""
    rehearsal.begin()
    at = steps // 3 if rehearsal.changes else -1
    for t in range(steps):
        if t == at:
            rehearsal.change()
        for site in rehearsal.sites:
            rehearsal.step(t, site)
        rehearsal.arrive(t)
        rehearsal.people(t)
        rehearsal.go_on(t)
    rehearsal.store.close()


def a_rehearsal(rng, problem, path, delta):
    """Settings at random."""
    alpha = float(rng.choice([0.0, 0.1, 0.5, 0.9]))
    allowance = float(rng.choice([0.5, 10.0, 100.0])) if alpha == 0 or rng.random() < 0.7 else 0.0
    if exactly(problem)[0] <= 0:  # a share of nothing has no meaning
        alpha, allowance = 0.0, allowance or 5.0
    options = {
        "delta": delta,
        "allowance": allowance,
        "strict": bool(rng.random() < 0.5),
        "seed": int(rng.integers(99)),
    }
    options |= {"accounts": str(rng.choice(["shared", "own", "both"])), "mode": str(rng.choice(MODES))}
    options |= {"arrival": str(rng.choice(["any", "any", "independent"])), "people": str(rng.choice(["state", "more"]))}
    options["drift"] = float(rng.choice([0.0, 0.05, 0.5, EASILY]))
    rails = [Rail(rng, problem, name) for name in ("service", "failures")[: int(rng.integers(3))]]
    sites = [f"site {j}" for j in range(int(rng.choice([1, 2, 5])))]
    changes, turns, loses = rng.random() < 0.35, rng.random() < 0.5, rng.random() < 0.3
    if changes:
        options["drift"] = float(rng.choice([0.0, 0.5, EASILY]))
    if turns or loses:  # departures go on, so that what is wrong is seen
        options |= {"allowance": max(options["allowance"], 100.0), "mode": "live"}
    late = bool(rng.random() < 0.25)
    return Rehearsal(problem, rng, path, options, rails, sites, alpha, changes, turns, loses, late)


@dataclass
class All(Tally):
    """What the campaign has seen, of everything."""

    alarms: int = 0
    guarded: int = 0
    changes: int = 0
    clean: int = 0
    expired: int = 0
    trusted: int = 0

    def line(self):
        more = f"{self.guarded} runs with guardrails, {self.changes} with a change, {self.clean} always covered"
        did = f"{self.alarms} rounds under an alarm, {self.trusted} times trusted, {self.expired} outcomes given up"
        return f"{super().line()}; {more}, {did}"


def run_campaign(n, seed, steps=100):
    """`n` random problems; what was seen."""
    tally, known = All(deltas=DELTAS), dict(learners.LEARNERS)
    usual = (drift.BEGIN, drift.EVERY, drift.Drift.threshold)
    drift.BEGIN, drift.EVERY = 20, 5  # these runs are short
    drift.Drift.threshold = property(lambda self: 0.0 if self.level == EASILY else usual[2].fget(self))
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            for i in range(n):
                one(i, seed, steps, Path(place), tally)
    finally:
        learners.LEARNERS.clear()
        learners.LEARNERS.update(known)
        drift.BEGIN, drift.EVERY, drift.Drift.threshold = usual
    tally.judge()
    return tally


def one(i, seed, steps, place, tally):
    """One problem, one fleet."""
    rng = np.random.default_rng([seed, i, 19])
    problem = adversarial_account.a_problem(rng, adversarial_account.KINDS[i % len(adversarial_account.KINDS)])
    delta, own = DELTAS[i % len(DELTAS)], int(rng.integers(2**31))
    learners.LEARNERS["harm"] = lambda space, **options: adversarial_account.Harm(problem, own)
    found = a_rehearsal(rng, problem, place / f"{i}.db", delta)
    longer = 3 if found.changes and found.options["drift"] else 1  # it takes a while to notice
    rehearse(found, longer * max(steps // len(found.sites), 20))
    for left in place.glob(f"{i}.db*"):
        left.unlink()
    tally.problems, tally.runs, tally.steps = tally.problems + 1, tally.runs + 1, tally.steps + found.asked
    tally.departed, tally.alarms = tally.departed + found.departed, tally.alarms + found.alarms
    tally.guarded, tally.changes = tally.guarded + bool(found.rails), tally.changes + found.changes
    tally.clean += found.clean
    tally.expired, tally.trusted = tally.expired + found.expired, tally.trusted + found.trusted
    tally.promised[delta] += 1
    tally.failed[delta] += not found.held
    if found.held and found.clean:
        tally.least = min(tally.least, found.least)
        if found.least < -TOLERANCE * max(found.asked, 1):
            label = f"seed {seed}, problem {i} ({problem.name}), {found.options}, {len(found.sites)} sites"
            tally.violations.append(f"{label}: margin {found.least:.3g} though the bounds held")


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["500", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=300)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
