"""Is a candidate policy better than today's, by logs alone? A proved lower bound on what it would earn more.

Two proofs. *By the set*: the plausible MDPs of what was logged, narrowed by what is known. It holds for all candidates
at once, also for one that was found in the same log. *By weights*: logged episodes, weighted by how likely the
candidate was to choose what was chosen (`certificates.weighted`). It needs no model and no small state space, but
candidates that were chosen before the log was looked at, a policy that is known to have chosen the actions, and
episodes that are not long.
"""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from surefooted import planning
from surefooted.certificates.advantage import ACCURACY, gain_difference
from surefooted.certificates.improvement import Improvement, Method, find_limits
from surefooted.certificates.netted import Netted, split
from surefooted.certificates.shares import delta_faults
from surefooted.certificates.weighted import weighted_difference
from surefooted.data.history import SELECTED, History
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.sets.confidence import Confidence, likelihood, named, simplified_bernstein
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

NO_CERTIFICATE = "this candidate cannot be certified"


class Episodes(Protocol):
    """Logged episodes of H steps, such as an `EpisodicRun`; rewards are in the user's unit."""

    pairs: Ints  # [n, H]
    rewards: Floats  # [n, H]


def certify(
    candidate: Policy,
    history: History | Episodes,
    baseline: Baseline | Policy,
    *,
    horizon: int | None = None,
    start: int | ArrayLike | None = None,
    delta: float = 0.05,
    knowledge: Knowledge | None = None,
    confidence: Confidence | str = likelihood,
    method: Method = "set",
    behaviour: Policy | None = None,
    accidents: bool = False,
) -> Improvement:
    """What a candidate is proved to earn more than the baseline, per step or per episode.

    - `candidate`: the policy that somebody would like to play.
    - `history`: a log, as `surefooted.read_history` returns it.
    - `baseline`: today's policy; what is declared of it (gain and bias, or values) is used.
    - `horizon`: H for episodes of H steps; None for average reward.
    - `start`: where episodes begin: a state, or the probability of each state, [S]. None: wherever the bound is least.
    - `delta`: the probability with which the bound may fail.
    - `knowledge`: what is known beside the log; it makes the set smaller.
    - `confidence`: how the set of plausible MDPs is made, a function of `surefooted.confidence` or its name.
    - `method`: "set", or "weights" for episodes. By weights the bound is an average over the starts that were logged.
    - `behaviour`: for "weights", the policy that chose the logged actions; the baseline unless given.
    - `accidents`: as for `History.into`.

    By the set, candidate and baseline play in the same MDP: where they choose alike, what is not known cancels.

    >>> import surefooted as sf
    >>> problem = sf.problems.inventory(3, noise=sf.Noise())
    >>> sf.write_history("stock.parquet", sf.simulate(problem, sf.UCRL2(problem.space), 5000))
    >>> history = sf.read_history("stock.parquet", problem.space)
    >>> candidate = sf.solve.optimal_gain(problem.mdp).policy
    >>> found = sf.certify(candidate, history, problem.baseline, knowledge=problem.knowledge("mechanics"))
    >>> found.is_proved, sf.certify(problem.baseline, history, problem.baseline).at_least
    (True, 0.0)
    """
    base, space = Baseline(baseline) if isinstance(baseline, Policy) else baseline, candidate.space
    faults = delta_faults(delta) + _policy_faults(candidate, base, horizon)
    if method not in ("set", "weights"):
        faults.append(f"there is no method {method!r}; there are set and weights")
    if faults:
        raise InvalidInput(NO_CERTIFICATE, faults)
    if method == "weights" and horizon is None:
        raise InvalidInput(NO_CERTIFICATE, ["weights compare episodes of one length: say horizon=H"])
    if method == "weights":
        return _by_weights(candidate, base, behaviour or base.policy, history, horizon, delta)
    if not isinstance(history, History):
        fault = f"a set is made of a log, not of {type(history).__name__}"
        raise InvalidInput(NO_CERTIFICATE, [fault], 'Read it with sf.read_history, or choose method="weights".')
    if faults := _log_faults(candidate, history, horizon, confidence, accidents):
        raise InvalidInput(NO_CERTIFICATE, faults)
    belief = Belief(history.counts, named(confidence), delta, knowledge)
    if contradictions := belief.compare():
        raise InvalidInput("the log contradicts what was declared", contradictions)
    if horizon is None:
        found = _by_gain(candidate, base, belief.plausible())
        values, places = _bias(belief.plausible(), candidate), np.full(space.n_states, 1 / space.n_states)
    else:
        begins = _starts(start, space.n_states)
        found, values, places = _by_values(candidate, base, belief.plausible(), horizon, begins)
    limits = find_limits(belief.plausible(), history.counts, candidate, split(candidate, base.policy), values, places)
    return replace(found, delta=delta, steps=history.counts.total, limits=limits)


def _by_gain(candidate: Policy, base: Baseline, plausible: Plausible) -> Improvement:
    """The least difference of the gains."""
    space, sides = candidate.space, list[tuple[float, float]]()
    for policy in (candidate, base.policy):
        low = planning.policy_gain(plausible, policy, ACCURACY * space.r_max, "pessimistic")
        high = planning.policy_gain(plausible, policy, ACCURACY * space.r_max, "optimistic")
        sides.append((low.earns[0], high.earns[1]))
    if base.gain is not None:
        sides[1] = (base.gain, base.gain)
    at_least = gain_difference(plausible, candidate, base)
    return Improvement(space, at_least, "step", 0.0, "set", 0, sides[0], sides[1])


