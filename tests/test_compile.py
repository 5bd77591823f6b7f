"""Compiled kernels are never stale, and never in the way.

Most tests run a small package in processes of their own: this package's decorators, and two kernels in two files.
"""

import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import NOBODY
from surefooted.kernels import cache, compile

KERNELS = Path(cache.__file__).parent
CALLEE = "from surefooted.kernels.compile import inlined\n\n@inlined\ndef rate(x):\n    return 2.0 * x\n"
CALLER = """
from surefooted.kernels.callee import rate
from surefooted.kernels.compile import njit

@njit
def price(x):
    return 1.0 + rate(x)
"""
CALL = "from surefooted.kernels.caller import price; print(price(10.0))"


class Package:
    """A small copy of the package, with two kernels; `folder` is where users without rights may read."""

    def __init__(self, folder):
        self.folder, self.kernels = folder, folder / "surefooted" / "kernels"
        self.kernels.mkdir(parents=True)
        for file in (self.kernels.parent / "__init__.py", self.kernels / "__init__.py"):
            file.touch()
        for name in ("cache.py", "compile.py"):
            shutil.copy(KERNELS / name, self.kernels)
        (self.kernels / "callee.py").write_text(CALLEE)
        (self.kernels / "caller.py").write_text(CALLER)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()

    def run(self, code=CALL, **options):
        """What a process prints, and says on stderr."""
        set_here = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
        # without .pyc files, which miss an edit that keeps time and size
        own = {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.temporary)}
        environment = set_here | own | options.pop("env", {})
        command = [*options.pop("prefix", ()), sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=self.folder, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    def edit_callee(self, factor, keep_time=False):
        """Multiply by another digit."""
        file = self.kernels / "callee.py"
        about = file.stat()
        file.write_text(CALLEE.replace("2.0", f"{factor}.0"))
        if keep_time:
            os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))

    def compiled(self, place=None):
        """The files of compiled kernels."""
        return sorted((place or self.kernels / "__pycache__").rglob("*.kernel"))


@pytest.fixture
def package():
    folder = Path(tempfile.mkdtemp(prefix="surefooted-test-"))
    folder.chmod(0o755)
    yield Package(folder)
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    shutil.rmtree(folder)


@pytest.fixture
def unprivileged(package, dropping):
    """Options for a process that cannot write to the package and has no home."""
    package.temporary.chmod(0o1777)
    if os.getuid() != 0:
        package.kernels.chmod(0o555)
    return {"env": {"HOME": "/"}, "prefix": dropping}


@pytest.mark.slow
def test_an_edit_to_a_callee_in_another_file_is_never_missed(package):
    assert package.run() == ("21.0", compile.ONCE)
    assert package.run() == ("21.0", "")
    package.edit_callee(3, keep_time=True)  # same time, same size
    assert package.run() == ("31.0", compile.ONCE)
    package.edit_callee(2)
    assert package.run() == ("21.0", "")  # kept from before: contents count, not time


def test_an_edit_while_a_process_runs_is_not_missed(package):
    package.run()
    code = """
import importlib, pathlib
from surefooted.kernels import callee, caller
file = pathlib.Path(callee.__file__)
file.write_text(file.read_text().replace("2.0", "7.00"))
importlib.reload(callee)
importlib.reload(caller)
print(caller.price(10.0))
file.write_text(file.read_text().replace("7.00", "2.0"))
"""
    assert package.run(code)[0] == "71.0"
    assert package.run() == ("21.0", "")  # nor is what the edit gave kept under the name of what was there before


def test_settings_of_numba_and_versions_have_caches_of_their_own(monkeypatch):
    before = cache._digest()
    for name, value, same in (("NUMBA_OPT", "1", False), ("NUMBA_NUM_THREADS", "1", True)):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert (cache._digest() == before) == same
    monkeypatch.setattr(cache.np, "__version__", "9.9.9")
    assert cache._digest() != before


