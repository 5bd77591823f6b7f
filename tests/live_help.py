"""What the tests of the advisor share: a small problem, a clock that is set by hand, and a store in a directory."""

from datetime import UTC, datetime, timedelta

import surefooted as sf
from surefooted import codec


class Clock:
    """A clock that advances by a second whenever it is read, and can be set."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


def known(problem):
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, answer.gain, answer.bias)


def shop(**options):
    return sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1), **options)


def opened(path, *clock):
    """The store at a path, which may be a file, the address of a database, or that of a service."""
    return path.opened(*clock) if hasattr(path, "opened") else sf.live.open(path, *clock)


def deployed(path, problem=None, sites=("a",), name="shop", clock=None, **options):
    """A store, and the advisor of a deployment in it."""
    problem = problem or shop()
    store = opened(path, clock or Clock())
    options = {"alpha": 0.1} | options
    advisor = store.create_deployment(name, space=problem.space, baseline=known(problem), **options)
    for site in sites:
        advisor.add_site(site)
    return store, advisor


def state_of(advisor):
    """The whole machine as bytes: equal if and only if every number is, to the last bit."""
    return codec.payload(advisor.machine().state_dict())


def replayed(path, name="shop"):
    """The deployment rebuilt from the journal alone, without snapshots."""
    store = sf.live.open(getattr(path, "file", path))
    with store.transaction():
        store.write("DELETE FROM snapshots")
    return store.deployment(name)
