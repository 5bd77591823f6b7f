"""The Markov chain that a policy makes of an MDP, and its structure: recurrent classes and transient states."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from surefooted.errors import InvalidInput, shown
from surefooted.kernels import bellman
from surefooted.kernels.structs import Table
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

SUM_ROUNDING = 1e-14  # the relative rounding of a sum of a few terms


def rows_of(mdp: TabularMDP) -> Table:
    """The rows of an MDP as kernels take them, with rewards counted from `low`."""
    return Table(mdp.next_ptr, mdp.next_state, mdp.p, mdp.r_counted)


def induced_chain(mdp: TabularMDP, policy: Policy) -> Table:
    """The chain of a stationary policy, with a row for each state and rewards counted from `low`."""
    _check_kinds(mdp, policy)
    if policy.space != mdp.space:
        raise InvalidInput("policy and MDP do not fit", [f"policy on {policy.space}, MDP on {mdp.space}"])
    if policy.horizon is not None:
        fault = f"the policy has {policy.horizon} decision rules: only a stationary policy has a gain"
        raise InvalidInput("policy and MDP do not fit", [fault])
    if policy.pair is not None:
        entries, row = gather(mdp.next_ptr, policy.pair)
        ptr = np.searchsorted(row, np.arange(mdp.n_states + 1)).astype(np.int64)
        return Table(ptr, mdp.next_state[entries], mdp.p[entries], mdp.r_counted[policy.pair])
    weights = policy.dense_weights
    played = np.flatnonzero(weights)
    entries, row = gather(mdp.next_ptr, played)
    state = mdp.space.pair_state[played]
    ptr = np.searchsorted(state[row], np.arange(mdp.n_states + 1)).astype(np.int64)
    r = np.add.reduceat(weights * mdp.r_counted, mdp.space.pair_ptr[:-1])
    return Table(ptr, mdp.next_state[entries], mdp.p[entries] * weights[played][row], r)


def _check_kinds(mdp: TabularMDP, policy: Policy) -> None:
    """Refuse what is no table or no policy."""
    faults: list[str] = []
    if not isinstance(mdp, TabularMDP):
        faults.append(f"the table is {shown(mdp)}: give problem.mdp, a TabularMDP")
    if not isinstance(policy, Policy):
        faults.append(f"the policy is {shown(policy)}: make one with sf.Policy.deterministic(space, actions)")
    if faults:
        raise InvalidInput("policy and MDP do not fit", faults)


def expected(chain: Table, v: Floats) -> Floats:
    """P v, [S]: the expected value of v after one step."""
    q = np.empty(chain.r.size)
    bellman.backup_pairs(chain.next_ptr, chain.next_state, chain.p, np.zeros(chain.r.size), v, q)
    return q


@dataclass(frozen=True)
class Structure:
    """The recurrent classes of a chain, and the states that belong to none."""

    classes: tuple[Ints, ...]  # each class's states, increasing
    transient: Ints


def structure(chain: Table) -> Structure:
    """The recurrent classes: the strongly connected components that no transition leaves."""
    size = chain.r.size
    edges = np.ones(chain.next_ptr[-1])  # even where the product of two probabilities is 0 to a double
    graph = csr_array((edges, chain.next_state, chain.next_ptr), shape=(size, size), copy=True)
    graph.sum_duplicates()  # SciPy 1.17 does not end on a row that lists a successor twice
    n, component = connected_components(graph, connection="strong")
    closed = np.ones(n, dtype=bool)
    if n > 1:
        begin = np.repeat(component, np.diff(chain.next_ptr))
        closed[begin[begin != component[chain.next_state]]] = False
    by_component = np.argsort(component, kind="stable")
    parts = np.split(by_component, np.cumsum(np.bincount(component, minlength=n))[:-1])
    return Structure(tuple(parts[c] for c in np.flatnonzero(closed)), np.flatnonzero(~closed[component]))


def gather(ptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The entries of the given CSR rows, one after the other, and the position in `rows` that each belongs to."""
    sizes = ptr[rows + 1] - ptr[rows]
    row = np.repeat(np.arange(rows.size), sizes)
    offset = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ptr[rows][row] + offset, row
