"""Hostile rehearsals of the advisor: what it has proved is compared with the exact worth of its decisions.

Outcomes come late, in parts, out of order, or never, and bad news comes later than good news. People override, reject,
pause and move sites; wrong numbers are told and corrected. Sites share an account or have their own. δ is large, so
that failures of the bound are counted against what was promised. Every rehearsal in which all bounds hold must keep
the condition at every decision.

Run `python tests/adversarial_live.py 500 7` for 500 problems from seed 7; it prints one line.
"""

import sys

import numpy as np

import adversarial_account
from adversarial_account import DELTAS, Tally, exactly
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.fleet import Fleet
from surefooted.agents.fleet_accounts import FleetRules
from surefooted.tables.baseline import Baseline

TOLERANCE = 1e-9


class World:
    """The truth: exact advantages, and outcomes whose arrival depends on what they are."""

    def __init__(self, problem, rng, rules):
        self.problem, self.rng, self.rules = problem, rng, rules
        self.gain, self.bias, self.advantage = exactly(problem)
        self.certain = problem.baseline.probabilities >= 1

    def draw(self, s, a):
        reward, s_next = self.problem.mdp.draw(self.rng, self.problem.space.pair(s, a))
        return float(reward), int(s_next)

    def delay(self, s, reward, s_next):
        """Bad news comes late or never; under "independent", arrival is a coin."""
        if self.rules.arrival == "independent":
            return int(self.rng.integers(0, 6)) if self.rng.random() < 0.95 else None
        worth = reward + self.bias[s_next] - self.bias[s] - self.gain
        if worth >= 0:
            return 0
        return int(self.rng.integers(5, 60)) if self.rng.random() < 0.8 else None


def rehearse(problem, seed, delta, alpha, allowance, rules, sites, steps, tally, label):
    """Run one fleet with everything switched on, and check each bound and each condition after every decision."""
    rng = np.random.default_rng(seed)
    world = World(problem, rng, rules)
    baseline = Baseline(problem.baseline, float(np.clip(world.gain, 0, problem.space.r_max)), world.bias)
    learner = adversarial_account.Harm(problem, seed)
    limits = {"alpha": alpha, "delta": delta, "allowance": allowance, "strict": bool(seed % 2)}
    fleet = Fleet(CUCRL2(problem.space, baseline=baseline, learner=learner, condition="decisions", **limits), rules)
    for _ in range(sites):
        fleet.add_site()
    ledgers = [fleet.books.of(j) for j in range(sites)]
    exact = {id(ledger): 0.0 for of in ledgers for _, ledger in of}
    counted = {id(ledger): 0 for of in ledgers for _, ledger in of}
    where, arrivals = [problem.start] * sites, []
    held, least, departed, number = True, np.inf, 0, 0
    for t in range(steps):
        for j in range(sites):
            s = where[j]
            if rng.random() < 0.02:
                s = int(rng.integers(problem.space.n_states))  # somebody moved it
            number += 1
            answer = fleet.ask(number, j, s, allowed=rng.random() < 0.95, put=rng.random() < 0.2)
            pair, step = answer.pair, fleet.open[number]
            if step.put and rng.random() < 0.4:
                fleet.reject(number)
                pair = step.baseline
            elif rng.random() < 0.05:
                choices = problem.space.actions(s)
                pair = problem.space.pair(s, int(rng.choice(choices)))
            a = int(problem.space.pair_action[pair])
            counts = answer.departs and pair == answer.pair and not (step.put and not step.departs)
            reward, s_next = world.draw(s, a)
            for _, ledger in ledgers[j]:
                counted[id(ledger)] += 1
                exact[id(ledger)] += world.advantage[s, a] if counts else 0.0
            departed += counts
            where[j] = s_next
            late = world.delay(s, reward, s_next)
            arrivals.append((np.inf if late is None else t + late, number, pair, reward, s_next))
            for of in ledgers:
                for _, ledger in of:
                    key = id(ledger)
                    held &= ledger.worth <= exact[key] + TOLERANCE * max(1.0, number)
                    margin = allowance + alpha * counted[key] * world.gain + exact[key]
                    least = min(least, margin)
        due = [x for x in arrivals if x[0] <= t]
        arrivals = [x for x in arrivals if x[0] > t]
        rng.shuffle(due)
        for _, n, pair, reward, s_next in due:
            tell(fleet, rng, n, pair, reward, s_next, rules)
        lost = [x for x in arrivals if x[0] == np.inf and rng.random() < 0.05]
        arrivals = [x for x in arrivals if x not in lost]
        for _, n, *_rest in lost:
            fleet.expire(n)
    tally.runs += 1
    tally.promised[delta] += 1
    tally.failed[delta] += not held
    tally.steps += number
    tally.departed += departed
    if held:
        tally.least = min(tally.least, least)
        if least < -TOLERANCE * number:
            tally.violations.append(f"{label}: margin {least:.3g} though the bounds held")


def tell(fleet, rng, n, pair, reward, s_next, rules):
    """All at once, in parts, or wrong at first and corrected."""
    step = fleet.open[n]
    played = pair if pair != step.pair else None
    way = rng.integers(4)
    if way == 0 and rules.arrival == "any":
        fleet.see(n, None, s_next, None)
    elif way == 1:
        fleet.see(n, reward, None, None)
    if way == 2 and played is None:  # a wrong number, taken back at once
        wrong = float(rng.choice([0.0, 1.0])) * fleet.space.r_max
        assert fleet.see(n, wrong, s_next, None)
        fleet.reopen(n, fleet.settle(n))
    if fleet.see(n, reward, s_next, None):
        fleet.settle(n, played)


def run_campaign(n, seed, steps=120, per_problem=1):
    """`n` random problems; what was seen."""
    tally = Tally()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        problem = adversarial_account.a_problem(rng, adversarial_account.KINDS[i % len(adversarial_account.KINDS)])
        tally.problems += 1
        for j in range(per_problem):
            delta = DELTAS[(i + j) % len(DELTAS)]
            alpha = float(rng.choice([0.0, 0.1, 0.5, 0.9]))
            allowance = float(rng.choice([0.5, 5.0, 50.0])) if alpha == 0 or rng.random() < 0.5 else 0.0
            if exactly(problem)[0] <= 0:  # a share of nothing has no meaning
                alpha, allowance = 0.0, allowance or 5.0
            accounts = str(rng.choice(["shared", "own", "both"]))
            rules = FleetRules(
                accounts, str(rng.choice(["any", "any", "independent"])), str(rng.choice(["state", "more"]))
            )
            sites = int(rng.choice([1, 2, 5]))
            label = f"seed {seed}, problem {i} ({problem.name}), {rules}, {sites} sites, alpha {alpha}, delta {delta}"
            own = int(rng.integers(2**31))
            rehearse(problem, own, delta, alpha, allowance, rules, sites, max(steps // sites, 20), tally, label)
    tally.judge()
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["500", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=300)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
