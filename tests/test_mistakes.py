"""Mistakes that people make: each is refused where it is made, with what to do instead."""

import pytest

import surefooted as sf
from surefooted.errors import InvalidInput, did_you_mean
from surefooted.studies.building import check

PROBLEM = sf.problems.riverswim()
SPACE, POLICY = PROBLEM.space, PROBLEM.baseline
BASELINE = sf.Baseline(POLICY)
GRID = sf.problems.gridworld()


def study(**changes):
    raw = {"name": "s", "steps": 10, "problem": "riverswim", "agents": {"a": {"kind": "CUCRL2"}}}
    return raw | changes


MISTAKES = {
    "a policy as baseline": (lambda: sf.CUCRL2(SPACE, baseline=POLICY, alpha=0.1), "sf.Baseline(policy)"),
    "a policy as baseline of episodes": (
        lambda: sf.CUCBVI(GRID.space, 10, baseline=GRID.baseline, alpha=0.1),
        "sf.Baseline(policy)",
    ),
    "actions as baseline": (lambda: sf.Baseline([0, 0]), "sf.Policy.deterministic(space, [0, 0])"),
    "a percentage as alpha": (lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha="5%"), "write alpha=0.05"),
    "a percentage of episodes": (
        lambda: sf.CUCBVI(GRID.space, 10, baseline=sf.Baseline(GRID.baseline), alpha="5 %"),
        "write alpha=0.05",
    ),
    "a percentage for a bandit": (lambda: sf.bandits.ConservativeUCB(2, alpha="10%"), "write alpha=0.1"),
    "a whole percentage": (lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha=5), "for 5 % write alpha=0.05"),
    "a number as text for a state": (lambda: sf.UCRL2(SPACE).begin("4"), "give the number 4"),
    "a name for a state": (
        lambda: sf.UCRL2(sf.Space.full(2, 2, states=["fine", "worn"])).begin("worn"),
        "give the number 1",
    ),
    "a misspelt confidence": (lambda: sf.UCRL2(SPACE, confidence="bernstien"), "Did you mean 'bernstein'?"),
    "a misspelt confidence of a bandit": (
        lambda: sf.bandits.ConservativeUCB(2, alpha=0.1, confidence="likelyhood"),
        "Did you mean 'likelihood'?",
    ),
    "an environment as its model": (lambda: sf.gym.table(sf.gym.TabularEnv(PROBLEM)), "sf.gym.Bridge(env)"),
    "a list of deltas": (
        lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha=0.1, delta=[0.05, 0.1]),
        "delta [0.05, 0.1] must be one number",
    ),
    "a list of deltas in a study": (
        lambda: check(sf.studies.parse(study(agents={"a": {"kind": "CUCRL2", "delta": [0.05, 0.1]}}))),
        "agents.a: delta [0.05, 0.1] must be one number",
    ),
    "a misspelt key of a study": (lambda: sf.studies.parse(study(stepz=10)), "stepz: there is no such key"),
    "a misspelt argument of an agent": (
        lambda: check(sf.studies.parse(study(agents={"a": {"kind": "CUCRL2", "allowence": 3.0}}))),
        "Did you mean 'allowance'?",
    ),
    "a reward in euros": (lambda: observed(12.4), "rewards=(low, high)"),
    "a table in euros": (lambda: sf.TabularMDP.from_pairs({(0, 0): (12.4, {0: 1.0})}), "rewards=(low, high)"),
    "counts in euros": (lambda: sf.Counts(SPACE).add(0, 0, 12.4, 0), "rewards=(low, high)"),
}


def observed(reward):
    agent = sf.UCRL2(SPACE)
    agent.begin(0)
    agent.observe(0, agent.act(0).action, reward, 0)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_remedy(mistake):
    make, remedy = MISTAKES[mistake]
    with pytest.raises(InvalidInput) as caught:
        make()
    assert remedy in str(caught.value)


def test_the_model_of_an_environment_is_named_if_there_is_one():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(InvalidInput, match=r"sf.gym.table\(env.unwrapped.P\)"):
        sf.gym.table(gymnasium.make("FrozenLake-v1"))


def test_a_key_that_is_close_is_suggested_and_another_is_not():
    with pytest.raises(InvalidInput, match=r"Did you mean 'steps'\?"):
        sf.studies.parse(study(stepz=10))
    assert did_you_mean("stepz", ["steps", "seed"]) == " Did you mean 'steps'?"
    assert did_you_mean("colour", ["steps", "seed"]) == ""


@pytest.mark.parametrize("name", ["hoeffding", "hoeffding_paper", "simplified_bernstein", "bernstein", "likelihood"])
def test_confidence_may_be_a_name_everywhere(name):
    function = getattr(sf.confidence, name)
    assert sf.UCRL2(SPACE, confidence=name).learner.confidence is function
    assert sf.CUCRL2(SPACE, baseline=BASELINE, alpha=0.1, confidence=name).learner.confidence is function
    assert sf.UCBVI(GRID.space, 10, confidence=name).learner.confidence is function
    assert sf.PSRL(SPACE, confidence=name).learner.confidence is function
    assert sf.bandits.ConservativeUCB(2, alpha=0.1, confidence=name).confidence is function
