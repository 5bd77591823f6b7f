"""`surefooted warm-up`: compile every kernel ahead of time, for container images and continuous integration.

Each step plays a small problem in one of the ways in which real ones are played. numba compiles a kernel for the types
of its arguments, not for their sizes: what is compiled here serves problems of every size.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import surefooted as sf

BALLS, BOXES = ("hoeffding", "hoeffding_paper"), ("simplified_bernstein", "bernstein", "likelihood")
CERTIFICATES = ("paper", "reevaluated", "segments", "induction")
BONUSES: tuple[Any, ...] = ("boxes", "hoeffding", "freedman")
PARTS = ("rewards", "successors", "successors rewards", "mechanics", "mechanics rewards", "mechanics noise")
ALPHA, HORIZON = 0.4, 10


@click.command("warm-up")
def warm_up() -> None:
    """Compile everything ahead of time, for container images and CI.

    \b
    surefooted warm-up
    NUMBA_CACHE_DIR=/var/cache/surefooted surefooted warm-up
    """  # noqa: D301 click reads the escape
    from rich.console import Console
    from rich.progress import Progress

    from surefooted.kernels.cache import places
    from surefooted.kernels.compile import progress

    progress.is_silent = True  # this command says more
    place, lasts, began = places().write, places().lasts, time.monotonic()
    before, _ = _kept(place)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=len(STEPS))
        for what, step in STEPS.items():
            bar.update(task, description=what)
            if not console.is_terminal:
                click.echo(f"Compiling: {what}", err=True)
            step()
            bar.advance(task)
    kernels, size = _kept(place)
    click.echo(f"{kernels - before} kernels compiled in {time.monotonic() - began:.0f} s; {before} were there already")
    if place is not None:
        click.echo(f"{size / 1e6:.1f} MB in {place}" + ("" if lasts else ", which is a temporary directory"))
    if not lasts:
        click.echo("To keep them, set NUMBA_CACHE_DIR to a directory that can be written and stays.", err=True)


def _kept(place: Path | None) -> tuple[int, int]:
    """The number of compiled kernels in a directory, and their bytes."""
    sizes = [] if place is None else [path.stat().st_size for path in place.glob("*.kernel")]
    return len(sizes), sum(sizes)


def _exact() -> None:
    from surefooted.evaluation.summary import of_problem

    for name in ("inventory", "maintenance", "gridworld", "riverswim", "garnet", "deep_sea"):
        of_problem(sf.problems.make(name), diameters=True)
    large = sf.problems.garnet(700, 2, 5, seed=1)
    sf.solve.optimal_gain(large.mdp)
    for problem in (large, sf.problems.riverswim()):
        for policy in (problem.baseline, sf.Policy.uniform(problem.space)):
            sf.solve.gain_and_bias(problem.mdp, policy)
            sf.solve.stationary_distribution(problem.mdp, policy)
            sf.solve.hitting_times(problem.mdp, policy, 0)
            sf.solve.expected_rewards(problem.mdp, policy, 0, 5)
    staged = sf.StagedMDP([sf.problems.gridworld().mdp] * HORIZON)
    sf.solve.policy_values(staged, sf.solve.optimal_values(staged, HORIZON).policy, HORIZON)


def _average_problems() -> list[Any]:
    """One with a deterministic baseline, and one with a randomised baseline. Both have mechanics."""
    bounded = sf.Noise("bernoulli")
    return [sf.problems.inventory(2, noise=bounded), sf.problems.maintenance(2, 2, threshold=1, noise=bounded)]


def _baselines(problem: Any) -> list[Any]:
    """The problem's baseline, with its values known and unknown."""
    if problem.horizon is None:
        played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        known = sf.Baseline(problem.baseline, played.gain, played.bias)
    else:
        values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
        known = sf.Baseline(problem.baseline, values=values)
    return [known, sf.Baseline(problem.baseline)]


def _play(problem: Any, agent: Any) -> None:
    """A short run and its evaluation."""
    length = {"steps": 300} if problem.horizon is None else {"episodes": 30}
    sf.evaluate(sf.simulate(problem, agent, **length), problem, ALPHA)


def _ucrl2() -> None:
    for problem, confidence in product(_average_problems(), BALLS + BOXES):
        _play(problem, sf.UCRL2(problem.space, confidence=getattr(sf.confidence, confidence)))


def _cucrl2() -> None:
    for problem in _average_problems():
        for certificate, confidence, baseline in product(CERTIFICATES, (BALLS[0], BOXES[-1]), _baselines(problem)):
            chosen = {"certificate": certificate, "confidence": getattr(sf.confidence, confidence)}
            _play(problem, sf.CUCRL2(problem.space, baseline=baseline, alpha=ALPHA, **chosen))
        for known in ({}, {"knowledge": problem.knowledge("rewards")}):
            told = _baselines(problem)[0]
            for baseline in (told, sf.Baseline(problem.baseline, span=2.0 * float(max(told.bias) - min(told.bias)))):
                agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=ALPHA, condition="decisions", **known)
                _play(problem, agent)
                agent.act(0)


