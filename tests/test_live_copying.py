"""Backup, restore, and moving between databases: everything arrives, or nothing does."""

import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import surefooted as sf
from live_help import deployed, replayed, shop, state_of
from surefooted.cli import main
from surefooted.live.copying import copy

HERE = Path(__file__).parent


def filled(path, decisions=12):
    """A store with a deployment of two sites, open decisions, a second deployment, and a token."""
    store, advisor = deployed(path, sites=("a", "ü"), allowance=20.0)
    for i in range(decisions):
        decision = advisor.ask("aü"[i % 2], 0, key=f"тест {i}")
        advisor.tell(decision, reward=0.25)
        if i % 3:
            advisor.tell(decision, next_state=0)
        else:
            advisor.relocate(decision.site, 0, "counted")
    advisor.snapshot()
    problem = shop()
    store.create_deployment("next", space=problem.space, baseline=advisor.definition.baseline, alpha=0.2)
    with store.transaction():
        insert = "INSERT INTO tokens (name, role, digest, created) VALUES (?, ?, ?, ?)"
        store.write(insert, "Ada's", "read", b"\0\1\xff", "2026-01-01")
    return store, advisor


def everything(store):
    """All rows of all tables."""
    told = sorted(store.indexed_told()), sorted(store.indexed_decisions())
    return list(store.lines()), store.definitions(), *told, store.tokens(), list(store.snapshots(1))


def test_there_and_back_again_it_is_the_same_to_the_last_bit(anywhere):
    store, advisor = filled(anywhere / "x.db")
    before, state = everything(store), state_of(advisor)
    copied = store.backup(anywhere / "copy.sqlite")
    assert copied == (store.last, store.head().hash.hex())
    sf.live.restore(anywhere / "copy.sqlite", anywhere / "again.db")
    for path in (anywhere / "copy.sqlite", anywhere / "again.db"):
        with sf.live.open(path) as other:
            assert everything(other) == before
            seen = other.verify()
            assert seen.is_whole and seen.events == copied.events
            assert state_of(other.deployment("shop")) == state
            with other.transaction():  # the numbers of tokens go on
                insert = "INSERT INTO tokens (name, role, digest, created) VALUES (?, ?, ?, ?)"
                other.write(insert, "new", "read", b"2", "2026-01-02")
            assert [row[0] for row in other.tokens()] == [1, 2]
        assert state_of(replayed(path)) == state
    with sf.live.open(anywhere / "again.db") as other:
        decision = other.deployment("shop").ask("a", 0, key="after")
        assert decision.id == copied.events + 1 and other.verify().is_whole


def test_a_copy_never_overwrites(anywhere):
    store, _ = filled(anywhere / "x.db", 2)
    (anywhere / "there.sqlite").write_text("mine")
    with pytest.raises(sf.InvalidInput, match="exists already"):
        store.backup(anywhere / "there.sqlite")
    assert (anywhere / "there.sqlite").read_text() == "mine"
    other, _ = deployed(anywhere / "other.db")
    with pytest.raises(sf.InvalidInput, match="is not empty: it has 3 events"):
        copy(store, other)
    assert other.last == 3 and other.verify().is_whole
    with pytest.raises(sf.SurefootedError, match="there is no store"):
        sf.live.restore(anywhere / "nothing.sqlite", anywhere / "new.db")
    assert not (anywhere / "nothing.sqlite").exists()


@pytest.mark.parametrize("statement, said", [
    ("UPDATE events SET kind = 'pause' WHERE n = 8", "event 8 is missing or was changed"),
    ("DELETE FROM events WHERE n = 9", "event 9 is missing"),
    ("UPDATE deployments SET definition = ? WHERE id = 1", "definition of deployment shop was changed"),
    ("DELETE FROM deployments WHERE id = 2", "definition of deployment 2 is missing"),
])  # fmt: skip
def test_what_is_damaged_is_not_copied(anywhere, statement, said):
    store, _ = filled(anywhere / "x.db", 4)
    with store.transaction():
        store.write(statement, *([b"x"] if "?" in statement else []))
    with sf.live.open(anywhere / "y.db") as target, pytest.raises(sf.live.StoreFault, match=said):
        copy(store, target)
    with sf.live.open(anywhere / "y.db") as target:
        assert target.last == 0 and not target.names() and not target.tokens()


