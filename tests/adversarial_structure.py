"""The same with structure: what is declared beforehand makes honest sets small, and may be wrong.

As in `adversarial.py` and `adversarial_episodes.py`, what is exact is computed with dense matrices. But the sets are
the real ones: shared noise, declared successors, known rewards and logs let an agent explore within a few hundred
steps. Where what was declared is true, every budget must be proved by the truth. Where it is false, nothing may be
explored from the first observation on that contradicts it, and after `trust` budgets must be right once more.

Run `python tests/adversarial_structure.py 1000 1` for 1000 problems from seed 1; it prints one line.
"""

import sys
from dataclasses import dataclass, field

import numpy as np

import adversarial
import adversarial_episodes as nasty
from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.data.reading import read_history
from surefooted.errors import NoSingleGain
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.problems.problem import Problem
from surefooted.sets import confidence as sets
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.reward_noise import Noise
from surefooted.tables.staged import StagedMDP

TOLERANCE = 1e-9
ALPHAS = (0.05, 0.2, 0.5, 0.8, 0.95)
NOISES = (Noise("bernoulli"), Noise())


# -- worlds -----------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A table and what is true of it: the means of r(s, a, s') [S, A, S], or mechanics and their laws."""

    name: str
    mdp: TabularMDP | StagedMDP
    by_next: np.ndarray | None = None
    mechanics: Mechanics | None = None
    laws: tuple = ()

    @property
    def space(self):
        return self.mdp.space

    def support(self):
        """Which successors each pair has at some stage, [K, S]."""
        rows = np.zeros((self.mdp.r.size, self.space.n_states), dtype=bool)
        rows[np.repeat(np.arange(len(rows)), np.diff(self.mdp.next_ptr)), self.mdp.next_state] = self.mdp.p > 0
        return rows.reshape(-1, self.space.n_pairs, self.space.n_states).any(axis=0)

    def rewards(self):
        """The least and the largest reward that each pair can earn at some stage, [K] and [K]."""
        r, top = self.mdp.r.reshape(-1, self.space.n_pairs), self.space.r_max
        if self.mdp.noise.kind == "none":
            return r.min(axis=0), r.max(axis=0)
        return np.where((r >= top).all(axis=0), top, 0.0), np.where((r > 0).any(axis=0), top, 0.0)

    def told(self, rng, pair, s_next, mechanics):
        """The noise of a step, if `mechanics` are told it: drawn by what is true, whatever they say."""
        if mechanics is None or not mechanics.observed:
            return None
        xi = self.mechanics.draw_noise(self.laws, np.array([pair]), np.array([s_next]), rng)[0]
        return tuple(xi.tolist()) if xi.size > 1 else int(xi[0])


def mechanical(rng):
    """s' = f(s, a, ξ) with one or two laws and components, and r(s, a, ξ); the law may depend on the pair."""
    S, A = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    sizes = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 3))))
    C, K = int(rng.integers(1, 3)), S * A
    groups = int(rng.integers(3))
    if groups == 0:
        law = np.tile(rng.integers(0, len(sizes), C), (K, 1))
    elif groups == 1:  # by action
        law = np.tile(rng.integers(0, len(sizes), (A, C)), (S, 1))
    else:
        law = rng.integers(0, len(sizes), (K, C))
    after, style = [], int(rng.integers(4))
    for k in range(K):
        s, a = divmod(k, A)
        shape = tuple(sizes[i] for i in law[k])
        xi = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")).reshape(C, -1)
        if style == 0:
            y = rng.integers(0, S, xi.shape[1])
        elif style == 1:
            y = (s + a + xi.sum(axis=0)) % S
        elif style == 2:  # stock and demand
            y = np.clip(s + a - xi.sum(axis=0), 0, S - 1)
        else:  # the least of several, and the first action goes home
            y = np.minimum(S - 1, s + xi.min(axis=0)) if a else np.zeros(xi.shape[1], dtype=int)
        after.append(y)
    after = np.concatenate(after)
    laws = tuple(rng.dirichlet(np.full(n, float(rng.choice([0.5, 2.0])))) for n in sizes)
    r_max = float(rng.choice([1.0, 1.0, 0.5, 3.0]))
    reward = rng.random(after.size) * r_max
    if rng.random() < 0.3:
        reward = np.where(reward < 0.6 * r_max, 0.0, reward)
    empty = TabularMDP.from_arrays(np.full((S, A, S), 1 / S), np.zeros((S, A)), r_max=r_max)
    mechanics = Mechanics(empty.space, sizes, law, after, reward, bool(rng.random() < 0.4))
    ptr, state, mass, r = mechanics.table(laws)
    p = np.zeros((K, S))
    p[np.repeat(np.arange(K), np.diff(ptr)), state] = mass
    noise = NOISES[int(rng.integers(2))]
    mdp = TabularMDP.from_arrays(p.reshape(S, A, S), r.reshape(S, A), noise=noise, r_max=r_max)
    return World(f"mechanics {style}", mdp, None, mechanics, laws)


