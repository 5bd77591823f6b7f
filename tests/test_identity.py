"""A state is loaded only by an agent that was built like the one that saved it; any other load changes nothing."""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefooted as sf
from surefooted.agents.identity import fingerprint
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.bandits import ConservativeLinearUCB, ConservativeUCB, wu
from surefooted.errors import InvalidInput
from surefooted.testing import Live, same

RIVER = sf.problems.riverswim()
GRID = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
H = 5
RATHER = sf.Policy.always(RIVER.space, 1)
ANSWER = sf.solve.gain_and_bias(RIVER.mdp, RIVER.baseline)
VALUES = sf.solve.policy_values(GRID.mdp, GRID.baseline, H)
BASELINE = sf.Baseline(RIVER.baseline, ANSWER.gain, ANSWER.bias)
GRID_BASELINE = sf.Baseline(GRID.baseline, values=VALUES)
WIDER = sf.Space.full(RIVER.space.n_states + 1, RIVER.space.n_actions)
RICHER = sf.Space.full(RIVER.space.n_states, RIVER.space.n_actions, r_max=2.0)
SPARSE = sf.Space.from_available([[True, True, False]] * 5 + [[True, False, True]])
KNOWN = sf.Knowledge(RIVER.space, rewards=RIVER.mdp.r)
KNOWN_GRID = sf.Knowledge(GRID.space, rewards=GRID.mdp.r)
BERNSTEIN = sf.confidence.bernstein


def cucrl2(space=RIVER.space, **options):
    return sf.CUCRL2(space, **({"baseline": BASELINE, "alpha": 0.3} | options))


def cucbvi(space=GRID.space, horizon=H, **options):
    return sf.CUCBVI(space, horizon, **({"baseline": GRID_BASELINE, "alpha": 0.3} | options))


def stepmix(space=GRID.space, horizon=H, **options):
    return sf.StepMix(space, horizon, **({"baseline": GRID_BASELINE, "alpha": 0.3} | options))


def epsmix(space=GRID.space, horizon=H, **options):
    return sf.EpsMix(space, horizon, **({"baseline": GRID_BASELINE, "alpha": 0.3} | options))


def arms(n_arms=3, **options):
    return ConservativeUCB(n_arms, **({"alpha": 0.3, "baseline_mean": 0.5} | options))


def linear(dimension=2, **options):
    return ConservativeLinearUCB(dimension, **({"alpha": 0.3, "sigma": 0.5, "bound": 1.0} | options))


def fixed(policy=RIVER.baseline, **options):
    return sf.agents.FixedPolicy(policy, **options)


def explorer(**options):
    return sf.agents.Explorer(UCBVILearner(GRID.space, H, **options))


