"""An error anywhere inside a step: the step is counted once or not at all, and a retry gives the undisturbed run.

`Interrupting` raises at the n-th call of a function of the package, for every n that a step reaches. Where counting
itself was interrupted, the agent refuses everything until a state is loaded.
"""

import copy
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import surefooted as sf
from surefooted.agents.in_use import INTERRUPTED, TWO_THREADS
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.bandits import ConservativeLinearUCB, ConservativeUCB
from surefooted.certificates.shelf import Shelf
from surefooted.errors import SurefootedError
from surefooted.testing import same

PACKAGE = str(Path(sf.__file__).parent)
RIVER = sf.problems.riverswim(4)
GRID = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
H = 4
ANSWER = sf.solve.gain_and_bias(RIVER.mdp, RIVER.baseline)
BASELINE = sf.Baseline(RIVER.baseline, ANSWER.gain, ANSWER.bias)
RANDOM = sf.Baseline(sf.Policy.uniform(RIVER.space))
GRID_BASELINE = sf.Baseline(GRID.baseline, values=sf.solve.policy_values(GRID.mdp, GRID.baseline, H))
KNOWN = sf.Knowledge(RIVER.space, rewards=RIVER.mdp.r)


class Injected(Exception):
    """What the tests raise."""


class Interrupting:
    """Raises at the n-th call of a function of the package; counts the calls."""

    def __init__(self, n):
        self.n, self.calls = n, 0

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        if (
            event == "call"
            and name.startswith(PACKAGE)
            and "/kernels/" not in name
            and "in_use" not in name
            and frame.f_code.co_name != "<genexpr>"
        ):
            self.calls += 1
            if self.calls == self.n:
                raise Injected(f"{name}:{frame.f_lineno} {frame.f_code.co_name}")

    def during(self, action):
        sys.settrace(self)
        try:
            action()
        finally:
            sys.settrace(None)


def cucrl2(**options):
    return sf.CUCRL2(RIVER.space, **({"baseline": BASELINE, "alpha": 0.9, "patience": 0.0} | options))


def cucbvi(**options):
    return sf.CUCBVI(GRID.space, H, **({"baseline": GRID_BASELINE, "alpha": 0.9} | options))


PLAYERS = {
    "UCRL2": lambda: sf.UCRL2(RIVER.space),
    "PSRL": lambda: sf.PSRL(RIVER.space),
    "induction": cucrl2,
    "segments": lambda: cucrl2(certificate="segments"),
    "paper": lambda: cucrl2(certificate="paper", strict=False, affordable=False),
    "reevaluated": lambda: cucrl2(certificate="reevaluated", strict=False, affordable=False),
    "unknown": lambda: cucrl2(baseline=RANDOM),
    "PSRL, conservative": lambda: cucrl2(learner=sf.PSRL(RIVER.space)),
    "decisions": lambda: cucrl2(condition="decisions"),
    "decisions, informed": lambda: cucrl2(condition="decisions", knowledge=KNOWN),
    "UCBVI": lambda: sf.UCBVI(GRID.space, H),
    "freedman": lambda: sf.UCBVI(GRID.space, H, bonus="freedman", episodes=99),
    "EULER": lambda: sf.EULER(GRID.space, H),
    "PSRLEpisodic": lambda: sf.agents.PSRLEpisodic(GRID.space, H),
    "CUCBVI": cucbvi,
    "CUCBVI, unknown": lambda: cucbvi(baseline=sf.Baseline(GRID.baseline), patience=0.0),
    "CUCBVI, decisions": lambda: cucbvi(condition="decisions"),
    "FixedPolicy": lambda: sf.agents.FixedPolicy(sf.Policy.uniform(RIVER.space)),
}


class World:
    """What happens to an agent, the same each time: a call is taken again until it succeeds."""

    def __init__(self, agent, seed=0):
        self.agent, self.rng = agent, np.random.default_rng(seed)
        self.s, self.left, self.is_episodic = None, 0, hasattr(agent, "horizon")

    def calls(self):
        """The next calls, in order: functions without arguments."""
        if self.s is None or (self.is_episodic and not self.left):
            self.s, self.left = 0, H
            yield lambda: self.agent.begin(self.s)
        yield lambda: self.agent.act(self.s)
        a = self.agent.act(self.s).action
        mdp = GRID.mdp if self.is_episodic else RIVER.mdp
        r, s_next = mdp.draw(self.rng, mdp.space.pair(self.s, a))
        yield lambda: self.agent.observe(self.s, a, r, s_next)
        self.s, self.left = s_next, self.left - 1

    def play(self, steps):
        for _ in range(steps):
            for call in self.calls():
                call()


