"""Who proposes for an advisor: learners of the package, learners of one's own, and clear refusals."""

import sys
from pathlib import Path

import pytest

import surefooted as sf
from live_help import deployed, known, replayed, shop, state_of
from test_live_cli import MACHINE, run, said

CODE = """
import numpy as np
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.planning import Plan
from surefooted.tables.policy import Policy

class Last(UCRL2Learner):
    '''Proposes the last action of every state.'''

    def __init__(self, space, *, seed=0, **options):
        super().__init__(space, **options)
        self.seed = seed

    def arguments(self):
        return super().arguments() | {"seed": self.seed}

    def propose(self, plausible, t):
        policy = Policy.deterministic(self.space, [int(self.space.actions(s)[-1]) for s in range(self.space.n_states)])
        return Plan(policy, 0.0, 1.0, np.zeros(self.space.n_states), 1, True)

class Fails(UCRL2Learner):
    def __init__(self, space, **options):
        raise RuntimeError("no such thing")

class Other:
    pass
"""


@pytest.fixture
def own(place, monkeypatch):
    monkeypatch.chdir(place)
    (place / "my_learners.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(place))
    yield place
    sys.modules.pop("my_learners", None)


def test_an_own_learner_proposes_if_its_code_is_allowed(own):
    _, advisor = deployed(own / "x.db", learner="my_learners:Last", allow_code=True, allowance=100.0, seed=7)
    space, s = advisor.space, 2
    asked = []
    for i in range(30):
        decision = advisor.ask("a", s, key=str(i))
        asked.append(decision)
        advisor.tell(decision, reward=0.5, next_state=s)
    explored = [decision for decision in asked if decision.departs]
    assert explored and all(decision.action == space.actions(s)[-1] for decision in explored)
    assert advisor.machine().fleet.learner.seed == 7
    advisor.snapshot()
    fresh = sf.live.open(own / "x.db")
    assert state_of(fresh.deployment("shop", allow_code=True)) == state_of(advisor)
    assert fresh.verify(allow_code=True).is_whole
    assert state_of(replayed_with_code(own / "x.db")) == state_of(advisor)
    with pytest.raises(sf.InvalidInput, match="names code, which runs only if you allow it"):
        fresh.deployment("shop").ask("a", s, key="new")
    refused = fresh.verify().faults
    assert len(refused) == 1 and "deployment shop" in refused[0] and "only if you allow it" in refused[0]


def replayed_with_code(path):
    replayed(path)
    return sf.live.open(path).deployment("shop", allow_code=True)


def test_changed_code_is_refused_and_its_observations_can_be_inherited(own):
    store, advisor = deployed(own / "x.db", learner="my_learners:Last", allow_code=True)
    for i in range(5):
        advisor.tell(advisor.ask("a", 1, key=str(i)), reward=0.5, next_state=1)
    before = advisor.definition.fingerprint
    (own / "my_learners.py").write_text(CODE + "\n# another version\n")
    with pytest.raises(sf.InvalidInput, match="was changed since the deployment was created") as error:
        store.deployment("shop", allow_code=True).ask("a", 1, key="next")
    assert "inherits" in error.value.hint
    sys.modules.pop("my_learners")
    problem = shop()
    common = {"space": problem.space, "baseline": known(problem), "alpha": 0.1}
    plain = store.create_deployment("plain", inherits="shop", **common)  # needs no code at all
    assert plain.machine().fleet.learner.counts.total == 5
    new = store.create_deployment("new", inherits="shop", learner="my_learners:Last", allow_code=True, **common)
    assert new.machine().fleet.learner.counts.total == 5 and new.definition.fingerprint != before


def test_what_is_no_learner_is_refused_with_the_reason(own):
    problem = shop()
    store = sf.live.open(own / "x.db")
    for name, why in (
        ("my_learners:Last", "only if you allow it"),
        ("ucbvi", "finite horizon, and an advisor decides without end"),
        ("euler", "finite horizon"),
        ("sarsa", "there are ucrl2, psrl, or your own as package.module:Class"),
        (None, "there are ucrl2, psrl"),
    ):
        with pytest.raises(sf.InvalidInput, match=why):
            store.create_deployment("x", space=problem.space, baseline=known(problem), alpha=0.1, learner=name)
    for name, why in (
        ("my_learners:Other", "no subclass of agents.AverageLearner"),
        ("my_learners:Fails", "RuntimeError: no such thing"),
        ("my_learners:Missing", "cannot import"),
        ("subprocess:Popen", "part of Python"),
    ):
        with pytest.raises(sf.InvalidInput, match=why):
            store.create_deployment(
                "x", space=problem.space, baseline=known(problem), alpha=0.1, learner=name, allow_code=True
            )
    assert store.deployments() == []


def test_own_learners_on_the_command_line(own, monkeypatch):
    monkeypatch.setenv("SUREFOOTED_STORE", "machine.db")
    Path("machine.toml").write_text(MACHINE)
    options = ("--baseline", "model", "--mode", "live", "--allowance", 100_000, "--site", "hall")
    refused = run("init", "machine.toml", "--learner", "my_learners:Last", *options, code=1)
    assert "only if you allow it" in refused.output and "my_learners.py" in refused.output
    said("init", "machine.toml", "--learner", "my_learners:Last", "--allow-code", *options)
    assert "only if you allow it" in run("ask", "hall", "worn", "--key", "1", code=1).output
    for i in range(10):
        decision = said("ask", "hall", "worn", "--key", i, "--allow-code")
        if decision["departs"]:
            break
        run("tell", decision["id"], "--reward", 60, "--next-state", "worn", "--allow-code")
    assert decision["label"] == "repair" and decision["departs"]
    assert "is whole" in run("verify", "--allow-code").output
    assert "only if you allow it" in run("verify", code=1).output
    run("report", "--allow-code")


@pytest.mark.slow
def test_own_learners_are_rehearsed(own):
    Path("machine.toml").write_text(MACHINE)
    options = ("--steps", 40, "--allowance", 5_000, "--crashes", 1, "--learner", "my_learners:Last", "--allow-code")
    assert said("rehearse", "machine.toml", *options)["went_well"]