def declared(rng):
    """One of the nasty problems, small, where r(s, a) may be the mean of r(s, a, s')."""
    kinds = (adversarial.garnet, adversarial.cycle, adversarial.trap, adversarial.dull, adversarial.ring, slim, slim)
    make = kinds[int(rng.integers(len(kinds)))]
    p, r = make(rng)
    r_max, by_next = float(rng.choice([1.0, 1.0, 0.5, 3.0])), None
    if rng.random() < 0.4:
        by_next = rng.random(p.shape) * r_max
        r = np.einsum("say,say->sa", p, by_next) / r_max
    mdp = TabularMDP.from_arrays(p, np.minimum(r, 1.0) * r_max, noise=NOISES[int(rng.integers(2))], r_max=r_max)
    return World(make.__name__, mdp, by_next)


def slim(rng):
    """Few states, nearly deterministic: knowing the successors is knowing nearly all."""
    S, A = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    return adversarial.random_rows(rng, S, A, int(rng.integers(1, 3))), np.round(rng.random((S, A)), 1)


WORLDS = (mechanical, declared, mechanical)


def what_is_true(rng, world):
    """Something that is true of a world, of many kinds; and in words."""
    space, r = world.space, world.mdp.r
    parts, words = {}, []
    if world.mechanics is not None and rng.random() < 0.9:
        mechanics = world.mechanics
        words.append("observed" if mechanics.observed else "inferred")
        if rng.random() < 0.5:
            mechanics = mechanics.without_rewards()
        else:
            words.append("r(s, a, xi)")
        parts["mechanics"] = mechanics
    elif rng.random() < 0.8:
        allowed = world.support()
        if rng.random() < 0.3:  # more than is true
            allowed = allowed | (rng.random(allowed.shape) < 0.3)
        lists = [np.flatnonzero(row).tolist() for row in allowed]
        parts["successors"] = [None if rng.random() < 0.1 else row for row in lists] if rng.random() < 0.3 else lists
        words.append("successors")
    mechanics = parts.get("mechanics")
    stationary = world.mdp.stages == 1
    if stationary and world.by_next is not None and mechanics is None and rng.random() < 0.6:
        parts["reward_function"] = world.by_next
        words.append("r(s, a, s')")
    elif stationary and (mechanics is None or mechanics.reward is None) and rng.random() < 0.7:
        parts["rewards"] = r.copy()
        words.append("means")
    if rng.random() < 0.4:
        low, high = world.rewards()
        width = rng.random((2, space.n_pairs)) * float(rng.choice([0.0, 0.3])) * space.r_max
        parts["reward_bounds"] = (np.maximum(low - width[0], 0.0), np.minimum(high + width[1], space.r_max))
        words.append("bounds")
    return Knowledge(space, **parts), ", ".join(words) or "nothing"