def undisturbed(agent, world, after):
    """The state after some more steps."""
    world.play(after)
    return agent.state_dict()


@pytest.mark.first(2)
@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize("before", [pytest.param(n, marks=pytest.mark.slow) for n in (0, 3, 30)] + [14])
def test_a_step_that_fails_anywhere_is_counted_once_or_not_at_all(name, before):
    agent = PLAYERS[name]()
    world = World(agent)
    world.play(before)
    wanted_agent, wanted_world = copy.deepcopy((agent, world))
    wanted_world.agent = wanted_agent
    wanted = undisturbed(wanted_agent, wanted_world, 6)
    refused = tried = 0
    n = 0
    while True:
        n += 1
        twin, twins_world = copy.deepcopy((agent, world))
        twins_world.agent = twin
        interrupting, hit = Interrupting(n), False
        for _ in range(6):
            for call in twins_world.calls():
                saved = twin.state_dict() if twins_world.is_episodic or getattr(twin, "begun", True) else None
                try:
                    call() if hit else interrupting.during(call)
                except Injected as error:
                    hit = True
                    refused += _went_on(twin, saved, call, error)
        assert same(twin.state_dict(), wanted), f"call {n}"
        if not hit:
            break
        tried += 1
        n += 7 if tried > 60 else 0  # later calls are those of later steps: one in eight will do
    assert tried > 20 or name == "FixedPolicy"
    assert refused < tried


def _went_on(agent, saved, call, error):
    """Take the call again; if counting was interrupted, everything is refused until a state is loaded."""
    try:
        call()
        return 0
    except SurefootedError as refusal:
        assert str(refusal) == INTERRUPTED, (error, refusal)
    for use in (lambda: agent.act(0), agent.state_dict, lambda: agent.observe(0, 0, 0.0, 0)):
        with pytest.raises(SurefootedError, match="interrupted while it counted"):
            use()
    assert saved is not None, error
    agent.load_state_dict(saved)
    call()
    return 1


@pytest.mark.parametrize("name", ["UCRL2", "induction", "decisions"])
def test_a_run_whose_first_plan_fails_has_not_begun(name, monkeypatch):
    agent = PLAYERS[name]()
    with monkeypatch.context() as broken:
        broken.setattr(agent, "next_episode", lambda: Interrupting(1).during(agent.counts.rows))
        with pytest.raises(Injected):
            agent.begin(2)
    assert not agent.begun and agent.state is None
    with pytest.raises(SurefootedError, match="has not begun"):
        agent.act(2)
    agent.begin(1)
    assert agent.begun and agent.start == agent.state == 1


@pytest.mark.parametrize("name", [name for name in PLAYERS if name != "FixedPolicy"])
def test_a_simulated_episode_whose_planning_fails_is_counted_once(name, monkeypatch):
    """As `simulate` hands episodes over; the retry hands over the same one."""
    agents, states = [PLAYERS[name](), PLAYERS[name]()], []
    for disturbed, agent in enumerate(agents):
        world, failures = World(agent), 0
        world.play(1 if world.is_episodic else 12)
        if world.is_episodic:
            world.play(H - 1)
            agent.begin(0)
            world.s = 0
        mdp, rows = (GRID if world.is_episodic else RIVER).mdp, []
        rng = np.random.default_rng(3)
        for h in range(H if world.is_episodic else 1):
            pair = mdp.space.pair(world.s, agent.act(world.s).action) if not h else mdp.space.pair_ptr[world.s]
            r, s_next = mdp.draw(rng, int(pair))
            rows.append((int(pair), r, s_next))
            world.s = s_next
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        if not world.is_episodic:
            agent.episode.left = 1  # so that planning follows
            if disturbed:
                with monkeypatch.context() as patch:
                    patch.setattr(type(agent), "next_episode", _fails)
                    with pytest.raises(Injected):
                        agent.absorb(*columns)
                    with pytest.raises(Injected):
                        agent.act(world.s)
                failures += 1
        elif agent.account is not None:
            return  # an account settles what it decided itself: `simulate` plays it
        assert agent.absorb(*columns) in (None, 1)
        states.append(agent.state_dict())
    assert same(*states)


def _fails(self):
    raise Injected("planning")


