"""The PostgreSQL store itself: whose tables, which version, whose turn, secrets, waiting, damage."""

import logging
import sys
import threading
import time
import traceback

import pytest
from click.testing import CliRunner

import surefooted as sf
from live_help import deployed, replayed, state_of
from surefooted.cli import main
from surefooted.live.store import SCHEMA, Store

SECRET = "pa55 w/rd?&"
QUOTED = "pa55%20w%2Frd%3F%26"


def test_a_missing_package_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("psycopg", "surefooted.live.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("surefooted.live.address", "surefooted.live.listening"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(sf.SurefootedError, match=r'pip install "surefooted\[postgres\]"'):
        sf.live.open("postgresql://localhost/shops")
    shown = CliRunner().invoke(main, ["live", "status", "--store", f"postgresql://ada:{QUOTED}@localhost/shops"])
    assert shown.exit_code == 1 and "surefooted[postgres]" in shown.output and "pa55" not in shown.output


def everything_said(error):
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("address", [
    f"postgresql://ada:{QUOTED}@127.0.0.1:1/shops",
    f"postgresql://ada:{SECRET}@127.0.0.1:1/shops",
    "postgresql://ada:pa55:pa55@[pa55/shops?pa55=pa55",
    "postgresql://ada@127.0.0.1:1/shops?password=pa55%20w",
    "postgresql://ada:x@pa55@127.0.0.1:1/shops",
    "postgresql://ada:1/pa55@127.0.0.1:1/shops",
    "postgresql://ada:x:pa55@127.0.0.1:1/shops",
    "postgresql://ada:pa55?pa55@127.0.0.1:1/shops",
    "postgresql://ada:pa55#pa55@127.0.0.1:1/shops",
    "postgresql://ada:pa55@127.0.0.1:pa55/shops",
])  # fmt: skip
def test_no_secret_of_an_address_is_ever_shown(address, caplog):
    pytest.importorskip("psycopg", exc_type=ImportError)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(sf.SurefootedError) as error:
        sf.live.open(address)
    assert "pa55" not in everything_said(error.value) and "pa55" not in caplog.text
    for command in ("status", "verify"):
        shown = CliRunner().invoke(main, ["live", command, "--store", address])
        assert shown.exit_code == 1 and "pa55" not in shown.output


def test_an_address_names_a_schema(place):
    pytest.importorskip("psycopg", exc_type=ImportError)
    from surefooted.live.address import parse

    found = parse("postgresql://ada:x@a,b:5433/shops?target_session_attrs=read-write&schema=north")
    assert found.schema == "north" and found.parameters["target_session_attrs"] == "read-write"
    assert "x" not in repr(found).replace("schema", "") and parse("postgres:///").schema == "surefooted"
    for shown in (
        "postgresql://ada@[::1]:5433,db-2.example.com/shops",
        "postgresql:///x?host=/tmp/a&port=5433&schema=b",
    ):
        assert parse(shown).shown == shown
    for wrong in ("North", "pg_x", 'a"b', "a b", "", "x" * 51):
        with pytest.raises(sf.InvalidInput, match="schema"):
            parse(f"postgresql:///?schema={wrong}")


@pytest.mark.slow
class TestServer:
    """With a real server."""

    def test_a_wrong_password_is_refused_and_not_shown(self, postgres, caplog):
        caplog.set_level(logging.DEBUG)
        postgres.execute(f"CREATE ROLE ben LOGIN PASSWORD '{SECRET}' SUPERUSER")
        right = f"postgresql://ben:{QUOTED}@127.0.0.1:{postgres.port}/postgres?schema=of_ben"
        with sf.live.open(right) as store:
            assert store.deployments() == [] and "pa55" not in store.name + repr(vars(store))
            assert store.name == f"postgresql://ben@127.0.0.1:{postgres.port}/postgres?schema=of_ben"
        with pytest.raises(sf.SurefootedError, match="password authentication failed") as error:
            sf.live.open(right.replace(QUOTED, f"not{QUOTED}"))
        assert "pa55" not in everything_said(error.value) + caplog.text + postgres.log()

    def test_many_may_create_a_store_at_once(self, postgres):
        address, failed = postgres.address(), []

        def create():
            try:
                sf.live.open(address).close()
            except BaseException as error:  # shown by the test
                failed.append(error)

        threads = [threading.Thread(target=create) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        with sf.live.open(address) as store:
            assert store.read("SELECT version, n FROM head") == [(SCHEMA, 0)]

    def test_an_older_store_is_brought_up_to_date_by_one_and_refused_by_those_who_run(self, postgres, monkeypatch):
        address = postgres.address()
        running, advisor = deployed(address)
        advisor.ask("a", 0, key="1")
        tables = "surefooted.live.postgres_tables"
        monkeypatch.setattr(f"{tables}.SCHEMA", SCHEMA + 1)
        monkeypatch.setattr(f"{tables}.MIGRATIONS", {SCHEMA: "CREATE TABLE more (x BIGINT); SELECT pg_sleep(0.2)"})
        threads = [threading.Thread(target=lambda: sf.live.open(address).close()) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with sf.live.open(address) as store:
            assert store.read("SELECT count(*) FROM more") == [(0,)]
            assert store.read("SELECT version FROM head") == [(SCHEMA + 1,)]
        monkeypatch.undo()
        with pytest.raises(sf.SurefootedError, match="newer surefooted"):
            advisor.ask("a", 0, key="2")
        with pytest.raises(sf.SurefootedError, match="newer surefooted"):
            sf.live.open(address)
        assert [event.kind for event in running.events()] == ["deployment", "mode", "site", "ask"]

    def test_a_migration_that_fails_changes_nothing(self, postgres, monkeypatch):
        address = postgres.address()
        deployed(address)[0].close()
        tables = "surefooted.live.postgres_tables"
        monkeypatch.setattr(f"{tables}.SCHEMA", SCHEMA + 1)
        monkeypatch.setattr(f"{tables}.MIGRATIONS", {SCHEMA: "CREATE TABLE more (x BIGINT); SELECT 1 / 0"})
        with pytest.raises(sf.SurefootedError, match="division by zero"):
            sf.live.open(address)
        monkeypatch.undo()
        with sf.live.open(address) as store:
            assert store.verify().is_whole
            assert store.read("SELECT to_regclass('more')") == [(None,)]

    def test_other_tables_servers_and_encodings_are_refused(self, postgres):
        address = postgres.address("of_somebody")
        postgres.execute("CREATE SCHEMA of_somebody; CREATE TABLE of_somebody.x (y INT)")
        with pytest.raises(sf.SurefootedError, match="has tables, but is no store of surefooted"):
            sf.live.open(address)
        postgres.execute("CREATE TABLE of_somebody.head (application INT, version INT)")
        with pytest.raises(sf.SurefootedError, match="no store of surefooted"):
            sf.live.open(address)
        postgres.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        with pytest.raises(sf.SurefootedError, match="encoding LATIN1"):
            sf.live.open(address.replace("/postgres?", "/old?"))
        with pytest.raises(sf.SurefootedError, match='database "nowhere" does not exist'):
            sf.live.open(address.replace("/postgres?", "/nowhere?"))

    def test_a_server_that_may_lose_what_it_acknowledged_is_refused(self, postgres):
        postgres.execute("ALTER SYSTEM SET fsync = off")
        postgres.execute("SELECT pg_reload_conf()")
        try:
            time.sleep(0.5)
            with pytest.raises(sf.SurefootedError, match=r"fsync = off.*Turn fsync on"):
                sf.live.open(postgres.address())
        finally:
            postgres.execute("ALTER SYSTEM RESET fsync")
            postgres.execute("SELECT pg_reload_conf()")
            time.sleep(0.5)

    def test_no_command_but_init_creates_a_store(self, postgres):
        address = postgres.address()
        shown = CliRunner().invoke(main, ["live", "status", "--store", address])
        assert shown.exit_code == 1 and "create one: surefooted live init" in shown.output
        with sf.live.open(postgres.address()) as store:
            schema = address.rpartition("schema=")[2]
            assert store.read("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema) == []

    def test_every_answer_is_on_disk(self, postgres):
        postgres.execute("ALTER ROLE ada SET synchronous_commit = off")
        try:
            with sf.live.open(postgres.address()) as store:
                assert store.read("SHOW synchronous_commit") == [("on",)]
        finally:
            postgres.execute("ALTER ROLE ada RESET synchronous_commit")

    def test_one_who_holds_the_lock_for_too_long_is_refused_and_decides_nothing(self, postgres, monkeypatch):
        monkeypatch.setattr("surefooted.live.postgres_session.BUSY", 1.0)
        address = postgres.address()
        _, advisor = deployed(address)
        patient = sf.live.open(address).deployment("shop")
        with pytest.raises(sf.live.StoreFault, match="nothing was decided"):
            with advisor.store.transaction():
                advisor.store._link.db.execute("SET idle_in_transaction_session_timeout = '30s'")
                advisor.store.append(advisor.id, "pause", {"site": None, "who": None, "note": None})
                with pytest.raises(sf.live.StoreFault, match=r"nothing was decided.*lock timeout"):
                    with patient.store.transaction():
                        raise AssertionError("had its turn")
                advisor.store._link.db.execute("SET idle_in_transaction_session_timeout = '200ms'")
                time.sleep(0.6)
        decision = patient.ask("a", 0, key="1")
        assert advisor.ask("a", 0, key="1") == decision
        assert advisor.store.verify().is_whole and advisor.status()["paused"] is None

    def test_waiting_for_events_of_others(self, postgres):
        address = postgres.address()
        store, advisor = deployed(address)
        other = sf.live.open(address).deployment("shop")
        last = store.last
        begin = time.monotonic()
        assert store.wait(last, 0.3) == last and time.monotonic() - begin >= 0.3
        assert store.wait(last - 1, 60) == last
        for round_ in range(3):
            last, begin = store.last, time.monotonic()
            thread = threading.Timer(0.3, other.ask, ("a", 0), {"key": str(round_)})
            thread.start()
            assert store.wait(last, 30) == last + 1
            assert time.monotonic() - begin < 4  # it was announced, and not found by looking every five seconds
            thread.join()
            listens = "FROM pg_stat_activity WHERE query LIKE ?"
            ended = store.read(f"SELECT pg_terminate_backend(pid) {listens}", f"LISTEN%{store._link.address.schema}%")
            assert ended == [(True,)]
            time.sleep(1.5)
        last = store.last
        thread = threading.Timer(0.2, advisor.ask, ("a", 0), {"key": "own"})  # in the same process
        thread.start()
        assert store.wait(last, 30) == last + 1
        thread.join()
        store.close()
        store._listener.join(10)
        assert not store._listener.is_alive()

    def test_nobody_is_told_of_an_event_before_it_is_committed(self, postgres):
        store, advisor = deployed(postgres.address())
        last, waiting, seen = store.last, threading.Event(), []

        def listen():
            waiting.set()
            n = store.wait(last, 30)
            seen.append((n, store.event(n).kind))

        def hook(point):
            if point == "before commit":
                thread.start()
                waiting.wait()
                time.sleep(0.3)
                seen.append("commits")

        thread, store.hook = threading.Thread(target=listen), hook
        advisor.pause(who="Ada")
        thread.join()
        assert seen == ["commits", (last + 1, "pause")]

    def test_a_database_that_was_put_back_is_followed_from_there(self, postgres):
        address = postgres.address()
        store, advisor = deployed(address)
        for i in range(4):
            decision = advisor.ask("a", 0, key=str(i))
            advisor.tell(decision, reward=0.5, next_state=0)
        with sf.live.open(address) as other, other.transaction():  # as a restored backup would be
            for table in ("events", "decisions", "told"):
                other.write(f"DELETE FROM {table} WHERE n > 7")
            other.end_at(Store.head(other))
        again = advisor.ask("a", 0, key="2")
        assert again.id == 8 and state_of(replayed(address)) == state_of(advisor)
        assert store.verify().is_whole
        with sf.live.open(address) as other, other.transaction():
            for table in ("events", "decisions", "told"):
                other.write(f"DELETE FROM {table} WHERE n > 7")
            other.end_at(Store.head(other))
        sf.live.open(address).deployment("shop").pause()  # as many events as before
        assert advisor.ask("a", 0, key="3").id == 9 and state_of(replayed(address)) == state_of(advisor)

    def test_damage_is_noticed_with_its_place(self, postgres):
        for statement, said in (
            ("UPDATE events SET body = replace(body, '0.25', '0.35') WHERE n = 7", "event 7 (tell"),
            ("UPDATE events SET at = replace(at, '2026', '2025') WHERE n = 5", "event 5"),
            ("DELETE FROM events WHERE n = 9", "event 9 is missing"),
            ("DELETE FROM events WHERE n >= 14", "the table head: says that the journal ends with event 15"),
            ("UPDATE decisions SET key = 'x' WHERE n = 6", "decision 6"),
            ("DELETE FROM told", "missing in the index"),
            ("UPDATE deployments SET definition = '\\x00'", "definition"),
        ):
            address = postgres.address()
            store, advisor = deployed(address)
            for i in range(6):
                decision = advisor.ask("a", i, key=str(i))
                advisor.tell(decision, reward=0.25, next_state=i + 1 if i < 5 else 0)
            assert store.verify().is_whole
            with store.transaction():
                store.write(statement)
            faults = store.verify().faults
            assert any(said in fault for fault in faults), (statement, faults)

    def test_stores_in_schemas_of_one_database_do_not_wait_for_each_other(self, postgres):
        address = postgres.address()
        one, shop = deployed(address, sites=("a", "b"))
        other, mill = deployed(postgres.address(), name="mill")
        replica, done = sf.live.open(address), []

        def begun(advisor, site):
            thread = threading.Thread(target=lambda: done.append(advisor.ask(site, 0, key="1").site))
            thread.start()
            return thread

        with one.transaction():  # a decision that takes long
            shop.ask("a", 0, key="1")
            waits = begun(replica.deployment("shop"), "b")
            begun(mill, "a").join(timeout=30)
            waits.join(timeout=0.3)
            assert done == ["a"] and waits.is_alive()
        waits.join(timeout=30)
        assert done == ["a", "b"]
        for store in (replica, one, other):
            assert store.verify().is_whole
            store.close()

    def test_deployments_can_be_moved_into_stores_of_their_own(self, postgres, place):
        store, shop = deployed(postgres.address(), sites=("a",))
        mill = store.create_deployment(
            "mill", space=shop.space, baseline=shop.definition.baseline, alpha=0.2, allowance=9.0
        )
        mill.add_site("b")
        for i in range(5):
            for advisor, site in ((shop, "a"), (mill, "b")):
                advisor.tell(advisor.ask(site, i, key=str(i)), reward=0.5, next_state=i + 1)
        store.backup(place / "both.db")
        found = {}
        for name, site, left in (("shop", "a", ("mill", "b")), ("mill", "b", ("shop", "a"))):
            found[name] = postgres.address()
            sf.live.restore(place / "both.db", found[name])
            with sf.live.open(found[name]) as own:
                own.deployment(left[0]).close_site(left[1], note="it lives elsewhere now")
                was = store.deployment(name)
                assert state_of(own.deployment(name)) == state_of(was)
                asked = [advisor.ask(site, 5, key="5") for advisor in (own.deployment(name), was)]
                assert [each.action for each in asked] == [asked[0].action] * 2
                with pytest.raises(sf.InvalidInput, match="closed"):
                    own.deployment(left[0]).ask(left[1], 5, key="5")
                assert own.verify().is_whole
        store.close()

    def test_keys_that_do_not_fit_are_refused(self, postgres):
        store, advisor = deployed(postgres.address())
        last = store.last
        for key in ("a\0b", "x" * 2_001, "ü" * 1_001):
            with pytest.raises(sf.InvalidInput, match="this key or name cannot be kept"):
                advisor.ask("a", 0, key=key)
            with pytest.raises(sf.InvalidInput, match="this key or name cannot be kept"):
                advisor.tell(site="a", key=key, reward=0.5)
        assert store.last == last
        for key in ("%s ? %% ?", "x" * 2_000, "'; DROP TABLE events; --", "\\x", "–", "😀"):
            decision = advisor.ask("a", 0, key=key)
            assert advisor.ask("a", 0, key=key) == decision
            advisor.tell(decision, reward=0.5, next_state=0, note=key)
        assert store.verify().is_whole

    def test_a_closed_store_says_so(self, postgres):
        store, advisor = deployed(postgres.address())
        store.close()
        with pytest.raises(sf.live.StoreFault, match="was closed"):
            advisor.ask("a", 0, key="1")
        with pytest.raises(sf.live.StoreFault, match="outside of a transaction"):
            store.write("DELETE FROM snapshots")
