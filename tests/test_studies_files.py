"""Files of a study: damage is noticed, one process writes, and sizes have limits."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefooted as sf
from study_help import inline
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies import engines, lock, manifest, parts
from surefooted.studies.folder import Folder
from surefooted.tables import files

SMALL = """
name = "small"
steps = 60
realisations = 2
problem = "riverswim"
agents = { ucrl2 = { kind = "UCRL2" }, cucrl2 = { kind = "CUCRL2", alpha = 0.1 } }
record = { points = 6 }
"""
LONG = SMALL.replace("steps = 60", "steps = 20_000").replace("realisations = 2", "realisations = 200")


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "local", inline)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished study, which tests copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.ENGINES, "local", inline)
        return run(tmp_path_factory.mktemp("made") / "out")


@pytest.fixture
def out(made, tmp_path):
    shutil.copytree(made.path, tmp_path / "out")
    return tmp_path / "out"


def run(out, *, shard=(1, 1), **changes):
    return studies.run_study(studies.parse(tomllib.loads(SMALL) | changes), out, shard=shard)


def same(a, b):
    return repr(a.to_pydict()) == repr(b.to_pydict())


# -- bit rot ----------------------------------------------------------------------------------------------------------


def flips(content, n, seed=0):
    """The content with one bit flipped, n times, each at another place; the last bytes, the footer, more often."""
    rng = np.random.default_rng(seed)
    bits = 8 * len(content)
    for bit in {*rng.choice(bits, n // 2, replace=False), *(bits - 1 - rng.choice(min(bits, 8000), n // 2))}:
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        yield bytes(damaged)


def silent_flips(file, n, read, seed=0):
    """How many of n single flipped bits are neither noticed nor harmless, given what `read` returned before."""
    content, before, silent = file.read_bytes(), read(), 0
    for damaged in flips(content, n, seed):
        file.write_bytes(damaged)
        with contextlib.suppress(UnreadableFile, InvalidInput):
            silent += read() != before
    file.write_bytes(content)
    return silent


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.seeds(1)
def test_a_flipped_bit_in_a_part_is_noticed_or_harmless(out, seed):
    file = out / "parts" / "001-000001.parquet"

    def read():
        row, curve, *about = parts.decode(file, file)
        return repr((row, curve.to_pydict(), about[:2]))

    assert silent_flips(file, 1500, read, seed) == 0


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["runs", "curves"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.seeds(1)
def test_a_flipped_bit_in_a_table_is_noticed_or_harmless(out, name, seed):
    shutil.rmtree(out / "parts")  # nothing to make the tables from

    def read():
        found = studies.load(out)
        if found.remarks:
            raise UnreadableFile("noticed")
        return repr((found.runs.to_pydict(), found.curves.to_pydict()))

    assert silent_flips(out / f"{name}.parquet", 700, read, seed) == 0


@pytest.mark.slow
def test_a_flipped_bit_in_the_truth_is_noticed_or_harmless(out):
    def read():
        truth = Folder.at(out).truths().get("riverswim")
        if truth is None:
            raise UnreadableFile("noticed")
        return repr([(name, np.asarray(value).tolist()) for name, value in truth.columns().items()])

    assert silent_flips(out / "truth.npz", 1500, read) == 0


def test_damaged_runs_are_repeated_and_named(made, out, monkeypatch):
    file = out / "parts" / "000-000001.parquet"
    table = pq.read_table(file)
    regret = table["regret"].to_numpy().copy()
    regret[-1] += 1e-9
    where = table.column_names.index("regret")
    pq.write_table(table.set_column(where, "regret", pa.array(regret)), file)
    faults = studies.verify(out)
    assert "does not match its digest" in faults[0] and all("not hold the runs" in fault for fault in faults[1:])
    again = run(out)
    assert same(again.runs.drop_columns("seconds"), made.runs.drop_columns("seconds"))
    assert same(again.curves, made.curves) and studies.verify(out) == []


@pytest.mark.first(1)
@pytest.mark.parametrize("how", ["edited", "edited by another library"])
def test_an_edited_table_is_noticed_and_made_again(made, out, how):
    table = pq.read_table(out / "runs.parquet")
    column = pa.array([0] * table.num_rows, pa.int64())
    edited = table.set_column(table.column_names.index("violations_total"), "violations_total", column)
    pq.write_table(edited if how == "edited" else edited.replace_schema_metadata(None), out / "runs.parquet")
    assert any("runs.parquet" in fault for fault in studies.verify(out))
    done = CliRunner().invoke(main, ["verify", str(out)])
    assert done.exit_code == 1 and "runs.parquet" in done.output
    done = CliRunner().invoke(main, ["figures", str(out), "--format", "svg"])
    assert done.exit_code == 0 and "runs.parquet" in done.stderr and "made again" in done.stderr
    found = studies.load(out)
    assert same(found.runs, made.runs) and not found.remarks and studies.verify(out) == []


def test_an_edited_table_without_parts_is_refused(out):
    shutil.rmtree(out / "parts")
    table = pq.read_table(out / "runs.parquet")
    pq.write_table(table.slice(1), out / "runs.parquet")
    with pytest.raises(UnreadableFile, match="does not match its digest"):
        studies.load(out)
    pq.write_table(table.replace_schema_metadata(None), out / "runs.parquet")
    assert "has no digest" in studies.load(out).remarks[0]


def test_runs_that_are_left_out_are_named(out):
    (out / "parts" / "000-000000.parquet").write_bytes(b"PAR1")
    os.utime(out / "runs.parquet", (1e9, 1e9))
    found = studies.load(out)
    assert found.runs.num_rows == 3 and "000-000000.parquet" in found.remarks[0] and "left out" in found.remarks[0]


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("study.toml", lambda text: text.replace('title = ""', 'title = "mine"'), "study.toml was changed"),
        ("manifest.json", lambda text: text.replace('"cores"', '"kernels"'), "manifest.json does not match"),
        ("manifest.json", lambda text: "{}", "manifest.json is missing"),
        ("parts/000-000001.parquet", None, "runs.parquet does not hold"),
        ("truth.npz", None, "truth.npz"),
        ("curves.parquet", None, "curves.parquet cannot be read"),
    ],
)
def test_verify_names_what_was_changed(out, file, change, words):
    assert studies.verify(out) == []
    done = CliRunner().invoke(main, ["verify", str(out)])
    assert done.exit_code == 0 and "4 runs" in done.output
    if change is None:
        (out / file).unlink()
    else:
        (out / file).write_text(change((out / file).read_text()))
    assert any(words in fault for fault in studies.verify(out)), studies.verify(out)


def test_verify_names_files_that_are_no_runs(out):
    shutil.copy(out / "parts" / "000-000001.parquet", out / "parts" / "000-000007.parquet")
    assert any("000-000007.parquet is not a run" in fault for fault in studies.verify(out))


def test_a_directory_that_can_only_be_read_is_read(made, out):
    (out / "runs.parquet").unlink()
    real = os.open

    def refuse(path, flags, *mode, **more):
        if flags & os.O_RDWR and str(path).startswith(str(out)):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, *mode, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert same(studies.load(out).runs, made.runs)
    assert not (out / "runs.parquet").exists()


def test_a_full_disk_does_not_keep_results_from_being_read(made, out, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    (out / "runs.parquet").unlink()
    monkeypatch.setattr("surefooted.studies.folder.write", full)
    assert same(studies.load(out).runs, made.runs) and not (out / "runs.parquet").exists()


# -- one writer -------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from surefooted.studies import lock
with lock.writing(Path(sys.argv[1]), eval(sys.argv[2])):
    print("held", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def held(out, shard=(1, 1)):
    """Another process that writes to a directory."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(out), str(shard)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_writer_is_told_and_a_killed_one_leaves_nothing_behind(made, out):
    with held(out) as process:
        with pytest.raises(lock.Busy, match=rf"in use: process {process.pid} on"):
            run(out, realisations=3)
        (out / "runs.parquet").unlink()
        assert same(studies.load(out).runs, made.runs) and not (out / "runs.parquet").exists()  # the writer writes it
        begun = [out / f".runs.parquet.{process.pid}-0123abcd.part", out / "parts" / ".a.1-0123abcd.part"]
        for file in [*begun, keep := out / ".report.html.1-0123abcd.part"]:
            file.write_bytes(b"begun")
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert run(out, realisations=3).runs.num_rows == 6
    assert not any(file.exists() for file in begun) and keep.exists()