@pytest.mark.first(2)
@pytest.mark.parametrize("trusted", [None, KNOWN])
@pytest.mark.parametrize("name", ["induction", "paper", "decisions, informed", "CUCBVI"])
def test_knowledge_is_trusted_altogether_or_not_at_all(name, trusted):
    agent = PLAYERS[name]()
    World(agent).play(12)
    trusted = None if name == "CUCBVI" else trusted
    wanted, before, n, hit = copy.deepcopy(agent), agent.state_dict(), 0, True
    wanted.trust(trusted)
    while hit:
        n, hit, twin = n + 1, False, copy.deepcopy(agent)
        try:
            Interrupting(n).during(lambda twin=twin: twin.trust(trusted))
        except Injected:
            hit = True
            assert same(twin.state_dict(), before), n
            twin.trust(trusted)
        assert same(twin.state_dict(), wanted.state_dict()), n
    assert n > 5


def arms():
    return ConservativeUCB(3, alpha=0.5, baseline_mean=0.5)


def linear(pooled=True):
    return ConservativeLinearUCB(2, alpha=0.5, sigma=0.5, bound=1.0, pooled=pooled)


FEATURES = [[0.5, 0.1], [0.6, 0.3], [0.2, 0.9]]
PLAIN = {"dimension": 2, "sigma": 0.5, "bound": 1.0}


class Insists:
    """An algorithm that is not interrupted itself: it asks for arm 1, and adds up what that earned."""

    n_arms, baseline, earned = 3, 0, 0.0

    def act(self, *shown):
        return 1

    def observe(self, *outcome):
        self.earned += outcome[-1]

    def state_dict(self):
        return {"earned": self.earned}

    def load_state_dict(self, state):
        self.earned = state["earned"]


BANDITS = {
    "arms": arms,
    "linear": linear,
    "safe set": lambda: sf.bandits.SafeSetLinearUCB(alpha=0.5, **PLAIN),
    "every round": lambda: sf.bandits.StageWiseUCB(3, alpha=0.5, baseline_mean=0.5),
    "every round, linear": lambda: sf.bandits.StageWiseLinearUCB(alpha=0.5, **PLAIN),
    "any": lambda: sf.bandits.AnyBandit(3, learner=Insists(), alpha=0.5, baseline_mean=0.5, allowance=9.0),
    "any, linear": lambda: sf.bandits.AnyLinearBandit(learner=Insists(), alpha=0.5, allowance=9.0, **PLAIN),
    "sample path": lambda: sf.bandits.SamplePath(Insists(), alpha=0.5, baseline_mean=0.5, sigma=0.1, allowance=9.0),
    "reduction": lambda: sf.bandits.Reduction(Insists(), regret=np.sqrt, alpha=0.5, baseline_mean=0.5, allowance=9.0),
}


@pytest.mark.parametrize("name", BANDITS)
def test_a_round_that_fails_anywhere_is_counted_once_or_not_at_all(name):
    make, is_guard = BANDITS[name], name in ("sample path", "reduction")
    agent, rng = make(), np.random.default_rng(0)
    has_arms = not hasattr(agent, "ellipsoid")
    rounds = [float(rng.random() < 0.6) for _ in range(40)]

    def ask(agent):
        return agent.act() if has_arms else agent.act(FEATURES, 0, 0.5)

    def observe(agent, reward):
        agent.observe(ask(agent).action, reward) if has_arms else agent.observe(reward)

    for reward in rounds:
        ask(agent)
        observe(agent, reward)
    ask(agent)
    wanted = copy.deepcopy(agent)
    observe(wanted, 1.0)
    n, hit, refused = 0, True, 0
    while hit:
        n, hit, twin = n + 1, False, copy.deepcopy(agent)
        arm = twin.act().action if has_arms else None
        step = (arm, 1.0) if has_arms else (1.0,)
        try:
            Interrupting(n).during(lambda twin=twin, step=step: twin.observe(*step))
        except Injected as error:
            hit = True
            refused += _went_on(twin, agent.state_dict(), lambda twin=twin, step=step: twin.observe(*step), error)
        assert same(twin.state_dict(), wanted.state_dict()), n
    assert n > 6 and (refused < n / 2 or is_guard)  # a guard cannot know what became of its learner


USERS = {
    "UCRL2": (PLAYERS["UCRL2"], lambda agent: agent.observe(0, agent.act(0).action, 0.0, 0)),
    "decisions": (PLAYERS["decisions"], lambda agent: agent.observe(0, agent.act(0).action, 0.0, 0)),
    "FixedPolicy": (PLAYERS["FixedPolicy"], lambda agent: agent.observe(0, agent.act(0).action, 0.0, 0)),
    "UCBVI": (PLAYERS["UCBVI"], lambda agent: agent.begin(0)),
    "arms": (arms, lambda agent: agent.observe(agent.act().action, 1.0)),
    "linear": (linear, lambda agent: (agent.act(FEATURES, 0, 0.5), agent.observe(1.0))),
}