def _psrl() -> None:
    for problem in _average_problems():
        _play(problem, sf.PSRL(problem.space))
        for parts, baseline in product(PARTS, _baselines(problem)):
            learner = sf.PSRL(problem.space, knowledge=problem.knowledge(*parts.split()))
            _play(problem, sf.CUCRL2(problem.space, baseline=baseline, alpha=ALPHA, learner=learner))


def _learners() -> list[Any]:
    """Every learner over a finite horizon, for the gridworld."""
    space = sf.problems.gridworld().space
    learners: list[Any] = []
    for staged in (False, True):
        learners += [sf.UCBVI(space, HORIZON, bonus=b, episodes=100, stage_dependent=staged) for b in BONUSES]
        learners += [sf.EULER(space, HORIZON, stage_dependent=staged)]
        learners += [sf.agents.PSRLEpisodic(space, HORIZON, stage_dependent=staged)]
    return learners


def _ucbvi() -> None:
    grid = sf.problems.gridworld()
    for learner in _learners():
        _play(grid, learner)
    for learner, baseline in product(_learners(), _baselines(grid)):
        _play(grid, sf.CUCBVI(grid.space, HORIZON, baseline=baseline, alpha=ALPHA, learner=learner))
    for policy in (grid.baseline, sf.Policy.uniform(grid.space)):
        told = sf.Baseline(policy, values=sf.solve.policy_values(grid.mdp, policy, HORIZON))
        by_steps = sf.CUCBVI(grid.space, HORIZON, baseline=told, alpha=ALPHA, condition="decisions")
        _play(replace(grid, baseline=policy), by_steps)


def _mixing() -> None:
    grid = sf.problems.gridworld()
    for kind, learner, baseline in product((sf.StepMix, sf.EpsMix), _learners()[:1] + [None], _baselines(grid)):
        _play(grid, kind(grid.space, HORIZON, baseline=baseline, alpha=ALPHA, learner=learner))


def _knowledge() -> None:
    for problem, parts, confidence in product(_average_problems(), PARTS, BOXES):
        known, chosen = problem.knowledge(*parts.split()), getattr(sf.confidence, confidence)
        _play(problem, sf.UCRL2(problem.space, knowledge=known, confidence=chosen))
    grid = sf.problems.gridworld()
    for parts, baseline in product(PARTS[:3], _baselines(grid)):
        known = grid.knowledge(*parts.split())
        _play(grid, sf.CUCBVI(grid.space, HORIZON, baseline=baseline, alpha=ALPHA, knowledge=known))


def _logs() -> None:
    average, grid = _average_problems()[0], sf.problems.gridworld()
    with TemporaryDirectory() as folder:
        file = Path(folder, "log.csv")
        sf.write_history(file, sf.simulate(average, sf.UCRL2(average.space), 100))
        sf.read_history(file, average.space).into(sf.UCRL2(average.space))
        sf.write_history(file, sf.simulate(grid, sf.UCBVI(grid.space, HORIZON), episodes=20))
        staged = sf.UCBVI(grid.space, HORIZON, stage_dependent=True)
        sf.read_history(file, grid.space, stages=HORIZON).into(staged)


def _live() -> None:
    river, grid = sf.problems.riverswim(), sf.problems.gridworld()
    plain: list[Any] = [sf.UCRL2(river.space), sf.PSRL(river.space)]
    for agent in (*plain, sf.CUCRL2(river.space, baseline=_baselines(river)[0], alpha=ALPHA)):
        sf.gym.drive(sf.gym.Bridge(sf.gym.TabularEnv(river)), agent, steps=100, seed=0)
    for learner in _learners():
        careful = sf.CUCBVI(grid.space, HORIZON, baseline=_baselines(grid)[0], alpha=ALPHA, learner=learner)
        sf.gym.drive(sf.gym.Bridge(sf.gym.TabularEnv(grid)), careful, steps=100, seed=0)


def _advisor() -> None:
    river = sf.problems.riverswim(noise=sf.Noise("uniform", 0.1))
    with TemporaryDirectory() as folder, sf.live.open(Path(folder, "river.db")) as store:
        told: dict[str, Any] = {"space": river.space, "baseline": _baselines(river)[0], "alpha": ALPHA}
        advisor = store.create_deployment("river", **told, allowance=100.0)
        advisor.add_site("a")
        for i in range(12):
            decision = advisor.ask("a", 0, key=str(i))
            if i == 9:
                advisor.expire(decision, who="warm-up", note="lost")
                continue
            advisor.tell(decision, reward=0.5)
            advisor.tell(decision, next_state=0, action=0 if i == 10 else None)
            if i == 11:
                advisor.correct(decision, reward=0.25, next_state=0, who="warm-up", note="typed wrong")
        store.verify()


STEPS: dict[str, Callable[[], None]] = {
    "exact answers": _exact,
    "UCRL2": _ucrl2,
    "CUCRL2": _cucrl2,
    "PSRL": _psrl,
    "UCBVI, EULER and CUCB-VI": _ucbvi,
    "StepMix and EpsMix": _mixing,
    "knowledge": _knowledge,
    "logs": _logs,
    "one step at a time": _live,
    "the advisor": _advisor,
}
