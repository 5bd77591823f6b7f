"""Results are read once, and reading them runs nothing that the study names."""

import os
import shutil
import tomllib

import pyarrow.parquet as pq
import pytest

from surefooted import studies
from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies import engines, folder, spec

SMALL = """
name = "small"
steps = 60
realisations = 2
problem = "riverswim"
agents = { ucrl2 = { kind = "UCRL2" }, cucrl2 = { kind = "CUCRL2", alpha = 0.1 } }
record = { points = 6 }
"""


def inline(study, todo, jobs, address=None):
    """An engine without processes."""
    for task in todo:
        yield task, engines.attempt(study.model_dump_json(), task.setting, task.realisation)


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "local", inline)


@pytest.fixture
def opened(monkeypatch):
    """How often each file, or a buffer, is parsed as Parquet."""
    counts = {}
    real = pq.read_table

    def counting(source, **options):
        name = source.name if isinstance(source, os.PathLike) else "buffer"
        counts[name] = counts.get(name, 0) + 1
        return real(source, **options)

    monkeypatch.setattr(folder.pq, "read_table", counting)
    return counts


def run(out, **changes):
    return studies.run_study(studies.parse(tomllib.loads(SMALL) | changes), out)


def test_a_study_that_is_run_parses_each_run_once_and_never_reads_its_tables(tmp_path, opened):
    run(tmp_path / "out")
    assert opened == {"buffer": 4}
    opened.clear()
    run(tmp_path / "out", realisations=3)
    assert opened == {"buffer": 2} | {f"00{i}-00000{k}.parquet": 1 for i in range(2) for k in range(2)}


def test_loading_reads_each_table_once_and_no_part(tmp_path, opened):
    made = run(tmp_path / "out")
    opened.clear()
    loaded = studies.load(tmp_path / "out")
    assert opened == {"runs.parquet": 1, "curves.parquet": 1}
    assert loaded.study == made.study and loaded.manifest == made.manifest
    assert loaded.runs.equals(made.runs, check_metadata=True)
    assert loaded.curves.schema.equals(made.curves.schema, check_metadata=True)
    assert repr(loaded.curves.to_pylist()) == repr(made.curves.to_pylist())


def test_tables_without_parts_are_results(tmp_path):
    made = run(tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "parts")
    assert studies.load(tmp_path / "out").runs.equals(made.runs)
    (tmp_path / "out" / "curves.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(UnreadableFile, match="is damaged"):
        studies.load(tmp_path / "out")
    (tmp_path / "out" / "runs.parquet").unlink()
    with pytest.raises(UnreadableFile, match="no finished run yet"):
        studies.load(tmp_path / "out")


def test_a_part_that_disappears_during_a_study_is_not_in_its_tables(tmp_path, monkeypatch):
    def losing(study, todo, jobs, address=None):
        yield from inline(study, todo, jobs)
        next((tmp_path / "out" / "parts").glob("001-000001.parquet")).unlink()

    monkeypatch.setitem(engines.ENGINES, "local", losing)
    assert run(tmp_path / "out").runs.num_rows == 3


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_a_shard_that_does_not_exist_is_refused_before_anything_is_written(shard, tmp_path):
    study = studies.parse(tomllib.loads(SMALL))
    with pytest.raises(InvalidInput, match="1 <= I <= N"):
        spec.tasks(study, shard)
    with pytest.raises(InvalidInput, match="1 <= I <= N"):
        studies.run_study(study, tmp_path / "out", shard=shard)
    assert not (tmp_path / "out").exists()


def test_a_study_without_a_finished_run_has_no_results(tmp_path):
    study = studies.parse(tomllib.loads(SMALL))
    folder.Folder.prepare(tmp_path / "out", study)
    with pytest.raises(UnreadableFile, match="no finished run yet"):
        studies.load(tmp_path / "out")