def test_a_damaged_file_leaves_no_backup(place):
    store, _ = filled(place / "x.db", 4)
    with store.transaction():
        store.write("UPDATE events SET kind = 'tell' WHERE n = 3")
    with pytest.raises(sf.live.StoreFault, match="event 3"):
        store.backup(place / "copy.db")
    assert sorted(path.name for path in place.iterdir()) == ["x.db", "x.db-shm", "x.db-wal"]


def test_a_backup_of_an_older_version_is_restored_and_stays_as_it_is(anywhere):
    for version in (1, 2):
        shutil.copy(HERE / "stores" / f"version{version}.db", anywhere / f"old{version}.sqlite")
        content = (anywhere / f"old{version}.sqlite").read_bytes()
        sf.live.restore(anywhere / f"old{version}.sqlite", anywhere / f"new{version}.db")
        assert (anywhere / f"old{version}.sqlite").read_bytes() == content
        with sf.live.open(anywhere / f"new{version}.db") as store:
            seen = store.verify()
            assert seen.is_whole and seen.decisions == 40


def test_backup_while_others_decide(anywhere):
    path = anywhere / "x.db"
    store, advisor = deployed(path)
    stop, errors = threading.Event(), []

    def decide():
        try:
            with sf.live.open(path) as own:
                shop, i = own.deployment("shop"), 0
                while not stop.is_set():
                    decision = shop.ask("a", 0, key=str(i))
                    shop.tell(decision, reward=0.5, next_state=0)
                    i += 1
        except BaseException as error:  # shown by the test
            errors.append(error)

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        store.wait(20, 30.0)
        copies = []
        for i in range(4):
            copies.append(store.backup(anywhere / f"copy{i}.sqlite").events)
            seen = store.verify()
            assert seen.is_whole and seen.events >= copies[-1], seen.faults
            store.wait(copies[-1] + 5, 30.0)
    finally:
        stop.set()
        thread.join()
    assert not errors and 20 < copies[0] < copies[-1] < store.last
    journal = [event for event in advisor.journal()]
    for i, events in enumerate(copies):
        with sf.live.open(anywhere / f"copy{i}.sqlite") as copied:
            assert list(copied.events()) == journal[:events]


@pytest.mark.slow
def test_one_moves_from_sqlite_to_postgresql_and_back_on_the_command_line(place, postgres):
    def run(*arguments):
        result = CliRunner().invoke(main, ["live", *map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.output

    store, _ = filled(place / "x.db")
    before = everything(store)
    store.close()
    address = postgres.address()
    said = run("restore", place / "x.db", "--store", address)
    assert f"Copied {len(before[0])} events to postgresql://" in said and before[0][-1][-1].hex() in said
    assert "is whole" in run("verify", "--store", address)
    run("backup", place / "back.db", "--store", address)
    run("backup", postgres.address(), "--store", address)
    with sf.live.open(place / "back.db") as back:
        assert everything(back) == before


def test_waiting_for_the_next_event(place):
    """The same promise as on PostgreSQL; other processes are seen by looking twenty times a second."""
    store, advisor = deployed(place / "x.db")
    last, begin = store.last, time.monotonic()
    assert store.wait(last, 0.2) == last and time.monotonic() - begin >= 0.2
    assert store.wait(last - 1, 60) == last
    for asks in (advisor, sf.live.open(place / "x.db").deployment("shop")):
        last, begin = store.last, time.monotonic()
        thread = threading.Timer(0.1, asks.ask, ("a", 0), {"key": str(last)})
        thread.start()
        assert store.wait(last, 60) == last + 1 and time.monotonic() - begin < 30
        thread.join()


def test_a_file_that_is_no_store_is_not_restored(place):
    (place / "text.db").write_text("no database at all, but long enough to look at " * 40)
    with pytest.raises(sf.SurefootedError, match="cannot be read as a store"):
        sf.live.restore(place / "text.db", place / "new.db")
    with sqlite3.connect(place / "other.db") as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(sf.SurefootedError, match="no store of surefooted"):
        sf.live.restore(place / "other.db", place / "new.db")
