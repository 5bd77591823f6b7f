"""A process that ends what Ray leaves behind; run as a script with the number of the driver and the folder of Ray.

Ray's agents are grandchildren of the driver and notice its death only after a minute. Twice a second this script notes
the processes of Ray: children of the driver that were started from Ray's folder, and all that descend from them. When
its standard input ends, since the driver closed it or died, it gives them a moment and then kills those that are left.
A process is known by its number and the time at which it started. Systems without /proc have no such list, and nothing
is killed there.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path

EVERY, GRACE = 0.5, 3.0  # seconds


def processes_of_ray(driver: int, folder: str) -> dict[int, str]:
    """The children of the driver that were started from a folder, all that descend from them, and when each started."""
    parents, started = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(file.parent.name)
        parents[pid], started[pid] = int(fields[1]), fields[19]
    found = {pid for pid, parent in parents.items() if parent == driver and _is_from(pid, folder)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: started[pid] for pid in found - {os.getpid()}}


def _is_from(pid: int, folder: str) -> bool:
    """Whether a word of the command of a process is a file in a folder."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.startswith(os.fsencode(folder) + b"/") for word in words)


def main(driver: int, folder: str) -> None:
    """Watch until the input ends, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the driver
    seen: dict[int, str] = {}
    while not select.select([sys.stdin], [], [], EVERY)[0]:
        seen |= processes_of_ray(driver, folder)
    end = time.monotonic() + GRACE
    while time.monotonic() < end and any(_is_alive(pid, start) for pid, start in seen.items()):
        time.sleep(EVERY / 5)
    for pid, start in seen.items():
        if _is_alive(pid, start):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:  # it has just ended, or is not ours any more
                continue


def _is_alive(pid: int, start: str) -> bool:
    """Whether a process is still the one that was seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == start and fields[0] != "Z"


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
