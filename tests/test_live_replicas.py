"""Several processes on one PostgreSQL store: killed, cut off, and the server restarted under load."""

import contextlib
import hashlib
import json
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import surefooted as sf
from live_help import deployed, replayed, state_of
from surefooted.cli import main

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
SITES = ("a", "b", "c")
REPLICA = textwrap.dedent("""
    import hashlib, json, random, sys
    sys.path.insert(0, {here!r})
    import surefooted as sf
    from live_help import state_of
    address, seed, count = sys.stdin.readline().strip(), int(sys.argv[1]), int(sys.argv[2])
    rng, mine = random.Random(seed), []

    def say(**what):
        print(json.dumps(what), flush=True)

    def insist(call, **given):
        while True:
            try:
                return call(**given)
            except sf.live.StoreFault as fault:
                say(what="fault", said=str(fault))

    store = sf.live.open(address)
    advisor = store.deployment("shop")
    for i in range(count):
        kind = rng.choice(["ask", "ask", "tell", "tell", "pause"])
        if kind == "ask" or not mine:
            key = rng.choice([f"{{seed}} {{i}}", f"shared {{i // 4}}"])
            site = "abc"[hash(key.split()[1]) % 3] if key[0] == "s" else rng.choice("abc")
            decision = insist(advisor.ask, site=site, state=0, key=key)
            mine.append(decision.id)
            say(what="asked", id=decision.id, site=site, key=key, action=decision.action)
        elif kind == "tell":
            id = mine.pop(rng.randrange(len(mine)))
            reward = (id * 37 % 101) / 101  # whoever tells, tells the same
            insist(advisor.tell, decision=id, reward=reward, next_state=0)
            say(what="told", id=id, reward=reward)
        elif rng.random() < 0.1:
            site = rng.choice("abc")
            insist(rng.choice([advisor.pause, advisor.resume]), site=site, who=str(seed))
    say(what="done")
    sys.stdin.readline()  # until all are done
    say(what="state", sha=hashlib.sha256(state_of(advisor)).hexdigest(), n=advisor.machine().n)
""").format(here=str(HERE))


class Replica:
    """A process that asks and tells at random, and what it has said."""

    def __init__(self, address, seed, count):
        command = [sys.executable, "-W", "error", "-c", REPLICA, str(seed), str(count)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"PYTHONHASHSEED": "0", "PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        self.said, self.seen = [], threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.write(address)

    def _read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):  # a line without an end was being printed
                with self.seen:
                    self.said.append(json.loads(line))
                    self.seen.notify_all()

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, what, count=1, timeout=240):
        """Wait until it has said something so often."""
        with self.seen:
            done = self.seen.wait_for(
                lambda: sum(said["what"] == what for said in self.said) >= count or self.process.poll() is not None,
                timeout,
            )
        assert done and self.process.poll() is None, self.process.stderr.read()[-3_000:]

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        self.process.wait(60)
        self._reader.join(60)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def state(self):
        """Its state, when all others have ended."""
        self.write("go on")
        self.until("state")
        self.end()
        return self.said[-1]


def faults(replicas):
    return [said["said"] for replica in replicas for said in replica.said if said["what"] == "fault"]


def check(address, replicas):
    """Nothing acknowledged is lost, nothing is doubled, and all is the same to the last bit when it is replayed."""
    store = sf.live.open(address)
    advisor, keys, told = store.deployment("shop"), {}, {}
    numbers = [event.n for event in store.events()]
    assert numbers == list(range(1, len(numbers) + 1))
    for event in advisor.journal():
        if event.kind == "ask":
            assert (event.body["site"], event.body["key"]) not in keys
            keys[event.body["site"], event.body["key"]] = event
        if event.kind == "tell" and "reward" in event.body:
            assert event.body["decision"] not in told
            told[event.body["decision"]] = event.body["reward"]
    for replica in replicas:
        for said in replica.said:
            if said["what"] == "asked":
                event = keys["abc".index(said["site"]), said["key"]]
                assert event.n == said["id"] and event.body["action"] == said["action"]
            elif said["what"] == "told":
                assert told[said["id"]] == said["reward"]
    seen = store.verify()
    assert seen.is_whole, seen.faults
    assert state_of(replayed(address)) == state_of(advisor)
    sha = hashlib.sha256(state_of(advisor)).hexdigest()
    return len(keys), sha


