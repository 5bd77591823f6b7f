"""The rules that every bandit agent keeps, as a check to run on your own; `surefooted.testing` has those of the others.

>>> import surefooted as sf
>>> arms = sf.bandits.BernoulliArms([0.5, 0.4, 0.7])
>>> sf.bandits.check_bandit(lambda: sf.bandits.SafeSetUCB(3, alpha=0.1), arms, rounds=20)
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.identity import fingerprint
from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.bandits.simulation import simulate_arms, simulate_linear
from surefooted.errors import SurefootedError

Make = Callable[[], Any]


def check_bandit(make: Make, problem: BernoulliArms | LinearContextual, rounds: int = 100, seed: int = 0) -> None:
    """All rules of a bandit agent; an AssertionError says which one is broken.

    - Decisions are complete, asking twice gives the same answer and changes nothing else.
    - Impossible outcomes are refused, and change nothing.
    - An agent that is restored from a state goes on exactly, wherever the state was taken.
    - `simulate_arms` or `simulate_linear` plays the same run.

    - `make`: builds the agent, with the same arguments each time.
    - `problem`: what it plays.
    - `rounds`: how many rounds.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> arms = sf.bandits.BernoulliArms([0.5, 0.7])
    >>> sf.bandits.check_bandit(lambda: sf.bandits.ConservativeUCB(2, alpha=0.1), arms, rounds=20)
    """
    agent, twin, rng = make(), make(), np.random.default_rng(seed)
    played: list[tuple[int, float]] = []
    for t in range(rounds):
        shown = problem.context(t) if isinstance(problem, LinearContextual) else ()
        decision, before = agent.act(*shown), fingerprint(_memory(agent))
        n = len(shown[0]) if shown else agent.n_arms
        at = f"round {t}"
        _require(isinstance(decision, Decision), f"{at}: act must return a Decision, not {decision!r}")
        _require(decision == agent.act(*shown), f"{at}: asked twice, it gave two answers")
        _require(fingerprint(_memory(agent)) == before, f"{at}: asking again changed its state")
        _require(decision.role in ("baseline", "optimistic"), f"{at}: there is no role {decision.role!r}")
        _require(decision.reason.endswith("."), f"{at}: the reason must be a sentence, not {decision.reason!r}")
        _require(0 <= decision.action < n, f"{at}: there is no arm {decision.action}")
        arm = decision.action
        for outcome in ((np.nan,), (np.inf,)) if shown else ((arm, np.nan), (arm, -np.inf), ((arm + 1) % (n + 1), 0.5)):
            _refuses(agent, outcome, at)
            _require(fingerprint(_memory(agent)) == before, f"{at}: {outcome} was refused, but changed its state")
        if t in (0, 1, rounds // 2):
            twin = make()
            twin.load_state_dict(deepcopy(agent.state_dict()))
        _require(twin.act(*shown) == decision, f"{at}: restored, it plays something else")
        reward = problem.draw(rng, t, arm) if isinstance(problem, LinearContextual) else problem.draw(rng, arm)
        for each in (agent, twin):
            each.observe(*((reward,) if shown else (arm, reward)))
        _require(fingerprint(_memory(twin)) == fingerprint(_memory(agent)), f"{at}: restored, it remembers another run")
        played.append((arm, reward))
    if isinstance(problem, LinearContextual):
        run = simulate_linear(problem, make(), rounds, seed)
    else:
        run = simulate_arms(problem, make(), rounds, seed)
    same = list(zip(run.arms.tolist(), run.rewards.tolist(), strict=True)) == played
    _require(same, "simulated and played live, it made two different runs")


def _memory(agent: Any) -> dict[str, Any]:
    """What it remembers."""
    return dict(agent.state_dict())


def _refuses(agent: Any, outcome: tuple[float, ...], at: str) -> None:
    try:
        agent.observe(*outcome)
    except SurefootedError:
        return
    raise AssertionError(f"{at}: the outcome {outcome} was not refused")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)
