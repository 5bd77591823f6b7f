"""Logs as they come: dates, decimal commas, frames, sites, bins, labels, copies, gaps and stray quotes."""

import csv as plain_csv
import gzip
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefooted as sf
from surefooted.data.log_times import parse_step
from surefooted.data.reading import read_history
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.kernels.logs import scan_lines

SPACE = sf.Space.full(3, 2, 10.0)
LINES = ["0,0,1,1", "1,1,2,2", "2,0,3,0"]  # state, action, reward, next state; each begins where the one before led


def csv(path, header, *lines, end="\n"):
    path.write_text(end.join([header, *lines]) + end, encoding="utf-8")
    return path


def test_semicolons_and_decimal_commas(tmp_path):
    header = "state;action;reward;next_state"
    read = read_history(csv(tmp_path / "a.csv", header, "0;0;1,5;1", "1;1;2;2"), SPACE)
    assert read.used == 2 and read.counts.reward_sum.sum() == 3.5
    points = csv(tmp_path / "b.csv", header, "0;0;1.5;1", "1;1;2.25;2")
    assert read_history(points, SPACE).counts.reward_sum.sum() == 3.75
    mixed = csv(tmp_path / "c.csv", header, "0;0;1.500;1", "1;1;2,25;2")
    with pytest.raises(UnreadableFile, match=r"holds 2,25 and 1\.500.*decimal"):
        read_history(mixed, SPACE)
    read = read_history(mixed, SPACE, decimal=",")  # 1.500 may be 1500: it is not guessed
    assert read.used == 1 and read.counts.reward_sum.sum() == 2.25 and read.unusable == {"reward is not a number": 1}
    tabs = csv(tmp_path / "d.csv", header.replace(";", "\t"), "0\t0\t1\t1")
    assert read_history(tabs, SPACE).used == 1
    for wrong in ({"separator": "x"}, {"decimal": "'"}, {"separator": ",", "decimal": ","}):
        with pytest.raises(InvalidInput, match=r"separator|decimal|commas"):
            read_history(points, SPACE, **wrong)


QUOTES = [
    ('"x,0,0,1,1', 2),  # opened, never closed
    ('x,0,0,1,1\n"y,1,1,2,2\nz"a,2,0,3,0\nlast,0,0,1,1', 3),  # swallows a line and closes again
    ('5" pipe,0,0,1,1\n"y,1,1,2,2', 3),  # the quote within a value is one; the next line's is not
]


