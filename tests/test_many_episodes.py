"""Batches of episodes: the same run, and the same agent afterwards, as of episodes that are played one by one."""

import numpy as np
import pytest

import surefooted as sf
from surefooted.agents import many_episodes
from surefooted.agents.explorer import Explorer
from surefooted.agents.many_episodes import ManyEpisodes
from surefooted.agents.ucbvi import UCBVI, UCBVILearner
from surefooted.kernels import episodes as kernels
from surefooted.simulation.playing import simulate_episodes
from test_learners import NOISES, same, some_dynamics

CONFIDENCES = {name: getattr(sf.confidence, name) for name in ("likelihood", "bernstein", "simplified_bernstein")}


def one_by_one(monkeypatch, mdp, agent, starts, seed):
    """A run in which no batch is played."""
    with monkeypatch.context() as patch:
        patch.setattr(ManyEpisodes, "of", classmethod(lambda cls, agent: None))
        return simulate_episodes(mdp, agent, starts, seed)


def assert_same(run, fast, other, slow):
    """Two runs and the agents after them are the same, to the last bit."""
    for name in ("pairs", "rewards", "next_states", "starts"):
        assert np.array_equal(getattr(run, name), getattr(other, name)), name
    assert run.decisions == other.decisions and run.policies == other.policies
    assert same(fast.state_dict(), slow.state_dict())
    a, b = fast.learner.plausible(), slow.learner.plausible()
    for name in ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert fast.learner.propose() == slow.learner.propose()
    assert np.array_equal(fast.learner.plan.values, slow.learner.plan.values)
    for back in (1, 50, 4_096, 5_000):
        mine, theirs = (x.counts.pairs_since(max(x.counts.added - back, 0)) for x in (fast, slow))
        assert (mine is None and theirs is None) or np.array_equal(mine, theirs)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("staged", [False, True], ids=["shared", "staged"])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_its_episodes_played_one_by_one(monkeypatch, confidence, staged, seed):
    noise = list(NOISES.values())[(seed + 2 * staged) % len(NOISES)]
    mdp = some_dynamics(seed, 3 + seed, 2, 4, staged, 2.0, noise.kind, noise.scale)
    options = {"stage_dependent": staged, "confidence": CONFIDENCES[confidence], "bounded": noise.bounded}
    starts = np.random.default_rng(seed).integers(mdp.n_states, size=300)
    fast, slow = (UCBVI(mdp.space, 4, **options) for _ in range(2))
    assert ManyEpisodes.of(fast) is not None
    run, other = simulate_episodes(mdp, fast, starts, 5), one_by_one(monkeypatch, mdp, slow, starts, 5)
    assert_same(run, fast, other, slow)


@pytest.mark.parametrize("most", [1, 2, 7])
def test_a_batch_ends_where_the_room_for_plans_or_counts_does(monkeypatch, most):
    mdp = some_dynamics(1, 25, 2, 5, False)  # 25 x 2 x 25 transitions: the pool of counts, 256, is doubled twice
    starts = np.arange(700) % 25
    fast, slow = (Explorer(UCBVILearner(mdp.space, 5)) for _ in range(2))
    other = one_by_one(monkeypatch, mdp, slow, starts, 3)
    batches, play = [], ManyEpisodes.play
    monkeypatch.setattr(many_episodes, "ROOM", most * 5 * 25)
    monkeypatch.setattr(ManyEpisodes, "play", lambda *given: batches.append(play(*given)) or batches[-1])
    run = simulate_episodes(mdp, fast, starts, 3)
    assert_same(run, fast, other, slow)
    assert fast.counts.n_transitions > 512 and sum(batches) == 699
    assert len(batches) >= len(run.policies) / (most + 1)


def test_rewards_that_may_be_negative_are_counted_from_the_lowest(monkeypatch):
    space = sf.Space.full(3, 2, rewards=(-2.0, 1.0))
    rng = np.random.default_rng(0)
    p, r = rng.dirichlet(np.ones(3), size=(3, 2)), rng.uniform(-2, 1, size=(3, 2))
    mdp = sf.TabularMDP.from_arrays(p, r, noise=sf.Noise("uniform", 0.2), rewards=(-2.0, 1.0))
    assert mdp.space == space
    fast, slow = (UCBVI(space, 3) for _ in range(2))
    run = simulate_episodes(mdp, fast, np.zeros(200, dtype=int), 3)
    other = one_by_one(monkeypatch, mdp, slow, np.zeros(200, dtype=int), 3)
    assert_same(run, fast, other, slow)
    assert run.rewards.min() < 0 <= fast.counts.reward_sum.min()


class Mine(UCBVI):
    """One that might do anything."""


def test_only_plain_optimists_are_played_in_batches():
    problem = sf.problems.gridworld()
    space, H = problem.space, problem.horizon
    values = sf.solve.policy_values(problem.mdp, problem.baseline, H)
    others = [
        UCBVI(space, H, bonus="freedman", episodes=50),
        UCBVI(space, H, confidence=sf.confidence.hoeffding),
        UCBVI(space, H, knowledge=problem.knowledge("rewards")),
        Mine(space, H),
        sf.EULER(space, H),
        sf.CUCBVI(space, H, alpha=0.1, baseline=sf.Baseline(problem.baseline, values=values)),
    ]
    assert [ManyEpisodes.of(agent) for agent in others] == [None] * len(others)


def test_an_agent_that_is_interrupted_in_a_batch_says_so(monkeypatch):
    problem = sf.problems.gridworld()
    agent = UCBVI(problem.space, problem.horizon)

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(many_episodes.kernels, "play_episodes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sf.simulate(problem, agent, episodes=5)
    with pytest.raises(sf.SurefootedError, match="interrupted"):
        agent.begin(problem.start)


@pytest.mark.parametrize("kernel", [kernels.number_of, kernels.number_of.py_func], ids=["compiled", "plain"])
def test_plans_are_numbered_as_they_are_first_made(kernel):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 2, size=(60, 2, 3)) + (1 << 40) * rng.integers(0, 2, size=(60, 1, 1))
    plans, slots, known, made = np.zeros((60, 2, 3), dtype=np.int64), np.full(120, -1), [], 0
    for pair in pairs:
        if pair.tolist() not in known:
            known.append(pair.tolist())
        found = kernel(pair, made, plans, slots)
        made = max(made, found + 1)
        assert known[found] == pair.tolist() == plans[found].tolist()
    assert made == len(known) < 60
