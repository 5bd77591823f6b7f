"""How much memory the policies of a run take: bytes for each distinct policy.

`python benchmarks/policies.py`. UCRL2 plays a garnet step by step, UCBVI and CUCB-VI play episodes of 10 steps. A row
says how many distinct policies a run had, in how many places two that follow each other differ, and the bytes of a
policy: `complete` is 8 for each place, `held` what the run and its agent hold in memory, as far as it grows with the
run: the difference between a run and one half as long, for each policy that the longer one has more (`tracemalloc`).
Agents begin with 2 or 20 visits of each pair. A shelf is where CUCRL2's certificates keep policies for their kernels,
beside the agent.
"""

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import Table, machine

import surefooted as sf
from surefooted.certificates.shelf import Shelf

ALPHA, HORIZON, STEPS, EPISODES = 0.5, 10, 300_000, 300
SIMPLIFIED = {"confidence": sf.confidence.simplified_bernstein}
Made = tuple[sf.Problem, Callable[[int], Any]]  # a problem, and what plays so many steps or episodes: agent and run


def after_visits(problem: sf.Problem, agent: Any, visits: int) -> Any:
    """An agent that has seen every pair so often: otherwise it takes everything to be possible, and plans the same."""
    rng, pairs = np.random.default_rng(0), np.repeat(np.arange(problem.space.n_pairs), visits)
    rewards, nexts = zip(*(problem.mdp.draw(rng, k) for k in pairs), strict=True)
    agent.counts.add_steps(pairs, np.clip(rewards, 0, 1), np.array(nexts))
    return agent


def stepwise() -> Made:
    """UCRL2 on 10 000 states."""
    problem = sf.problems.garnet(10_000, 4, 5, seed=1)

    def play(length: int) -> Any:
        agent = after_visits(problem, sf.UCRL2(problem.space, **SIMPLIFIED), 2)
        return agent, sf.simulate(problem, agent, length)

    return problem, play


def episodic(is_cautious: bool) -> Made:
    """UCBVI or CUCB-VI on 1 000 states."""
    garnet = sf.problems.garnet(1_000, 4, 5, seed=1)
    problem = sf.Problem("garnet", garnet.mdp, garnet.baseline, 0, horizon=HORIZON)
    known = sf.Baseline(problem.baseline, values=sf.solve.policy_values(problem.mdp, problem.baseline, HORIZON))
    made: dict[str, Any] = {"baseline": known, "alpha": ALPHA, "allowance": 1e6} if is_cautious else {}

    def play(length: int) -> Any:
        kind: Any = sf.CUCBVI if is_cautious else sf.UCBVI
        agent = after_visits(problem, kind(problem.space, HORIZON, **made, **SIMPLIFIED), 20)
        return agent, sf.simulate(problem, agent, episodes=length)

    return problem, play


def held(make: Callable[[], Any]) -> tuple[Any, int]:
    """What is made, and the bytes that it holds."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    now = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return made, now


def shelf_of(run: Any, baseline: sf.Policy) -> Shelf:
    """A shelf with all policies of a run."""
    shelf = Shelf(run.policies, baseline)
    for q in range(1, len(run.policies)):
        shelf.places(np.array([q]))
    return shelf


def main() -> None:
    """Print the table."""
    print(machine())
    table = Table(("agent", 22), ("policies", 8), ("changes", 8), ("complete", 9), ("held", 8), ("of it", 6))
    cases = {"UCRL2, 10000 states": (stepwise, STEPS), "UCBVI, 1000 states": (lambda: episodic(False), EPISODES)}
    cases |= {"CUCB-VI, 1000 states": (lambda: episodic(True), EPISODES)}
    for name, (case, length) in cases.items():
        problem, play = case()
        play(20)  # compile
        ((_, shorter), before), ((_, run), after) = (held(partial(play, n)) for n in (length // 2, length))
        pairs = [policy.pair for policy in run.policies]
        changes = np.mean([np.count_nonzero(a != b) for a, b in itertools.pairwise(pairs)])
        whole, more = 8 * problem.space.n_states * (problem.horizon or 1), len(run.policies) - len(shorter.policies)
        rows = {name: (after - before) / more}
        if problem.horizon is None:
            less, all_ = (held(partial(shelf_of, of, problem.baseline))[1] for of in (shorter, run))
            rows["the same on a shelf"] = (all_ - less) / more
        for what, each in rows.items():
            table.row(what, len(run.policies), f"{changes:.0f}", whole, f"{each:.0f}", f"{each / whole:.3f}")


if __name__ == "__main__":
    main()
