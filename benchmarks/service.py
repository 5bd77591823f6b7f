"""The service: decisions a second and their times at 1, 8 and 64 clients, beside the disk's or database's own limit.

Run `python benchmarks/service.py [seconds]`: each row is measured for so long (10). The service is a process of its
own, begun by its command; the clients are another one. A decision is a question and its outcome, two requests, and
every answer is on disk before it is sent. The last rows are the same calls without HTTP. Beside other work, look at
ratios, and at the CPU time that a decision takes. PostgreSQL is left out where there is no server.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from measure import machine

import surefooted as sf
from surefooted.service import tokens

HERE = Path(__file__).parent
CLIENTS = (1, 8, 64)


def known(problem):
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, answer.gain, answer.bias)


def prepared(address):
    """A deployment with a site for each client, and a token."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    with sf.live.open(address) as store:
        advisor = store.create_deployment("shop", space=problem.space, baseline=known(problem), alpha=0.05)
        for i in range(max(CLIENTS)):
            advisor.add_site(f"site {i}")
        return tokens.create(store, "bench", "use")[0]


def served(address):
    """The process of a service, and its port."""
    command = [sys.executable, "-m", "surefooted", "serve", str(address), "--port", "0", "--rate", "0",
               "--threads", "64", "--log-level", "warning"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if found := re.search(r"Listening on http://127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    raise SystemExit("the service did not start")


class Client:
    """One connection, and as little else as possible: what is measured is the service."""

    def __init__(self, port, secret, number, run):
        self.site, self.run, self.times = f"site {number}", run, []
        self.link = socket.create_connection(("127.0.0.1", port))
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.link.makefile("rb")
        self.head = f" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n"

    def post(self, what, body):
        """One request, timed."""
        data = json.dumps(body).encode()
        head = f"POST /v1/deployments/shop/{what}{self.head}Content-Length: {len(data)}\r\n\r\n"
        begin = time.perf_counter()
        self.link.sendall(head.encode() + data)
        status, length = self.file.readline(), 0
        while (line := self.file.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        content = self.file.read(length)
        self.times.append(time.perf_counter() - begin)
        assert b" 200 " in status, content
        return content

    def work(self, until):
        """Ask and tell, one after the other."""
        i = 0
        while time.perf_counter() < until:
            self.post("ask", {"site": self.site, "state": 0, "key": f"{self.run} {i}"})
            told = {"site": self.site, "key": f"{self.run} {i}", "reward": 0.4, "next_state": 0}
            self.post("tell", told)
            i += 1


def clients(port, secret, n, seconds, run):
    """Requests of n clients, in this process: decisions a second, and the times of a request."""
    made = [Client(port, secret, i, run) for i in range(n)]
    begin = time.perf_counter()
    working = [threading.Thread(target=client.work, args=(begin + seconds,)) for client in made]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    took = time.perf_counter() - begin
    times = np.concatenate([client.times for client in made])
    return times.size / 2 / took, *np.quantile(times, [0.5, 0.99])


def cpu(process):
    """Seconds that a process has computed for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit(address, seconds):
    """What the disk or the database can do by itself: pairs of small commits a second."""
    n, begin = 0, time.perf_counter()
    if "://" not in str(address):
        with open(str(address) + ".page", "wb", buffering=0) as file:
            while time.perf_counter() - begin < seconds:
                file.write(bytes(4_096))
                os.fsync(file.fileno())
                n += 1
    else:
        from surefooted.live.address import parse
        from surefooted.live.postgres_session import connect

        with connect(parse(address)) as db:
            db.execute("CREATE TABLE IF NOT EXISTS bare (n BIGSERIAL PRIMARY KEY, body TEXT)")
            while time.perf_counter() - begin < seconds:
                db.execute("INSERT INTO bare (body) VALUES (%s)", ("x" * 300,))
                n += 1
    return n / 2 / (time.perf_counter() - begin)


def local(address, seconds):
    """The same calls without HTTP, in one thread."""
    with sf.live.open(address) as store:
        shop, n, begin, computed = store.deployment("shop"), 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            shop.ask("site 0", 0, key=f"local {n}")
            shop.tell(site="site 0", key=f"local {n}", reward=0.4, next_state=0)
            n += 1
        return n / (time.perf_counter() - begin), (time.process_time() - computed) / n


def measure(name, address, seconds):
    secret = prepared(address)
    bare = limit(address, seconds)
    print(f"| {name}: small commits, in pairs | | {bare:.0f} | 1 | | | |", flush=True)
    process, port = served(address)
    try:
        clients(port, secret, 1, 2.0, "warm")
        for n in CLIENTS:
            before = cpu(process)
            rate, middle, worst = clients(port, secret, n, seconds, f"{n}")
            took = f"{1e3 * middle:.1f} | {1e3 * worst:.1f} | {1e3 * (cpu(process) - before) / (rate * seconds):.2f}"
            print(f"| {name} over HTTP | {n} | {rate:.0f} | {rate / bare:.2f} | {took} |", flush=True)
    finally:
        process.terminate()
        process.stderr.close()
        process.wait()
    rate, computed = local(address, seconds)
    print(f"| {name} without HTTP | 1 | {rate:.0f} | {rate / bare:.2f} | | | {1e3 * computed:.2f} |", flush=True)
    with sf.live.open(address) as store:
        assert store.verify().is_whole


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(machine())
    print("| what | clients | decisions a second | of the limit | p50 of a request, ms | p99, ms | CPU of each, ms |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=".") as place, ExitStack() as stack:
        measure("SQLite", Path(place) / "shop.db", seconds)
        sys.path.insert(0, str(HERE.parent / "tests"))
        try:
            from postgres_server import Server, Unavailable

            server = stack.enter_context(Server(parent=os.getcwd()))
        except (ImportError, Unavailable) as reason:
            print(f"PostgreSQL is left out: {reason}")
            return
        measure("PostgreSQL", server.address(), seconds)


if __name__ == "__main__":
    main()