def test_kernels_are_only_in_the_folder_that_the_digest_covers():
    root = KERNELS.parent
    decorators = re.compile(r"from surefooted\.kernels\.compile import .*(njit|allocating|inlined)")
    files = [path for path in root.rglob("*.py") if decorators.search(path.read_text(encoding="utf-8"))]
    assert {str(path.relative_to(root)) for path in files if path.parent != KERNELS} <= {"data/log_rows.py"}


@pytest.mark.slow
def test_what_the_digest_does_not_cover_is_not_kept(package):
    (package.folder / "elsewhere.py").write_text(CALLER)
    assert package.run(CALL.replace("surefooted.kernels.caller", "elsewhere"))[0] == "21.0"
    assert [file.name.split("-")[0] for file in package.compiled()] == ["callee.rate"]


@pytest.mark.slow
def test_a_user_without_a_home_or_rights_gets_a_temporary_cache_and_is_told_how_to_keep_it(package, unprivileged):
    result, said = package.run(**unprivileged)
    assert result == "21.0" and said.count("\n") == 1
    assert f"kept in {package.temporary}/surefooted-" in said and "NUMBA_CACHE_DIR" in said and "warm-up" in said
    assert package.run(**unprivileged) == ("21.0", "")
    assert not package.compiled() and len(package.compiled(package.temporary)) == 2


def test_kernels_work_where_nothing_can_be_written(package, unprivileged):
    nowhere = "import tempfile; tempfile.tempdir = '/proc/nowhere'\n"
    result, said = package.run(nowhere + CALL, **unprivileged)
    assert result == "21.0" and "no place to keep them. To keep them, set NUMBA_CACHE_DIR" in said


@pytest.mark.slow
def test_a_warm_cache_is_read_where_it_cannot_be_written(package, unprivileged):
    package.run(env={"NUMBA_CACHE_DIR": str(package.folder / "warm")})
    for path in (package.folder / "warm").rglob("*"):
        assert path.stat().st_mode & 0o444 == 0o444  # for everybody, not only who wrote it
        path.chmod(0o555 if path.is_dir() else 0o444)
    options = unprivileged | {"env": {"NUMBA_CACHE_DIR": "warm"}}  # relative to where it runs
    assert package.run(**options) == ("21.0", "")
    assert package.run(CALL.replace("10.0", "10"), **options)[0] == "21.0"  # another signature: compiled
    assert len(package.compiled(package.folder / "warm")) == 2 and len(package.compiled(package.temporary)) == 2


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of somebody else")
def test_a_temporary_cache_that_somebody_else_made_is_not_used(package, unprivileged):
    theirs = package.temporary / f"surefooted-{NOBODY}"
    theirs.mkdir()
    theirs.chmod(0o777)
    result, said = package.run(**unprivileged)
    assert result == "21.0" and "no place to keep them" in said and not package.compiled(theirs)


@pytest.mark.first(1)
@pytest.mark.parametrize("damage", [b"", b"\x80", None])
def test_a_damaged_cache_is_compiled_again_and_mended(package, damage):
    package.run()
    for file in package.compiled():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content) if damage is None else damage)
    assert package.run() == ("21.0", compile.ONCE)
    assert package.run() == ("21.0", "")


@pytest.mark.slow
def test_a_full_disk_is_no_error(package):
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
    assert package.run(**limit)[0] == "21.0"
    directories = list((package.kernels / "__pycache__").iterdir())
    assert len(directories) == 1 and not list(directories[0].iterdir())  # nothing half written


@pytest.mark.slow
def test_processes_that_compile_at_once_do_not_mix_up_their_kernels(package):
    environment = os.environ | {"PYTHONPATH": str(package.folder)}
    arguments = ["10.0", "10", "numpy.float32(10)", "numpy.int8(10)"]
    code = "import numpy\nfrom surefooted.kernels.caller import price; print(float(price({})))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code.format(x)], env=environment, stdout=subprocess.PIPE, text=True)
        for x in arguments
    ]
    assert [process.communicate()[0] for process in processes] == ["21.0\n"] * len(arguments)
    together = "\n".join(code.format(x) for x in arguments)
    assert package.run(together, env={k: v for k, v in os.environ.items() if k.startswith("NUMBA_")})[1] == ""


