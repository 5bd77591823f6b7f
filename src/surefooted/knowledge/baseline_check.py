"""Is the declared baseline the one that is played? Its gain and bias, or its values, against what it earns.

Let g and h be the declared gain and bias. At a step from s to s' that earns r, the *surprise* is

    D = r + h(s') - h(s) - g.

If the declaration is right, D has mean 0 given the past wherever the baseline chooses, since g + h = r_b + P_b h. Such
steps are those of the baseline's own rule, its draw included, and those at which something else plays the only pair
that the baseline plays in s. A draw that somebody saw and replaced counts at its worst (`hide`). Over a finite horizon
the values of all stages take the place of h, D = r + V_{h+1}(s') - V_h(s), and g is 0. If only the values of the starts
are declared, a whole episode of the baseline is one step, with D = G - V(s_1) for its return G.

**Theorem.** Let D_1, D_2, .. lie in [-c, c], and let each have a mean in [-ε, ε] given the past. Let 0 < λ_j < 1 / c'
with c' = c + ε, and ψ_j = (-ln(1 - c' λ_j) - c' λ_j) / c'² for j = 1 .. J. With ξ_i = D_i - ε and η_i = -D_i - ε, let

    E_n = (1 / 2J) sum_j [exp(λ_j sum_i ξ_i - ψ_j sum_i ξ_i²) + exp(λ_j sum_i η_i - ψ_j sum_i η_i²)].

Then E_n >= 1 / δ' for some n with probability at most δ'.

**Proof.** For ξ >= -c' and 0 < λ < 1 / c', exp(λ ξ - ψ ξ²) <= 1 + λ ξ. (Fan, Grama & Liu 2015: ln(1 + x) >= x + (ln(1 -
u) + u) x² / u² for x >= -u and 0 < u < 1, here with x = λ ξ and u = c' λ.) Given the past, ξ_i has a mean of at most 0,
so each factor exp(λ ξ_i - ψ ξ_i²) has a mean of at most 1, and their product is a non-negative supermartingale that
begins at 1. So is the product for η, and the mixture E_n. Ville's inequality gives the claim. ∎

Which steps count is known before their outcome, so that the theorem holds along them: for all steps together, and for
those of each place (a state, a state at a stage, or a start). The e-value of all steps gets one half of `FALSE_ALARMS`
times δ, and those of the P places share the other half. Hence *a declaration that is right up to ε is ever called wrong
with probability at most `FALSE_ALARMS` times δ.* A false alarm does not break the guarantee, since the agent then plays
the baseline. This probability is therefore no part of δ.

The range c is that of any outcome: r_max plus the span of the bias, or of the values after a step, or H r_max. ε is
`TOLERANCE` times c: declared numbers are rounded. D is bounded only if rewards are. If they may leave [0, r_max]
(`bounded=False`), no such test exists, and a wrong declaration goes unnoticed.

*By the plausible set.* The set of plausible MDPs compares, too: g + h(s) must lie between the least and the largest
value of r_b(s) + P_b h over the set. Values of all stages are compared in the same way, and values of the starts with
the least and the largest value of the baseline over the set, by backward induction. That costs nothing in δ: if the set
holds the true MDP, a right declaration passes. It sees what the surprises miss: logs that were read beforehand, and
what other policies explored. On the steps of the baseline itself, the surprises are much faster.

*Spot checks.* An agent that believes too low a declaration may leave the baseline for good, and then nothing more would
be seen of it. So of n episodes from a start (or rounds), agents play the baseline in at least √n - `HEAD_START`,
whatever they can afford; to play the baseline is always safe. For average reward they look at the n steps so far when
an episode begins. With right declarations they nearly always do so anyway. Then *a wrong value of a start that keeps
coming back, if only values of starts were declared, or a wrong mean of a bandit, is not believed for ever* if it is
wrong by more than 10⁻⁴ of the range: the surprises have a mean d of at least this size, and for the smallest λ_j the
exponent grows by about λ_j (d - λ_j / 2) > 0 with each of them. The same holds of each state (and stage) that the
baseline keeps visiting in spot checks, if its surprises have such a mean.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from surefooted.kernels import baseline_check as kernels
from surefooted.kernels import stages
from surefooted.kernels.baseline_check import Surprises
from surefooted.knowledge import wording
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints, Space

FALSE_ALARMS = 0.1  # times δ: the probability with which a right declaration is ever called wrong
TOLERANCE = 1e-6  # of declared numbers, relative to the range of a surprise
GROWTH, FEWEST = 1.05, 10  # surprises are compared when there are GROWTH times as many as before, and FEWEST more
HEAD_START = 30  # spot checks begin after HEAD_START² episodes, rounds or steps
SET_GROWTH, SET_FEWEST = 2, 100  # the set is compared at first, after SET_FEWEST steps, and SET_GROWTH times as many
BETS: Floats = 0.9 * 0.5 ** np.arange(14.0)  # λ_j c'
LAMBDA: Floats = BETS / (1 + TOLERANCE)
NOT_EXPLORED, EXPLORED = np.zeros(0, dtype=np.bool_), np.ones(4_096, dtype=np.bool_)
PSI: Floats = (-np.log1p(-BETS) - BETS) / (1 + TOLERANCE) ** 2


class BaselineCheck:
    """Compares what was declared of a baseline with what it earns, at all times at once.

    Parameters
    ----------
    baseline : the baseline, with what was declared of it
    delta : δ; a right declaration is called wrong with probability at most `FALSE_ALARMS` times this
    horizon : H for values over a finite horizon, None for gain and bias
    bounded : whether every reward lies in the range of the space; otherwise nothing is compared

    Example
    -------
    >>> import numpy as np
    >>> import surefooted as sf
    >>> space = sf.Space.full(n_states=1, n_actions=1)
    >>> baseline = sf.Baseline(sf.Policy.always(space, 0), gain=0.45, bias=np.zeros(1))
    >>> check = BaselineCheck(baseline, delta=0.05)
    >>> check.add(0, np.zeros(200, dtype=np.int64), np.full(200, 0.8), np.zeros(200, dtype=np.int64))
    >>> check.compare()
    ['the baseline was declared to earn 0.45 a step; over 200 steps it earned 0.35 a step more than that']

    """

    def __init__(self, baseline: Baseline, delta: float, horizon: int | None = None, bounded: bool = True) -> None:
        self.baseline, self.delta, self.horizon = baseline, delta, horizon
        self.is_active = bounded and baseline.is_known
        self.found: list[str] = []  # contradictions, kept for ever: what was declared cannot be taken back
        self.checked_at = -1  # steps counted when they were last compared
        self.set_due_at = 0  # when they are to be compared with the set
        self.whole_episodes = baseline.values is not None and baseline.values.ndim == 1
        if self.is_active:
            self._surprises = self._begin(baseline.policy.space)
            self._fields = tuple(self._surprises)
        starts = 1 if horizon is None else baseline.policy.space.n_states
        self.played = np.zeros((starts, 2), dtype=np.int64)  # episodes from each start (or steps), the baseline's own

    def _begin(self, space: Space) -> Surprises:
        """No step was seen yet."""
        policy, bias = self.baseline.policy, self.baseline.bias
        values = None if self.horizon is None else self.baseline.values_counted(self.horizon)
        gain, stride, places, alone = 0.0, 0, space.n_states, np.zeros(0, dtype=np.int64)
        if bias is not None and self.baseline.gain_counted is not None:
            worth, gain, span = bias, self.baseline.gain_counted, float(np.ptp(bias))
            alone = only_pairs(policy, 1)
        else:
            assert values is not None and self.horizon is not None
            worth, span = values.reshape(-1), (self.horizon - 1) * space.r_max
            if not self.whole_episodes:
                span, alone = float(np.ptp(values[1:], axis=1).max()), only_pairs(policy, self.horizon)
                stride, places = space.n_states, space.n_states * self.horizon
        return Surprises(worth.copy(), alone, float(gain), span + space.r_max, stride, np.zeros((places + 1, 4)))

    @property
    def places(self) -> int:
        """P, the number of places that have an e-value of their own."""
        return len(self._surprises.sums) - 1

    @property
    def steps(self) -> int:
        """The steps (or episodes) that were counted."""
        return int(self._surprises.sums[-1, 0]) if self.is_active else 0

    def add(self, s: int, pairs: Ints, rewards: Floats, next_states: Ints, explored: Bools = NOT_EXPLORED) -> None:
        """Count steps from s on, or the H steps of an episode, with rewards counted from `low` (`tables.money`).

        `explored` [n] says at which steps something else than the baseline chose; empty: at none.
        """
        if not self.is_active:
            return
        if self.horizon is None:
            self.played[0, 0] += len(pairs)
            self.played[0, 1] += len(pairs) - np.count_nonzero(explored)
        else:
            self.played[s] += (1, not explored.any())
        if not self.whole_episodes:
            kernels.add_steps(self._fields, s, pairs, rewards, next_states, explored)
        elif not explored.any():
            told = self._surprises
            kernels.add_episode(told.sums, s, rewards, told.worth[s], told.range_)

    def remove(self, s: int, pair: int, reward: float, s_next: int, explored: bool) -> None:
        """Take back one step of average reward that was counted by mistake; what was found is looked for again."""
        if not self.is_active:
            return
        told = self._surprises
        self.played[0] -= (1, not explored)
        if not explored or pair == told.alone[s]:
            d = (reward + told.worth[s_next] - told.worth[s] - told.gain) / told.range_
            d = min(max(float(d), -1.0), 1.0)
            told.sums[[s, -1]] -= (1.0, d, d * d, 0.0)
        self.found, self.checked_at, self.set_due_at = [], -1, 0

    def hide(self, s: int, steps: int = 1) -> None:
        """Somebody who saw what the baseline drew in s played something else: the surprise counts at its worst."""
        if self.is_active and self._surprises.sums[s, 3] + steps >= 0:
            self._surprises.sums[[s, -1]] += (steps, 0.0, steps, steps)

    def spot_check_is_due(self, s: int = 0) -> bool:
        """Whether the baseline must be played again before what was declared of it can be believed any longer.

        Over a finite horizon, s is the start.
        """
        n, own = self.played[s if self.horizon is not None else 0].tolist()
        return self.is_active and too_rare(own, n)

    def compare(self, plausible: Callable[[], Plausible | None] = lambda: None, counted: int = 0) -> list[str]:
        """What contradicts the declaration, which is kept; it is compared if enough was played since the last time.

        `plausible` returns a valid set of plausible MDPs that rests on data alone, if there is one; `counted` is the
        number of steps in these data.
        """
        if self.found or not self.is_active:
            return self.found.copy()
        found, checked_at, set_due_at = self.found, self.checked_at, self.set_due_at
        if self.steps >= GROWTH * checked_at + FEWEST or checked_at < 0:
            checked_at, found = self.steps, self._by_surprises()
        if counted >= set_due_at:
            set_due_at, known = max(SET_GROWTH * counted, SET_FEWEST), plausible()
            found = found + ([] if known is None else self._by_set(known))
        self.found, self.checked_at, self.set_due_at = found, checked_at, set_due_at  # all of it, or nothing
        return self.found.copy()

    def log_e_values(self, least: float = -math.inf) -> Floats:
        """The logarithm of the e-value of each place, and at last of all steps, [places + 1].

        Below `least` it is only bounded from above, which is quicker.
        """
        logs = np.zeros(self.places + 1)
        kernels.evidence(self._surprises.sums, TOLERANCE, LAMBDA, PSI, least, logs)
        return logs

    @cached_property
    def thresholds(self) -> Floats:
        """What each of them must reach to contradict the declaration, [places + 1]."""
        level, P = FALSE_ALARMS * self.delta, self.places
        if P == 1:  # then all steps are those of the only place
            return np.array([math.inf, -math.log(level)])
        return np.append(np.full(P, math.log(2 * P / level)), math.log(2 / level))

    def _by_surprises(self) -> list[str]:
        """What the e-values contradict: all steps together first."""
        wrong = np.flatnonzero(self.log_e_values(float(self.thresholds[-1])) >= self.thresholds)[::-1]
        return [self._surprising(place) for place in wrong.tolist()]

    def _surprising(self, place: int) -> str:
        """That the steps of one place, or all of them, do not fit."""
        told, P = self._surprises, self.places
        n, total, _, hidden = told.sums[place].tolist()
        h, s = divmod(place, told.stride) if told.stride else (None, place)
        space = self.baseline.policy.space
        worth = None if place == P else float(told.worth[place])
        if worth is not None and self.horizon is not None:
            worth += (self.horizon - (h or 0)) * space.low
        gain = None if self.horizon is not None else float(space.money.earned(told.gain))
        declared = wording.declared_baseline(gain, worth, s, h, space)
        than = "its values say" if gain is None else "its gain and bias say" if P > 1 else "that"
        unit = "episode" if self.whole_episodes else "step"
        seen = n - hidden
        return wording.wrong_baseline(declared, int(seen), total / seen * told.range_, unit, than, space.money)

    def _by_set(self, plausible: Plausible) -> list[str]:
        """Where no MDP of the set explains what was declared."""
        told, S = self._surprises, self.baseline.policy.space.n_states
        low, high = self._values(plausible) if self.whole_episodes else self._outcomes(plausible)
        here, slack = told.worth.reshape(-1, S)[: len(low)] + told.gain, TOLERANCE * told.range_
        wrong = np.argwhere((here < low - slack) | (here > high + slack)).tolist()
        stage = [None] if self.horizon is None else list(range(len(low)))
        space = self.baseline.policy.space
        to_go = [
            self.horizon - h if self.horizon is not None else 1 for h in range(len(low))
        ]  # steps, each above `low`
        shown = [(here[h, s], low[h, s], high[h, s]) + to_go[h] * space.low * np.ones(3) for h, s in wrong]
        each = zip(wrong, shown, strict=True)
        return [wording.implausible_baseline(stage[h], s, x, (a, b), space) for (h, s), (x, a, b) in each]

    def _outcomes(self, plausible: Plausible) -> tuple[Floats, Floats]:
        """The least and the largest r_b + P_b h (or V of the next stage) over the set, [1, S] or [H, S]."""
        weights, space = self._choices, self.baseline.policy.space
        worth, bounds = self._surprises.worth.reshape(-1, space.n_states), []
        for sign, r in ((-1.0, plausible.r_lower), (1.0, plausible.r_upper)):
            out = np.zeros(weights.shape)
            kernels.outcomes(plausible.rows, r, sign, worth, weights, out)
            bounds.append(np.add.reduceat(weights * out, space.pair_ptr[:-1], axis=1))
        return bounds[0], bounds[1]

    def _values(self, plausible: Plausible) -> tuple[Floats, Floats]:
        """The least and the largest value of the baseline from each start over the set, [1, S]."""
        assert self.horizon is not None
        policy, bounds = self.baseline.policy, np.zeros((2, 1, self.baseline.policy.space.n_states))
        for out, sign, r in ((bounds[0], -1.0, plausible.r_lower), (bounds[1], 1.0, plausible.r_upper)):
            values = np.zeros((self.horizon + 1, out.shape[1]))
            table = (policy.space.pair_ptr, tuple(plausible.rows), r, sign)
            stages.policy_stages(*table, *policy.stages(self.horizon), values, out)
        return bounds[0], bounds[1]

    @cached_property
    def _choices(self) -> Floats:
        """The probability with which the baseline plays each pair, [1, K] or [H, K]."""
        return _weights(self.baseline.policy, self.horizon or 1)

    def state_dict(self) -> dict[str, Any]:
        """What was seen and found."""
        sums = self._surprises.sums.copy() if self.is_active else None
        at = {"checked_at": self.checked_at, "set_due_at": self.set_due_at}
        return {"sums": sums, "played": self.played.copy(), "found": list(self.found)} | at

    def restored(self, state: Mapping[str, Any]) -> Self:
        """A check of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.baseline, self.delta, self.horizon, self.is_active)
        if other.is_active:
            other._surprises.sums[:, : state["sums"].shape[1]] = state["sums"]  # once, nothing was hidden
        other.played[:], other.found = state["played"], list(state["found"])
        other.checked_at, other.set_due_at = int(state["checked_at"]), int(state["set_due_at"])
        return other


