"""Many at one store, and moments that nobody chooses: readers beside writers, torn pages, a crash in a migration."""

import csv
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet
import pytest

import surefooted as sf
from live_help import deployed, replayed, state_of
from surefooted.live.sqlite_store import SQLiteLiveStore
from surefooted.live.store import SCHEMA

HERE = Path(__file__).parent
MANY = """
import sys, threading
sys.path.insert(0, sys.argv[2])
import surefooted as sf
store = sf.live.open(sys.argv[1])
advisor, errors = store.deployment("shop"), []

def work(name):
    try:
        for k in range(6):
            decision = advisor.ask(name, 0, key=str(k))
            advisor.tell(decision, reward=0.5, next_state=0)
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=work, args=(f"{sys.argv[3]} {i}",)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors, errors
"""


@pytest.mark.slow
def test_two_processes_with_eight_threads_each_write_one_journal(place):
    path = place / "x.db"
    sites = [f"{name} {i}" for name in ("left", "right") for i in range(8)]
    deployed(path, sites=sites, allowance=10.0)[0].close()
    command = [sys.executable, "-c", MANY, str(path), str(HERE)]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("left", "right")]
    said = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    store = sf.live.open(path)
    seen = store.verify()
    assert seen.is_whole and seen.decisions == 96
    advisor = store.deployment("shop")
    assert {(row["site"], row["key"]) for row in advisor.rows()} == {(s, str(k)) for s in sites for k in range(6)}
    assert all(row["complete"] for row in advisor.rows())
    assert state_of(replayed(path)) == state_of(advisor)


def exported(advisor, place):
    """What three exports, the rows and the journal say, as lists of decisions."""
    for kind in ("csv", "jsonl", "parquet"):
        advisor.export(place / f"all.{kind}")
    with (place / "all.csv").open(newline="") as file:
        yield [int(row["decision"]) for row in csv.DictReader(file)]
    yield [json.loads(line)["decision"] for line in (place / "all.jsonl").read_text().splitlines()]
    yield [row["decision"] for row in pyarrow.parquet.read_table(place / "all.parquet").to_pylist()]
    yield [row["decision"] for row in advisor.rows()]
    yield [event.n for event in advisor.journal() if event.kind == "ask"]


def test_journal_and_exports_are_whole_while_others_decide(place):
    path = place / "x.db"
    deployed(path, allowance=10.0)[0].close()
    store, errors, goes_on = sf.live.open(path), [], threading.Event()

    def decide():
        try:
            writer = sf.live.open(path).deployment("shop")
            for i in range(150):
                decision = writer.ask("a", 0, key=str(i))
                writer.tell(decision, reward=0.5)
                goes_on.set()
        except BaseException as error:  # shown by the test
            errors.append(error)

    thread = threading.Thread(target=decide)
    thread.start()
    goes_on.wait(60)
    reader, longest = store.deployment("shop"), 0
    while thread.is_alive():
        for decisions in exported(reader, place):
            assert len(decisions) >= longest
            longest = len(decisions)
            assert decisions == list(range(4, 4 + 2 * longest, 2))  # each ask is followed by its tell
    thread.join()
    assert not errors and [len(decisions) for decisions in exported(reader, place)] == [150] * 5
    assert not list(place.glob("*.part"))


def test_an_export_that_fails_leaves_the_old_file(place, monkeypatch):
    _, advisor = deployed(place / "x.db")
    for i in range(3):
        advisor.ask("a", i, key=str(i))
    advisor.export(place / "all.csv")
    before = (place / "all.csv").read_text()
    monkeypatch.setattr(type(advisor), "_row", lambda *_: 1 / 0)
    for kind in ("csv", "jsonl", "parquet"):
        with pytest.raises(ZeroDivisionError):
            advisor.export(place / f"all.{kind}")
    assert (place / "all.csv").read_text() == before and len(list(place.glob("*all*"))) == 1


def test_a_page_that_was_torn_while_the_log_was_moved_into_the_file_is_mended(place):
    """The machine stops in the middle of a checkpoint: the file has a part of a page, and the log has all of it."""
    path = place / "x.db"
    store, advisor = deployed(path)
    for i in range(6):
        advisor.ask("a", i, key=str(i))
    before, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    store._db.execute("PRAGMA wal_checkpoint(FULL)")
    after = path.read_bytes()
    assert after != before
    before += bytes(len(after) - len(before))
    changed = [i for i in range(0, len(after), 512) if after[i : i + 512] != before[i : i + 512]]
    for cut in (changed[0] + 7, changed[len(changed) // 2] + 100, changed[-1] + 300):
        for torn in (after[:cut] + before[cut:], before[:cut] + after[cut:], after[:cut]):
            other = place / "torn.db"
            for left in place.glob("torn.db*"):
                left.unlink()
            other.write_bytes(torn)
            Path(f"{other}-wal").write_bytes(log)
            opened = sf.live.open(other)
            asks = [event.body["key"] for event in opened.deployment("shop").journal() if event.kind == "ask"]
            assert asks == list("012345") and opened.verify().is_whole
            opened.close()


def test_a_crash_in_the_middle_of_a_migration_changes_nothing(place):
    path = place / "x.db"
    shutil.copy(HERE / "stores" / "version1.db", path)
    for point in ("before begin", "migrate 1", "before commit"):
        child = os.fork()
        if child == 0:

            def hook(reached, point=point):
                if reached == point:
                    os.kill(os.getpid(), signal.SIGKILL)

            try:
                SQLiteLiveStore(path, hook=hook)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    store = sf.live.open(path)
    assert store.read("PRAGMA user_version")[0][0] == SCHEMA and store.verify().is_whole
