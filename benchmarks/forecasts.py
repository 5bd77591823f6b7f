"""Do forecasts hold what then happens? On each problem: a log of the baseline, a forecast from it, then the real run.

    python benchmarks/forecasts.py [repetitions] [problem ...]
    python benchmarks/forecasts.py [repetitions] others
    python benchmarks/forecasts.py [repetitions] bounded
    python benchmarks/forecasts.py [repetitions] unseen

Each forecast promises that its range for the first exploration, and its range for freedom, hold what then happens with
probability (runs - 1) / (runs + 1). The numbers of ranges that held are compared with the smallest number that chance
would give once in a thousand such tables.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

import surefooted as sf
from surefooted.forecasting.forecast import forecast
from surefooted.forecasting.options import AS_DESCRIBED, Option, agent_of, exact_baseline
from surefooted.forecasting.outcomes import outcome

RUNS = 20
FALSE_ALARM = 1e-3
CASES = {  # the problem, what is declared, the length of the log and of the runs, α
    "inventory": (lambda: sf.problems.inventory(noise=sf.Noise()), ("mechanics",), 100, 1500, 0.1),
    "maintenance": (lambda: sf.problems.maintenance(noise=sf.Noise()), ("mechanics", "rewards"), 200, 1500, 0.1),
    "gridworld": (lambda: sf.problems.gridworld(slip=0.1), ("successors", "rewards"), 50, 300, 0.1),
}
DEMAND = np.array([4, 1, 1, 5, 1, 1, 4, 1]) / 18  # of customers that come in threes
SHOP = {"demand": DEMAND, "order_below": 3, "order_up_to": 7, "holding_cost": 0.3}
OTHERS = {  # nothing of how models are drawn was chosen by a look at these
    "riverswim": (lambda: sf.problems.riverswim(noise=sf.Noise()), ("successors", "rewards"), 200, 600, 0.2),
    "garnet": (lambda: sf.problems.garnet(6, 3, 2, seed=5, noise=sf.Noise()), ("successors", "rewards"), 200, 600, 0.2),
    "another shop": (lambda: sf.problems.inventory(7, **SHOP, noise=sf.Noise()), ("mechanics",), 60, 600, 0.2),
    "another plant": (
        lambda: sf.problems.maintenance(2, 3, threshold=1, rate=1.2, penalty=5.0, noise=sf.Noise()),
        ("mechanics", "rewards"), 100, 400, 0.2,
    ),
}  # fmt: skip
SHOP5 = SHOP | {"order_up_to": 5}
WIDE = 0.1  # how far rewards may be declared to lie from their means


def between(problem: sf.Problem) -> sf.Knowledge:
    """Where steps may lead, and bounds on every single reward."""
    r, ptr = problem.mdp.r, problem.mdp.next_ptr
    bounds = np.clip(r - WIDE, 0, 1), np.clip(r + WIDE, 0, 1)
    return sf.Knowledge(problem.space, reward_bounds=bounds, successors=np.split(problem.mdp.next_state, ptr[1:-1]))


BOUNDED = {  # bounds are declared between which each reward lies; how means are drawn was chosen by a look at these
    "bounded garnet": (
        lambda: sf.problems.garnet(6, 3, 2, seed=5, noise=sf.Noise("uniform", WIDE / 2)), between, 200, 600, 0.2,
    ),
    "bounded riverswim": (
        lambda: sf.problems.riverswim(noise=sf.Noise("uniform", WIDE)), between, 200, 600, 0.2,
    ),
}  # fmt: skip
UNSEEN = {  # and not by a look at these; in the last two nothing is declared of rewards
    "bounded garnet, 5 x 4": (
        lambda: sf.problems.garnet(5, 4, 3, seed=11, noise=sf.Noise("uniform", WIDE)), between, 150, 600, 0.1,
    ),
    "bounded shop": (
        lambda: sf.problems.inventory(5, **SHOP5, noise=sf.Noise("uniform", WIDE / 4)), between, 100, 600, 0.2,
    ),
    "open garnet, 5 x 4": (
        lambda: sf.problems.garnet(5, 4, 3, seed=11, noise=sf.Noise("uniform", WIDE)), ("successors",), 150, 600, 0.2,
    ),
    "open swim": (lambda: sf.problems.riverswim(4, noise=sf.Noise()), ("successors",), 100, 600, 0.2),
}  # fmt: skip
ALL = CASES | OTHERS | BOUNDED | UNSEEN


def log_of(problem: sf.Problem, steps: int, seed: int) -> sf.History:
    """A log of the baseline: so many steps, or episodes."""
    from surefooted.agents import FixedPolicy

    rng, rows = np.random.default_rng([seed, 1]), []
    agent = FixedPolicy(problem.baseline, np.random.default_rng([seed, 2]))
    length = problem.horizon or steps
    for e in range(steps if problem.horizon else 1):
        s = problem.start
        agent.begin(s)
        for t in range(length):
            action = agent.act(s).action
            r, after = problem.mdp.draw(rng, problem.space.pair(s, action))
            agent.observe(s, action, r, after)
            rows.append((e, t, s, action, r, after))
            s = after
    names = ("episode", "t", "state", "action", "reward", "next_state")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        sf.write_history(Path(folder) / "log.parquet", columns)
        return sf.read_history(Path(folder) / "log.parquet", problem.space)


def held(name: str, seed: int, runs: int = RUNS) -> tuple[bool, bool]:
    """Whether one forecast's ranges held the first exploration, and freedom, of the real run."""
    make, parts, logged, steps, alpha = (ALL | CASES)[name]
    problem = make()
    history = log_of(problem, logged, seed)
    known = parts(problem) if callable(parts) else problem.knowledge(*parts)
    baseline = exact_baseline(problem)
    told = {"history": history, "knowledge": known, "start": problem.start, "horizon": problem.horizon}
    found = forecast(problem.space, baseline, alpha=alpha, **told, steps=steps, runs=runs, seed=seed, compare=False)
    option = Option(AS_DESCRIBED, {"alpha": alpha, "delta": 0.05})
    agent = agent_of(option, problem, baseline, known, history, False, seed)
    length = {"steps": steps} if problem.horizon is None else {"episodes": steps}
    real = outcome(sf.simulate(problem, agent, seed=10_000 + seed, **length), problem)
    line = found.lines[0]
    return line.first.holds(real.first), line.free.holds(real.free)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    promised = (RUNS - 1) / (RUNS + 1)
    least = int(binom.ppf(FALSE_ALARM / (2 * len(CASES)), repetitions, promised))
    print(f"{repetitions} forecasts of {RUNS} runs each; promised {promised:.1%}, at least {least} must hold")
    groups: dict[str, dict[str, Any]] = {"": CASES, "others": OTHERS, "bounded": BOUNDED, "unseen": UNSEEN}
    for name in groups.get(" ".join(sys.argv[2:]), sys.argv[2:]):
        begin = time.perf_counter()
        results = [held(name, seed) for seed in range(repetitions)]
        first, free = (sum(column) for column in zip(*results, strict=True))
        verdict = "kept" if min(first, free) >= least else "BROKEN"
        seconds = (time.perf_counter() - begin) / repetitions
        print(f"{name:21} first {first:3} free {free:3} of {repetitions}: {verdict}; {seconds:.1f} s each", flush=True)


if __name__ == "__main__":
    main()
