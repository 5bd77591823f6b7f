"""CUCB-VI with an account: exact worth of the decisions on nasty problems, live and simulated, settings, refusals."""

import numpy as np
import pytest
from scipy.stats import binom

import adversarial_episodes as nasty
from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.errors import InvalidInput
from surefooted.evaluation import margins as oracle
from surefooted.evaluation.decisions import episode_worth
from surefooted.problems.gridworld import gridworld
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy

DETERMINISTIC = ("worst", "optimal", "staged", "random")


class Harm(nasty.EpisodicLearner):
    """Proposes harmful, random and best deterministic policies in turn."""

    def harm(self, case, seed):
        self.case, self.rng = case, np.random.default_rng(seed)
        return self

    def propose(self):
        return nasty.a_policy(self.rng, self.case, DETERMINISTIC[int(self.rng.integers(len(DETERMINISTIC)))])


def stage_values(case):
    """V [H + 1, S] of the baseline, by dense matrices."""
    weights = np.broadcast_to(case.policy.probabilities, case.r.shape)
    values = np.zeros((case.horizon + 1, case.space.n_states))
    for h in reversed(range(case.horizon)):
        values[h] = np.einsum("sa,sa->s", weights[h], case.r[h] + case.p[h] @ values[h + 1])
    return values


def exact_margin(case, run, values, alpha, allowance):
    """The margin of the condition on decisions after each episode, one step after the other."""
    weights, margin, margins = np.broadcast_to(case.policy.probabilities, case.r.shape), allowance, []
    for k, start in enumerate(run.starts):
        margin += alpha * values[0][start]
        for h in range(case.horizon):
            s, a = case.space.pair_state[run.pairs[k, h]], case.space.pair_action[run.pairs[k, h]]
            if run.by_step[k, h] and weights[h, s, a] < 1:
                margin += case.r[h, s, a] + case.p[h, s, a] @ values[h + 1] - values[h, s]
        margins.append(margin)
    return np.array(margins)


def an_agent(case, values, seed, alpha, allowance, delta):
    options = {"stage_dependent": case.mdp.stages > 1}
    learner = Harm(case.space, case.horizon, **options).harm(case, seed)
    baseline = Baseline(case.policy, values=values)
    settings = {"alpha": alpha, "allowance": allowance or nasty.spare(case, True), "delta": delta, "seed": seed}
    return CUCBVI(case.space, case.horizon, baseline=baseline, learner=learner, condition="decisions", **settings)


@pytest.mark.first(1)
@pytest.mark.parametrize("part", range(4))
def test_the_condition_holds_and_no_budget_is_above_the_exact_margin(part):
    """75 nasty problems; runs in which something is wrong are counted against δ, a false alarm once in a million."""
    runs, broken, departed, delta = 75, 0, 0, 0.3
    for i in range(runs):
        rng = np.random.default_rng([61, part, i])
        case = nasty.a_case(rng, nasty.KINDS[i % len(nasty.KINDS)])
        values, episodes = stage_values(case), 80
        alpha, allowance = float(rng.choice([0.01, 0.1, 0.5, 0.9])), float(rng.choice([0.0, 0.0, 1.0, 5.0]))
        if allowance and rng.random() < 0.3:
            alpha = 0.0
        agent = an_agent(case, values, int(rng.integers(2**31)), alpha, allowance, delta)
        run = simulate_episodes(case.mdp, agent, nasty.some_starts(rng, case, episodes), int(rng.integers(2**31)))
        margin = exact_margin(case, run, values, alpha, allowance)
        found = oracle.evaluate_episodes(run, case.mdp, case.policy, alpha, allowance).decisions
        assert found.margin == pytest.approx(margin, abs=1e-9)
        budgets = np.array([decision.budget for decision in run.decisions])
        broken += bool(margin.min() < -1e-9 or np.any(budgets > np.r_[allowance, margin[:-1]] + 1e-9))
        departed += int(run.by_step.sum())
    assert broken <= binom.ppf(1 - 1e-6, runs, delta)
    assert departed > 300


def test_every_step_that_departs_is_paid_for_whatever_the_dynamics():
    """The worst that can happen: everything is lost at every departure; then the condition holds without luck."""
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, :, 1] = 1.0  # action 1 falls for the rest of the episode
    mdp = nasty.TabularMDP.from_arrays(p, np.array([[1.0, 0.0], [0.0, 0.0]]), r_max=1.0)
    case = nasty.Case("fall", mdp, Policy.always(mdp.space, 0), 4)
    values = stage_values(case)
    for alpha, allowance in ((0.1, 0.0), (0.0, 9.0), (0.3, 2.0)):
        agent = an_agent(case, values, 3, alpha, allowance, 1e-6)
        run = simulate_episodes(mdp, agent, np.zeros(200, dtype=np.int64), 0)
        margin = exact_margin(case, run, values, alpha, allowance)
        assert margin.min() >= -1e-9 and run.by_step.any()
        assert margin.min() < 4.0 + allowance  # something was risked


