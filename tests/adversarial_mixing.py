"""Nasty finite-horizon problems for the agents that keep the condition of every single episode: StepMix and EpsMix.

As in `adversarial_episodes.py`, sets that know the truth let exploration begin at once, and what is exact is computed
here with dense matrices. Where the set is the truth itself, what is played is derived once more by hand: then every
episode must spend what it may to the last drop.

Run `python tests/adversarial_mixing.py 2000 7` for 2000 problems from seed 7; it prints one line.
"""

import sys
from dataclasses import dataclass, field

import numpy as np

import adversarial_episodes as nasty
import surefooted as sf
from surefooted.agents.stepmix import PARTS
from surefooted.simulation.playing import simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy

TOLERANCE = 1e-9
AGENTS = (sf.StepMix, sf.EpsMix)
KNOWN = ("nothing", "starts", "stages")


@dataclass
class Tally:
    """What a campaign has seen."""

    problems: int = 0
    runs: int = 0
    episodes: int = 0
    explored: int = 0
    mixed: int = 0  # episodes that were neither the baseline nor the proposal
    tight: int = 0  # episodes that were derived by hand
    excess: float = -np.inf  # the largest budget - exact margin
    least: float = np.inf  # the smallest exact margin of an episode
    missed: int = 0
    violations: list = field(default_factory=list)

    def line(self):
        return (
            f"{self.problems} problems, {self.runs} runs, {self.episodes} episodes, {self.explored} explored, "
            f"{self.mixed} mixed, {self.tight} derived by hand, largest budget - exact margin {self.excess:.3g}, "
            f"smallest margin {self.least:.3g}, true MDP missed by an honest set in {self.missed} runs, "
            f"{len(self.violations)} violations"
        )


def stage_values(case, policy):
    """V_h [H + 1, S] of a policy, by dense matrices."""
    weights = np.broadcast_to(policy.probabilities, case.r.shape)
    v = np.zeros((case.horizon + 1, case.space.n_states))
    for h in reversed(range(case.horizon)):
        v[h] = np.einsum("sa,sa->s", weights[h], case.r[h] + case.p[h] @ v[h + 1])
    return v


def a_baseline(case, known):
    values = {"nothing": None, "starts": case.values, "stages": stage_values(case, case.policy)}[known]
    return Baseline(case.policy, values=values)


def forgiven(agent, values):
    """What an episode may lose, for the true value of its start."""
    lost = agent.alpha * np.maximum(values - agent.horizon * agent.tolerance.floor, 0.0)
    return lost + agent.horizon * agent.tolerance.per_step


def by_hand(case, agent, proposal, s):
    """The weights [H, S, A] of the policy that StepMix must play, or the weight of EpsMix, if the truth is known."""
    pi, b = (np.broadcast_to(p.probabilities, case.r.shape) for p in (proposal, case.policy))
    may_lose, base = float(forgiven(agent, case.values[s])), case.values[s]
    if isinstance(agent, sf.EpsMix):
        loss = base - case.of(proposal)[s]
        return 1.0 if loss <= may_lose else may_lose / loss
    margins = []
    for h in range(case.horizon + 1):
        leaves = Policy.randomised(case.space, np.concatenate([b[:h], pi[h:]]))
        margins.append(case.of(leaves)[s] - base + may_lose)
    if any(-TOLERANCE < margin < TOLERANCE for margin in margins[:-1]):
        return None  # either way is right
    h = next(i for i, margin in enumerate(margins) if margin >= 0 or i == case.horizon)
    weight = PARTS * margins[h] / (margins[h] - margins[h - 1]) if h else 0.0
    if abs(weight - round(weight)) < 1e-6 and h:
        return None
    rules = np.concatenate([b[:h], pi[h:]])
    if h:
        weight = np.floor(weight) / PARTS
        rules[h - 1] = weight * pi[h - 1] + (1 - weight) * b[h - 1]
    return rules


