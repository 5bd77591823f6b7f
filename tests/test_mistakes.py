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
    "a misspelt condition": (
        lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha=0.1, condition="decision"),
        "Did you mean 'decisions'?",
    ),
    "a misspelt condition of episodes": (
        lambda: sf.CUCBVI(GRID.space, 10, baseline=sf.Baseline(GRID.baseline), alpha=0.1, condition="reply"),
        "Did you mean 'replay'?",
    ),
    "a misspelt certificate": (
        lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha=0.1, certificate="inducton"),
        "Did you mean 'induction'?",
    ),
    "a misspelt argument": (
        lambda: sf.CUCRL2(SPACE, baseline=BASELINE, alpha=0.1, tolerence=3.0),
        "there is no argument 'tolerence'. Did you mean 'tolerance'?",
    ),
    "a misspelt argument of episodes": (
        lambda: sf.CUCBVI(GRID.space, 10, baseline=sf.Baseline(GRID.baseline), alpha=0.1, bonos="boxes"),
        "Did you mean 'bonus'?",
    ),
    "a misspelt argument of UCRL2": (lambda: sf.UCRL2(SPACE, knowlege=None), "Did you mean 'knowledge'?"),
    "a misspelt argument of PSRL": (lambda: sf.PSRL(SPACE, dleta=0.1), "Did you mean 'delta'?"),
    "a misspelt argument of UCBVI": (lambda: sf.UCBVI(GRID.space, 10, dleta=0.1), "Did you mean 'delta'?"),
    "a misspelt argument of EULER": (lambda: sf.EULER(GRID.space, 10, dleta=0.1), "Did you mean 'delta'?"),
    "a problem as space": (lambda: sf.CUCRL2(PROBLEM, baseline=BASELINE, alpha=0.1), "Give its space."),
    "a problem as space of a learner": (lambda: sf.UCRL2(PROBLEM), "Give its space."),
    "a problem as space of episodes": (
        lambda: sf.CUCBVI(GRID, 10, baseline=sf.Baseline(GRID.baseline), alpha=0.1),
        "Give its space.",
    ),
    "a problem as space of a log": (lambda: sf.read_history([], PROBLEM), "Give its space."),
    "a log and a space the wrong way round": (lambda: sf.read_history(SPACE, "log.csv"), "sf.Space.full("),
    "a problem as space of knowledge": (lambda: sf.Knowledge(PROBLEM), "Give its space."),
    "actions and a space the wrong way round": (lambda: sf.Policy.deterministic([0], SPACE), "sf.Space.full("),
    "a list as space of a policy": (lambda: sf.Policy.randomised([[1.0]], SPACE), "sf.Space.full("),
    "a number as space of a policy": (lambda: sf.Policy.always(2, SPACE), "sf.Space.full("),
    "nothing as space of a policy": (lambda: sf.Policy.uniform(None), "sf.Space.full("),
    "a list as space of mechanics": (lambda: sf.Mechanics.of([0], max, sizes=2), "sf.Space.full("),
    "a text for how many states": (lambda: sf.Space.full("2", 2), "give a whole number"),
    "names for actions": (
        lambda: sf.Policy.deterministic(sf.Space.full(2, 2, actions=["run", "repair"]), ["run", "run"]),
        "they stand for 0 'run', 1 'repair'",
    ),
    "a mapping for actions": (lambda: sf.Policy.deterministic(SPACE, {0: 1}), "the number of an action for each"),
    "a gain with its unit": (lambda: sf.Baseline(POLICY, "40 €", [0] * 6), "gain '40 €' must be a number"),
    "a text as span": (lambda: sf.Baseline(POLICY, span="3"), "span '3' must be a number"),
    "a mapping as bias": (lambda: sf.Baseline(POLICY, 0.4, {0: 1.0}), "bias must be numbers"),
    "a file as history": (lambda: sf.Baseline.from_history("log.csv"), "sf.read_history(log, space)"),
    "rows as history": (lambda: sf.Baseline.from_history([{"state": 0}], POLICY), "sf.read_history(log, space)"),
    "a policy to be estimated": (lambda: sf.estimate_baseline(POLICY), "sf.Baseline(policy)"),
    "a mapping as knowledge": (lambda: sf.UCRL2(SPACE, knowledge={"rewards": 1}), "sf.Knowledge(space"),
    "a formula as mechanics": (lambda: sf.Mechanics.of(SPACE, "s + a", sizes=2), "lambda s, a, xi"),
    "mechanics that leave the states": (lambda: sf.Mechanics.of(SPACE, lambda s, a, x: s + 9, sizes=2), "min(max("),
    "a reward as text": (lambda: observed("12,50"), "reward '12,50' is a text"),
    "a list of columns": (lambda: sf.read_history([], SPACE, columns=["stock"]), "columns ['stock']: say what each"),
    "a list of bins": (lambda: sf.read_history([], SPACE, bins=[0, 5]), "bins [0, 5]: say what they are bins of"),
    "a problem to be solved": (lambda: sf.solve.gain_and_bias(PROBLEM, POLICY), "give problem.mdp"),
    "actions to be solved": (lambda: sf.solve.gain_and_bias(PROBLEM.mdp, [0] * 6), "sf.Policy.deterministic("),
    "a run and a problem the wrong way round": (
        lambda: sf.evaluate(PROBLEM, sf.simulate(PROBLEM, sf.UCRL2(SPACE), 2), 0.1),
        "give what sf.simulate returned",
    ),
    "an agent to be forecast": (lambda: sf.forecast(sf.UCRL2(SPACE)), "give a Problem"),
    "a percentage to be forecast": (lambda: sf.forecast(PROBLEM, alpha="5%"), "write alpha=0.05"),
    "one number to be compared": (lambda: sf.forecast(PROBLEM, alphas=0.1, steps=20), "alphas 0.1 must be a list"),
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