def _by_values(
    candidate: Policy, base: Baseline, plausible: Plausible, horizon: int, places: Floats | None
) -> tuple[Improvement, Floats, Floats]:
    """The least difference of the values, what the candidate earns at least, [H + 1, S], and where episodes begin."""
    space, known = candidate.space, base.values_counted(horizon)
    netted = Netted(plausible, base.policy, horizon, known)
    compared, high = netted.compare(candidate), planning.policy_values(plausible, candidate, horizon, "optimistic")
    if places is None:
        places = np.zeros(space.n_states)
        places[int(np.argmin(compared.net[0]))] = 1.0
    ends = (compared.values[0], high[0], netted.low[0], netted.high[0])
    own = [float(places @ values) + horizon * space.low for values in ends]
    at_least = float(places @ compared.net[0])
    found = Improvement(space, at_least, "episode", 0.0, "set", 0, (own[0], own[1]), (own[2], own[3]))
    return found, compared.values, places


def _by_weights(
    candidate: Policy, base: Baseline, behaviour: Policy, history: Any, horizon: int | None, delta: float
) -> Improvement:
    """The average difference of the values over the starts of logged episodes."""
    space = candidate.space
    pairs, rewards = (history.pairs, history.rewards) if not isinstance(history, History) else _whole(history, horizon)
    if (
        horizon is None
        or pairs.ndim != 2
        or pairs.shape != rewards.shape
        or pairs.shape[1] != horizon
        or not len(pairs)
    ):
        fault = f"weights need episodes of one length, horizon={horizon}; those given are {pairs.shape}"
        raise InvalidInput(NO_CERTIFICATE, [fault])
    if not np.all(space.money.contains(rewards)):
        raise InvalidInput(NO_CERTIFICATE, [f"a reward is outside {space.money.words}"], space.money.hint)
    counted = space.money.counted(rewards)
    at_least = weighted_difference(candidate, base.policy, behaviour, pairs, counted, delta)
    return Improvement(space, at_least, "episode", delta, "weights", int(pairs.size))


def _whole(history: History, horizon: int | None) -> tuple[Ints, Floats]:
    """The episodes of a log, [n, H] each; an error if it does not hold whole ones in order."""
    steps, H = history.in_order, horizon or 1
    is_whole = steps is not None and not history.unusable and not history.gaps
    if steps is None or not is_whole or len(steps.pairs) != history.used or history.used != H * history.episodes:
        fault = f"{history.used} steps of {history.episodes} episodes are not whole episodes of {H} steps, in order"
        remedy = (
            'Read a log whose episodes stand one after the other with columns={"episode": None}, at most 20 000 steps '
            "of it, or give an object with pairs and rewards, [n, H] each."
        )
        raise InvalidInput(NO_CERTIFICATE, [fault], remedy)
    pairs, after = steps.pairs.reshape(-1, H), steps.next_states.reshape(-1, H)
    if np.any(history.counts.space.pair_state[pairs[:, 1:]] != after[:, :-1]):
        fault = f"some of its episodes do not have {H} steps"
        raise InvalidInput(NO_CERTIFICATE, [fault])
    return pairs, steps.rewards.reshape(-1, H)


def _bias(plausible: Plausible, candidate: Policy) -> Floats:
    """What the candidate earns at worst from each state on, relative to its gain, [1, S]."""
    return planning.policy_gain(plausible, candidate, ACCURACY * plausible.space.r_max).bias[None].copy()


def _starts(start: Any, n: int) -> Floats | None:
    """The probability of each first state, [n], if they were given."""
    if start is None:
        return None
    given = np.asarray(start, dtype=np.float64)
    if given.ndim == 0 and float(given).is_integer() and 0 <= given < n:
        return np.asarray(np.eye(n)[int(given)], dtype=np.float64)
    if given.shape != (n,) or not np.all(given >= 0) or abs(float(given.sum()) - 1) > 1e-9:
        fault = f"start {start} is neither a state below {n} nor a probability for each of {n} states"
        raise InvalidInput(NO_CERTIFICATE, [fault])
    return np.asarray(given)


def _policy_faults(candidate: Policy, base: Baseline, horizon: int | None) -> list[str]:
    """Why these policies cannot be compared."""
    faults = []
    if candidate.space != base.policy.space:
        faults.append(f"the candidate is on {candidate.space}, the baseline on {base.policy.space}")
    for who, policy in (("candidate", candidate), ("baseline", base.policy)):
        if policy.horizon not in (None, horizon):
            faults.append(f"the {who} has {policy.horizon} decision rules: say horizon={policy.horizon}")
    if horizon is not None and base.gain is not None:
        faults.append("the baseline has a gain: over a finite horizon give its `values`, or neither")
    if horizon is None and base.values is not None:
        faults.append("the baseline has values of episodes: say their horizon")
    return faults


def _log_faults(
    candidate: Policy, history: History, horizon: int | None, confidence: Confidence | str, accidents: bool
) -> list[str]:
    """Why a log proves nothing here."""
    counts, faults = history.counts, []
    if counts.space != candidate.space:
        faults.append(f"the log is on {counts.space}, the candidate on {candidate.space}")
    if counts.stages not in (1, horizon):
        faults.append(f"the log was read with stages={counts.stages}, the horizon is {horizon}")
    if named(confidence) is simplified_bernstein:
        faults.append("simplified_bernstein is no valid confidence set, and proves nothing: choose another")
    if history.selected and not accidents:
        faults.append(f"{history.selected} rows are left out because of their outcome: {SELECTED}")
    faults += [f"{repeat}: remove the copies" for repeat in history.repeats[:3]]
    return faults
