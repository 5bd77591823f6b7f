"""A file is written whole or not at all, and what cannot be read is refused with its path and the reason."""

import gc
import io
import os
import zipfile

import numpy as np
import pytest

from surefooted.errors import SurefootedError, UnreadableFile
from surefooted.problems import Problem, gridworld, riverswim
from surefooted.tables import files
from surefooted.tables.mdp import TabularMDP


def saved(path, **changes):
    """The bytes of the river's table, saved with some of its arrays replaced (or left out, if None)."""
    columns = riverswim().mdp.columns() | changes
    np.savez(path, **({"format": 1} | {name: value for name, value in columns.items() if value is not None}))
    return path.read_bytes()


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
@pytest.mark.parametrize("name", ["table.npz", "table", "a table.with.dots", "tàble.npz"])
def test_saving_writes_one_file_of_just_that_name(tmp_path, name, kind):
    riverswim().mdp.save(kind(tmp_path / name))
    riverswim().mdp.save(kind(tmp_path / name))  # replaces the first
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert TabularMDP.load(kind(tmp_path / name)).n_states == 6


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_saved_file_may_be_read_by_those_whom_the_umask_allows(tmp_path, umask):
    before = os.umask(umask)
    try:
        riverswim().mdp.save(tmp_path / "table.npz")
    finally:
        os.umask(before)
    assert (tmp_path / "table.npz").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("cause", [OSError("disk full"), MemoryError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize(("where", "what"), [(np, "savez_compressed"), (os, "replace")], ids=["writing", "replacing"])
def test_a_failed_save_leaves_the_old_file_intact_and_nothing_else(tmp_path, monkeypatch, where, what, cause):
    path = tmp_path / "table.npz"
    riverswim().save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        if what == "savez_compressed":
            args[0].write(b"half a fi")
        raise cause

    with monkeypatch.context() as patch:
        patch.setattr(where, what, fail)
        with pytest.raises(type(cause)):
            gridworld().save(path)
    assert [found.name for found in tmp_path.iterdir()] == ["table.npz"]
    assert path.read_bytes() == before and Problem.load(path).name == "riverswim"


def test_a_failed_first_save_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        riverswim().save(tmp_path / "folder")  # a folder cannot be replaced by a file
    assert [path.name for path in tmp_path.iterdir()] == ["folder"] and not any((tmp_path / "folder").iterdir())


def encrypted(data):
    """The archive with the bit set that says that its first member is encrypted."""
    flags = data.index(b"PK\x01\x02") + 8
    return data[:flags] + bytes([data[flags] | 1]) + data[flags + 1 :]


BAD = {
    "missing": (None, "no such file"),
    "empty": (lambda path: b"", "not a readable .npz file"),
    "text": (lambda path: b"state,action,p\n0,0,1.0\n", "not a readable .npz file"),
    "cut in the middle": (lambda path: saved(path)[:2000], "not a readable .npz file"),
    "cut at the end": (lambda path: saved(path)[:-1], "not a readable .npz file"),
    "one array, not an archive": (
        lambda path: np.save(path.with_suffix(".npy"), np.ones(3)),
        "not a readable .npz file",
    ),
    "a pickle inside": (lambda path: saved(path, r=np.array([{}, None])), "allow_pickle=False"),
    "encrypted": (lambda path: encrypted(saved(path)), "encrypted"),
    "foreign": (lambda path: np.savez(path, weights=np.ones(3)), "'pair_ptr' is missing"),
    "an array short": (lambda path: saved(path, next_ptr=None), "'next_ptr' is missing"),
    "newer": (lambda path: saved(path, format=2), r"newer version \(format 2; this one reads 1\)"),
    "format of two numbers": (lambda path: saved(path, format=[1, 1]), "not a readable"),
    "noise unknown": (lambda path: saved(path, noise_kind="salty"), "noise kind 'salty' does not exist"),
    "noise not text": (lambda path: saved(path, noise_scale="much"), "much"),
    "wrong lengths": (lambda path: saved(path, r=np.ones(3)), r"r \(3,\) do not fit 12 pairs"),
    "space broken": (lambda path: saved(path, pair_ptr=np.array([0, 1])), "pair_ptr must rise"),
    "fractional states": (lambda path: saved(path, next_state=riverswim().mdp.next_state + 0.25), "0.25"),
}


@pytest.mark.parametrize("load", [TabularMDP.load, Problem.load], ids=["table", "problem"])
@pytest.mark.parametrize(("content", "reason"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_is_refused_with_its_path_and_the_reason(tmp_path, content, reason, load):
    path = tmp_path / "table.npz"
    data = content(path) if content else None
    if (tmp_path / "table.npy").exists():
        data = (tmp_path / "table.npy").read_bytes()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UnreadableFile, match=reason) as caught:
        load(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert isinstance(caught.value, SurefootedError) and isinstance(caught.value, ValueError)


def test_a_folder_is_refused_with_its_path(tmp_path):
    with pytest.raises(UnreadableFile, match="directory") as caught:
        TabularMDP.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")


def test_a_faulty_table_in_a_file_has_every_fault_named(tmp_path):
    mdp = riverswim().mdp
    p, r = mdp.p.copy(), mdp.r.copy()
    p[0], r[3] = 0.5, np.nan
    saved(tmp_path / "table.npz", p=p, r=r)
    with pytest.raises(UnreadableFile) as caught:
        TabularMDP.load(tmp_path / "table.npz")
    text = str(caught.value)
    assert "state 0, action 0: probabilities sum to 0.5, not 1" in text
    assert "state 1, action 1: mean reward nan outside [0, 1]" in text


@pytest.mark.parametrize("first", range(4))
def test_a_file_with_a_wrong_byte_is_read_right_or_refused(tmp_path, first):
    path, good = tmp_path / "table.npz", riverswim()
    good.save(path)
    data = path.read_bytes()
    for i in range(first, len(data), 40):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :])
        try:
            problem = Problem.load(path)
        except UnreadableFile as error:
            assert str(error).startswith(f"{path}: ")
        else:
            assert problem.baseline == good.baseline and np.array_equal(problem.mdp.p, good.mdp.p)


def test_a_refused_file_is_closed_at_once(tmp_path):
    path = tmp_path / "table.npz"
    path.write_bytes(saved(path)[:2000])
    with pytest.raises(UnreadableFile) as caught:  # held, so that nothing is closed by chance
        TabularMDP.load(path)
    files = [x for x in gc.get_objects() if isinstance(x, io.BufferedReader) and str(x.name) == str(path)]
    left_open = [file for file in files if not file.closed]
    for file in left_open:
        file.close()
    assert not left_open, caught.value


def test_a_table_reads_the_file_of_a_problem_but_not_the_reverse(tmp_path):
    problem = gridworld()
    problem.save(tmp_path / "problem.npz")
    problem.mdp.save(tmp_path / "table.npz")
    for name in ("problem.npz", "table.npz"):
        mdp = TabularMDP.load(tmp_path / name)
        assert (
            mdp.space == problem.space and np.array_equal(mdp.p, problem.mdp.p) and np.array_equal(mdp.r, problem.mdp.r)
        )
    with pytest.raises(UnreadableFile, match="not a table of this package, 'horizon' is missing"):
        Problem.load(tmp_path / "table.npz")


def test_the_format_is_part_of_every_file(tmp_path):
    riverswim().save(tmp_path / "problem.npz")
    with np.load(tmp_path / "problem.npz", allow_pickle=False) as arrays:
        assert int(arrays["format"]) == files.FORMAT
        assert all(arrays[name].dtype.kind in "iufU" for name in arrays.files)
    assert zipfile.is_zipfile(tmp_path / "problem.npz")
