"""How long does the optimal gain of a known table take, to 1e-6, beside other solvers.

Gains are checked equal first. Scattered and slowly mixing tables (README.md); then gain and bias of one policy beside
bare sparse LU; then how ours grows: build and solve up to 100 000 states x 4 actions.
"""

import resource
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from cases import Case, ring, scattered
from measure import Ready, Table, at_once, beside_limit, machine, peer, race, ratio, timed
from scipy.sparse import csr_array, csr_matrix, eye_array
from scipy.sparse.linalg import splu

from surefooted import Policy, Space, TabularMDP, problems, solve

ACCURACY = 1e-6
FAR = 1e-9  # 1 - discount: the gain is the discounted value times this, to FAR times the span of the bias


def matrix(mdp: Any) -> Any:
    """The transitions of all pairs, [K, S]."""
    return csr_matrix((mdp.p, mdp.next_state, mdp.next_ptr), shape=(mdp.space.n_pairs, mdp.n_states))


def scipy_solver(case: Case | None, mdp: Any) -> Ready:
    """Relative value iteration, as one would write it with SciPy."""
    rows, n = matrix(mdp), mdp.n_states

    def solver() -> float:
        v = np.zeros(n)
        while True:
            new = (mdp.r + rows @ v).reshape(n, -1).max(axis=1)
            change = new - v
            if np.ptp(change) <= ACCURACY:
                return float((change.max() + change.min()) / 2)
            v = new - new[0]

    return at_once(solver)


def toolbox_solver(case: Case, mdp: Any) -> Ready | None:
    """RelativeValueIteration of pymdptoolbox, on sparse matrices; what it checks beforehand is not timed."""
    if (toolbox := peer("mdptoolbox.mdp")) is None:
        return None
    rows = [matrix(mdp)[a :: case.n_actions] for a in range(case.n_actions)]
    rewards = mdp.r.reshape(mdp.n_states, -1)

    def get_ready() -> Callable[[], float]:
        found = toolbox.RelativeValueIteration(rows, rewards, epsilon=ACCURACY, max_iter=1_000_000)
        return lambda: (found.run(), float(found.average_reward))[1]

    return get_ready


def mdpsolver_solver(case: Case, mdp: Any) -> Ready | None:
    """Modified policy iteration of MDPSolver for average reward; the gain, which it does not tell, is its policy's."""
    if (mdpsolver := peer("mdpsolver")) is None:
        return None
    shape = (case.n_states, case.n_actions, -1)
    rows = {"tranMatProbs": case.p.reshape(shape).tolist(), "tranMatColumns": case.successor.reshape(shape).tolist()}
    rewards, told = case.r.reshape(shape[:2]).tolist(), list[float]()

    def get_ready() -> Callable[[], float]:
        model = mdpsolver.model()  # a new one each time: it would begin from the solution it has
        model.mdp(rewards=rewards, **rows)

        def solver() -> float:
            model.solve(algorithm="mpi", criterion="average", tolerance=ACCURACY, parallel=False)
            if not told:
                policy = Policy.deterministic(mdp.space, np.array(model.getPolicy()))
                told.append(float(solve.gain_and_bias(mdp, policy).gain))
            return told[0]

        return solver

    return get_ready


def quantecon_solver(case: Case, mdp: Any) -> Ready | None:
    """Policy iteration of QuantEcon's DiscreteDP: discounted, so close to 1 that the gain is equal to 1e-6."""
    if (quantecon := peer("quantecon")) is None:
        return None
    where = (mdp.space.pair_state, mdp.space.pair_action)
    model = quantecon.markov.DiscreteDP(mdp.r, matrix(mdp), 1 - FAR, *where)
    return at_once(lambda: float(FAR * model.solve(method="policy_iteration").v.mean()))


PEERS = {"SciPy": scipy_solver, "toolbox": toolbox_solver, "MDPSolver": mdpsolver_solver, "QuantEcon": quantecon_solver}

NOT_RUN = {  # README.md says why
    "10000x10": {"toolbox": "too long", "QuantEcon": "too long"},
    "10000x10 slow": {"toolbox": "too long", "QuantEcon": "inexact"},
}


def compare() -> None:
    columns = [(title, width) for name in PEERS for title, width in ((name, 9), ("ratio", 6))]
    table = Table(("case", 13), ("ours s", 8), ("limit s", 8), ("of limit", 8), ("with bias", 9), *columns)
    sizes = ((121, 4), (1_000, 10), (10_000, 10))
    for case in (make(*size) for make in (scattered, ring) for size in sizes):
        mdp = case.mdp()
        ours = solve.optimal_gain(mdp, ACCURACY).gain
        contestants = {
            "ours": at_once(lambda mdp=mdp: solve.optimal_gain(mdp, ACCURACY)),
            "bias": at_once(lambda mdp=mdp: solve.optimal_gain(mdp, ACCURACY).bias),
        }
        cells = dict(NOT_RUN.get(case.name, {}))
        for name, make in PEERS.items():
            if name in cells:
                continue
            if (get_ready := make(case, mdp)) is None:
                cells[name] = "missing"
                continue
            if abs((gain := get_ready()()) - ours) > 2 * ACCURACY:
                raise SystemExit(f"{case.name}: {name} finds the gain {gain}, ours is {ours}")
            contestants[name] = get_ready
        best = race(contestants)
        them = [cell for name in PEERS for cell in (cells.get(name) or best[name], ratio(best.get(name), best["ours"]))]
        limit = beside_limit(best["ours"], 16 * mdp.p.size + 16 * mdp.r.size)
        table.row(case.name, best["ours"], *limit, best["bias"], *them)