@pytest.mark.parametrize("name", USERS)
def test_a_second_thread_is_told_and_changes_nothing(name):
    """The first thread is stopped inside a call, in a place where it has changed something already or will."""
    make, use = USERS[name]
    agent, inside, go_on = make(), threading.Event(), threading.Event()
    if name in ("UCRL2", "decisions", "FixedPolicy"):
        agent.begin(0)
    plain = copy.deepcopy(agent)

    def stop(frame, event, arg):
        if (
            event == "call"
            and frame.f_code.co_filename.startswith(PACKAGE)
            and "in_use" not in frame.f_code.co_filename
        ):
            sys.settrace(None)
            inside.set()
            go_on.wait(20)

    def first():
        sys.settrace(stop)
        use(agent)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(20)
    for other in (use, lambda agent: agent.state_dict(), lambda agent: agent.load_state_dict({})):
        with pytest.raises(SurefootedError) as told:
            other(agent)
        assert str(told.value) == TWO_THREADS
    go_on.set()
    thread.join()
    use(plain)
    assert same(agent.state_dict(), plain.state_dict())
    agent.load_state_dict(plain.state_dict())  # it is free again


def test_threads_that_fight_over_an_agent_lose_no_step_and_count_none_twice():
    agent, counted, told = cucrl2(condition="decisions"), [0] * 8, set()
    agent.begin(0)

    def hammer(i):
        for _ in range(200):
            try:
                agent.observe(0, 0, 0.0, 0)  # the baseline's action, until the account pays for others
                counted[i] += 1
            except SurefootedError as error:
                told.add(str(error).splitlines()[0])

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch)
    assert agent.t == agent.counts.total == sum(counted) > 0
    assert TWO_THREADS in told and told <= {TWO_THREADS, "another action was played: 1 fault"}
    alone = cucrl2(condition="decisions")
    alone.begin(0)
    for _ in range(agent.t):
        alone.observe(0, 0, 0.0, 0)
    assert same(agent.state_dict(), alone.state_dict())


def test_a_simulation_keeps_its_agent_to_itself(monkeypatch):
    agent, told = sf.UCRL2(RIVER.space), []

    def try_it():
        with pytest.raises(SurefootedError) as error:
            agent.act(0)
        told.append(str(error.value))

    def meddle(self, *given):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        return taken(self, *given)

    taken = UCRL2Learner.learn
    monkeypatch.setattr(UCRL2Learner, "learn", meddle)
    sf.simulate(RIVER, agent, steps=20, seed=0)
    assert told and set(told) == {TWO_THREADS}
    assert agent.act(agent.state).action in (0, 1)


def on_shelf(shelf, space, ids):
    """The policies of a shelf, put together again: the pair of each state, or the pairs and weights of a random one."""
    state, first, base, weighted, pairs, weights = shelf.lists()
    for i in shelf.places(np.array(ids)):
        played = pairs[first[i] : first[i + 1]]
        if weighted[i] >= 0:
            yield played.tolist(), weights[weighted[i] : weighted[i] + played.size].tolist()
            continue
        whole = pairs[first[base[i]] : first[base[i]] + space.n_states].copy()
        whole[state[played]] = played
        yield whole.tolist()


def test_an_interrupted_shelf_holds_what_an_undisturbed_one_does():
    space, rng = sf.Space.full(12, 2), np.random.default_rng(0)
    chosen = rng.integers(2, size=12)
    policies = [sf.Policy.deterministic(space, chosen), sf.Policy.uniform(space)]
    for i in range(4):
        chosen = chosen.copy()
        chosen[i] = 1 - chosen[i]
        policies.append(sf.Policy.deterministic(space, chosen))
    wanted, n, hit = list(on_shelf(Shelf(policies, policies[0]), space, range(6))), 0, True
    assert wanted[2] == policies[2].pair.tolist() and wanted[5] == policies[5].pair.tolist()
    while hit:
        n += 1
        shelf, hit, interrupting = Shelf(policies, policies[0]), False, Interrupting(n)
        for q in range(6):
            try:
                interrupting.during(lambda of=shelf, q=q: of.places(np.array([q])))
            except Injected:
                hit = True
        assert list(on_shelf(shelf, space, range(6))) == wanted, f"call {n}"
    assert n > 20