def too_rare(own: int, n: int) -> bool:
    """Whether the baseline's `own` episodes, rounds or steps are too few of n."""
    return (own + HEAD_START) ** 2 < n


def explored(stretches: Sequence[tuple[int, str, int]]) -> Bools:
    """Which steps did not play policy 0, the baseline, [n]; empty if all did. A stretch is (policy, role, steps)."""
    if all(policy == 0 for policy, _, _ in stretches):
        return NOT_EXPLORED
    if len(stretches) == 1:
        return all_explored(stretches[0][2])
    return np.repeat([policy != 0 for policy, _, _ in stretches], [steps for _, _, steps in stretches])


def all_explored(n: int) -> Bools:
    """That the baseline chose at none of n steps, [n]."""
    return EXPLORED[:n] if n <= EXPLORED.size else np.ones(n, dtype=np.bool_)


def only_pairs(policy: Policy, rules: int) -> Ints:
    """The only pair that a policy plays at each place of `rules` stages, -1 where it randomises, [rules S]."""
    weights, space = _weights(policy, rules), policy.space
    alone = np.full((rules, space.n_states), -1)
    h, k = np.nonzero(weights >= 1.0)
    alone[h, space.pair_state[k]] = k
    return alone.reshape(-1)


def _weights(policy: Policy, rules: int) -> Floats:
    """The probability of each pair at each stage, [rules, K]."""
    pairs, weights = policy.stages(rules)
    if policy.is_deterministic:
        weights = np.zeros((len(pairs), policy.space.n_pairs))
        np.put_along_axis(weights, pairs, 1.0, axis=1)
    return np.array(np.broadcast_to(weights, (rules, policy.space.n_pairs)), order="C")