@pytest.fixture
def address(postgres):
    address = postgres.address()
    deployed(address, sites=SITES, allowance=60.0)[0].close()
    return address


def test_two_replicas_serve_the_same_sites_at_random(address):
    replicas = [Replica(address, seed, 250) for seed in (1, 2)]
    for replica in replicas:
        replica.until("done")
    states = [replica.state() for replica in replicas]
    assert not faults(replicas)
    decisions, sha = check(address, replicas)
    assert decisions > 100 and {state["sha"] for state in states} == {sha}
    shared = [{said["key"]: said["id"] for said in replica.said if said.get("key", "").startswith("shared")}
              for replica in replicas]  # fmt: skip
    both = shared[0].keys() & shared[1].keys()
    assert len(both) > 20 and all(shared[0][key] == shared[1][key] for key in both)


def test_killing_replicas_under_load_loses_and_doubles_nothing(address):
    rng = random.Random(4)
    steady, victims = Replica(address, 1, 1_500), []
    steady.until("asked", 5)
    for seed in range(10, 15):
        victims.append(Replica(address, seed, 100_000))
        victims[-1].until("told", 8)
        time.sleep(rng.random() * 0.3)
        victims[-1].kill()
    steady.until("done")
    state = steady.state()
    assert not faults([steady])
    decisions, sha = check(address, [steady, *victims])
    assert decisions > 300 and state["sha"] == sha


def test_restarting_the_server_under_load_loses_and_doubles_nothing(postgres, address):
    replicas = [Replica(address, seed, 1_200) for seed in (1, 2)]
    for replica in replicas:
        replica.until("told", 20)
    for mode in ("immediate", "fast", "immediate"):
        postgres.restart(mode)
        counts = [sum(said["what"] == "told" for said in replica.said) for replica in replicas]
        for replica, count in zip(replicas, counts, strict=True):
            replica.until("told", count + 20)
    for replica in replicas:
        replica.until("done")
    states = [replica.state() for replica in replicas]
    for said in faults(replicas):
        assert "nothing was decided" in said or "not known" in said
    decisions, sha = check(address, replicas)
    assert decisions > 500 and {state["sha"] for state in states} == {sha}


class Proxy:
    """Stands between a store and the server, and cuts the connection when a commit passes.

    `cut`: None, "before" (the commit never arrives), "after" (its answer never arrives), "late" (it arrives a second
    after the connection was cut). `open`: whether new connections are let through.
    """

    def __init__(self, target):
        self.target, self.cut, self.open, self.cuts = target, None, True, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if not self.open:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                for source, sink, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pump, args=(source, sink, asks), daemon=True).start()

    def _pump(self, source, sink, asks):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if asks and self.cut and b"COMMIT\0" in data:
                    cut, self.cut, self.cuts = self.cut, None, self.cuts + 1
                    if cut in ("down", "after"):
                        self.open = cut != "down"
                        source.shutdown(socket.SHUT_RDWR)
                        sink.sendall(data)
                        time.sleep(0.2)
                    if cut == "late":
                        source.shutdown(socket.SHUT_RDWR)
                        time.sleep(1.0)
                        sink.sendall(data)
                        time.sleep(0.2)
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self):
        self._listening.close()


@pytest.fixture
def behind(postgres, address):
    """An advisor behind a proxy, the proxy, and the address without it."""
    schema = address.rpartition("schema=")[2]
    proxy = Proxy(f"{postgres.sockets}/.s.PGSQL.{postgres.port}")
    store = sf.live.open(f"postgresql://ada@127.0.0.1:{proxy.port}/postgres?sslmode=disable&schema={schema}")
    yield store.deployment("shop"), proxy, address
    store.close()
    proxy.close()


def asked(address):
    """All keys that have a decision, in order."""
    with sf.live.open(address) as store:
        assert store.verify().is_whole
        return [event.body["key"] for event in store.events() if event.kind == "ask"]