def what_is_false(rng, world):
    """Something that is not true of a world; its kind, or None if nothing false can be said."""
    space, allowed, kind = world.space, world.support(), int(rng.integers(4))
    low, high = world.rewards()
    means = world.mdp.r if world.mdp.stages == 1 else None
    if kind == 0 and world.mechanics is not None:
        mechanics = world.mechanics
        after = np.where(
            rng.random(mechanics.next_state.size) < 0.3,
            rng.integers(0, space.n_states, mechanics.next_state.size),
            mechanics.next_state,
        )
        wrong = Mechanics(space, mechanics.sizes, mechanics.law, after, None, mechanics.observed)
        return Knowledge(space, mechanics=wrong, rewards=means if rng.random() < 0.5 else None), "mechanics"
    if kind == 1:
        several = np.flatnonzero(allowed.sum(axis=1) > 1)
        if several.size:
            for k in rng.choice(several, size=int(rng.integers(1, several.size + 1)), replace=False):
                allowed[k, rng.choice(np.flatnonzero(allowed[k]))] = False
            return Knowledge(space, successors=allowed, rewards=means), "successors"
    if kind == 2:
        wide = np.flatnonzero(high > 0)
        if wide.size:
            some = rng.choice(wide, size=int(rng.integers(1, wide.size + 1)), replace=False)
            high[some] = low[some] + (high[some] - low[some]) * 0.5 if world.mdp.noise.kind != "none" else low[some] / 2
            low = np.minimum(low, high)
            known = {"mechanics": world.mechanics.without_rewards()} if world.mechanics is not None else {}
            return Knowledge(space, reward_bounds=(low, high), **known or {"successors": allowed}), "reward bounds"
    if kind == 3 and means is not None:  # only statistics can tell
        means = np.where(rng.random(space.n_pairs) < 0.5, rng.random(space.n_pairs) * space.r_max, means)
        known = {"mechanics": world.mechanics.without_rewards()} if world.mechanics is not None else {}
        return Knowledge(space, rewards=means, **known or {"successors": allowed}), "means"
    return None, ""


def impossible(knowledge, pair, r, s_next, noise):
    """Whether one step cannot be if what was declared is true, by the definitions alone."""
    declared, mechanics = knowledge.declared, knowledge.mechanics
    if mechanics is not None:
        after = mechanics.outcomes(pair)
        lost = s_next not in after if noise is None else int(after[noise]) != s_next
    else:
        ptr = declared.successor_ptr
        row = declared.successor_state[ptr[pair] : ptr[pair + 1]]
        lost = bool(declared.has_successors[pair]) and s_next not in row
    unpaid = False
    if declared.reward_low is not None:
        low, high = float(declared.reward_low[pair]), float(declared.reward_high[pair])
        unpaid = not low - 1e-9 <= r <= high + 1e-9
    return bool(lost or unpaid)


