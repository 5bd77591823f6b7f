"""Who proposes for an advisor: learners of the package, learners of one's own, and clear refusals."""

import sys
from pathlib import Path

import numpy as np
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

class Q(UCRL2Learner):
    '''Q-learning with a discount: what it remembers is no count.'''

    def __init__(self, space, *, seed=0, **options):
        super().__init__(space, **options)
        self.q, self.drawn = np.full(space.n_pairs, 10.0 * space.r_max), np.random.default_rng(seed).random(1000)

    def learn(self, pairs, rewards, next_states, noise=None):
        super().learn(pairs, rewards, next_states, noise)
        for k, r, y in zip(pairs, rewards, next_states, strict=True):
            best = self.q[self.space.pair_ptr[y] : self.space.pair_ptr[y + 1]].max()
            self.q[k] += 0.2 * (r + 0.9 * best - self.q[k])

    def propose(self, plausible, t):
        q = self.q + 0.01 * self.drawn[t % 1000] * np.arange(self.space.n_pairs)
        ends = zip(self.space.pair_ptr, self.space.pair_ptr[1:], strict=False)
        policy = Policy(self.space, pair=np.array([a + np.argmax(q[a:b]) for a, b in ends]))
        return Plan(policy, 0.0, 1.0, np.zeros(self.space.n_states), 1, True)

    def _contents(self):
        return super()._contents() | {"q": self.q.copy()}

    def _restore(self, state):
        super()._restore(state)
        self.q = state["q"].copy()

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


@pytest.mark.parametrize("learner", ["my_learners:Q", "psrl"])
@pytest.mark.parametrize("arrival", ["any", pytest.param("independent", marks=pytest.mark.slow)])
def test_any_learner_in_a_fleet_with_both_kinds_of_accounts(own, learner, arrival):
    """Late, lost, overridden and corrected outcomes; then opened again, replayed, and verified."""
    options = {"learner": learner, "allow_code": learner != "psrl", "accounts": "both", "arrival": arrival, "seed": 3}
    path, sites = own / "x.db", ("a", "b", "c")
    store, advisor = deployed(path, sites=sites, allowance=30.0, **options)
    problem, rng, where, late = shop(), np.random.default_rng(1), dict.fromkeys(sites, 0), []
    for t in range(90):
        for site in sites:
            decision = advisor.ask(site, where[site], key=str(t))
            pair = problem.space.pair(where[site], decision.action)
            if rng.random() < 0.1:  # somebody plays the last action
                pair = int(problem.space.pair_ptr[where[site] + 1]) - 1
                advisor.tell(decision, action=int(problem.space.pair_action[pair]), who="Ada")
            reward, where[site] = problem.mdp.draw(rng, pair)
            late.append((decision, float(reward), int(where[site])))
        rng.shuffle(late)
        while len(late) > 4:
            decision, reward, after = late.pop()
            if rng.random() < 0.1:
                advisor.expire(decision)
                continue
            advisor.tell(decision, reward=reward, next_state=after)
            if rng.random() < 0.05:
                advisor.correct(decision, reward=reward / 2, next_state=after, who="Ada")
        if t == 40:
            advisor.snapshot()
    books, status = advisor.machine().fleet.books, advisor.status()
    assert len(books.shared) == 1 and [len(of) for of in books.own] == [1, 1, 1] and len(status["accounts"]) == 4
    assert status["departures"] > 20 and books.shared[0].steps == sum(of[0].steps for of in books.own) == 270
    departed = [int(ledger.arrays.account.departures.sum()) for ledger in books.all()]
    assert departed[0] == sum(departed[1:]) and min(departed) > 0
    fresh = sf.live.open(path)
    again = fresh.deployment("shop", allow_code=True)
    assert state_of(again) == state_of(advisor) and fresh.verify(allow_code=True).is_whole
    assert state_of(replayed_with_code(path)) == state_of(advisor)
    asked = [each.ask("a", where["a"], key="next") for each in (again, advisor)]
    assert asked[0] == asked[1] and state_of(again) == state_of(advisor)
    store.close()
    fresh.close()


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
