"""Advisors that follow a journal which others write: each is where a replay of the journal is, to the last bit."""

import random

import pytest

import surefooted as sf
from live_help import deployed, known, replayed, shop, state_of


@pytest.mark.parametrize("seed", range(3))
def test_advisors_of_several_deployments_and_stores_take_turns(anywhere, seed, monkeypatch):
    monkeypatch.setattr("surefooted.live.following.EVERY", 60)
    path, rng, problem = anywhere / "x.db", random.Random(seed), shop()
    first, _ = deployed(path, problem, sites=("a", "b"), allowance=30.0)
    other = first.create_deployment("other", space=problem.space, baseline=known(problem), alpha=0.2)
    other.add_site("a")
    stores = [first, sf.live.open(path), sf.live.open(path)]
    advisors = [(name, store.deployment(name)) for store in stores for name in ("shop", "other")]
    for i in range(150):
        name, advisor = rng.choice(advisors)
        action = rng.choice(["ask", "ask", "ask", "look", "fail"])
        if action == "ask":
            decision = advisor.ask("a" if name == "other" else rng.choice("ab"), 0, key=str(i))
            if rng.random() < 0.8:
                advisor.tell(decision, reward=round(rng.random(), 2), next_state=0)
        elif action == "look":
            advisor.status()
        else:
            with pytest.raises(ZeroDivisionError), advisor.store.transaction():
                advisor.store.append(advisor.id, "pause", {"site": None, "who": None, "note": None})
                raise ZeroDivisionError
    for name, advisor in advisors:
        assert state_of(advisor) == state_of(replayed(path, name))
    assert stores[0].verify().is_whole
