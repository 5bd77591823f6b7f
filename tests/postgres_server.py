"""A real PostgreSQL server in a temporary directory, as a user other than root; for tests and benchmarks.

It listens on a socket in its directory without passwords, and on a free port of 127.0.0.1 with them.
"""

import atexit
import contextlib
import glob
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{sockets}'
max_connections = 80
shared_buffers = 64MB
fsync = on
synchronous_commit = on
log_min_messages = fatal
"""
ACCESS = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""
NUMBERS = itertools.count(1)


class Unavailable(Exception):
    """There can be no server here; the message says why."""


def programs():
    """The directory of the newest PostgreSQL's programs."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/pgsql-*/bin/initdb")
    found.sort(key=lambda path: [int(part) for part in path.replace("-", "/").split("/") if part.isdigit()])
    found += [path] if (path := shutil.which("initdb")) else []
    if not found:
        raise Unavailable("there is no PostgreSQL server: sh tests/postgresql.sh installs Debian's")
    return Path(found[-1]).parent


def somebody():
    """Whom the server runs as, if we are root: PostgreSQL refuses to."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise Unavailable("PostgreSQL does not run as root, and there is no other user")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; a context manager. `address()` is that of a new, empty store.

    Parameters
    ----------
    parent : where its directory is made; by default in memory, if that is possible

    """

    def __init__(self, parent=None):
        self._programs, self._as = programs(), somebody()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="pg", dir=parent or memory)
        self._socket_folder = tempfile.TemporaryDirectory(prefix="pg")  # names of sockets must be short
        self.sockets = self._socket_folder.name
        self.data, self.port = Path(self._folder.name) / "data", free_port()
        try:
            for folder in (self._folder.name, self.sockets):
                os.chmod(folder, 0o755)
                if self._as:
                    os.chown(folder, self._as["user"], self._as["group"])
            self._run("initdb", "--no-sync", "--encoding=UTF8", "--no-locale", "--username=ada", "--auth=trust")
            with (self.data / "postgresql.conf").open("a") as file:
                file.write(SETTINGS.format(port=self.port, sockets=self.sockets))
            (self.data / "pg_hba.conf").write_text(ACCESS)
            self.start()
            atexit.register(self.__exit__)  # for those who forget to end it
        except BaseException:
            self._remove()
            raise

    def _run(self, program, *options):
        command = [str(self._programs / program), "--pgdata", str(self.data), *options]
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env=environment,
                cwd="/", **self._as,
            )  # fmt: skip
        except OSError as error:
            raise Unavailable(f"{program} cannot be run: {error}") from error
        if done.returncode:
            raise Unavailable(f"{program}: {done.stdout.strip()[-500:]}")

    def start(self):
        log = str(Path(self._folder.name) / "log")
        self._run("pg_ctl", "start", "--wait", "--silent", "--log", log)

    def stop(self, mode="fast"):
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode", mode)

    def restart(self, mode="immediate"):
        """As after a power cut, if the mode is immediate: whatever is not on disk is lost."""
        self.stop(mode)
        self.start()

    def address(self, schema=None):
        """The address of a store in a schema; by default a new one."""
        schema = schema or f"s{os.getpid()}_{next(NUMBERS)}_{time.monotonic_ns() % 1_000_000}"
        return f"postgresql://ada@/postgres?host={self.sockets}&port={self.port}&schema={schema}"

    def execute(self, statement):
        """Run a statement as the administrator."""
        import psycopg

        with psycopg.connect(f"host={self.sockets} port={self.port} user=ada dbname=postgres", autocommit=True) as db:
            db.execute(statement)

    def log(self):
        return (Path(self._folder.name) / "log").read_text()

    def _remove(self):
        for folder in (self._folder, self._socket_folder):
            with contextlib.suppress(OSError):
                folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        atexit.unregister(self.__exit__)
        with contextlib.suppress(Unavailable):
            self.stop("immediate")
        self._remove()
