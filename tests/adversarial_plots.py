"""Two plots against the advisor, in which wrong code of `expire` or `trust` proves what is false, in nearly every run.

*Losses get lost.* A departure wins or loses with a small edge. Wins are told at once, and losses never: they are given
up (`expire`), and some of them are corrected later.

*A departure turns.* It has won every time; from one day on it always loses. Its outcomes are told at once, or stay away
until long after a person has said which data to keep (`trust`): only the newest, or all, as somebody does who has not
noticed. Between the change and `trust` nothing is proved, and nothing is compared.

The allowance is large: departures go on. Half of the deployments have knowledge, so that sets take part in the proof.

Run `python tests/adversarial_plots.py 500 7` for 500 runs from seed 7; it prints one line.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import surefooted as sf
from adversarial_account import Tally
from live_help import Clock
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.live import learners
from surefooted.planning import Plan

TOLERANCE = 1e-9
DELTAS = (0.5, 1e-6)  # at the last one, two mistakes are enough
SURE = 0.5  # what the baseline's action earns
SPACE = sf.Space.full(n_states=1, n_actions=2)


class Bold(UCRL2Learner):
    """Always proposes the departure."""

    def propose(self, plausible, t):
        return Plan(sf.Policy.always(SPACE, 1), 0.0, 1.0, np.zeros(1), 1, True)


class Plot:
    """A fleet in one state; what its accounts have proved is compared with what its departures are worth."""

    def __init__(self, path, rng, delta, knows):
        knowledge = (
            sf.Knowledge(SPACE, reward_bounds=(np.array([SURE, 0.0]), np.array([SURE, 1.0])))
            if rng.random() < 0.5
            else None
        )
        self.knows, self.rng, self.departed, self.asked, self.held, self.least = knows, rng, 0, 0, True, np.inf
        self.store = sf.live.open(path, Clock())
        self.advisor = self.store.create_deployment(
            "plot", space=SPACE, baseline=sf.Baseline(sf.Policy.always(SPACE, 0), SURE, np.zeros(1)), alpha=0.1,
            delta=delta, allowance=200.0, learner="bold", knowledge=knowledge, drift=0.0,
            accounts=str(rng.choice(["shared", "own", "both"])),
        )  # fmt: skip
        self.sites = [f"site {j}" for j in range(int(rng.choice([1, 3])))]
        self.worth = dict.fromkeys([-1, *range(len(self.sites))], 0.0)
        for site in self.sites:
            self.advisor.add_site(site)

    def ask(self, j, mean):
        """A decision of site j, whose departures are worth `mean` - SURE now; what it earns."""
        self.asked += 1
        decision = self.advisor.ask(self.sites[j], 0, str(self.asked))
        if not decision.departs:
            return decision, SURE
        self.departed += 1
        for key in (-1, j):
            self.worth[key] += mean - SURE
        return decision, float(self.rng.random() < mean)

    def compare(self):
        """All accounts with the truth."""
        books = self.advisor.machine().fleet.books
        accounts = [(-1, ledger) for ledger in books.shared] + [(j, of[0]) for j, of in enumerate(books.own) if of]
        for key, ledger in accounts:
            self.held &= ledger.worth <= self.worth[key] + TOLERANCE * self.asked
            self.least = min(self.least, 200.0 + 0.1 * SURE * ledger.steps + self.worth[key])


def losses_get_lost(plot, steps):
    """Nobody tells of a loss."""
    rng, advisor, silent, lost = plot.rng, plot.advisor, [], []
    mean, prompt = SURE + float(rng.choice([-0.2, 0.0, 0.05])), float(rng.choice([0.3, 1.0]))
    for _ in range(steps):
        for j in range(len(plot.sites)):
            decision, reward = plot.ask(j, mean)
            if reward < SURE:
                silent.append(decision)
            else:
                advisor.tell(decision, reward=reward, next_state=0)
        for decision in [each for each in silent if rng.random() < prompt]:
            advisor.expire(decision, who="Ada")
            silent.remove(decision)
            lost.append(decision)
        if lost and rng.random() < 0.03:
            advisor.correct(lost.pop(), reward=0.0, next_state=0, who="Ada")
        plot.compare()


def a_departure_turns(plot, steps):
    """It has won every time, and always loses from a third of the time on."""
    rng, advisor, late = plot.rng, plot.advisor, []
    turns = steps // 3
    notices, waits = turns + int(rng.integers(steps // 4)), not plot.knows  # a set needs complete outcomes
    for t in range(steps):
        for j in range(len(plot.sites)):
            decision, reward = plot.ask(j, 1.0 if t < turns else 0.0)
            if waits and turns <= t < steps - 10:
                late.append((decision, reward))
            else:
                advisor.tell(decision, reward=reward, next_state=0)
        if t == notices:
            advisor.trust(keep_since=0 if plot.knows else int(rng.choice([0, plot.store.last])), who="Ada")
        if t == steps - 10:
            for i in rng.permutation(len(late)):
                advisor.tell(late[i][0], reward=late[i][1], next_state=0)
        if t < turns or t >= notices:
            plot.compare()


PLOTS = (losses_get_lost, a_departure_turns)


def run_campaign(n, seed, steps=150):
    """`n` runs, of both plots in turn; what was seen."""
    tally, known = Tally(deltas=DELTAS), dict(learners.LEARNERS)
    learners.LEARNERS["bold"] = Bold
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
            for i in range(n):
                delta, knows = DELTAS[i // len(PLOTS) % len(DELTAS)], i // len(PLOTS) // len(DELTAS) % 2 == 1
                plot = Plot(Path(place) / f"{i}.db", np.random.default_rng([seed, i, 20]), delta, knows)
                PLOTS[i % len(PLOTS)](plot, max(steps // len(plot.sites), 60))
                plot.store.close()
                tally.problems, tally.runs, tally.steps = tally.problems + 1, tally.runs + 1, tally.steps + plot.asked
                tally.departed += plot.departed
                tally.promised[delta] += 1
                tally.failed[delta] += not plot.held
                if plot.held:
                    tally.least = min(tally.least, plot.least)
                    if plot.least < -TOLERANCE * plot.asked:
                        tally.violations.append(f"seed {seed}, run {i}: margin {plot.least:.3g} though the bounds held")
    finally:
        learners.LEARNERS.clear()
        learners.LEARNERS.update(known)
    tally.judge()
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["500", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=300)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
