"""Agents in files: every agent is saved and continues exactly, and what differs from the agent that loads is named.

`tests/states/` holds files of the first version that wrote them. They must load for ever: never write them again.
"""

import inspect
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import surefooted as sf
from surefooted import codec
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.identity import Restorable, identity
from surefooted.agents.learner import Learner
from surefooted.agents.psrl import PSRLEpisodicLearner, PSRLLearner
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.bandits import wu
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.testing import same

HERE = Path(__file__).parent / "states"
SPACE = sf.Space.full(2, 2)
OTHER_SPACE = sf.Space.full(2, 2, r_max=2.0)
TODAY, OTHER = sf.Policy.deterministic(SPACE, [0, 0]), sf.Policy.deterministic(SPACE, [1, 0])
H = 3
DECLARED = sf.Baseline(TODAY, 0.4, np.array([1.0, 0.0]))
VALUES = sf.Baseline(TODAY, values=np.array([[1.2, 1.0], [0.8, 0.7], [0.4, 0.3], [0.0, 0.0]]))
KNOWN = sf.Knowledge(SPACE, rewards=[0.1, 0.2, 0.3, 0.4])
FEATURES = [[0.5, 0.1], [0.6, 0.3]]


def average(kind, **more):
    return lambda **options: kind(options.pop("space", SPACE), **({} | more | options))


def episodes(kind, **more):
    return lambda **options: kind(options.pop("space", SPACE), options.pop("horizon", H), **({} | more | options))


REPLAY = {"baseline": DECLARED, "alpha": 0.3}
PER_EPISODE = {"baseline": VALUES, "alpha": 0.3}
ARMS = {"n_arms": 2, "alpha": 0.3, "baseline_mean": 0.5}
SHOP = {"dimension": 2, "alpha": 0.3, "sigma": 0.5, "bound": 1.0}


def UCB():
    """An algorithm."""
    return sf.bandits.ConservativeUCB(2, alpha=1.0)


def LINEAR_UCB():
    """One with features."""
    return sf.bandits.ConservativeLinearUCB(**SHOP | {"alpha": 1.0})


def GUARDED():
    """Arguments of a guard."""
    return {"learner": UCB(), "alpha": 0.3, "baseline_mean": 0.5}