MAKE = {
    "UCRL2": lambda space=RIVER.space, **options: sf.UCRL2(space, **options),
    "CUCRL2": cucrl2,
    "decisions": lambda **options: cucrl2(**({"condition": "decisions"} | options)),
    "UCBVI": lambda space=GRID.space, horizon=H, **options: sf.UCBVI(space, horizon, **options),
    "EULER": lambda horizon=H, **options: sf.EULER(GRID.space, horizon, **options),
    "CUCBVI": cucbvi,
    "StepMix": stepmix,
    "EpsMix": epsmix,
    "Explorer": explorer,
    "FixedPolicy": fixed,
    "arms": arms,
    "linear": linear,
}
LEARNERS = [
    ("delta", {"delta": 0.1}),
    ("confidence", {"confidence": BERNSTEIN}),
    ("bounded", {"bounded": False}),
]
EPISODES = [("stage", {"stage_dependent": True}), ("knowledge", {"knowledge": KNOWN_GRID})]
OTHERS = {
    "UCRL2": [
        *LEARNERS,
        ("knowledge", {"knowledge": KNOWN}),
        ("dynamic", {"dynamic": True}),
        ("states", {"space": WIDER}),
        ("r_max", {"space": RICHER}),
        ("structure", {"space": SPARSE}),
    ],
    "CUCRL2": [
        *LEARNERS,
        ("knowledge", {"knowledge": KNOWN}),
        ("alpha", {"alpha": 0.2}),
        ("gain", {"baseline": sf.Baseline(RIVER.baseline, ANSWER.gain + 0.1, ANSWER.bias)}),
        ("bias", {"baseline": sf.Baseline(RIVER.baseline, ANSWER.gain, ANSWER.bias + 0.1)}),
        ("gain", {"baseline": sf.Baseline(RIVER.baseline)}),
        ("policy", {"baseline": sf.Baseline(RATHER, ANSWER.gain, ANSWER.bias)}),
        ("condition", {"condition": "decisions"}),
        ("certificate", {"certificate": "segments"}),
        ("strict", {"strict": False}),
        ("affordable", {"affordable": False}),
        ("minimum", {"minimum": 3}),
        ("patience", {"patience": 0.5}),
        ("learner, class", {"learner": type("Other", (UCRL2Learner,), {})(RIVER.space)}),
    ],
    "decisions": [
        ("allowance", {"allowance": 1.0}),
        ("delta", {"delta": 0.1}),
        ("condition", {"condition": "replay"}),
        ("strict", {"strict": False}),
    ],
    "UCBVI": [*LEARNERS, *EPISODES, ("horizon", {"horizon": H + 1}), ("bonus", {"bonus": "freedman", "episodes": 9})],
    "EULER": [*LEARNERS, *EPISODES, ("horizon", {"horizon": H + 1})],
    "CUCBVI": [
        *LEARNERS,
        *EPISODES,
        ("alpha", {"alpha": 0.2}),
        ("values", {"baseline": sf.Baseline(GRID.baseline, values=VALUES[0])}),
        ("values", {"baseline": sf.Baseline(GRID.baseline, values=VALUES * 0.9)}),
        ("policy", {"baseline": sf.Baseline(sf.Policy.uniform(GRID.space), values=VALUES)}),
        ("learn_from", {"learn_from": "optimistic"}),
        ("reevaluate", {"reevaluate": False}),
        ("patience", {"patience": 0.5}),
        ("learner, class", {"learner": sf.EULER(GRID.space, H)}),
        ("horizon", {"horizon": H + 1, "baseline": sf.Baseline(GRID.baseline)}),
    ],
    "StepMix": [*LEARNERS, *EPISODES, ("alpha", {"alpha": 0.2}), ("tolerance", {"tolerance": 0.1})],
    "EpsMix": [*LEARNERS, *EPISODES, ("alpha", {"alpha": 0.2}), ("floor", {"floor": 0.1})],
    "Explorer": [*LEARNERS, *EPISODES],
    "FixedPolicy": [("policy", {"policy": RATHER}), ("role", {"role": "optimistic"})],
    "arms": [
        ("n_arms", {"n_arms": 4}),
        ("alpha", {"alpha": 0.2}),
        ("baseline", {"baseline": 1}),
        ("baseline_mean", {"baseline_mean": 0.4}),
        ("baseline_mean", {"baseline_mean": None}),
        ("delta", {"delta": 0.1}),
        ("confidence", {"confidence": wu}),
        ("r_max", {"r_max": 2.0}),
    ],
    "linear": [
        ("dimension", {"dimension": 3}),
        ("alpha", {"alpha": 0.2}),
        ("sigma", {"sigma": 0.6}),
        ("bound", {"bound": 2.0}),
        ("lambda_", {"lambda_": 2.0}),
        ("delta", {"delta": 0.1}),
        ("learn_from", {"learn_from": "optimistic"}),
    ],
}
PAIRS = [(name, word, options) for name, others in OTHERS.items() for word, options in others]


def played(name, rounds=40, **options):
    """An agent of that name after some steps."""
    agent = MAKE[name](**options)
    rng = np.random.default_rng(0)
    if name == "arms":
        for _ in range(rounds):
            agent.observe(agent.act().action, float(rng.random() < 0.5))
    elif name == "linear":
        for _ in range(rounds):
            agent.act(rng.random((3, agent.dimension)), 0, 0.5)
            agent.observe(float(rng.random()))
    elif agent.__dict__.get("horizon"):
        Live(agent, GRID, 0).play(rounds)
    else:
        agent.begin(0)
        space, s = (agent.policy if name == "FixedPolicy" else agent).space, 0
        for _ in range(rounds):
            s_next = int(rng.integers(space.n_states))
            agent.observe(s, agent.act(s).action, float(rng.random()), s_next)
            s = s_next
    return agent


def refused(agent, state):
    """The faults of a load, which must change nothing."""
    before, parts = pickle.dumps(agent.state_dict()), [getattr(agent, name) for name in agent.parts]
    with pytest.raises(InvalidInput) as caught:
        agent.load_state_dict(state)
    assert same(pickle.loads(before), agent.state_dict())
    assert all(getattr(agent, name) is part for name, part in zip(agent.parts, parts, strict=True))
    return caught.value


@pytest.mark.parametrize(("name", "word", "options"), PAIRS, ids=[f"{name} {word}" for name, word, _ in PAIRS])
def test_the_state_of_an_agent_with_other_arguments_is_refused(name, word, options):
    error = refused(played(name), played(name, **options).state_dict())
    assert error.what == "this state belongs to another agent"
    assert any(word in fault.partition(":")[0] for fault in error.faults)
    assert all(" in the state, " in fault and fault.endswith(" in this agent") for fault in error.faults)


def test_each_difference_is_named_with_both_values():
    other = played("CUCRL2", alpha=0.2, delta=0.1, certificate="segments").state_dict()
    assert refused(played("CUCRL2"), other).faults == (
        "learner, delta: 0.09 in the state, 0.045 in this agent",
        "alpha: 0.2 in the state, 0.3 in this agent",
        "certificate: segments in the state, induction in this agent",
        "delta: 0.1 in the state, 0.05 in this agent",
    )


