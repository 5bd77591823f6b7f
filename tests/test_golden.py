"""Golden runs: what each agent did on the paper's problems when its kernels were last proved right, step for step.

Faster kernels must leave every run as it is: not one step may differ. The numbers were taken before the kernels were
made faster; `python tests/test_golden.py` prints them again, for a change that is meant to alter runs.
"""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

import surefooted as sf
from surefooted.problems.problem import Problem
from surefooted.simulation.run import EpisodicRun, Run

PAPER: dict[str, Any] = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}
BOUNDED = sf.Noise("bernoulli")


def known(problem: Problem) -> sf.Baseline:
    """The baseline with its gain and bias, or its values, to 12 digits: the last ones depend on the machine."""
    if problem.horizon is not None:
        values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
        return sf.Baseline(problem.baseline, values=values.round(12))
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, round(played.gain, 12), played.bias.round(12))


def average(problem: Problem, steps: int, **options: Any) -> Run:
    """A run of UCRL2, or with alpha of CUCRL2."""
    if "alpha" in options:
        return sf.simulate(problem, sf.CUCRL2(problem.space, baseline=known(problem), **options), steps, seed=7)
    return sf.simulate(problem, sf.UCRL2(problem.space, **options), steps, seed=7)


def informed(problem: Problem, steps: int, **options: Any) -> Run:
    """A run of CUCRL2 that knows mechanics and mean rewards, and nothing of its baseline."""
    knowledge, baseline = problem.knowledge("mechanics", "rewards"), sf.Baseline(problem.baseline)
    agent = sf.CUCRL2(problem.space, baseline=baseline, knowledge=knowledge, bounded=False, **options)
    return sf.simulate(problem, agent, steps, seed=7)


def episodic(count: int, **options: Any) -> EpisodicRun:
    """A run of UCBVI on the gridworld, or with alpha of CUCB-VI."""
    problem = sf.problems.gridworld()
    assert problem.horizon is not None
    if "alpha" in options:
        kind = options.pop("kind", sf.CUCBVI)
        agent: Any = kind(problem.space, problem.horizon, baseline=known(problem), **options)
    else:
        agent = sf.UCBVI(problem.space, problem.horizon, **options)
    return sf.simulate(problem, agent, episodes=count, seed=7)


def fingerprint(run: Run | EpisodicRun) -> tuple[int, int, int]:
    """Decisions made, distinct policies, and a checksum of every step's pair and next state."""
    return len(run.decisions), len(run.policies), zlib.crc32(run.pairs.tobytes() + run.next_states.tobytes())


RUNS: dict[str, tuple[Callable[[], Run | EpisodicRun], tuple[int, int, int]]] = {
    "UCRL2, inventory": (
        lambda: average(sf.problems.inventory(), 70_000, **PAPER),
        (138, 78, 1506465058),
    ),
    "UCRL2, dynamic": (
        lambda: average(sf.problems.inventory(), 20_000, dynamic=True, **PAPER),
        (384, 204, 3283921279),
    ),
    "UCRL2, L1 balls": (
        lambda: average(sf.problems.inventory(noise=BOUNDED), 20_000, confidence=sf.confidence.hoeffding),
        (171, 76, 3556658571),
    ),
    "UCRL2, likelihood": (
        lambda: average(sf.problems.riverswim(), 20_000),
        (66, 30, 2135758299),
    ),
    "UCRL2, maintenance": (
        lambda: average(sf.problems.maintenance(), 10_000, **PAPER),
        (443, 144, 3101673834),
    ),
    "UCRL2, garnet": (
        lambda: average(sf.problems.garnet(60, 3, 5, seed=3), 10_000, **PAPER),
        (416, 185, 350263642),
    ),
    "CUCRL2, induction": (
        lambda: average(sf.problems.inventory(), 70_000, alpha=0.05, **PAPER),
        (904, 136, 1887499867),
    ),
    "CUCRL2, anchored": (
        lambda: average(sf.problems.inventory(noise=BOUNDED), 40_000, alpha=0.1),
        (901, 197, 1754193944),
    ),
    "CUCRL2, segments, anchored": (
        lambda: average(sf.problems.inventory(noise=BOUNDED), 40_000, alpha=0.1, certificate="segments"),
        (913, 206, 2467159003),
    ),
    "CUCRL2, segments": (
        lambda: average(sf.problems.inventory(), 40_000, alpha=0.1, certificate="segments", **PAPER),
        (803, 118, 724835865),
    ),
    "CUCRL2, reevaluated": (
        lambda: average(sf.problems.inventory(), 40_000, alpha=0.1, certificate="reevaluated", strict=False, **PAPER),
        (891, 104, 2359765012),
    ),
    "CUCRL2, paper": (
        lambda: average(
            sf.problems.inventory(), 20_000, alpha=0.2, certificate="paper", affordable=False, patience=0, **PAPER
        ),
        (720, 78, 45399336),
    ),
    "CUCRL2, maintenance": (
        lambda: average(sf.problems.maintenance(), 12_000, alpha=0.8, **PAPER),
        (653, 135, 1838564661),
    ),
    "CUCRL2, baseline unknown": (
        lambda: informed(sf.problems.inventory(), 20_000, alpha=0.05),
        (385, 4, 1987976279),
    ),
    "CUCRL2, baseline unknown, segments": (
        lambda: informed(sf.problems.inventory(), 20_000, alpha=0.05, certificate="segments"),
        (403, 4, 80551849),
    ),
    "UCBVI": (
        lambda: episodic(1_000),
        (1000, 757, 2026787843),
    ),
    "UCBVI, simplified": (
        lambda: episodic(1_000, **PAPER),
        (1000, 689, 727576235),
    ),
    "UCBVI, Freedman": (
        lambda: episodic(300, bonus="freedman", episodes=300),
        (300, 2, 2580468287),
    ),
    "CUCB-VI": (
        lambda: episodic(1_000, alpha=0.1),
        (1000, 578, 2988913927),
    ),
    "CUCB-VI, the set alone": (
        lambda: episodic(1_000, alpha=0.1, pooled=False),
        (1000, 285, 413381405),
    ),
    "StepMix": (
        lambda: episodic(1_000, alpha=0.1, kind=sf.StepMix),
        (1000, 421, 3418869129),
    ),
    "EpsMix": (
        lambda: episodic(1_000, alpha=0.1, kind=sf.EpsMix),
        (1000, 166, 2930013288),
    ),
    "CUCB-VI, simplified": (
        lambda: episodic(1_000, alpha=0.1, **PAPER),
        (1000, 252, 290497711),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_golden_run_is_as_it_was(name: str) -> None:
    make, expected = RUNS[name]
    assert fingerprint(make()) == expected


if __name__ == "__main__":
    for name, (make, expected) in RUNS.items():
        found = fingerprint(make())
        print(f"{name}: {found}" + ("" if found == expected else f", was {expected}"))
