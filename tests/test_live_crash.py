"""What survives: kill -9 at every write and at random, full and read-only disks, damage, old stores, many writers."""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import surefooted as sf
from live_help import Clock, deployed, replayed, shop, state_of
from surefooted.live.store import GENESIS, SCHEMA, StoreFault, chain

HERE = Path(__file__).parent
WORKER = textwrap.dedent("""
    import os, random, sys
    sys.path.insert(0, {here!r})
    import surefooted as sf
    from live_help import shop
    path, seed, count, die_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    seen = 0
    def hook(point):
        global seen
        seen += 1
        if seen == die_at:
            os.kill(os.getpid(), 9)
    store = sf.live.open(path)
    store.hook = hook
    advisor, rng = store.deployment("shop"), random.Random(seed)
    for i in range(count):
        key, site = f"{{seed}} {{i}}", f"site {{seed % 3}}"
        decision = advisor.ask(site, 0, key=key)
        print("asked", decision.id, site, key, decision.action, flush=True)
        reward = round(rng.random(), 3)
        advisor.tell(decision, reward=reward, next_state=0)
        print("told", decision.id, reward, flush=True)
""")


def worker(path, seed, count, die_at=0, **options):
    code = WORKER.format(here=str(HERE))
    command = [sys.executable, "-c", code, str(path), str(seed), str(count), str(die_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def begun(path, **options):
    store, advisor = deployed(path, sites=("site 0", "site 1", "site 2"), allowance=30.0, **options)
    store.close()
    return advisor


def check_acknowledged(path, lines):
    """Every decision and outcome that was printed is in the journal, once; and the journal is whole."""
    store = sf.live.open(path)
    advisor, events = store.deployment("shop"), {}
    for event in advisor.journal():
        if event.kind == "ask":
            key = (event.body["site"], event.body["key"])
            assert key not in events
            events[key] = event
    told = {}
    for event in advisor.journal():
        if event.kind == "tell":
            assert event.body["decision"] not in told
            told[event.body["decision"]] = event.body["reward"]
    for line in lines:
        what, n, *rest = line.split()
        if what == "asked":
            event = store.event(int(n))
            assert event.body["key"] == " ".join(rest[2:4]) and event.body["action"] == int(rest[-1])
        else:
            assert told[int(n)] == float(rest[0])
    seen = store.verify()
    assert seen.is_whole, seen.faults
    assert state_of(replayed(path)) == state_of(advisor)
    return len(events)


def fork_and_die(path, die_at, seed):
    """Work in a child that kills itself at a write point; what it acknowledged."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        count = 0

        def hook(point):
            nonlocal count
            count += 1
            if count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            store = sf.live.open(path)
            store.hook, advisor, rng = hook, store.deployment("shop"), random.Random(seed)
            for i in range(6):
                key, site = f"{seed} {i}", f"site {seed % 3}"
                decision = advisor.ask(site, 0, key=key)
                os.write(write, f"asked {decision.id} {site} {key} {decision.action}\n".encode())
                reward = round(rng.random(), 3)
                advisor.tell(decision, reward=reward, next_state=0)
                os.write(write, f"told {decision.id} {reward}\n".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        lines = file.read().splitlines()
    _, status = os.waitpid(child, 0)
    return lines, os.WIFSIGNALED(status)


def deaths(path, points, first):
    begun(path)
    lines, killed = [], 0
    sf.live.open(path).deployment("shop").machine()  # compiled before the children are born
    for seed, point in enumerate(points, start=first):
        said, died = fork_and_die(path, point, seed)
        lines += said
        killed += died
    check_acknowledged(path, lines)
    return killed


def test_kill_at_every_write_loses_and_doubles_nothing(anywhere):  # and at random: tests/adversarial_kills.py
    assert deaths(anywhere / "x.db", range(1, 40), 0) >= 36


def test_a_decision_is_not_drawn_twice_after_a_crash(anywhere):
    """A randomised baseline: whoever asks again after a crash gets what the journal has, or what it would have had."""
    problem = shop()
    mixed = sf.Problem("mixed", problem.mdp, sf.Policy.uniform(problem.space), problem.start)
    asked = {}
    for name, points in (("calm", []), ("stormy", range(1, 25, 3))):
        path = anywhere / f"{name}.db"
        deployed(path, mixed, sites=("site 0", "site 1", "site 2"), mode="shadow")[0].close()
        for seed, point in enumerate(points):
            fork_and_die(path, point, 3 * seed)
        advisor = sf.live.open(path).deployment("shop")
        done = [event.body for event in advisor.journal() if event.kind == "ask"]
        for i in range(60 - len(done)):
            advisor.ask("site 1", 0, key=f"more {i}")
        asked[name] = [event.body["pair"] for event in advisor.journal() if event.kind == "ask"]
    assert asked["calm"] == asked["stormy"]  # the uniform of a decision depends on its number only


@pytest.mark.slow
def test_kill_at_random_times_under_load(anywhere):
    path = anywhere / "x.db"
    begun(path)
    rng, lines = random.Random(3), []
    for round_ in range(5):
        workers = [worker(path, 10 * round_ + k, 10_000) for k in range(2)]
        first = [process.stdout.readline() for process in workers]  # they decide, however slow the machine is
        time.sleep(2 * rng.random())
        for process, line in zip(workers, first, strict=True):
            process.kill()
            with process.stdout, process.stderr:
                said = line + process.stdout.read()  # communicate() would forget what readline() has read ahead
            process.wait()
            lines += said[: said.rfind("\n") + 1].splitlines()  # a line without an end was being printed
    assert check_acknowledged(path, lines) > 100


def test_two_processes_write_one_journal(anywhere):
    path = anywhere / "x.db"
    begun(path)
    workers = [worker(path, seed, 25) for seed in range(2)]
    said = [process.communicate(timeout=240) for process in workers]
    assert all(process.returncode == 0 for process in workers), said
    lines = [line for out, _ in said for line in out.splitlines()]
    assert len(lines) == 100 and check_acknowledged(path, lines) == 50


def test_eight_threads_share_one_store(anywhere):
    path = anywhere / "x.db"
    store, advisor = deployed(path, sites=[f"t{i}" for i in range(8)])
    errors = []

    def work(i):
        try:
            for k in range(20):
                decision = advisor.ask(f"t{i}", 0, key=str(k))
                advisor.tell(decision, reward=0.5, next_state=0)
                assert advisor.ask(f"t{i}", 0, key=str(k)) == decision
        except BaseException as error:  # shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        list(advisor.journal())  # read while others decide
    for thread in threads:
        thread.join()
    assert not errors and store.verify().decisions == 160
    assert state_of(replayed(path)) == state_of(advisor)


def test_a_full_disk_refuses_and_loses_nothing(place):
    path = place / "x.db"
    begun(path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            store = sf.live.open(path)
            advisor = store.deployment("shop")
            advisor.ask("site 0", 0, key="first")
            size = max(os.path.getsize(path), os.path.getsize(f"{path}-wal")) + 20_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            done = 0
            try:
                for i in range(10_000):
                    advisor.ask("site 0", 0, key=str(i))
                    done += 1
            except StoreFault as error:
                said = str(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            advisor.ask("site 0", 0, key="there is room again")
            os.write(write, json.dumps([done, said]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        done, said = json.loads(file.read())
    os.waitpid(child, 0)
    assert "nothing was decided" in said and 0 < done < 10_000
    store = sf.live.open(path)
    asks = [event.body["key"] for event in store.deployment("shop").journal() if event.kind == "ask"]
    assert asks == ["first", *map(str, range(done)), "there is room again"]
    assert store.verify().is_whole


def test_a_read_only_file_is_refused_and_stays_as_it_is(place, dropping):
    """A process that may read the store and not write to it: as root, another user without rights."""
    path = place / "x.db"
    begun(path)
    before = path.read_bytes()
    path.chmod(0o444)
    place.chmod(0o555)
    try:
        code = "import surefooted as sf; sf.live.open(__import__('sys').argv[1])"
        environment = {"HOME": "/", "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        command = [*dropping, sys.executable, "-c", code, str(path)]
        found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    finally:
        place.chmod(0o755)
    assert found.returncode == 1
    assert "UnreadableFile" in found.stderr and "x.db cannot be opened as a store: " in found.stderr
    assert path.read_bytes() == before and sf.live.open(path).verify().is_whole


def test_a_store_that_cannot_be_written_says_so_and_decides_nothing(place):
    _, advisor = deployed(place / "x.db")
    before = state_of(advisor)
    advisor.store._db.execute("PRAGMA query_only = ON")  # as a read-only file or file system answers
    with pytest.raises(StoreFault, match="nothing was decided"):
        advisor.ask("a", 0, key="1")
    advisor.store._db.execute("PRAGMA query_only = OFF")
    assert state_of(advisor) == before
    assert advisor.ask("a", 0, key="1").id == advisor.store.last


def test_a_clock_that_jumps_back_changes_no_order(place):
    clock = Clock()
    store, advisor = deployed(place / "x.db", clock=clock)
    first = advisor.ask("a", 0, key="1")
    clock.now -= timedelta(days=400)
    second = advisor.ask("a", 1, key="2")
    clock.now += timedelta(days=500)
    third = advisor.ask("a", 2, key="3")
    assert first.time <= second.time < third.time
    assert store.verify().is_whole


def test_a_torn_write_ahead_log_loses_only_what_was_never_acknowledged(place):
    path = place / "x.db"
    store, advisor = deployed(path)
    for i in range(5):
        advisor.ask("a", i, key=str(i))
    kept = (path.read_bytes(), Path(f"{path}-wal").read_bytes())
    advisor.ask("a", 5, key="torn")
    torn = Path(f"{path}-wal").read_bytes()
    store.close()
    for cut in (len(kept[1]) + 1, len(kept[1]) + 4_000, len(torn) - 1):
        other = place / f"{cut}.db"
        other.write_bytes(kept[0])
        Path(f"{other}-wal").write_bytes(torn[:cut])
        opened = sf.live.open(other)
        asks = [event.body["key"] for event in opened.deployment("shop").journal() if event.kind == "ask"]
        assert asks == list("01234") and opened.verify().is_whole


def damaged(path, place, change):
    """A copy of a store in which something was changed; what `verify` says."""
    copy = place / "copy.db"
    shutil.copy(path, copy)
    change(copy)
    return sf.live.open(copy).verify().faults


def test_one_changed_byte_in_an_event_is_noticed_with_its_place(place):
    path = place / "x.db"
    store, advisor = deployed(path)
    for i in range(6):
        decision = advisor.ask("a", i, key=str(i))
        advisor.tell(decision, reward=0.25, next_state=i + 1 if i < 5 else 0)
    store.close()

    def sql(statement):
        def change(copy):
            with sqlite3.connect(copy) as db:
                db.execute(statement)

        return change

    for statement, said in (
        ("UPDATE events SET body = replace(body, '0.25', '0.35') WHERE n = 7", "event 7 (tell"),
        ("UPDATE events SET at = replace(at, '2026', '2025') WHERE n = 5", "event 5"),
        ("DELETE FROM events WHERE n = 9", "event 9 is missing"),
        ("UPDATE decisions SET key = 'x' WHERE n = 6", "decision 6"),
        ("DELETE FROM told", "missing in the index"),
        ("UPDATE deployments SET definition = x'00'", "definition"),
    ):
        faults = damaged(path, place, sql(statement))
        assert any(said in fault for fault in faults), (statement, faults)


def test_any_changed_byte_that_changes_what_is_read_is_noticed(place):
    path = place / "x.db"
    store, advisor = deployed(path, drift=0.0)
    for i in range(12):
        decision = advisor.ask("a", i % 7, key=str(i))
        advisor.tell(decision, reward=0.25, next_state=(i + 1) % 7)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    content, rng, noticed, same = path.read_bytes(), np.random.default_rng(0), 0, 0
    with sqlite3.connect(path) as db:
        tables = ("events", "deployments", "decisions", "told")
        rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    for at in rng.integers(0, len(content), 120):
        copy = place / "copy.db"
        for left in place.glob("copy.db*"):
            left.unlink()
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        copy.write_bytes(bytes(changed))
        try:
            whole = sf.live.open(copy).verify().is_whole
        except sf.SurefootedError:
            whole = False
        if not whole:
            noticed += 1
            continue
        with sqlite3.connect(copy) as db:  # then the byte carried nothing
            assert {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables} == rows
        same += 1
    assert noticed >= 10 and same >= 10


def test_a_wrong_decision_in_the_journal_is_noticed_even_if_the_chain_was_made_again(place):
    path = place / "x.db"
    store, advisor = deployed(path)
    for i in range(4):
        decision = advisor.ask("a", i, key=str(i))
        advisor.tell(decision, reward=0.25, next_state=i + 1)
    store.close()
    with sqlite3.connect(path) as db:
        (body,) = db.execute("SELECT body FROM events WHERE n = 8").fetchone()
        told = json.loads(body)
        other = told["pair"] + 1
        db.execute("UPDATE events SET body = ? WHERE n = 8", (json.dumps(told | {"pair": other}),))
        rows = db.execute("SELECT n, deployment, at, kind, body FROM events ORDER BY n").fetchall()
        digest = GENESIS
        for row in rows:
            digest = chain(digest, *row)
            db.execute("UPDATE events SET hash = ? WHERE n = ?", (digest, row[0]))
    faults = sf.live.open(path).verify().faults
    assert faults == [f"decision 8: the journal says {{'pair': {other}}}, and gives {{'pair': {told['pair']}}}"]
    fleet = sf.live.open(path).deployment("shop").machine().fleet
    assert fleet.learner.counts.visits[other] == 1  # what was recorded counts, whoever decided it


def test_snapshots_may_be_deleted_or_damaged(place, monkeypatch):
    monkeypatch.setattr("surefooted.live.following.EVERY", 50)
    path = place / "x.db"
    store, advisor = deployed(path, allowance=20.0)
    for i in range(150):
        decision = advisor.ask("a", i % 7, key=str(i))
        advisor.tell(decision, reward=0.25, next_state=(i + 1) % 7)
    whole = state_of(advisor)
    assert len(store.read("SELECT n FROM snapshots")) == 2
    from_snapshot = sf.live.open(path).deployment("shop")
    assert state_of(from_snapshot) == whole and from_snapshot._snapshot_at > 0
    with store.transaction():
        store.write("UPDATE snapshots SET body = substr(body, 1, length(body) - 1)")
    again = sf.live.open(path).deployment("shop")
    assert state_of(again) == whole and again._snapshot_at == 0
    assert state_of(replayed(path)) == whole


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_older_version_is_brought_up_to_date(place, version):
    """A store as that version wrote it, recorded with what it had decided."""
    shutil.copy(HERE / "stores" / f"version{version}.db", place / "x.db")
    store = sf.live.open(place / "x.db")
    assert store.read("PRAGMA user_version")[0][0] == SCHEMA == 3
    assert store.read("SELECT 1 FROM sqlite_master WHERE name = 'events_of_deployment'")
    assert store.read("SELECT id, name, role, sites, digest, created, expires, revoked FROM tokens") == []
    seen, advisor = store.verify(), store.deployment("shop")
    assert seen.is_whole and seen.decisions == 40
    assert advisor.status()["decisions"] == 40
    decision = advisor.ask("a", advisor.machine().sites[0].expects, key="new")
    assert decision.id == seen.events + 1


def test_a_newer_store_and_other_files_are_refused(place):
    begun(place / "x.db")
    with sqlite3.connect(place / "x.db") as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    with pytest.raises(sf.SurefootedError, match="newer surefooted"):
        sf.live.open(place / "x.db")
    (place / "text.db").write_text("no database at all, but long enough to look at " * 40)
    with pytest.raises(sf.SurefootedError, match="cannot be opened"):
        sf.live.open(place / "text.db")
    with sqlite3.connect(place / "other.db") as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(sf.SurefootedError, match="no store of surefooted"):
        sf.live.open(place / "other.db")