@pytest.mark.parametrize("name", MAKE)
def test_a_state_is_loaded_by_an_agent_that_was_built_alike(name):
    first, second = played(name), played(name, 12)
    parts = [getattr(second, part) for part in second.parts]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert second.load_state_dict(state) is second
    assert same(second.state_dict(), first.state_dict()) and same(state, first.state_dict())
    assert all(getattr(second, part) is held for part, held in zip(second.parts, parts, strict=True))


@pytest.mark.parametrize("name", MAKE)
def test_the_identity_is_plain_and_says_the_version(name):
    identity = played(name).state_dict()["identity"]
    assert all(isinstance(value, bool | int | float | str | None) for value in identity.values())
    assert identity["surefooted"] == sf.__version__ and identity["format"] == 2
    assert identity["agent"] == type(MAKE[name]()).__name__


@pytest.mark.parametrize("name", MAKE)
def test_states_of_other_kinds_versions_and_garbage_are_refused(name):
    agent = played(name)
    state = agent.state_dict()
    for garbage in (None, 3, "state", [state], {}, {"identity": {}}, {"identity": 3, "checksum": ""}):
        refused(agent, garbage)
    for other in MAKE:
        if other != name:
            refused(agent, played(other, 7).state_dict())
    later = state | {"identity": state["identity"] | {"format": 3}}
    assert refused(agent, later).faults == ("format: 3 in the state, 2 in this agent",)
    for key in state:
        refused(agent, {other: value for other, value in state.items() if other != key})
    refused(agent, state | {"another": 1})


def leaves(value, path=()):
    """Every place in a state at which something stands."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))


def damaged(state, path, junk):
    """A copy of the state with something else at one place."""
    state = pickle.loads(pickle.dumps(state))
    if not path:
        return junk
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    if isinstance(old, np.ndarray) and old.size and isinstance(junk, int) and old.dtype.kind in "if":
        old = old.copy()
        old.flat[junk % old.size] += 1
        inner[path[-1]] = old
    else:
        inner[path[-1]] = junk
    return state


JUNK = st.one_of(
    st.none(),
    st.integers(-3, 10**6),
    st.floats(),
    st.text(max_size=3),
    st.builds(dict),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([np.zeros(0), np.zeros((2, 2)), np.array([None]), object(), len, float]),
)


@cache
def saved(name):
    """An agent after some steps, and its state. Not made on import: every process of the tests would compile all."""
    agent = played(name)
    return agent, agent.state_dict()


@pytest.mark.parametrize("name", MAKE)
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_state_is_refused_or_is_the_same_state(name, data):
    agent, state = saved(name)
    path = data.draw(st.sampled_from(list(leaves(state))))
    other = damaged(state, path, data.draw(JUNK))
    try:
        agent.load_state_dict(other)
    except InvalidInput:
        pass
    assert same(agent.state_dict(), state)


def test_a_state_that_cannot_be_restored_changes_nothing(monkeypatch):
    """Even if the checksum is right: another learner may save something that it cannot load."""
    for name in MAKE:
        agent = played(name)
        state = agent.state_dict()
        monkeypatch.setattr(type(agent), "_restore", lambda self, state: {}["missing"])
        assert "KeyError" in refused(agent, state).faults[0]
        monkeypatch.undo()


def test_a_load_that_fails_halfway_leaves_the_learner_alone(monkeypatch):
    agent, other = played("CUCRL2"), played("CUCRL2", 10)
    monkeypatch.setattr("surefooted.agents.effort.Effort.__init__", lambda self, **state: {}["missing"])
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        agent.load_state_dict(other.state_dict())
    monkeypatch.undo()
    assert agent.t == 40 and agent.counts.total == 40 and agent.counts is agent.learner.counts


def test_values_that_differ_in_anything_have_other_checksums():
    zeros = np.zeros(6)
    alike = [zeros, zeros.reshape(2, 3), zeros.reshape(3, 2), np.zeros(6, dtype=np.int64), zeros.tobytes(), [0.0] * 6]
    alike += [(0.0,) * 6, 0, 0.0, False, None, "", "0", {}, [], {"a": 0}, {"a": 0.0}, np.ones(6)]
    assert len({fingerprint(value) for value in alike}) == len(alike)
    assert fingerprint(np.float64(0.5)) == fingerprint(0.5)


def test_what_was_observed_survives_other_arguments():
    """The hint of the error: counts can be merged."""
    old, new = played("CUCRL2"), cucrl2(alpha=0.2)
    assert "counts.merge" in refused(played("CUCRL2", alpha=0.2), old.state_dict()).hint
    new.counts.merge(old.counts)
    assert new.counts.total == 40


def test_copies_of_an_agent_do_not_share_their_future():
    first = played("CUCBVI")
    state, second = first.state_dict(), played("CUCBVI", 3)
    second.load_state_dict(state)
    before = copy.deepcopy(first.state_dict())
    Live(second, GRID, 3).play(2 * H)
    assert same(first.state_dict(), before) and same(state, before)
