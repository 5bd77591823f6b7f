"""Today's policy from a log: the policy itself, bounds on what it earns, and agents that use them."""

import numpy as np
import pytest
from scipy.stats import binom

import surefooted as sf
from surefooted.errors import InvalidInput

PROBLEM = sf.problems.inventory(4, noise=sf.Noise("uniform", 1.0), unit="€", normalise=(-30.0, 40.0))
TRUE = sf.solve.gain_and_bias(PROBLEM.mdp, PROBLEM.baseline)


def log_of(policy, steps, seed, path, problem=PROBLEM):
    """A log of a policy that is played for some steps, as `read_history` returns it."""
    rng, s, rows = np.random.default_rng(seed), problem.start, ["state,action,reward,next_state"]
    for _ in range(steps):
        pair = policy.pair_at(s, rng.random())
        reward, s_next = problem.mdp.draw(rng, pair)
        rows.append(f"{s},{problem.space.pair_action[pair]},{reward},{s_next}")
        s = s_next
    path.write_text("\n".join(rows))
    return sf.read_history(path, problem.space)


def test_the_policy_is_read_off_the_log(tmp_path):
    elsewhere = sf.Policy.always(PROBLEM.space, 0)
    found = sf.Baseline.from_history(log_of(PROBLEM.baseline, 400, 1, tmp_path / "log.csv"), elsewhere=elsewhere)
    seen = np.unique(PROBLEM.space.pair_state[found.history.counts.visits > 0])
    assert np.array_equal(found.policy.dense_weights.reshape(-1)[found.history.counts.visits > 0], np.ones(seen.size))
    mixed = PROBLEM.baseline.mixed_with(sf.Policy.uniform(PROBLEM.space), 0.4)
    found = sf.Baseline.from_history(log_of(mixed, 20_000, 1, tmp_path / "mixed.csv"))
    assert np.abs(found.policy.dense_weights - mixed.dense_weights).max() < 0.05
    assert any("several actions were logged" in sentence for sentence in found.untold)


def test_states_of_which_the_log_tells_nothing_are_named(tmp_path):
    history = log_of(PROBLEM.baseline, 1, 1, tmp_path / "log.csv")
    with pytest.raises(InvalidInput, match="the log shows no action in 3 states: 1, 2, 3") as caught:
        sf.Baseline.from_history(history)  # state 4 has one action only
    assert "elsewhere=" in caught.value.hint
    found = sf.Baseline.from_history(history, elsewhere=PROBLEM.baseline)
    assert found.policy == PROBLEM.baseline and len(found.untold) == 3
    assert sf.Baseline.from_history(history, PROBLEM.baseline).untold == ()


@pytest.mark.parametrize("parts", [(), ("mechanics",)], ids=["rows", "mechanics"])
def test_bounds_hold_as_often_as_promised_and_mechanics_tighten_them(parts, tmp_path):
    delta, runs, failed, widths = 0.2, 30, 0, []
    for seed in range(runs):
        baseline = sf.Baseline.from_history(log_of(PROBLEM.baseline, 300, seed, tmp_path / "log.csv"), PROBLEM.baseline)
        knowledge = PROBLEM.knowledge(*parts) if parts else None
        found = sf.estimate_baseline(baseline, delta=delta, knowledge=knowledge)
        held = found.gain[0] <= TRUE.gain <= found.gain[1]
        if found.bias is not None:
            bias = TRUE.bias - TRUE.bias[found.landmark]
            held &= bool(np.all(found.bias[0] <= bias + 1e-9) and np.all(bias <= found.bias[1] + 1e-9))
        failed += not held
        widths.append(found.gain[1] - found.gain[0])
        assert "€" in str(found)
    assert failed <= binom.ppf(1 - 1e-6, runs, delta)
    assert np.mean(widths) < (12.0 if parts else 70.0)  # of a range of 70
    assert not parts or found.bias is not None


def test_agents_count_the_log_once_and_explore_sooner_with_it(tmp_path):
    history, steps = log_of(PROBLEM.baseline, 6000, 3, tmp_path / "log.csv"), {}
    for baseline in (sf.Baseline(PROBLEM.baseline), sf.Baseline.from_history(history, PROBLEM.baseline)):
        knowledge = PROBLEM.knowledge("mechanics")
        agent = sf.CUCRL2(PROBLEM.space, baseline=baseline, alpha=0.3, knowledge=knowledge)
        assert agent.counts.total == (0 if baseline.history is None else 6000)
        run = sf.simulate(PROBLEM, agent, 800, seed=2)
        assert sf.evaluate(run, PROBLEM, 0.3).violations == 0
        steps[baseline.history is None] = run.baseline_steps
    assert steps[False] < steps[True]
    with pytest.raises(InvalidInput, match="no step may count twice"):
        history.into(sf.CUCRL2(PROBLEM.space, baseline=baseline, alpha=0.3))
    learner = sf.UCRL2(PROBLEM.space)
    history.into(learner)
    with pytest.raises(InvalidInput, match="no step may count twice"):
        sf.CUCRL2(PROBLEM.space, baseline=baseline, alpha=0.3, learner=learner)


def test_what_cannot_be_estimated_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"sf.Baseline.from_history\(history\)"):
        sf.estimate_baseline(sf.Baseline(PROBLEM.baseline))
    wrong = sf.Knowledge(PROBLEM.space, rewards=np.full(PROBLEM.space.n_pairs, 30.0))
    baseline = sf.Baseline.from_history(log_of(PROBLEM.baseline, 500, 3, tmp_path / "log.csv"), PROBLEM.baseline)
    with pytest.raises(InvalidInput, match="the log contradicts what was declared"):
        sf.estimate_baseline(baseline, knowledge=wrong)


def test_with_a_declared_span_the_log_bounds_the_gain_of_agents(tmp_path):
    history, span = log_of(PROBLEM.baseline, 3000, 3, tmp_path / "log.csv"), float(np.ptp(TRUE.bias))
    known = sf.Baseline.from_history(history, PROBLEM.baseline, span=span)
    agent = sf.CUCRL2(PROBLEM.space, baseline=known, alpha=0.3, condition="decisions")
    low, high = agent.account.gain_bounds
    assert low < TRUE.gain < high < low + 14  # of a range of 70
    found = sf.estimate_baseline(known)
    assert found.gain[0] < TRUE.gain < found.gain[1] and found.gain[1] - found.gain[0] < 16
    read_off = sf.Baseline.from_history(history, elsewhere=PROBLEM.baseline, span=span)
    agent = sf.CUCRL2(PROBLEM.space, baseline=read_off, alpha=0.3, condition="decisions")
    assert agent.account.gain_bounds == (-30.0, 40.0) and agent.counts.total == 3000