def test_shards_share_a_directory_and_nobody_else_joins(out):
    with held(out, (1, 2)):
        (begun := out / ".runs.parquet.1-0123abcd.part").write_bytes(b"begun")  # by the other shard, perhaps
        assert run(out, shard=(2, 2), realisations=3).runs.num_rows == 5
        for shard in ((1, 2), (1, 1)):
            with pytest.raises(lock.Busy, match="in use"):
                run(out, shard=shard)
        assert begun.exists()
    with held(out, (1, 1)), pytest.raises(lock.Busy):
        run(out, shard=(2, 2))


def test_nothing_is_locked_where_locks_are_not_possible(out, monkeypatch):
    def refused(file, how):
        raise OSError(lock.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refused)
    assert run(out, realisations=3).runs.num_rows == 6
    monkeypatch.setattr(lock, "fcntl", None)
    assert run(out, realisations=4).runs.num_rows == 8


# -- signals and workers ----------------------------------------------------------------------------------------------


def started(folder, *options):
    (folder / "long.toml").write_text(LONG)
    command = [sys.executable, "-m", "surefooted", "run", "long.toml", "--out", "out", "--jobs", "2", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def children(pid):
    """The processes that a process started, and those that they started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            rest = stat.read_text().rpartition(")")[2]
            if rest.split()[1] == str(pid) and rest.split()[0] != "Z":
                found.append(int(stat.parent.name))
    return found + [grandchild for child in found for grandchild in children(child)]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@linux
@pytest.mark.slow
def test_sigterm_is_ctrl_c(tmp_path):
    with started(tmp_path) as process:
        try:
            finished = tmp_path / "out" / "parts"
            assert wait_for(lambda: len(list(finished.glob("*.parquet"))) >= 2)
            workers = children(process.pid)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM and "Traceback" not in said
    assert "Continue with: surefooted run out/study.toml --out out" in said
    assert len(workers) >= 2 and wait_for(lambda: not any(alive(pid) for pid in workers), 20)
    kept = len(list(finished.glob("*.parquet")))
    assert kept >= 2 and pq.read_metadata(tmp_path / "out" / "runs.parquet").num_rows == kept
    assert studies.verify(tmp_path / "out") == []


@linux
@pytest.mark.slow
def test_workers_end_with_their_parent_in_the_middle_of_a_run(tmp_path):
    with started(tmp_path, "--set", "steps=50_000_000") as process:
        try:
            assert wait_for(lambda: len(children(process.pid)) >= 3)  # two, and one that tracks resources
            time.sleep(3)  # until they play
            workers = children(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert wait_for(lambda: not any(alive(pid) for pid in workers), 30)
        finally:
            process.kill()


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"realisations": 10**12}, "2000000000000 runs"),
        ({"realisations": 500_001}, "more than 1000000"),
        ({"realisations": 300_000, "steps": 10_000, "record": {"points": 100}}, "points in all"),
    ],
)
def test_more_runs_than_memory_holds_are_refused_before_anything_is_made(change, words):
    with pytest.raises(InvalidInput, match=words):
        studies.parse(tomllib.loads(SMALL) | change)


def test_a_million_runs_are_a_study():
    assert studies.parse(tomllib.loads(SMALL) | {"realisations": 500_000}).realisations == 500_000


def add_member(file, name, size):
    """Add an array of zeros to an archive; its bytes on disk are few."""
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
            for _ in range(size >> 20):
                member.write(bytes(1 << 20))


def test_a_member_that_nobody_knows_is_not_read(tmp_path):
    import tracemalloc

    sf.problems.riverswim().save(file := tmp_path / "river.npz")
    add_member(file, "surprise", 1 << 28)
    tracemalloc.start()
    assert sf.Problem.load(file).space.n_states == 6
    assert sf.TabularMDP.load(file).space.n_states == 6
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 25


def test_arrays_that_would_fill_the_memory_are_refused(tmp_path, monkeypatch):
    sf.problems.riverswim().save(file := tmp_path / "river.npz")
    monkeypatch.setattr(files, "_memory", lambda: 300)
    with pytest.raises(UnreadableFile, match="more than half of the memory"):
        sf.Problem.load(file)
    monkeypatch.undo()
    with zipfile.ZipFile(tmp_path / "liar.npz", "w") as archive, archive.open("format.npy", "w") as member:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
        np.lib.format.write_array_header_1_0(member, header)
    with pytest.raises(UnreadableFile, match=r"liar\.npz"):
        sf.Problem.load(tmp_path / "liar.npz")


# -- the same everywhere ----------------------------------------------------------------------------------------------


def test_resuming_with_other_versions_or_another_cpu_is_told_and_recorded(out, capsys, monkeypatch):
    assert json.loads((out / "manifest.json").read_text())["sessions"][0]["differences"] == []
    real = manifest.session()
    other = real | {"versions": real["versions"] | {"numpy": "9.9"}, "machine": real["machine"] | {"cpu": "abacus"}}
    monkeypatch.setattr("surefooted.studies.folder.session", lambda: other)
    study = studies.parse(tomllib.loads(SMALL) | {"realisations": 3})
    found = studies.run_study(study, out, quiet=False)
    told = capsys.readouterr().err
    for words in ("numpy 9.9", "CPU abacus", "last digits"):
        assert words in told and any(words in line for line in found.remarks)
    about = json.loads((out / "manifest.json").read_text())
    assert about["sessions"][0]["differences"] == [] and len(about["sessions"][1]["differences"]) == 3
    assert studies.verify(out) == []


def test_what_no_run_depends_on_is_no_difference():
    now = manifest.session()
    assert now["machine"]["cpu"] and {"scipy", "llvmlite"} <= set(now["versions"])
    assert manifest.differences([now | {"versions": now["versions"] | {"matplotlib": "0.1"}, "commit": "x"}], now) == []
    assert manifest.differences([now | {"python": "2.7"}], now)[0].startswith("Earlier runs were made with Python 2.7;")
    for nonsense in (None, 3, ["x"], [{"versions": 3, "machine": []}]):
        assert manifest.differences(nonsense, now) == []