def check_run(case, agent, starts, seed, tally, label, is_exact):
    """Play one agent and compare everything it claimed with the truth."""
    learner, fault = agent.learner, None
    run = simulate_episodes(case.mdp, agent, starts, seed)
    result = sf.evaluation.margins.evaluate_episodes(run, case.mdp, case.policy, agent.tolerance)
    tally.runs += 1
    first = np.stack([case.of(policy) for policy in run.policies])
    earned = first[run.played, starts]
    if run.mixtures is not None:
        earned = np.array(
            [w * first[q, s] + (1 - w) * first[0, s] for (q, w), s in zip(run.mixtures, starts, strict=True)]
        )
    margin = earned - case.values[starts] + forgiven(agent, case.values[starts])
    if not np.allclose(margin, result.each.margin, rtol=0, atol=TOLERANCE):
        fault = f"the oracle is off by {np.abs(margin - result.each.margin).max():.3g}"
    if not np.allclose(np.cumsum(margin), result.margin, rtol=0, atol=TOLERANCE * len(starts)):
        fault = "the margin of all episodes is not the sum"
    if learner.wrong:
        fault = learner.wrong[0]
    learner._check_event()
    if learner.held:
        budgets = np.array([decision.budget for decision in run.decisions])
        sums = np.array([sum(decision.terms.values()) for decision in run.decisions])
        tally.episodes += len(starts)
        tally.explored += int(run.explored.sum())
        tally.excess = max(tally.excess, float((budgets - margin).max()))
        tally.least = min(tally.least, float(margin.min()))
        if margin.min() < -TOLERANCE:
            fault = f"margin {margin.min():.3g} in episode {int(np.argmin(margin))}"
        elif (budgets - margin).max() > TOLERANCE:
            fault = f"budget above the exact margin by {(budgets - margin).max():.3g}"
        elif budgets.min() < -TOLERANCE or np.abs(budgets - sums).max() > TOLERANCE:
            fault = f"a budget of {budgets.min():.3g}, or terms that do not add up to it"
    else:
        tally.missed += 1
    proposals = [policy for kind, policy in learner.log if kind == "propose"]
    for k, (proposal, s) in enumerate(zip(proposals, starts.tolist(), strict=True)):
        key, played = case.key(proposal), run.policies[run.decisions[k].policy]
        tally.mixed += case.key(played) not in (key, case.key(case.policy))
        wanted = by_hand(case, agent, proposal, s) if is_exact and key != case.key(case.policy) else None
        if wanted is None or "compare what it earns" in run.decisions[k].reason:
            continue
        tally.tight += 1
        if run.mixtures is None:
            off = np.abs(np.broadcast_to(played.probabilities, case.r.shape) - wanted).max()
        else:
            q, w = run.mixtures[k]
            off = abs((w if q or w < 1 else 0.0) - wanted) if abs(case.of(proposal)[s] - case.values[s]) > 1e-6 else 0
        if off > 1e-6:
            fault = fault or f"episode {k}: what is played is off by {off:.3g}"
    tally.violations += [f"{label}: {fault}"] if fault else []
    return run


def run_campaign(n, seed, episodes=20, per_problem=2):
    """`n` random problems with `per_problem` agents each; what was seen."""
    tally, learners = Tally(), ("mischief", "mischief", "boxes", "euler", "freedman")
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        case = nasty.a_case(rng, nasty.KINDS[i % len(nasty.KINDS)])
        tally.problems += 1
        for j in range(per_problem):
            kind = learners[(i * per_problem + j + i // len(learners)) % len(learners)]
            style, known = str(rng.choice([*nasty.STYLES, "exact", "exact", "likelihood"])), str(rng.choice(KNOWN))
            learner = nasty.a_learner(rng, case, kind, style, episodes)
            alpha = float(rng.choice([0.001, 0.05, 0.3, 0.5, 0.9, 0.99]))
            amounts = {"tolerance": float(rng.choice([0.0, 0.0, 0.02])), "floor": float(rng.choice([0.0, 0.0, 0.1]))}
            amounts |= {"tolerance": 1e-12} if not np.any(case.values > case.horizon * amounts["floor"]) else {}
            make = AGENTS[(i + j) % 2]
            size, base = (case.space, case.horizon), a_baseline(case, known)
            own = int(rng.integers(2**31))
            agent = make(*size, baseline=base, alpha=alpha, learner=learner, seed=own, **amounts)
            label = f"seed {seed}, problem {i} ({case.name}), {make.__name__}, {kind}, {style}, {known}, {amounts}"
            starts = nasty.some_starts(rng, case, episodes)
            is_exact = style == "exact" and learner.counts.stages == case.mdp.stages
            check_run(case, agent, starts, int(rng.integers(2**31)), tally, f"{label}, alpha={alpha}", is_exact)
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, episodes=60, per_problem=3)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
