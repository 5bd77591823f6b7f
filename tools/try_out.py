"""Try the distributions in an empty environment of every Python that is here, as somebody with few rights.

    python tools/try_out.py                          # build the wheel and the source archive, and try both
    python tools/try_out.py --golden                 # and play the golden runs with the wheel
    python tools/try_out.py dist/surefooted-0.2.0*   # try these

Each environment gets an archive and its extra `service` from the package index, and nothing of this repository. Then
`tools/first_use.py` uses it: another user (if we are root), without a home, who can write nothing that is installed.
A tool such as nox would make the environments; it would not take the rights away, and this needs only Python.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NOBODY = "65534"
GOLDEN = ("tests/test_golden.py", "tests/test_saving.py")


def pythons() -> Iterator[tuple[str, str | None]]:
    """Each version, and an interpreter that works: on the path, or one of pyenv's."""
    for version in VERSIONS:
        pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        listed = [shutil.which(f"python{version}"), *map(str, pyenv)]
        yield version, next((itself for path in listed if path and (itself := _itself(path))), None)


def _itself(python: str) -> str:
    """The interpreter behind a name, which may be a script that chooses one; "" if it does not work."""
    asked = [python, "-c", "import os, sys; print(os.path.realpath(sys.executable))"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def with_few_rights(python: str) -> list[str]:
    """What runs a command as another user: who may read everything, if the interpreter stands in a home."""
    plain = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reading = [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return []
    prefix = next((prefix for prefix in (plain, reading) if _base(*prefix, python) == _base(python)), None)
    if prefix is None:
        raise SystemExit(f"as root, setpriv must be able to run {python} as another user")
    return prefix


def _base(*python: str) -> str:
    """Where an interpreter has its library; "" if it cannot start itself again. Without rights it may find another."""
    asked = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True); print(sys.base_prefix)"
    done = subprocess.run([*python, "-c", asked], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def build() -> list[Path]:
    """The wheel and the source archive, in an empty directory dist."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", "dist", "."], cwd=ROOT, check=True, capture_output=True)
    return sorted((ROOT / "dist").glob("surefooted-*"), key=lambda archive: archive.suffix != ".whl")  # the wheel first


class Environment:
    """An empty environment of one Python, in a directory that is removed afterwards."""

    def __init__(self, python: str, folder: str) -> None:
        self.folder, self.work = Path(folder, "environment"), Path(folder, "work")
        self.python = str(self.folder / "bin" / "python")
        subprocess.run([python, "-m", "venv", str(self.folder)], check=True)
        Path(folder).chmod(0o755)
        self.prefix = with_few_rights(self.python)
        self.work.mkdir()
        shutil.copy(ROOT / "tools" / "first_use.py", self.work)
        if self.prefix:
            os.chown(self.work, int(NOBODY), int(NOBODY))

    def install(self, *what: str) -> None:
        """Install packages; until the next time, nothing can be written."""
        self._writable("u+w")
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *what], check=True, cwd=self.work, stderr=subprocess.DEVNULL)
        self._writable("a-w")

    def _writable(self, mode: str) -> None:
        subprocess.run(["chmod", "-R", mode, str(self.folder)], check=True)

    def use(self) -> None:
        """Run `first_use.py` with few rights."""
        variables = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8",
                     "NUMBA_CACHE_DIR": str(self.work / "kernels")}  # fmt: skip
        for left in ("inventory", "shop.db"):
            subprocess.run(["rm", "-rf", str(self.work / left)], check=True)
        subprocess.run([*self.prefix, self.python, "first_use.py"], cwd=self.work, env=variables, check=True)

    def golden(self) -> None:
        """Play the golden runs and load the recorded states with what is installed."""
        self.install("pytest", "hypothesis")
        variables = os.environ | {"NUMBA_CACHE_DIR": str(self.work / "kernels")}
        pytest = [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *GOLDEN]
        subprocess.run(pytest, cwd=ROOT, env=variables, check=True)

    @property
    def megabytes(self) -> int:
        """How much space it takes, pip included."""
        said = subprocess.run(["du", "-sm", str(self.folder)], capture_output=True, text=True, check=True)
        return int(said.stdout.split()[0])

    def close(self) -> None:
        """Allow that it is removed."""
        self._writable("u+w")


def try_out(archives: list[Path], golden: bool = False) -> list[str]:
    """Try these with every Python that is here; the versions that are missing."""
    missing = []
    for version, python in pythons():
        if python is None:
            missing.append(version)
            print(f"Skipped: there is no Python {version} here", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="surefooted-") as folder:
            environment = Environment(python, folder)
            for number, archive in enumerate(archives):
                again = ["--force-reinstall", "--no-deps", str(archive)]
                environment.install(*(again if number else [f"{archive}[service]"]))
                print(f"Python {version}, {archive.name}: {environment.megabytes} MB", flush=True)
                environment.use()
            if golden:
                environment.install("--force-reinstall", "--no-deps", str(archives[0]))
                environment.golden()
            environment.close()
    return missing


def main(arguments: list[str]) -> int:
    """Build and try; the exit code."""
    golden = "--golden" in arguments
    given = [Path(name).resolve() for name in arguments if name != "--golden"]
    missing = try_out(given or build(), golden)
    return int(len(missing) == len(VERSIONS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