@pytest.mark.parametrize("seed", range(3))
def test_one_step_at_a_time_is_the_simulated_run_with_a_randomised_baseline(seed):
    rng = np.random.default_rng([62, seed])
    case = nasty.a_case(rng, nasty.adversarial.garnet, "staged randomised", staged=seed == 2)
    values = stage_values(case)
    live, simulated = (an_agent(case, values, 5, 0.5, 2.0, 0.1) for _ in range(2))
    starts = nasty.some_starts(rng, case, 30)
    run = simulate_episodes(case.mdp, simulated, starts, 7)
    for k, s in enumerate(starts.tolist()):
        live.begin(s)
        for h in range(case.horizon):
            decision = live.act(s)
            assert case.space.pair(s, decision.action) == run.pairs[k, h]
            assert (decision.role == "optimistic") == bool(run.by_step[k, h])
            live.observe(s, decision.action, float(run.rewards[k, h]), int(run.next_states[k, h]))
            s = int(run.next_states[k, h])
    assert np.array_equal(np.array(live.explored_steps), run.by_step)
    assert live.account.balance == simulated.account.balance


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_on_the_gridworld_it_explores_sooner_than_under_the_papers_condition(slip):
    problem, regret = gridworld(slip=slip), {}
    values = solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
    for condition in ("replay", "decisions"):
        baseline = Baseline(problem.baseline, values=values)
        agent = CUCBVI(problem.space, problem.horizon, baseline=baseline, alpha=0.05, condition=condition)
        run = simulate(problem, agent, episodes=2000, seed=1)
        found = oracle.evaluate(run, problem, 0.05)
        assert found.violations == 0 and found.decisions.violations == 0
        regret[condition] = found.expected_regret[-1]
    assert regret["decisions"] < regret["replay"]


def test_the_worth_of_episodes_by_hand():
    """Two steps, a baseline that earns 1 a step; the other action earns 0.25, and leads nowhere else."""
    mdp = nasty.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[1.0, 0.25]]), r_max=1.0)
    case = nasty.Case("arms", mdp, Policy.always(mdp.space, 0), 2)
    agent = an_agent(case, stage_values(case), 0, 0.0, 1.5, 0.1)
    run = simulate_episodes(mdp, agent, np.zeros(6, dtype=np.int64), 0)
    departures = (run.pairs == 1).sum(axis=1)
    assert episode_worth(run, mdp, case.policy) == pytest.approx(-0.75 * departures)
    assert run.baseline_steps == int((~run.by_step).sum())


REFUSED = {
    "start values only": ({"values": "start"}, r"declare the values of all stages, \[H \+ 1, S\]"),
    "unknown": ({"values": None}, "declare the values of all stages"),
    "no such condition": ({"condition": "hope"}, "there is no condition 'hope'"),
    "allowance": ({"allowance": -1.0}, "must be finite and not negative"),
    "a negative tolerance": ({"condition": "replay", "tolerance": -1.0}, "tolerance -1.0 must be finite"),
    "nothing may be lost": ({"alpha": 0.0}, "or be 0 with an allowance"),
    "unbounded": ({"bounded": False}, "needs bounded rewards"),
    "the last row": ({"values": "ones"}, "after the last stage must be 0"),
    "delta": ({"delta": 2.0}, "delta 2.0 must lie strictly between 0 and 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_proved_is_refused_with_a_sentence(name):
    options, words = REFUSED[name]
    problem = gridworld()
    values = solve.policy_values(problem.mdp, problem.baseline, 10)
    given = {"start": values[0], "ones": values + 1.0, None: None}.get(options.get("values", "all"), values)
    settings = {"alpha": 0.1, "condition": "decisions"} | {k: v for k, v in options.items() if k != "values"}
    with pytest.raises(InvalidInput, match=words):
        CUCBVI(problem.space, 10, baseline=Baseline(problem.baseline, values=given), **settings)


def test_a_randomised_proposal_is_refused_and_nothing_changes():
    mdp = nasty.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[1.0, 0.25]]), r_max=1.0)
    case = nasty.Case("arms", mdp, Policy.always(mdp.space, 0), 2)
    agent = an_agent(case, stage_values(case), 0, 0.5, 50.0, 0.1)
    agent.learner.propose = lambda: Policy.uniform(case.space)
    with pytest.raises(InvalidInput, match="one action a state"):
        agent.begin(0)
    assert agent.episodes == 0 and agent.account.balance == 50.0 and not agent.explored_steps