AGENTS = {
    "UCRL2": (sf.UCRL2, average(sf.UCRL2)),
    "PSRL": (sf.PSRL, average(sf.PSRL)),
    "QLearning": (sf.QLearning, average(sf.QLearning, steps=50, span=1.0)),
    "CUCRL2": (sf.CUCRL2, average(sf.CUCRL2, **REPLAY)),
    "CUCRL2, unknown": (sf.CUCRL2, average(sf.CUCRL2, baseline=sf.Baseline(TODAY), alpha=0.3)),
    "CUCRL2, paper": (sf.CUCRL2, average(sf.CUCRL2, **REPLAY, certificate="paper", affordable=False)),
    "CUCRL2, decisions": (sf.CUCRL2, average(sf.CUCRL2, **REPLAY, condition="decisions")),
    "CUCRL2, span": (
        sf.CUCRL2,
        average(sf.CUCRL2, baseline=sf.Baseline(TODAY, span=1.5), alpha=0.3, condition="decisions", allowance=9.0),
    ),
    "UCBVI": (sf.UCBVI, episodes(sf.UCBVI)),
    "UCBVI, freedman": (sf.UCBVI, episodes(sf.UCBVI, bonus="freedman", episodes=50)),
    "EULER": (sf.EULER, episodes(sf.EULER)),
    "PSRLEpisodic": (sf.agents.PSRLEpisodic, episodes(sf.agents.PSRLEpisodic)),
    "CUCBVI": (sf.CUCBVI, episodes(sf.CUCBVI, **PER_EPISODE)),
    "CUCBVI, decisions": (sf.CUCBVI, episodes(sf.CUCBVI, **PER_EPISODE, condition="decisions")),
    "StepMix": (sf.StepMix, episodes(sf.StepMix, **PER_EPISODE)),
    "EpsMix": (sf.EpsMix, episodes(sf.EpsMix, **PER_EPISODE)),
    "Explorer": (
        sf.agents.Explorer,
        lambda learner=None, **o: sf.agents.Explorer(learner or UCBVILearner(SPACE, H), **o),
    ),
    "AverageExplorer": (
        sf.agents.AverageExplorer,
        lambda learner=None, **o: sf.agents.AverageExplorer(learner or UCRL2Learner(SPACE), **o),
    ),
    "FixedPolicy": (sf.agents.FixedPolicy, lambda policy=TODAY, **o: sf.agents.FixedPolicy(policy, **o)),
    "ConservativeUCB": (
        sf.bandits.ConservativeUCB,
        lambda **o: sf.bandits.ConservativeUCB(**({"n_arms": 2, "alpha": 0.3, "baseline_mean": 0.5} | o)),
    ),
    "ConservativeLinearUCB": (
        sf.bandits.ConservativeLinearUCB,
        lambda **o: sf.bandits.ConservativeLinearUCB(
            **({"dimension": 2, "alpha": 0.3, "sigma": 0.5, "bound": 1.0, "pooled": True} | o)
        ),
    ),
    "SafeSetUCB": (sf.bandits.SafeSetUCB, lambda **o: sf.bandits.SafeSetUCB(**(ARMS | o))),
    "SafeSetLinearUCB": (sf.bandits.SafeSetLinearUCB, lambda **o: sf.bandits.SafeSetLinearUCB(**(SHOP | o))),
    "StageWiseUCB": (sf.bandits.StageWiseUCB, lambda **o: sf.bandits.StageWiseUCB(**(ARMS | o))),
    "StageWiseLinearUCB": (sf.bandits.StageWiseLinearUCB, lambda **o: sf.bandits.StageWiseLinearUCB(**(SHOP | o))),
    "AnyBandit": (sf.bandits.AnyBandit, lambda **o: sf.bandits.AnyBandit(**({"learner": UCB()} | ARMS | o))),
    "AnyLinearBandit": (
        sf.bandits.AnyLinearBandit,
        lambda **o: sf.bandits.AnyLinearBandit(**({"learner": LINEAR_UCB(), "pooled": True} | SHOP | o)),
    ),
    "SamplePath": (sf.bandits.SamplePath, lambda **o: sf.bandits.SamplePath(**(GUARDED() | {"sigma": 0.5} | o))),
    "Reduction": (sf.bandits.Reduction, lambda **o: sf.bandits.Reduction(**(GUARDED() | {"regret": np.sqrt} | o))),
}
ARMED = ("ConservativeUCB", "SafeSetUCB", "StageWiseUCB", "SamplePath", "Reduction", "AnyBandit")
FEATURED = ("ConservativeLinearUCB", "SafeSetLinearUCB", "StageWiseLinearUCB", "AnyLinearBandit")
LEARNERS = {
    "UCRL2Learner": (UCRL2Learner, average(UCRL2Learner)),
    "PSRLLearner": (PSRLLearner, average(PSRLLearner)),
    "UCBVILearner": (UCBVILearner, episodes(UCBVILearner, bonus="freedman", episodes=50)),
    "PSRLEpisodicLearner": (PSRLEpisodicLearner, episodes(PSRLEpisodicLearner)),
}
ALL = AGENTS | LEARNERS


