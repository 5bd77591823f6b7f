"""Uses an advisor in another process, which may be killed at any moment: what was not answered is asked again."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from surefooted.errors import SurefootedError

LONGEST = 0.02  # seconds after a question was sent in which the process is killed
GIVE_UP = 5  # deaths in a row without an answer


class Refused(SurefootedError):
    """The advisor refused a call, and said why."""


class Client:
    """Calls an advisor; at some calls the process is killed with SIGKILL, begun again, and asked again.

    Parameters
    ----------
    path, name : of the store and its deployment
    rng : draws when the process is killed
    deaths : the numbers of the calls at which it is killed

    """

    def __init__(self, path: str | Path, name: str, rng: np.random.Generator, deaths: set[int]) -> None:
        self.path, self.name, self.rng, self.deaths = path, name, rng, deaths
        self.calls, self.killed, self.answered_before_death = 0, 0, 0
        self._process: subprocess.Popen[str] | None = None

    def call(self, what: str, now: datetime, **given: Any) -> Any:
        """The answer, however often the process must be begun again; `Refused` if the advisor refuses."""
        self.calls += 1
        kill = self.calls in self.deaths
        for _ in range(GIVE_UP):
            said = self._once({"call": what, "now": now.isoformat(), "given": given}, kill)
            kill = False
            if said is not None:
                if "refused" in said:
                    raise Refused(said["refused"])
                return said["answer"]
        raise SurefootedError(f"the advisor's process died {GIVE_UP} times in a row at {what} {given}")

    def _once(self, asked: dict[str, Any], kill: bool) -> Any:
        """One attempt: what was answered, None if the process died first."""
        process = self._begun()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, OSError):
            self._end()
            return None
        if kill:
            time.sleep(float(self.rng.uniform(0, LONGEST)))
            process.kill()
            self.killed += 1
        line = process.stdout.readline()
        if kill or not line.endswith("\n"):
            self._end()
        if not line.endswith("\n"):
            return None
        self.answered_before_death += kill
        return json.loads(line)

    def _begun(self) -> "subprocess.Popen[str]":
        """The process; begun if there is none."""
        if self._process is None:
            command = [sys.executable, "-m", "surefooted.rehearsal.worker", self.name]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
            environment["SUREFOOTED_STORE"] = str(self.path)  # an address may have a password, which no command shows
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
            )
            assert self._process.stdout is not None
            if '"ready"' not in self._process.stdout.readline():
                self._end()
                raise SurefootedError("the advisor's process did not start; its own message is above")
        return self._process

    def _end(self) -> None:
        """Forget a process that is dead, or let one end."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except (BrokenPipeError, OSError):
                        pass
            process.wait(timeout=60)

    def close(self) -> None:
        """Let the process end."""
        self._end()