@pytest.mark.parametrize("body, line", QUOTES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_swallows_lines_is_refused_with_its_line(tmp_path, body, line, packed):
    content = f"note,state,action,reward,next_state\n{body}\n".encode()
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(UnreadableFile, match=rf"line {line}: a quote opens here"):
        read_history(path, SPACE)


def test_quoted_line_breaks_only_when_asked_for_and_inches_always(tmp_path):
    header = "note,state,action,reward,next_state"
    breaks = csv(tmp_path / "a.csv", header, '"two\nlines, ""x""",0,0,1,1', "one,1,1,2,2")
    with pytest.raises(UnreadableFile, match="line 2"):
        read_history(breaks, SPACE)
    assert read_history(breaks, SPACE, quoted_breaks=True).used == 2
    assert read_history(csv(tmp_path / "b.csv", header, '5" pipe,0,0,1,1', '"6"" pipe",1,1,2,2'), SPACE).used == 2


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    rows=st.lists(st.lists(st.text('a", \n;', max_size=5), min_size=2, max_size=3), max_size=8),
    block=st.integers(1, 7),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_lines_and_records_are_counted_as_the_csv_module_counts_them(tmp_path_factory, rows, block, end):
    path = tmp_path_factory.mktemp("x") / "x.csv"
    with path.open("w", newline="") as file:
        plain_csv.writer(file, lineterminator=end).writerows(rows)
    data, kept, broken = path.read_bytes(), np.array([0, 1, 0, 0, 0, 0]), -1
    for i in range(0, len(data), block):
        found = scan_lines(np.frombuffer(data[i : i + block], dtype=np.uint8).copy(), ord(","), kept)
        broken = found if broken < 0 else broken
    assert kept[3] == len(rows) and (broken > 0) == any("\n" in value for row in rows for value in row)


def test_dates_are_steps_and_gaps_and_copies_are_found(tmp_path):
    header = "date,state,action,reward,next_state"
    days = ["2025-01-06", "2025-01-13", "2025-01-13", "2025-02-03"]
    path = csv(tmp_path / "a.csv", header, *(f"{day},0,0,1,0" for day in days))
    columns = {"t": "date"}
    with pytest.raises(InvalidInput, match=r"length of a step(.|\n)*7 days"):
        read_history(path, SPACE, columns=columns)
    read = read_history(path, SPACE, columns=columns, step="week")
    assert read.used == 3 and read.unusable == {"t repeats that of the row before in its episode": 1}
    assert (read.gaps, read.skipped) == (1, 2) and "2 steps are missing" in str(read)
    german = csv(tmp_path / "b.csv", header, "31.01.2025,0,0,1,1", "1.2.2025 08:00,1,0,1,0", "32.01.2025,0,0,1,0")
    read = read_history(german, SPACE, columns=columns, step="day")
    assert read.used == 2 and read.gaps == 0 and read.unusable == {"t is not a number or a date": 1}
    american = csv(tmp_path / "c.csv", header, "01/31/2025,0,0,1,1", "02/01/2025,1,0,1,0")
    assert read_history(american, SPACE, columns=columns, step="day", dates="%m/%d/%Y").gaps == 0
    table = pa.table({"t": pa.array([datetime(2025, 1, 31), datetime(2025, 3, 1)]), "state": [0, 1], "action": [0, 0],
                      "reward": [1, 1], "next_state": [1, 0]})  # fmt: skip
    assert read_history(table, SPACE, step="month").skipped == 1
    with pytest.raises(InvalidInput, match="fortnight"):
        read_history(table, SPACE, step="fortnight")


@pytest.mark.parametrize(
    "text, days", [("day", 1), ("week", 7), ("2 weeks", 14), ("hour", 1 / 24), ("15 minutes", 1 / 96)]
)
def test_moments_one_step_apart_are_one_step_apart(text, days):
    step, zero = parse_step(text), datetime(1, 1, 1)
    moments = [datetime(1968, 2, 27, 5) + i * timedelta(days=days) for i in range(100)]
    numbers = step.of(np.array([(moment - zero) // timedelta(microseconds=1) for moment in moments]))
    assert np.all(np.diff(numbers) == 1) and step.per_year == pytest.approx(365.2425 / days)
    months = parse_step("month").of(
        np.array([(datetime(2024, m, 28) - zero) // timedelta(microseconds=1) for m in range(1, 13)])
    )
    assert np.all(np.diff(months) == 1) and months[0] == 2023 * 12


class ByStream:
    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class ByInterchange:
    def __init__(self, table):
        self.table = table

    def __dataframe__(self, **options):
        return self.table.__dataframe__(**options)


@pytest.mark.parametrize("frame", [ByStream, ByInterchange])
def test_frames_of_other_libraries_are_logs(frame):
    table = pa.table({"state": [0, 1], "action": [0, 1], "reward": [1.0, 2.0], "next_state": [1, 2]})
    assert read_history(frame(table), SPACE).used == 2
    with pytest.raises(InvalidInput, match="not a log"):
        read_history(3, SPACE)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_pandas_and_polars_are_logs(library, tmp_path):
    """Real ones: dates, categories, missing values, whole numbers that may be missing, and text."""
    frames = pytest.importorskip(library)
    columns = {
        "when": [datetime(2025, 1, 6), datetime(2025, 1, 13), datetime(2025, 1, 20), datetime(2025, 2, 3)],
        "state": ["low", "mid", "high", "low"],
        "action": [0, 1, 1, 0],
        "reward": [1.0, 2.0, None, 0.5],
        "next_state": ["mid", "high", "low", "mid"],
    }
    frame = frames.DataFrame(columns)
    if library == "pandas":
        frame = frame.astype({"state": "category", "action": "Int64"})
    else:
        frame = frame.with_columns(frame["state"].cast(frames.Categorical), frame["action"].cast(frames.UInt8))
    options = {"columns": {"t": "when"}, "step": "week", "state_labels": ["low", "mid", "high"]}
    history = read_history(frame, SPACE, **options)
    assert (history.rows, history.used, history.skipped) == (4, 3, 1)
    assert sum("reward" in reason for reason in history.unusable) == 1
    path = tmp_path / "log.csv"
    path.write_text(
        "when,state,action,reward,next_state\n2025-01-06,low,0,1.0,mid\n2025-01-13,mid,1,2.0,high\n"
        "2025-01-20,high,1,,low\n2025-02-03,low,0,0.5,mid\n"
    )
    same = read_history(path, SPACE, **options).counts
    assert all(np.array_equal(value, same.state_dict()[key]) for key, value in history.counts.state_dict().items())
    assert read_history(frame.head(0), SPACE, **options).rows == 0


def test_rows_of_several_sites_are_never_pooled_silently(tmp_path):
    lines = [f"{item},{line}" for line in LINES for item in ("A", "B")]  # alternating: each item's rows are a chain
    path = csv(tmp_path / "a.csv", "item,state,action,reward,next_state", *lines)
    with pytest.raises(InvalidInput) as error:
        read_history(path, SPACE)
    assert error.value.faults == ("A: 3 rows", "B: 3 rows")
    assert all(word in error.value.hint for word in ("site='A'", "pool=True", "columns={'site': None}"))
    one = read_history(path, SPACE, site="B")
    assert (one.rows, one.used, one.left_out) == (3, 3, 3)
    both = read_history(path, SPACE, pool=True, batch=2)
    assert both.used == 6 and not both.unusable and both.episodes == 2
    assert read_history(path, SPACE, columns={"site": None}).unusable  # then they are one chain, which is broken
    with pytest.raises(InvalidInput, match="never is 'C'"):
        read_history(path, SPACE, site="C")
    with pytest.raises(InvalidInput, match="no column 'place' for site"):
        read_history(path, SPACE, columns={"site": "place"})
    two = csv(tmp_path / "b.csv", "store,item,state,action,reward,next_state", *(f"1,{line}" for line in lines))
    assert read_history(two, SPACE, site="1 / A").used == 3


def test_episodes_of_each_site_begin_after_an_end():
    rows = [
        {"machine": m, "state": s, "action": 0, "reward": 1, "next_state": y, "terminated": y == 2}
        for s, y in ((0, 1), (1, 2), (0, 2))
        for m in ("m1", "m2")
    ]
    for batch in (1, 100):
        both = read_history(rows, SPACE, pool=True, batch=batch)
        assert both.used == 6 and both.episodes == 4
        assert read_history(rows, SPACE, site="m1", batch=batch).episodes == 2


def test_conditions_choose_rows_but_never_by_their_outcome(tmp_path):
    more = ["2024-01-01,7", "2025-01-01,8", "2025-01-02,9"]
    lines = [f"{date},{line}" for date, line in zip(more, LINES, strict=True)]
    path = csv(tmp_path / "a.csv", "date,size,state,action,reward,next_state", *lines)
    for where, used in [
        ("date >= 2025-01-01", 2),
        (["date >= 2025-01-01", "size < 8,5"], 0),
        ("size < 8.5", 2),
        ("size = 8.0", 1),
        ("size != 8", 2),
        ("size in 7, 9", 2),
        ("date = 2025-01-02", 1),
        ("state = 0", 1),
    ]:
        if where[1:] == ["size < 8,5"]:
            with pytest.raises(InvalidInput, match="neither"):
                read_history(path, SPACE, where=where)
            continue
        read = read_history(path, SPACE, where=where)
        assert (read.used + sum(read.unusable.values()), read.left_out) == (used, 3 - used), where
    table = pa.table({"day": pa.array([datetime(2025, 1, 1), None]), "state": [0, 0], "action": [0, 0],
                      "reward": [1, 1], "next_state": [0, 0]})  # fmt: skip
    for where in ("day = 2025-01-01", "day < 2025-01-02", "day in 01.01.2025, 2026-01-01", "day != 2024-01-01"):
        assert read_history(table, SPACE, where=where).left_out == 1  # a missing value meets no condition
    for wrong in ("reward > 1", "next_state = 1", "colour = red", "no condition"):
        with pytest.raises(InvalidInput, match=r"outcome|colour|write a column"):
            read_history(path, SPACE, where=wrong)


def test_bins_make_states_of_quantities(tmp_path):
    path = csv(tmp_path / "a.csv", "stock,action,reward,then", "0,0,1,4.9", "4.9,0,1,5", "5,1,1,100", "100,0,1,-1")
    columns = {"state": "stock", "next_state": "then"}
    read = read_history(path, SPACE, columns=columns, bins={"stock": [0, 5, 10]})
    assert read.actions.tolist() == [[2, 0], [0, 1], [0, 0]]
    assert read.unusable == {"next_state is below the first bin, 0": 1}
    closed = read_history(path, SPACE, columns=columns, bins={"state": [0, 5, 10, 100]})
    assert closed.counts.rows()[1].tolist() == [0, 1, 2]  # the end of the last bin belongs to it
    assert (
        "state is above the last bin, 99"
        in read_history(path, SPACE, columns=columns, bins={"state": [0, 5, 10, 99]}).unusable
    )
    for wrong in ({"stock": [0, 0, 1]}, {"stock": [0, 1, 2, 3, 4, 5]}, {"level": [0, 1, 2]}):
        with pytest.raises(InvalidInput, match="bins"):
            read_history(path, SPACE, columns=columns, bins=wrong)


def test_labels_come_from_the_space_or_a_mapping():
    space = sf.Space.full(2, 2, states=["low", "high"], actions=["wait", "order"])
    rows = [{"state": "low", "action": "order", "reward": 1, "next_state": "high"}]
    assert read_history(rows, space).actions.tolist() == [[0, 1], [0, 0]]
    rows = [{"state": "L", "action": "B", "reward": 1, "next_state": "LL"}]
    read = read_history(rows, space, state_labels={"L": 0, "LL": 0}, action_labels={"B": 1})
    assert read.actions.tolist() == [[0, 1], [0, 0]] and read.counts.rows()[1].tolist() == [0]
    with pytest.raises(InvalidInput, match="'L' must stand for one of 0 to 1"):
        read_history(rows, space, state_labels={"L": 2})


def test_copies_and_gaps_without_t():
    names = ("state", "action", "reward", "next_state")
    rows = [dict(zip(names, map(int, line.split(",")), strict=True)) for line in LINES]
    copied = [rows[0], rows[0], rows[1], rows[2]]
    read = read_history(copied, SPACE)
    assert read.used == 3 and read.unusable == {"row repeats the row before, and does not begin where that row led": 1}
    assert read.selected == 0
    gap = read_history([rows[0], rows[2]], SPACE)
    assert gap.unusable == {"next_state is not where the next row of its episode begins": 1}
    stays = {"state": 0, "action": 0, "reward": 1, "next_state": 0}
    assert read_history([stays] * 3, SPACE).alike == 2


@pytest.mark.parametrize("batch", [7, 1 << 16])
def test_a_stretch_that_stands_in_a_log_twice_is_found_and_refused(batch):
    problem = sf.problems.inventory(noise=sf.Noise())
    run = sf.simulate(problem, sf.agents.AverageExplorer(sf.UCRL2(problem.space).learner), 400, seed=3)
    rows = pa.table(run.log_columns()).select(["state", "action", "reward", "next_state"]).to_pylist()
    again = rows + rows[100:200]
    assert not read_history(rows, problem.space, batch=batch).repeats
    read = read_history(again, problem.space, batch=batch)
    (repeat,) = read.repeats
    assert repeat.first - repeat.earlier == 300 and 401 <= repeat.first < 417 and 484 < repeat.last <= 500
    agent = sf.UCRL2(problem.space)
    with pytest.raises(InvalidInput, match="repeat rows"):
        read.into(agent, accidents=True)
    read.into(agent, accidents=True, repeated=True)
    constant = [{"state": 0, "action": 0, "reward": 1, "next_state": 0}] * 300
    assert not read_history(constant, SPACE, batch=batch).repeats  # it could hardly have gone otherwise


def test_a_file_and_its_copy_are_not_one_log(tmp_path):
    for name in ("a.csv", "b.csv"):
        csv(tmp_path / name, "state,action,reward,next_state", *LINES)
    with pytest.raises(UnreadableFile, match="is a copy of"):
        read_history(tmp_path, SPACE)


def test_a_stray_state_costs_a_row_and_no_memory(tmp_path):
    lines = ["0,0,1,10000000", "10000000,0,1,0"]
    read = read_history(csv(tmp_path / "a.csv", "state,action,reward,next_state", *lines), SPACE)
    assert read.used == 0 and read.unusable == {"next_state does not exist": 1, "state does not exist": 1}


def test_parquet_files_with_dates_and_sites(tmp_path):
    table = pa.table({"when": pa.array([datetime(2025, 1, d) for d in (1, 2, 4)]), "machine": ["m1"] * 3,
                      "state": [0, 1, 0], "action": [0] * 3, "reward": [1.0] * 3, "next_state": [1, 0, 1]})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    read = read_history(tmp_path / "a.parquet", SPACE, columns={"t": "when"}, step="day")
    assert read.used == 3 and read.gaps == 1 and dict(read.sites) == {"m1": 3}
    with pytest.raises(SurefootedError, match="stages"):
        read_history(tmp_path / "a.parquet", SPACE, columns={"t": "when"}, step="day", stages=5)


def test_rows_of_several_sites_are_refused_whatever_their_column_is_called(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "log.csv"
    lines = ["t;Laden;Artikel;state;action;reward;next_state"]
    state = {name: 0 for name in ("cola", "water")}
    for t in range(1, 41):
        for name, s in state.items():
            state[name] = int(rng.integers(3))
            lines.append(f"{t};Nord;{name};{s};0;1,5;{state[name]}")
    path.write_text("\n".join(lines), encoding="utf-8")
    for columns in ({}, {"site": "Laden"}, {"t": None}):  # named in part, too; and without t
        with pytest.raises(InvalidInput, match="rows do not follow the row before them") as error:
            read_history(path, SPACE, columns=columns)
        assert "'Artikel'" in error.value.hint and "columns={'site': [...]}" in error.value.hint
    named = {"site": ["Laden", "Artikel"]}
    assert read_history(path, SPACE, columns=named, site="Nord / cola").used == 40
    assert read_history(path, SPACE, columns={"site": None}).rows == 80  # told that no column does
    stacked = [lines[0], *lines[1::2], *lines[2::2]]  # one item after the other
    path.write_text("\n".join(stacked), encoding="utf-8")
    with pytest.raises(InvalidInput, match="40 of 80 rows do not follow"):
        read_history(path, SPACE)


def test_copies_of_rows_are_no_sites(tmp_path):
    lines = [line for t in range(1, 41) for line in [f"{t},{t % 3},0,1,{(t + 1) % 3}"] * 2]
    read = read_history(csv(tmp_path / "log.csv", "t,state,action,reward,next_state", *lines), SPACE)
    assert read.used == 40 and read.unusable == {"t repeats that of the row before in its episode": 40}


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8"])
def test_files_in_other_encodings(tmp_path, encoding):
    lines = [f"größe {i % 3};€;1,5;größe {(i + 1) % 3}" for i in range(30_000)]  # several blocks of a file
    (tmp_path / "log.csv").write_bytes("\n".join(["Maß;was;r;danach", *lines]).encode(encoding))
    columns = {"state": "Maß", "action": "was", "reward": "r", "next_state": "danach"}
    labels = {"state_labels": [f"größe {i}" for i in range(3)], "action_labels": ["€", "$"]}
    if encoding != "utf-8":
        with pytest.raises(UnreadableFile, match=r"not written in UTF-8\. Say how: encoding='cp1252'"):
            read_history(tmp_path / "log.csv", SPACE, columns=columns, **labels)
    read = read_history(tmp_path / "log.csv", SPACE, columns=columns, encoding=encoding, **labels)
    assert read.used == 30_000 and read.counts.visits.tolist() == [10_000, 0] * 3
    with pytest.raises(InvalidInput, match="encoding 'cp99999': there is none"):
        read_history(tmp_path / "log.csv", SPACE, columns=columns, encoding="cp99999")
    (tmp_path / "open.csv").write_bytes('Maß;was;r;danach\n"größe 0;€;1;größe 1\n'.encode(encoding))
    with pytest.raises(UnreadableFile, match="line 2: a quote opens here"):
        read_history(tmp_path / "open.csv", SPACE, columns=columns, encoding=encoding)