def played(name, rounds=4 * H, make=None):
    """An agent of that name after some steps."""
    agent, rng = (make or ALL[name][1])(), np.random.default_rng(0)
    if name in ARMED:
        for _ in range(rounds):
            agent.observe(agent.act().action, float(rng.random() < 0.5))
    elif name in FEATURED:
        for _ in range(rounds):
            agent.act(FEATURES, 0, 0.5)
            agent.observe(float(rng.random()))
        agent.act(FEATURES, 0, 0.5)  # a round that was asked for and not observed
    elif isinstance(agent, Learner):
        steps = (rng.integers(4, size=H), rng.random(H), rng.integers(2, size=H))
        for _ in range(rounds // H):
            agent.learn(*steps)
    else:
        s = 0
        for i in range(rounds - 1):  # episodes end in the middle
            if i == 0 or (hasattr(agent, "horizon") and i % H == 0):
                agent.begin(s)
            s_next = int(rng.integers(2))
            agent.observe(s, agent.act(s).action, float(rng.random()), s_next)
            s = s_next
    return agent


@pytest.mark.parametrize("name", ALL)
def test_a_saved_agent_continues_exactly(name, tmp_path):
    first, second = played(name), played(name, 2 * H)
    first.save(tmp_path / "agent.state")
    assert second.load(tmp_path / "agent.state") is second
    assert same(second.state_dict(), first.state_dict())
    assert [file.name for file in tmp_path.iterdir()] == ["agent.state"]
    if not isinstance(first, Learner) and name not in ARMED + FEATURED:
        for agent in (first, second):
            s = agent.state
            for _ in range(3 * H):
                if getattr(agent, "h", 0) == H:
                    agent.begin(s)
                a = agent.act(s).action
                agent.observe(s, a, 0.5, 1 - s)
                s = 1 - s
        assert same(second.state_dict(), first.state_dict())


def test_loading_in_the_middle_of_a_long_run_keeps_the_space_once(tmp_path):
    problem = sf.problems.riverswim()
    agents = [sf.UCRL2(problem.space) for _ in range(2)]
    sf.simulate(problem, agents[0], 2_000, seed=1)
    agents[0].save(tmp_path / "a")
    agents[1].load(tmp_path / "a")
    assert all(policy.space is problem.space for policy in agents[1].policies)
    assert same(agents[0].state_dict(), agents[1].state_dict())


def test_knowledge_that_was_trusted_later_is_saved_with_the_state(tmp_path):
    drift = sf.Mechanics.of(SPACE, lambda s, a, xi: (s + a + xi) % 2, 2, reward=lambda s, a, xi: 0.5 * xi)
    for knowledge in (
        KNOWN,
        sf.Knowledge(SPACE, reward_bounds=(0.0, 0.9), successors={(0, 0): [0, 1], (1, 1): [1]}),
        sf.Knowledge(SPACE, reward_function=lambda s, a, y: 0.1 * y, successors={(0, 0): [1]}),
        sf.Knowledge(SPACE, mechanics=drift),
    ):
        first = played("CUCRL2")
        first.trust(knowledge)
        first.save(tmp_path / "a")
        second = AGENTS["CUCRL2"][1]().load(tmp_path / "a")
        assert codec.payload(second.state_dict()) == codec.payload(first.state_dict())
        names = ("reward_mean", "reward_low", "reward_high", "successor_ptr", "successor_state", "reward_of_next")
        mine, theirs = first.learner.belief.knowledge.declared, second.learner.belief.knowledge.declared
        assert all(same(getattr(mine, name), getattr(theirs, name)) for name in names)
        assert same(first.learner.plausible().p_upper, second.learner.plausible().p_upper)
        for agent in (first, second):
            a = agent.act(agent.state).action
            agent.observe(agent.state, a, 0.5, 0)
        assert codec.payload(second.state_dict()) == codec.payload(first.state_dict())


# every argument of every constructor: found by its signature, changed, and named by the error

SPECIFIC = {
    "space": [OTHER_SPACE],
    "confidence": [sf.confidence.bernstein, wu],
    "knowledge": [KNOWN],
    "baseline": [sf.Baseline(OTHER, 0.4, np.array([1.0, 0.0])), sf.Baseline(OTHER), 1],
    "policy": [OTHER],
    "learner": [
        *(UCRL2Learner(SPACE, delta=0.2), UCBVILearner(SPACE, H, delta=0.2)),
        sf.bandits.ConservativeUCB(2, alpha=1.0, delta=0.2),
        sf.bandits.ConservativeLinearUCB(**SHOP, delta=0.2),
    ],
    "regret": [np.log],
    "condition": ["replay", "decisions"],
    "certificate": ["segments", "paper"],
    "bonus": ["hoeffding", "boxes"],
    "episodes": [60],
    "role": ["optimistic"],
    "learn_from": ["optimistic"],
    "horizon": [H + 1],
    "rewards": [(-1.0, 1.0)],
    "unit": ["€"],
}
GENERIC = [0.017, 0.6, 2.0, 3, 7, True, False, None, 0.0]
TOGETHER = {  # what can only be changed with something else
    "space": {"baseline": sf.Baseline(sf.Policy.always(OTHER_SPACE, 0))},
    "horizon": {"baseline": sf.Baseline(TODAY)},
    "bonus": {"episodes": 50},
    "episodes": {"bonus": "freedman"},
}
# `seed` is no argument of a proof, and the random numbers themselves are in the state; `stages` is `stage_dependent`


HELD = {sf.UCRL2: UCRL2Learner, sf.CUCRL2: UCRL2Learner, sf.PSRL: PSRLLearner, sf.UCBVI: UCBVILearner}
HELD |= {
    sf.bandits.SafeSetUCB: sf.bandits.ConservativeUCB,
    sf.bandits.AnyBandit: sf.bandits.ConservativeUCB,
    sf.bandits.AnyLinearBandit: sf.bandits.ConservativeLinearUCB,
    sf.bandits.SafeSetLinearUCB: sf.bandits.ConservativeLinearUCB,
}
HELD |= {sf.CUCBVI: UCBVILearner, sf.EULER: EpisodicLearner, sf.agents.PSRLEpisodic: PSRLEpisodicLearner}


def arguments_of(kind):
    """The names of the arguments of a constructor, and of those that it passes its `options` on to."""
    found = set()
    for at in [kind, *(kind.__mro__[1:] if issubclass(kind, Learner) else ())]:
        parameters = inspect.signature(at.__init__).parameters.values() if "__init__" in at.__dict__ else ()
        found |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    return sorted((found | set(arguments_of(HELD[kind]) if kind in HELD else ())) - {"self", "stages", "seed"})


@cache
def made(name):
    """The state of an agent after some steps, and the identity of a new one."""
    return played(name).state_dict(), identity(ALL[name][1]())


CHANGES = [(name, argument) for name in ALL for argument in arguments_of(ALL[name][0])]


@pytest.mark.parametrize(("name", "argument"), CHANGES, ids=[f"{name}: {argument}" for name, argument in CHANGES])
def test_every_argument_is_in_the_identity(name, argument):
    """Whatever can be changed is noticed, or has no effect in this agent, and then another one of its kind notices."""
    kind = ALL[name][0]
    relatives = [other for other in ALL if ALL[other][0] is kind]
    noticed = []
    for relative in relatives:
        make = ALL[relative][1]
        state, own = made(relative)
        values = [{argument: value} for value in [*SPECIFIC.get(argument, []), *GENERIC]]
        for options in values + [one | TOGETHER[argument] for one in values if argument in TOGETHER]:
            try:
                changed = make(**options)
                differs = identity(changed) != own
            except (SurefootedError, TypeError, AttributeError, ValueError):
                continue  # no such agent
            if differs:
                with pytest.raises(InvalidInput, match="belongs to another agent"):
                    changed.load_state_dict(state)
                noticed.append(options)
    assert noticed, f"{argument} can be changed without being noticed"


def test_there_is_no_other_public_agent():
    named = {kind for kind, _ in AGENTS.values()}
    public = [getattr(room, name) for room in (sf, sf.agents, sf.bandits) for name in dir(room)]
    found = {value for value in public if isinstance(value, type) and issubclass(value, Restorable)}
    bases = {kind for kind in found if inspect.isabstract(kind)} | {kind for kind in found if issubclass(kind, Learner)}
    assert found - bases <= named, found - bases - named


def test_what_differs_is_named(tmp_path):
    played("CUCRL2").save(tmp_path / "a")
    other = sf.CUCRL2(SPACE, baseline=DECLARED, alpha=0.2, delta=0.1)
    with pytest.raises(InvalidInput) as told:
        other.load(tmp_path / "a")
    assert "alpha: 0.3 in the state, 0.2 in this agent" in told.value.faults


def test_files_that_are_none_say_so_and_change_nothing(tmp_path):
    agent = played("CUCRL2, decisions")
    agent.save(tmp_path / "a")
    before, whole = agent.state_dict(), (tmp_path / "a").read_bytes()
    with pytest.raises(UnreadableFile, match="cannot be read"):
        agent.load(tmp_path / "none")
    with pytest.raises(UnreadableFile, match="cannot be read"):
        agent.load(tmp_path)
    rng = np.random.default_rng(0)
    for i in [*range(0, 150), *rng.integers(len(whole), size=250).tolist()]:
        for damaged in (whole[:i], whole[:i] + bytes([whole[i] ^ (1 << int(rng.integers(8)))]) + whole[i + 1 :]):
            (tmp_path / "b").write_bytes(damaged)
            with pytest.raises(UnreadableFile, match="b: this"):
                agent.load(tmp_path / "b")
    for other in (3, [], {}, {"identity": {}}, before | {"identity": 3}, before | {"t": 4}, before | {"more": 1}):
        (tmp_path / "b").write_bytes(codec.encode(other))
        with pytest.raises(InvalidInput):
            agent.load(tmp_path / "b")
    assert same(agent.state_dict(), before)


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    agent = played("UCRL2")
    agent.save(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    agent.observe(agent.state, agent.act(agent.state).action, 0.5, 0)
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        agent.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("file", sorted(HERE.glob("*.state")), ids=lambda file: file.stem)
def test_files_of_the_first_version_load_for_ever(file):
    name = file.stem.replace(" ", ", ")
    agent, again = AGENTS[name][1](), played(name)
    agent.load(file)
    assert same(agent._contents(), again._contents())


def test_a_state_can_be_read_years_from_now():
    assert len(list(HERE.glob("*.state"))) == len(AGENTS)


if __name__ == "__main__":  # writes the files that are missing; existing ones stay
    HERE.mkdir(exist_ok=True)
    for name in AGENTS:
        path = HERE / f"{name.replace(', ', ' ')}.state"
        if not path.exists():
            played(name).save(path)
            print(path.name, path.stat().st_size)


@pytest.mark.parametrize("low, high", [(-102.0, 181.0), (-400.1, 181.7), (0.1, 0.7), (5.0, 10.0)])
def test_knowledge_in_a_unit_of_its_own_is_the_same_after_loading(low, high):
    space, rng = sf.Space.full(3, 2, rewards=(low, high)), np.random.default_rng(0)
    mean = rng.uniform(low, high, size=(3, 2))
    mean[0, 0], mean[1, 1] = low, high
    ends = low + (high - low) * np.sort(rng.random((2, 3, 2)), axis=0)

    def successors(s, a):
        return [s, (s + 1) % 3]

    for known in (
        sf.Knowledge(space, rewards=mean),
        sf.Knowledge(space, reward_bounds=(ends[0], ends[1])),
        sf.Knowledge(space, reward_function=lambda s, a, y: float(mean[y, a]), successors=successors),
    ):
        again = codec.decode(codec.encode({"knowledge": known}))["knowledge"]
        for name in ("reward_mean", "reward_low", "reward_high", "reward_of_next"):
            mine, theirs = getattr(known.declared, name), getattr(again.declared, name)
            assert (mine is None and theirs is None) or np.array_equal(mine, theirs)
