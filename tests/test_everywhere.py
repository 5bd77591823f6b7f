"""The same run everywhere: other BLAS kernels, fewer CPU features, no compiled kernels, another Python.

Each variant is a process of its own that prints the digests of short runs and of their budgets, to the last bit.
`python tests/test_everywhere.py` prints them, with whatever Python runs it.
"""

import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import surefooted as sf
from surefooted.bandits import ConservativeLinearUCB, ConservativeUCB

BAD_FEATURES = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3"


def digest(*values):
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(value.tobytes() if isinstance(value, np.ndarray) else struct.pack("<d", value))
    return hashed.hexdigest()[:16]


def budgets(run):
    return [np.nan if decision.budget is None else decision.budget for decision in run.decisions]


def known(problem):
    """Numbers that were rounded: exact answers come from LAPACK, whose last digits are its own."""
    if problem.horizon is not None:
        values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
        return sf.Baseline(problem.baseline, values=values.round(9))
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, round(answer.gain, 9), answer.bias.round(9))


def average(steps, **options):
    problem = sf.problems.riverswim()
    agent = sf.CUCRL2(problem.space, baseline=known(problem), alpha=0.3, **options)
    run = sf.simulate(problem, agent, steps, seed=3)
    return digest(run.pairs, run.next_states, run.rewards), digest(*budgets(run))


def episodic(episodes, **options):
    problem = sf.problems.gridworld(slip=0.1)
    agent = sf.CUCBVI(problem.space, problem.horizon, baseline=known(problem), alpha=0.3, **options)
    run = sf.simulate(problem, agent, episodes=episodes, seed=3)
    return digest(run.pairs, run.next_states, run.rewards), digest(*budgets(run))


def linear(rounds):
    problem = sf.bandits.linear_contextual(6, 8, seed=2, contexts=50)
    agent = ConservativeLinearUCB(6, alpha=0.3, sigma=problem.sigma, bound=problem.bound, pooled=True)
    run = sf.bandits.simulate_linear(problem, agent, rounds, seed=1)
    table = (problem.theta, problem.features, problem.means)
    return digest(*table, run.arms), digest(*budgets(run), *agent.ellipsoid.bounds(problem.features[0])[0])


def arms(rounds):
    problem = sf.bandits.BernoulliArms([0.5, 0.4, 0.7])
    run = sf.bandits.simulate_arms(problem, ConservativeUCB(3, alpha=0.3), rounds, seed=1)
    return digest(run.arms), digest(*budgets(run))


def digests(share):
    """The digests of the decisions of runs, and of their budgets; `share` makes the runs shorter."""
    tables = [make().mdp for make in (sf.problems.inventory, sf.problems.maintenance)]
    return {
        "tables": (digest(*(mdp.p for mdp in tables)), digest(*(mdp.r for mdp in tables))),
        "replay": average(400 // share),
        "unknown": average(300 // share, certificate="segments"),
        "decisions": average(2000 // share, condition="decisions"),
        "episodes": episodic(60 // share),
        "linear": linear(300 // share),
        "arms": arms(200 // share),
    }


def elsewhere(share=1, **environment):
    """The digests that another process prints."""
    path = os.pathsep.join(sys.path)
    command = [sys.executable, str(Path(__file__)), str(share)]
    environment = os.environ | {"PYTHONPATH": path} | environment
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=True)
    return {name: (decisions, budget) for name, decisions, budget in map(str.split, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def here():
    return digests(1)


@pytest.mark.slow
def test_another_blas_decides_the_same(here):
    for core in ("Prescott", "Nehalem", "Haswell"):
        assert elsewhere(OPENBLAS_CORETYPE=core) == here, core


@pytest.mark.slow
def test_fewer_cpu_features_decide_the_same(here):
    assert elsewhere(NPY_DISABLE_CPU_FEATURES=BAD_FEATURES) == here


@pytest.mark.slow
def test_kernels_that_are_not_compiled_decide_the_same():
    """The last digit of a budget may be another one: logarithms are the compiler's, or those of Python."""
    plain, compiled = elsewhere(20, NUMBA_DISABLE_JIT="1"), digests(20)
    assert {name: told[0] for name, told in plain.items()} == {name: told[0] for name, told in compiled.items()}


if __name__ == "__main__":
    for name, value in digests(int(sys.argv[1]) if len(sys.argv) > 1 else 1).items():
        print(name, *value)


WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyarrow", "matplotlib", "PIL", "fontTools"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import surefooted as sf

problem = sf.problems.riverswim()
agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.1)
run = sf.simulate(problem, agent, steps=200)
assert sf.evaluate(run, problem, alpha=0.1).violations == 0
sf.live.open("here.db").close()
"""


def test_agents_and_stores_need_neither_pyarrow_nor_matplotlib(tmp_path):
    """docs/containers.md, Size."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