def test_a_commit_that_never_arrives_has_decided_nothing(behind):
    advisor, proxy, address = behind
    advisor.ask("a", 0, key="1")
    proxy.cut = "before"
    with pytest.raises(sf.live.StoreFault, match="nothing was decided"):
        advisor.ask("a", 0, key="2")
    assert proxy.cuts == 1 and asked(address) == ["1"]
    second = advisor.ask("a", 0, key="2")
    assert asked(address) == ["1", "2"] and second.id == advisor.store.last


@pytest.mark.parametrize("cut", ["after", "late"])
def test_a_commit_whose_answer_is_lost_is_found_in_the_journal(behind, cut):
    """Also if it arrives long after the connection was lost: the lock of the lost transaction is waited for."""
    advisor, proxy, address = behind
    first = advisor.ask("a", 0, key="1")
    proxy.cut = cut
    second = advisor.ask("b", 0, key="2")
    assert proxy.cuts == 1 and asked(address) == ["1", "2"] and second.id == first.id + 1
    assert advisor.ask("b", 0, key="2") == second
    proxy.cut = cut
    advisor.tell(second, reward=0.5, next_state=0)
    assert proxy.cuts == 2 and advisor.known(second.id).reward == 0.5
    assert state_of(replayed(address)) == state_of(advisor)


def test_if_nobody_can_know_it_is_said_and_asking_again_settles_it(behind, monkeypatch):
    monkeypatch.setattr("surefooted.live.postgres_store.PATIENCE", 1.0)
    advisor, proxy, address = behind
    advisor.ask("a", 0, key="1")
    proxy.cut = "down"
    with pytest.raises(sf.live.StoreFault, match="not known whether this was written") as fault:
        advisor.ask("a", 0, key="2")
    assert "nothing was decided" not in str(fault.value) and "same key" in str(fault.value)
    with pytest.raises(sf.live.StoreFault, match=r"cannot be reached, and nothing was decided"):
        advisor.ask("a", 0, key="3")
    proxy.open = True
    assert asked(address) == ["1", "2"]
    again = advisor.ask("a", 0, key="2")
    assert asked(address) == ["1", "2"] and again.id == advisor.store.last
    advisor.tell(again, reward=0.5, next_state=0)
    assert state_of(replayed(address)) == state_of(advisor)


@pytest.mark.parametrize("point", ["before begin", "before event", "after event", "after index", "before commit",
                                   "after commit"])  # fmt: skip
def test_a_backend_that_is_ended_at_any_point_decides_all_or_nothing(postgres, address, point):
    store, admin = sf.live.open(address), sf.live.open(postgres.address())
    advisor, due = store.deployment("shop"), [False]
    first = advisor.ask("a", 0, key="1")

    def hook(reached):
        if due[0] and reached == point:
            due[0] = False
            admin.read("SELECT pg_terminate_backend(?)", store._link.db.info.backend_pid)
            time.sleep(0.1)

    store.hook = hook
    for i in range(4):
        due[0], key = True, f"key {i}"
        if point in ("before begin", "after commit"):  # nothing has happened yet, or all of it has
            decision = advisor.ask("b", 0, key=key)
        else:
            with pytest.raises(sf.live.StoreFault, match="nothing was decided"):
                advisor.ask("b", 0, key=key)
            decision = advisor.ask("b", 0, key=key)
        assert not due[0] and decision.id == store.last
    assert advisor.ask("a", 0, key="1") == first
    assert asked(address) == ["1", "key 0", "key 1", "key 2", "key 3"]
    assert state_of(replayed(address)) == state_of(advisor)


def test_a_year_is_rehearsed_on_a_server(postgres):
    """With late, lost and repeated outcomes, and a process that is killed; no address stands in any command."""
    address = postgres.address()
    command = ["live", "rehearse", str(HERE.parent / "examples" / "machine.toml")]
    command += ["--baseline", "world", "--steps", "40"]
    command += ["--allowance", "3000", "--crashes", "3", "--store", address, "--json"]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["killed"] == 3
    with sf.live.open(address) as store:
        assert store.verify().is_whole
    again = CliRunner().invoke(main, command)
    assert again.exit_code == 1 and "exists already: a rehearsal needs a new store" in again.output