def test_old_caches_are_removed(tmp_path):
    for n in range(2 * cache.KEPT):
        directory = tmp_path / f"{cache.PREFIX}{n}"
        directory.mkdir()
        (directory / "a.kernel").touch()
        os.utime(directory, (n, n))
    (tmp_path / "other").mkdir()
    os.utime(tmp_path / f"{cache.PREFIX}0")  # used just now
    cache._remove_old(tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"other"} | {f"{cache.PREFIX}{n}" for n in [0, *range(cache.KEPT + 1, 2 * cache.KEPT)]}


@pytest.mark.slow
def test_nothing_is_said_by_workers_or_without_a_place_to_say_it(package):
    script = package.folder / "script.py"
    script.write_text(
        "import multiprocessing as mp, sys\n"
        "def work(x):\n"
        "    from surefooted.kernels.caller import price\n"
        "    return price(x)\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n"
        "        assert pool.map(work, [10.0]) == [21.0]\n"
        "    sys.stderr = None\n"
        "    assert work(10) == 21.0\n"
        "    sys.stderr = sys.__stderr__\n"
        "    sys.stderr.close()\n"
        "    print(float(work(True)))\n"
    )
    assert package.run("import runpy; runpy.run_path('script.py', run_name='__main__')") == ("3.0", "")


def test_a_line_that_vanishes_says_what_is_compiled_on_a_terminal(package):
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(package.folder), "NUMBA_CACHE_DIR": str(package.temporary)}
    subprocess.run([sys.executable, "-c", CALL], env=environment, stderr=theirs, check=True, capture_output=False)
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert said == "\r\x1b[KCompiling, once on this machine: price ...\r\x1b[K"


def test_kernels_are_plain_functions_if_numba_is_told_so(package):
    assert package.run(env={"NUMBA_DISABLE_JIT": "1"}) == ("21.0", "")
    assert not package.compiled()


USE = """
import sys
sys.path.insert(0, {tests!r})
import test_conformance, test_golden
import surefooted as sf
from surefooted.kernels import cache

for make, _ in test_golden.RUNS.values():
    make()
for agent in map(test_conformance.average, test_conformance.AVERAGE[1:]):  # the first one learns nothing
    sf.evaluate(sf.simulate(test_conformance.NOISY, agent, 300), test_conformance.NOISY, 0.4)
for agent in map(test_conformance.finite, test_conformance.LEARNERS + test_conformance.CONSERVATIVE):
    sf.evaluate(sf.simulate(test_conformance.GRID, agent, episodes=50), test_conformance.GRID, 0.4)
modules = [module for name, module in sys.modules.items() if name.startswith("surefooted.kernels.")]
kernels = [kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "signatures")]
arguments = [argument for kernel in kernels for signature in kernel.signatures for argument in signature]
records = {{argument.instance_class.__module__ for argument in arguments if hasattr(argument, "instance_class")}}
assert all(name.startswith("surefooted.kernels.") for name in records), records  # the digest covers their fields
"""


@pytest.mark.slow
def test_after_warming_up_nothing_more_is_compiled(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def run(*arguments):
        done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run("-m", "surefooted", "warm-up")
    kept = {file.name for file in tmp_path.rglob("*.kernel")}
    assert f"{len(kept)} kernels compiled" in said and str(tmp_path) in said
    run("-c", USE.format(tests=str(Path(__file__).parent)))
    for study in ("certificates", "structure-maintenance", "structure-gridworld"):
        length = "episodes=20" if "gridworld" in study else "steps=300"
        setting = ["--set", length, "--set", "record.initial=10", "--realisations", "1", "--out", str(tmp_path / study)]
        run("-m", "surefooted", "reproduce", study, "--quiet", *setting)
    for problem in ("maintenance", "garnet"):
        run("-m", "surefooted", "problems", problem, "--diameter", "--save", str(tmp_path / "problem.npz"))
        run("-m", "surefooted", "solve", str(tmp_path / "problem.npz"), "--json")
    assert {file.name for file in tmp_path.rglob("*.kernel")} == kept
    assert "0 kernels compiled" in run("-m", "surefooted", "warm-up")
