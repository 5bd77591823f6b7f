"""Whether the files of a study are what was written: every digest, and the tables against the parts."""

import hashlib
from pathlib import Path

import pyarrow.parquet as pq

from surefooted.errors import UnreadableFile
from surefooted.studies import growth
from surefooted.studies.folder import Folder
from surefooted.studies.parts import NO_DIGEST, UNREADABLE, Part, Tables, combined, completed, digest, fault
from surefooted.studies.spec import Task, tasks


def verify(path: str | Path) -> list[str]:
    """What is wrong with the directory of a study, a sentence each; empty if every file is what was written.

    Nothing is changed, imported or built. A digest finds decay and edits; it is no signature.

    - `path`: the directory.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = {"name": "short", "problem": "riverswim", "steps": 50, "realisations": 2, "agents": agents}
    >>> results = sf.studies.run_study(sf.studies.parse(study), "results/short", jobs=1)
    >>> sf.studies.verify("results/short")
    []
    """
    folder = Folder.at(path)
    parts, faults = _parts(folder)
    return [*_study(folder), *faults, *_tables(folder, parts), *_truth(folder)]


def _study(folder: Folder) -> list[str]:
    """What is wrong with study.toml and manifest.json."""
    about = folder.manifest()
    where = folder.path / "manifest.json"
    if not about:
        return [f"{where} is missing or cannot be read"]
    if "digest" not in about:
        return [f"{where} {NO_DIGEST}"]
    faults = [] if about["digest"] == digest(about) else [f"{where} does not match its digest: it was changed"]
    toml = folder.path / "study.toml"
    if about.get("study_sha256") != hashlib.sha256(toml.read_bytes()).hexdigest():
        faults.append(f"{toml} was changed after the last run")
    return faults


def _parts(folder: Folder) -> tuple[dict[Task, Part], list[str]]:
    """The runs that are whole, and what is wrong with the others."""
    every = sorted(tasks(folder.study), key=lambda task: (task.setting, task.realisation))
    parts, faults = folder.finished(every)
    faults += [f"{folder.file(task)} {NO_DIGEST}" for task, part in parts.items() if not part.has_digest]
    known = {task.name for task in every}
    ours = {task.setting for task in every}
    others = {f"{number:03d}" for number in (folder.study.numbers or {}).values() if number not in ours}
    found = [file for file in sorted(folder.parts.glob("*.parquet")) if file.stem not in known]
    strange = [file for file in found if file.stem.partition("-")[0] not in others]  # others: settings left out
    return parts, faults + [f"{file} is not a run of the study" for file in strange]


def _tables(folder: Folder, parts: dict[Task, Part]) -> list[str]:
    """What is wrong with the tables, by their digests and by the parts."""
    read, faults = [], []
    for name in Tables._fields:
        file = folder.path / f"{name}.parquet"
        try:
            read.append(pq.read_table(file))
            said = fault(read[-1], folder.study.identity)
        except UNREADABLE as error:
            said = f"cannot be read: {error}"
        faults += [f"{file} {said}"] if said else []
    if faults or not folder.parts.exists():
        return faults
    try:
        ours = completed(*combined([*parts.values()], folder.study.identity))
        for name, table, made in zip(Tables._fields, read, ours, strict=True):
            there = [column for column in made.column_names if column in table.column_names]  # older: not all
            if digest({}, table.select(there)) != digest({}, made.select(there)):
                faults.append(f"{folder.path / name}.parquet does not hold the runs that are in the parts")
    except UNREADABLE as error:
        faults.append(f"the tables in {folder.path} are damaged: {error}")
    return faults


def _truth(folder: Folder) -> list[str]:
    """What is wrong with the files of what is true of the problems."""
    faults = []
    for on in growth.problem_keys(folder.study):
        try:
            folder.read_truth(on)
        except UnreadableFile as error:
            faults.append(str(error))
    return faults