def grid(width: int, torus: bool) -> tuple[TabularMDP, Policy]:
    """A walk on width x width cells with random probabilities and rewards, within walls or on a torus."""
    rng, n = np.random.default_rng(1), width * width
    row, column = np.divmod(np.arange(n), width)
    moves = [(row, column + 1), (row, column - 1), (row + 1, column), (row - 1, column)]
    end = [np.stack(to) % width if torus else np.clip(to, 0, width - 1) for to in moves]
    p, state = rng.dirichlet(np.ones(4), size=n).T.ravel(), np.tile(np.arange(n), 4)
    rows = csr_array((p, (state, np.concatenate([to[0] * width + to[1] for to in end]))), shape=(n, n))
    rows.sum_duplicates()
    mdp = TabularMDP(Space.full(n, 1), rows.indptr, rows.indices, rows.data, rng.random(n))
    return mdp, Policy.always(mdp.space, 0)


def one_policy(make: Callable[[int, int], Case], n_states: int) -> tuple[TabularMDP, Policy]:
    """The chain of the first action of a scattered table or a ring."""
    case = make(n_states, 1)
    return case.mdp(), Policy.always(case.space, 0)


def bare_lu(mdp: TabularMDP) -> Ready:
    """The gain by SuperLU alone: one factorisation, two right-hand sides, no classes, no bias of mean 0, no checks."""
    n = mdp.n_states
    entry = matrix(mdp)[[n - 1], : n - 1].toarray()[0]
    options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}

    def gain() -> float:
        factors = splu((eye_array(n, format="csc") - matrix(mdp).tocsc())[:-1, :-1], **options)
        steps, earned = factors.solve(np.column_stack([np.ones(n - 1), mdp.r[:-1]])).T
        return float((mdp.r[-1] + entry @ earned) / (1 + entry @ steps))

    return at_once(gain)


def policies() -> None:
    """Gain and bias of one policy: mazes and tori, rings and scattered tables."""
    table = Table(("chain", 15), ("ours s", 8), ("bare LU s", 9), ("ratio", 6), ("residual", 9))
    cases = {
        "maze 100x100": lambda: grid(100, False),
        "maze 200x200": lambda: grid(200, False),
        "torus 100x100": lambda: grid(100, True),
        "torus 200x200": lambda: grid(200, True),
        "ring 1000": lambda: one_policy(ring, 1_000),
        "ring 10000": lambda: one_policy(ring, 10_000),
        "garnet 1000": lambda: one_policy(scattered, 1_000),
        "garnet 10000": lambda: one_policy(scattered, 10_000),
    }
    for name, make in cases.items():
        mdp, policy = make()
        found = solve.gain_and_bias(mdp, policy)
        contestants = {"ours": at_once(lambda mdp=mdp, policy=policy: solve.gain_and_bias(mdp, policy))}
        if name != "garnet 10000":  # the factors of a random graph fill up: minutes and gigabytes
            contestants["LU"] = bare_lu(mdp)
            if abs(found.gain - contestants["LU"]()()) > 1e-9:
                raise SystemExit(f"{name}: bare LU finds another gain than {found.gain}")
        best = race(contestants)
        left = np.abs(mdp.r - found.gain + matrix(mdp) @ found.bias - found.bias).max() / found.span
        them = (best["LU"], f"{best['ours'] / best['LU']:.2f}x") if "LU" in best else ("too long", "-")
        table.row(name, best["ours"], *them, left)


def growth() -> None:
    table = Table(("states", 8), ("build s", 8), ("optimal s", 9), ("SciPy s", 8), ("policy s", 8), ("peak MB", 8))
    for n_states in (100, 1_000, 10_000, 100_000):
        problem, build = timed(lambda n=n_states: problems.garnet(n, 4, 10, seed=1))
        mdp, baseline = problem.mdp, problem.baseline
        best = race(
            {
                "ours": at_once(lambda mdp=mdp: solve.optimal_gain(mdp, ACCURACY)),
                "SciPy": scipy_solver(None, mdp),
                "policy": at_once(lambda mdp=mdp, baseline=baseline: solve.gain_and_bias(mdp, baseline)),
            }
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table.row(str(n_states), build, best["ours"], best["SciPy"], best["policy"], peak)


def main() -> None:
    warnings.filterwarnings("ignore")
    print(machine())
    solve.optimal_gain(problems.garnet(20, 4, 5).mdp)  # compile
    solve.gain_and_bias(problems.garnet(700, 2, 5).mdp, problems.garnet(700, 2, 5).baseline)
    compare()
    print()
    policies()
    print()
    growth()


if __name__ == "__main__":
    main()
