"""What the tests take for granted, whoever starts them: no variable of the shell, no clock, no order.

A property that is stated for many seeds is checked for the first few of them by `make test`, and for all of them by
`make verify`: the later ones are marked slow. `@pytest.mark.seeds(n)` says how many are few. `@pytest.mark.first(n)`
says the same of a test's cases, whatever their parameters.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

NOBODY = 65534  # a user without rights
SEEDS = 2  # few, unless a test says otherwise
# Several processes take whole files in this order. The first ones need different kernels: while one process compiles
# those of average rewards, another one compiles those of episodes, and they do not compile the same ones at once. Then
# come the longest, so that no process waits for a long file at the end.
FIRST = (
    "agents cucbvi robust informed_agents saving ledger compile fuzz studies_clusters live_replicas forecast tutorials "
    "notebooks service_browser everywhere studies adopted solve_gain bandits docs money conformance gym learners "
    "successors certify service_limits episode_steps live_crash docstrings"
).split()

for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "PYTHONWARNINGS"):
    os.environ.pop(name, None)
os.environ["MPLBACKEND"] = "agg"

# The same examples in every run, and no deadline: the machine may be busy with something else.
settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="N", help="run the tests in the N-th random order")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config, items):
    seeds, cases = defaultdict(list), Counter()  # of each test, in order
    for item in items:
        if (marker := item.get_closest_marker("first")) and item.get_closest_marker("slow") is None:
            cases[test := item.nodeid.partition("[")[0]] += 1
            if cases[test] > marker.args[0]:
                item.add_marker(pytest.mark.slow)
        if "seed" in (parameters := item.callspec.params if hasattr(item, "callspec") else {}):
            known, marker = seeds[item.nodeid.partition("[")[0]], item.get_closest_marker("seeds")
            known += [parameters["seed"]] if parameters["seed"] not in known else []
            if known.index(parameters["seed"]) >= (marker.args[0] if marker else SEEDS):
                item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):  # one of several processes
        rank = {f"test_{name}": i for i, name in enumerate(FIRST)}
        items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))
    if (n := config.getoption("shuffle")) is not None:
        random.Random(n).shuffle(items)


@pytest.fixture
def place(tmp_path_factory):
    """A directory in memory, where there is one: a test of what is decided need not wait for a disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path_factory.mktemp("live")
        return
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def dropping():
    """A command that runs another one without rights, except to read everything if the interpreter needs it."""
    if os.getuid() != 0:
        return []
    plain = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    for prefix in (plain, [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]):
        command = [*prefix, sys.executable, "-c", ""]
        if shutil.which("setpriv") and subprocess.run(command, capture_output=True).returncode == 0:
            return prefix
    return pytest.skip("as root, setpriv must run this interpreter as another user")


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of this process; whoever needs one is skipped where there can be none."""
    pytest.importorskip("psycopg", reason="psycopg is missing", exc_type=ImportError)
    from postgres_server import Server, Unavailable

    try:
        server = Server()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server:
        yield server


class OnServer:
    """Looks like a directory; its files that end in .db are stores of a PostgreSQL server."""

    def __init__(self, place, server):
        self.place, self.server, self.addresses = place, server, {}

    def __truediv__(self, name):
        if not name.endswith(".db"):
            return self.place / name
        return self.addresses.setdefault(name, self.server.address())


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def anywhere(request, place):
    """A directory for stores, in each database in turn."""
    return place if request.param == "SQLite" else OnServer(place, request.getfixturevalue("postgres"))


@pytest.fixture(params=["SQLite", *(pytest.param(way, marks=pytest.mark.slow) for way in ("PostgreSQL", "HTTP"))])
def everywhere(request, place):
    """A directory for stores, in each database in turn, and behind a service."""
    if request.param != "HTTP":
        yield place if request.param == "SQLite" else OnServer(place, request.getfixturevalue("postgres"))
        return
    pytest.importorskip("fastapi", reason="fastapi is missing")
    from service_help import OverHTTP

    found = OverHTTP(place)
    yield found
    found.close()