def a_log(rng, world, stages=1):
    """What some policy once did, as rows; the stages of each episode if it has any."""
    mdp, space, rows = world.mdp, world.space, []
    length = stages if stages > 1 else int(rng.integers(5, 40))
    tables = [mdp.stage(h) for h in range(mdp.stages)] if mdp.stages > 1 else [mdp]
    for episode in range(int(rng.integers(1, 1 + 400 // length))):
        s = int(rng.integers(space.n_states))
        for t in range(length):
            a = int(rng.choice(space.actions(s)))
            r, y = tables[t % len(tables)].draw(rng, space.pair(s, a))
            rows.append({"episode": episode, "t": t, "state": s, "action": a, "reward": r, "next_state": y})
            s = y
    return rows


def same_set(a, b):
    """Whether two sets are equal, down to the last digit."""
    names = ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def belief_of(agent):
    """What an agent, or the learner that it holds, believes."""
    return getattr(agent, "learner", agent).belief


def anew(belief):
    """The set that a belief's knowledge makes of its counts, and its conflicts, by objects that remember nothing."""
    known, noise = belief.knowledge, belief.noise
    if noise is not None:
        told = NoiseCounts(noise.mechanics)
        for mine, theirs in zip(told.values, noise.values, strict=True):
            mine[:] = theirs
        noise = told
    question = (belief.confidence, belief.counts, belief.delta, noise)
    return known.plausible(*question), known.conflicts(*question)


# -- learners that are watched ----------------------------------------------------------------------------------------


class Watching(adversarial.Mischief):
    """Notes whether its sets held the truth, and were those of the knowledge; may propose what is worst."""

    def __init__(self, problem, seed, wicked, **options):
        UCRL2Learner.__init__(self, problem.space, **options)
        self.rng, self.problem, self.wicked = np.random.default_rng(seed), problem, wicked
        self.worst = adversarial.a_baseline(self.rng, problem.mdp, "worst")
        self.favourite = adversarial.a_baseline(self.rng, problem.mdp, "random")
        self.held, self.wrong, self._watched = True, [], (-1, None)

    def propose(self, plausible, t):
        return super().propose(plausible, t) if self.wicked else UCRL2Learner.propose(self, plausible, t)

    def plausible(self) -> Plausible:
        belief = self.belief
        believed = belief.knowledge is not None and not belief.contradictions
        plausible = super().plausible()
        now = (self.counts.added, belief.knowledge)
        if now != self._watched:
            self._watched = now
            self.held = self.held and plausible.contains(self.problem.mdp)
            if believed and self.rng.random() < 0.1:
                exact, conflicts = anew(belief)
                if bool(conflicts) != bool(belief.contradictions):
                    self.wrong.append(f"{conflicts} in the data, {belief.contradictions} noticed")
                if not conflicts and not same_set(exact, plausible):
                    self.wrong.append(f"after {self.counts.total} steps the set is not that of the knowledge")
        return plausible


# -- the campaign -----------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What a campaign has seen."""

    problems: int = 0
    runs: int = 0
    steps: int = 0
    explored: int = 0  # of these
    episodes: int = 0
    episodes_explored: int = 0  # of these
    explored_unknown: int = 0  # steps and episodes with a baseline that was not known
    excess: float = -np.inf  # the largest budget - exact margin
    least: float = np.inf  # the smallest exact margin
    event_failed: int = 0
    contradicted: int = 0  # runs with false structure in which it showed
    explored_after: int = 0  # steps and episodes explored after `trust` in these
    violations: list = field(default_factory=list)

    def line(self):
        return (
            f"{self.problems} problems, {self.runs} runs, {self.steps} steps, {self.explored} explored, "
            f"{self.episodes} episodes, {self.episodes_explored} explored ({self.explored_unknown} of all with an "
            f"unknown baseline), largest certificate - exact margin {self.excess:.3g}, smallest margin "
            f"{self.least:.3g}, true MDP missed in {self.event_failed} runs, false structure seen in "
            f"{self.contradicted} runs with {self.explored_after} explored after trust, "
            f"{len(self.violations)} violations"
        )


def a_problem(rng, world):
    """A world with a baseline of one gain, or None if none was found."""
    for _ in range(10):
        which = str(rng.choice(adversarial.BASELINES))
        try:
            policy = adversarial.a_baseline(rng, world.mdp, which)
            _ = solve.gain_and_bias(world.mdp, policy).gain
        except NoSingleGain:
            continue
        start = int(rng.integers(world.space.n_states))
        name = f"{world.name}, {which} baseline"
        return Problem(name, world.mdp, policy, start, mechanics=world.mechanics, laws=world.laws)
    return None


CERTIFICATES = ("induction", "segments", "reevaluated", "induction")


def an_average_agent(rng, problem, knowledge, certificate, is_known):
    """CUCRL2 with settings at random over a learner that is watched."""
    confidence = sets.likelihood if rng.random() < 0.7 else sets.bernstein
    spans = certificate == "reevaluated"
    learner = Watching(
        problem,
        int(rng.integers(2**31)),
        bool(rng.random() < 0.5),
        confidence=confidence,
        delta=float(rng.choice([0.05, 0.5])),
        knowledge=knowledge,
    )
    agent = CUCRL2(
        problem.space,
        baseline=adversarial.known(problem) if is_known else Baseline(problem.baseline),
        alpha=max(float(rng.choice(ALPHAS)), 0.5 if spans else 0.0),
        allowance=adversarial.spare(problem) if is_known else 0.0,
        learner=learner,
        certificate=certificate,
        affordable=bool(rng.random() < 0.8),
        minimum=int(rng.choice([1, 1, 4])),
        patience=float(rng.choice([0.3, 1.0] if spans else [0.0, 0.01, 0.1])),
        seed=int(rng.integers(2**31)),
    )
    how = f"{certificate}, known={is_known}, alpha={agent.alpha}, {confidence.__name__}, wicked={learner.wicked}"
    return agent, how


def check_average(problem, agent, tally, label, first=0, honest=True):
    """Compare what an agent claimed from decision `first` on with the truth; `honest` if it was never told a lie."""
    sequence = [(agent.policies[segment.policy], segment.length) for segment in agent.segments]
    truth, steps = adversarial.Truth(problem, agent.alpha, sequence), agent.t
    tally.violations += [f"{label}: {fault}" for fault in agent.learner.wrong[:1]]
    if not agent.learner.held:
        tally.event_failed += 1
        return
    if honest:
        tally.steps, tally.explored = tally.steps + steps, tally.explored + agent.explored
        tally.explored_unknown += 0 if agent.baseline.is_known else agent.explored
        least = float(truth.margin[1:].min())
        tally.least = min(tally.least, least)
        if least < -TOLERANCE:
            tally.violations.append(f"{label}: margin {least:.3g} at step {1 + int(np.argmin(truth.margin[1:]))}")
    decisions = agent.decisions
    for i in range(first, len(decisions)):
        decision, t = decisions[i], decisions[i].t
        if decision.budget is None:
            continue
        excess = decision.budget - truth.after(t)
        tally.excess = max(tally.excess, excess)
        if excess > TOLERANCE:
            tally.violations.append(f"{label}: decision {i} at {t}: budget above the exact margin by {excess:.3g}")
        if decision.role == "optimistic" and t < steps:
            least = truth.during(t, agent.policies[decision.policy], min(decision.length, 100), True)
            if least < -TOLERANCE:
                tally.violations.append(f"{label}: decision {i} at {t}: could have led to a margin of {least:.3g}")


def average_run(rng, problem, world, steps, certificate, is_known, tally, label):
    """What was declared is true: budgets are proved, and the margin stays."""
    knowledge, words = what_is_true(rng, world)
    agent, how = an_average_agent(rng, problem, knowledge, certificate, is_known)
    label = f"{label}, {words}, {how}"
    if rng.random() < 0.3:
        read_history(a_log(rng, world), problem.space).into(agent)
        label += ", log"
    tally.runs += 1
    run = simulate(problem, agent, steps, int(rng.integers(2**31)))
    if agent.contradictions:  # by chance alone: nothing that cannot be may have been seen
        agent.learner.held = False
        if any("outside" in fault or "led to" in fault for fault in agent.contradictions):
            tally.violations.append(f"{label}: what is true was contradicted: {agent.contradictions[0]}")
    check_average(problem, agent, tally, label)
    return run


def check_names(knowledge, agent, kind, step, tally, label):
    """Contradictions must name the pair of the step that contradicted first."""
    pair, said = step[0], agent.contradictions
    space = knowledge.space
    at = f"state {space.pair_state[pair]}, action {space.pair_action[pair]}"
    if not said or at not in said[0]:
        tally.violations.append(f"{label}: {kind} contradicted by {step}, and it says {said}")
    elif said[0] not in agent.decisions[-1].reason:
        tally.violations.append(f"{label}: the reason does not say {said[0]!r}: {agent.decisions[-1].reason!r}")


def trust_something(rng, world, agent):
    """Let an agent trust the data alone, or what is true; in words."""
    learner, right = agent.learner, None
    learner.held, learner.wrong, learner._seen = True, [], -1
    if rng.random() < 0.5:
        right, _ = what_is_true(rng, world)
        if right.mechanics is not None and right.mechanics.observed:
            right = None  # it comes too late
    agent.trust(right)
    return f", trusts {right}"


def false_average_run(rng, problem, world, steps, certificate, is_known, tally, label, midway=True):
    """What was declared is false: no step is explored once that shows, and then the truth or the data are trusted.

    With `midway` that may be before it shows, in the middle of an exploring episode.
    """
    knowledge, kind = what_is_false(rng, world)
    if knowledge is None:
        return
    agent, how = an_average_agent(rng, problem, knowledge, certificate, is_known)
    learner, mdp, space = agent.learner, world.mdp, world.space
    label = f"{label}, false {kind}, {how}"
    tally.runs += 1
    agent.begin(problem.start)
    doubts = int(rng.integers(5, steps)) if midway and rng.random() < 0.4 else steps
    draws, teller = np.random.default_rng(int(rng.integers(2**31))), np.random.default_rng(int(rng.integers(2**31)))
    seen = told_at = None
    for t in range(2 * steps):
        s = agent.state
        decision = agent.act(s)
        if seen is not None and told_at is None:
            if decision.role != "baseline" or agent.episode.policy is not problem.baseline:
                tally.violations.append(f"{label}: explores at step {t}, contradicted at {seen}")
                break
            if not agent.contradictions or "contradicted" not in decision.reason or decision.budget is not None:
                tally.violations.append(f"{label}: at step {t}, contradicted at {seen}: {decision}")
                break
        begins = t == decision.t  # agents compare the data with what was declared when an episode begins
        if begins and agent.contradictions and decision.role != "baseline":
            tally.violations.append(f"{label}: explores at step {t} with {agent.contradictions[0]}")
            break
        if begins and seen is None and told_at is None and agent.contradictions:
            seen = t  # by statistics
        exploring = decision.role == "optimistic" and t > decision.t
        if told_at is None and (t >= steps or (t >= doubts and exploring and seen is None)):
            if seen is None and t >= steps:
                break
            told_at = (len(agent.decisions), agent.explored)
            label += trust_something(rng, world, agent) + f" at step {t}"
            decision = agent.act(s)
        pair = space.pair(s, decision.action)
        r, s_next = mdp.draw(draws, pair)
        known = belief_of(agent).knowledge
        mechanics = None if known is None else known.mechanics
        noise = world.told(teller, pair, s_next, mechanics)
        agent.observe(s, decision.action, r, s_next, noise)
        if seen is None and told_at is None and impossible(knowledge, pair, r, s_next, noise):
            seen = t
            check_names(knowledge, agent, kind, (pair, r, s_next, noise), tally, label)
    if told_at is None:
        return
    if agent.contradictions:
        learner.held = False
    tally.contradicted += seen is not None
    if agent.t < 2 * steps:
        tally.violations.append(f"{label}: the run ended after {agent.t} steps")
    if learner.held:
        tally.explored_after += agent.explored - told_at[1]
    check_average(problem, agent, tally, label, told_at[0], honest=False)


# -- finite horizon ---------------------------------------------------------------------------------------------------


def staged(rng, world, H):
    """A world in which each stage has a table of its own; nothing but the support and the range is known of it."""
    p, r = adversarial.dense(world.mdp)
    tables = [world.mdp]
    for _ in range(H - 1):
        order, one = rng.permutation(p.shape[1]), rng.random() < 0.3
        moved = (p[:, order], r[:, order] * 0.9)
        options = {"noise": world.mdp.noise, "r_max": world.space.r_max}
        tables.append(world.mdp if one else TabularMDP.from_arrays(*moved, **options))
    return World(f"{world.name}, staged", StagedMDP(tables) if H > 1 else world.mdp)


def an_episodic_agent(rng, case, knowledge, is_known):
    """CUCB-VI with settings at random over a learner that is watched, and what it is in words."""
    confidence = sets.likelihood if rng.random() < 0.7 else sets.bernstein
    options = {
        "stage_dependent": case.mdp.stages > 1 or bool(rng.random() < 0.2),
        "confidence": confidence,
        "delta": float(rng.choice([0.05, 0.5])),
        "knowledge": knowledge,
    }
    size, wicked = (case.space, case.horizon), bool(rng.random() < 0.5)
    if wicked:
        learner = nasty.Mischief(*size, **options).harm(case, int(rng.integers(2**31)), bool(rng.random() < 0.5))
    else:
        learner = nasty.WatchedUCBVI(*size, **options)
    learner.watch(case, False)
    agent = CUCBVI(
        *size,
        baseline=case.baseline(is_known),
        alpha=float(rng.choice(ALPHAS)),
        allowance=nasty.spare(case, is_known),
        learner=learner,
        learn_from="optimistic" if is_known and rng.random() < 0.2 else "all",
        reevaluate=bool(rng.random() < 0.7),
        patience=float(rng.choice([0.0, 0.0, 0.1])),
        seed=int(rng.integers(2**31)),
    )
    how = f"known={is_known}, alpha={agent.alpha}, {confidence.__name__}, wicked={wicked}, {agent.learn_from}"
    return agent, how


def check_episodes(case, agent, tally, label, first=0, honest=True):
    """Compare what an agent claimed from episode `first` on with the truth."""
    learner, starts = agent.learner, np.array(agent.starts)
    tally.violations += [f"{label}: {fault}" for fault in learner.wrong[:1]]
    if not learner.held:
        tally.event_failed += 1
        return
    earned = [case.of(agent.policies[d.policy])[s] for d, s in zip(agent.decisions, agent.starts, strict=True)]
    margin = np.cumsum(np.array(earned) - (1 - agent.alpha) * case.values[starts])
    explored = sum(decision.role == "optimistic" for decision in agent.decisions)
    if honest:
        tally.episodes, tally.episodes_explored = tally.episodes + starts.size, tally.episodes_explored + explored
        tally.explored_unknown += 0 if agent.baseline.is_known else explored
        tally.least = min(tally.least, float(margin.min()))
        if margin.min() < -TOLERANCE:
            tally.violations.append(f"{label}: margin {margin.min():.3g} after episode {1 + int(np.argmin(margin))}")
    budgets = [d.budget for d in agent.decisions]
    excess = np.array([-np.inf if b is None else b for b in budgets]) - np.r_[0.0, margin[:-1]]
    worst = float(excess[first:].max(initial=-np.inf))
    tally.excess = max(tally.excess, worst)
    if worst > TOLERANCE:
        at = first + int(np.argmax(excess[first:]))
        tally.violations.append(f"{label}: budget above the exact margin by {worst:.3g} at episode {at}")


def episodic_run(rng, world, case, episodes, is_known, tally, label):
    """What was declared is true: budgets are proved, and the margin stays."""
    knowledge, words = what_is_true(rng, world)
    agent, how = an_episodic_agent(rng, case, knowledge, is_known)
    label = f"{label}, {words}, {how}"
    if rng.random() < 0.3:
        stages = agent.learner.counts.stages
        read_history(a_log(rng, world, stages), case.space, stages=stages).into(agent)
        label += ", log"
    starts = nasty.some_starts(rng, case, episodes)
    tally.runs += 1
    run = simulate_episodes(case.mdp, agent, starts, int(rng.integers(2**31)), world.mechanics, world.laws)
    if agent.contradictions:
        agent.learner.held = False
        if any("outside" in fault or "led to" in fault for fault in agent.contradictions):
            tally.violations.append(f"{label}: what is true was contradicted: {agent.contradictions[0]}")
    else:
        faults = nasty.check_decisions(case, agent, run, agent.learner.log)
        tally.violations += [f"{label}: {fault}" for fault in faults[:1]]
    check_episodes(case, agent, tally, label)


def false_episodic_run(rng, world, case, episodes, is_known, tally, label, midway=True):
    """What was declared is false: no episode explores once that shows, and then the truth or the data are trusted.

    With `midway` that may be before it shows, in the middle of an exploring episode.
    """
    knowledge, kind = what_is_false(rng, world)
    if knowledge is None:
        return
    agent, how = an_episodic_agent(rng, case, knowledge, is_known)
    learner, space, H = agent.learner, case.space, case.horizon
    label = f"{label}, false {kind}, {how}"
    starts = nasty.some_starts(rng, case, 2 * episodes).tolist()
    draws, teller = np.random.default_rng(int(rng.integers(2**31))), np.random.default_rng(int(rng.integers(2**31)))
    tables = [case.mdp.stage(h) for h in range(H)] if case.mdp.stages > 1 else [case.mdp] * H
    doubts = int(rng.integers(1, episodes)) if midway and rng.random() < 0.4 else 2 * episodes
    tally.runs += 1
    seen = told_at = first = None
    for k, s in enumerate(starts):
        if k == episodes:
            if seen is None and told_at is None and not agent.contradictions:
                break
            if told_at is None:
                told_at = k
                label += trust_something(rng, world, agent)
        agent.begin(s)
        decision = agent.decisions[-1]
        if (seen is not None or agent.contradictions) and told_at is None:
            if decision.role != "baseline" or decision.policy != 0 or "contradicted" not in decision.reason:
                tally.violations.append(f"{label}: episode {k}, contradicted in {seen}: {decision}")
                break
            if seen is not None and first is not None:
                check_names(knowledge, agent, kind, first, tally, label)
                first = None
        for h in range(H):
            if k >= doubts and h and told_at is None and not agent.contradictions and decision.role == "optimistic":
                told_at = k + 1
                label += trust_something(rng, world, agent) + f" in episode {k}"
            a = agent.act(agent.state).action
            pair = space.pair(agent.state, a)
            r, s_next = tables[h].draw(draws, pair)
            known = belief_of(agent).knowledge
            mechanics = None if known is None else known.mechanics
            noise = world.told(teller, pair, s_next, mechanics)
            quiet = not agent.contradictions
            agent.observe(agent.state, a, r, s_next, noise)
            if seen is None and told_at is None and quiet and impossible(knowledge, pair, r, s_next, noise):
                seen, first = k, (pair, r, s_next, noise)
                if not agent.contradictions:
                    tally.violations.append(f"{label}: episode {k}, stage {h}: {first} was not noticed at once")
    if told_at is None:
        return
    tally.contradicted += seen is not None
    if agent.contradictions:
        learner.held = False
    if learner.held:
        tally.explored_after += sum(d.role == "optimistic" for d in agent.decisions[told_at:])
    check_episodes(case, agent, tally, label, told_at, honest=False)


# -- all of it --------------------------------------------------------------------------------------------------------


def run_campaign(n, seed, steps=400, episodes=120, midway=True):
    """`n` random problems, each played for average reward and over a horizon, with true and with false structure.

    `midway` lets `trust` come in the middle of exploring, too.
    """
    tally = Tally()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        world = WORLDS[i % len(WORLDS)](rng)
        tally.problems += 1
        label = f"seed {seed}, problem {i} ({world.name})"
        problem, certificate = a_problem(rng, world), CERTIFICATES[i % len(CERTIFICATES)]
        if problem is not None:
            is_known = bool(rng.random() < 0.7)
            average_run(rng, problem, world, steps, certificate, is_known, tally, label)
            false_average_run(rng, problem, world, steps // 2, certificate, is_known, tally, label, midway)
        H = int(rng.choice(nasty.HORIZONS))
        if world.mechanics is None and rng.random() < 0.4:
            world = staged(rng, world, H)
        case = nasty.Case(world.name, world.mdp, nasty.Policy.always(world.space, 0), H)
        kind = str(rng.choice(nasty.BASELINES))
        case = nasty.Case(f"{world.name}, {kind}, H={H}", world.mdp, nasty.a_policy(rng, case, kind), H)
        label, is_known = f"seed {seed}, problem {i} ({case.name})", bool(rng.random() < 0.6)
        episodic_run(rng, world, case, episodes, is_known, tally, label)
        false_episodic_run(rng, world, case, episodes // 2, is_known, tally, label, midway)
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=500, episodes=150)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
