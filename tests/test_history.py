"""Logs: what is in them is counted exactly, what cannot be used is counted by reason, wherever batches end."""

import gzip
import os
import tracemalloc

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefooted as sf
from surefooted.data import log_files, log_rows
from surefooted.data.reading import read_history
from surefooted.data.writing import write_history
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.kernels import logs as walk

exact = settings(derandomize=True, deadline=None, max_examples=60)  # the same examples in every run
SPACE = sf.Space.from_available(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool), 2.0)
NAMES = ("episode", "t", "state", "action", "reward", "next_state", "terminated", "truncated")


def row(**values):
    """A step of episode 0 from state 0 with action 0."""
    return {"episode": 0, "t": 0, "state": 0, "action": 0, "reward": 0.5, "next_state": 0} | values


def csv(path, *lines):
    path.write_bytes("\n".join(lines).encode() + b"\n")
    return path


def same(one, other):
    """Whether two counts are equal in every bit."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def equal(one, other):
    """Whether two histories are equal, but for the names of files and how values are written."""
    places = [{key: [e.row for e in some] for key, some in h.examples.items()} for h in (one, other)]
    assert same(one.counts, other.counts) and places[0] == places[1]
    assert (one.rows, one.used, one.episodes) == (other.rows, other.used, other.episodes)
    assert one.unusable == other.unusable and list(one.unusable) == list(other.unusable)
    assert one.used + sum(one.unusable.values()) == one.rows and one.counts.total == one.used
    return True


def runs():
    problem, grid = sf.problems.riverswim(), sf.problems.gridworld()
    run = sf.simulate(problem, sf.UCRL2(problem.space), 150, seed=1)
    episodes = sf.simulate(grid, sf.UCBVI(grid.space, grid.horizon), episodes=15, seed=2)
    return (problem, run), (grid, episodes)


@pytest.fixture(scope="module")
def simulated():
    return runs()


@pytest.mark.first(6)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("batch", [1, 7, 1 << 16])
@pytest.mark.parametrize("labelled", [False, True])
def test_a_run_that_was_written_is_counted_as_it_was_played(tmp_path, simulated, suffix, batch, labelled):
    for problem, run in simulated:
        labels = {"state_labels": [f"s, {s}" for s in range(problem.space.n_states)]} if labelled else {}
        write_history(tmp_path / f"log{suffix}", run, **labels)
        assert os.listdir(tmp_path) == [f"log{suffix}"]
        read = read_history(tmp_path / f"log{suffix}", problem.space, batch=batch, **labels)
        direct = sf.Counts(problem.space)
        direct.add_steps(run.pairs.ravel(), run.rewards.ravel(), run.next_states.ravel())
        assert same(read.counts, direct)
        assert not read.unusable and read.rows == read.used == run.pairs.size and read.selected == 0
        assert read.episodes == (run.starts.size if hasattr(run, "starts") else 1)
        table = np.zeros_like(read.actions)
        np.add.at(table, (problem.space.pair_state[run.pairs], problem.space.pair_action[run.pairs]), 1)
        assert np.array_equal(read.actions, table)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_stages_have_counts_of_their_own(tmp_path, simulated, suffix):
    problem, run = simulated[1]
    write_history(tmp_path / f"log{suffix}", run)
    read = read_history(tmp_path / f"log{suffix}", problem.space, stages=run.horizon, batch=9)
    direct = sf.Counts(problem.space, stages=run.horizon)
    offset = np.arange(run.horizon) * problem.space.n_pairs
    direct.add_steps((run.pairs + offset).ravel(), run.rewards.ravel(), run.next_states.ravel())
    assert same(read.counts, direct) and read.actions.sum() == run.pairs.size
    fewer = read_history(tmp_path / f"log{suffix}", problem.space, stages=run.horizon - 1)
    assert fewer.unusable == {"t is beyond the last stage": run.episodes}


def slowly(rows, space, stages=1, bounded=True):
    """Used rows (as pair, reward, next state) and reasons by row, with dictionaries; values are of the right types."""
    reasons, usable, chain = {}, {}, {}
    for i, r in enumerate(rows):
        order = r["episode"] is not None and r["t"] is not None and r["t"] >= 0
        available = r["state"] in range(space.n_states) and r["action"] in space.actions(r["state"])
        checks = [
            ("episode is missing", r["episode"] is None),
            ("t is missing", r["t"] is None),
            ("t is negative or not whole", r["t"] is not None and r["t"] < 0),
            ("state is missing", r["state"] is None),
            ("state does not exist", r["state"] not in (None, *range(space.n_states))),
            ("action does not exist", r["action"] not in range(space.n_actions)),
            ("action is not available in its state", not available),
            (f"reward is outside [0, {space.r_max:g}]", bounded and not 0 <= r["reward"] <= space.r_max),
            ("next_state does not exist", r["next_state"] not in range(space.n_states)),
            ("terminated is missing", r["terminated"] is None),
        ]
        found = [reason for reason, bad in checks if bad]
        if order:
            last, terminated, before, cut = chain.get(r["episode"], (-1, False, None, True))
            if r["t"] <= last:
                how = "repeats that of the row before in" if r["t"] == last else "does not increase within"
                found.append(f"t {how} its episode")
            elif terminated:
                found.append("episode had terminated before")
            else:
                exists = r["state"] in range(space.n_states)
                if before in usable and not cut and r["t"] == last + 1 and exists and r["state"] != usable[before][2]:
                    del usable[before]
                    reasons[before] = "next_state is not where the next row of its episode begins"
                over = r["terminated"] is None or r["terminated"] or r["truncated"]
                chain[r["episode"]] = (r["t"], bool(r["terminated"]), i, over)
                if stages > 1 and r["t"] >= stages:
                    found.append("t is beyond the last stage")
        if found:
            reasons[i] = found[0]
        else:
            stage = r["t"] * space.n_pairs if stages > 1 else 0
            usable[i] = (space.pair(r["state"], r["action"]) + stage, r["reward"], r["next_state"])
    return list(usable.values()), reasons


seldom = st.integers(0, 11)


@st.composite
def logs(draw):
    """Rows of up to three episodes that alternate, most of them sound, rewards exact in sums."""
    rows, at = [], {}
    for _ in range(draw(st.integers(0, 30))):
        e = draw(st.integers(0, 2))
        t, s = at.get(e, (0, draw(st.integers(0, 2))))
        y = draw(st.integers(0, 2))
        r = {
            "episode": e,
            "t": t,
            "state": s,
            "action": draw(st.sampled_from(SPACE.actions(s).tolist())),
            "reward": draw(st.integers(0, 8)) / 4,
            "next_state": y,
            "terminated": draw(seldom) == 0,
            "truncated": draw(seldom) == 0,
        }
        faults = {"t": [-1, None, t + 2, max(t - 1, 0)], "state": [None, 3, -1, (s + 1) % 3], "action": [0, 1, 2, 7]}
        faults |= {"reward": [-1.0, 2.5], "next_state": [9, -1], "terminated": [None], "episode": [None]}
        at[e] = (t + 1, y)
        if draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from(sorted(faults)))
            r[name] = draw(st.sampled_from(faults[name]))
        rows.append(r)
    return rows


def as_table(rows):
    types = {"reward": pa.float64(), "terminated": pa.bool_(), "truncated": pa.bool_()}
    return pa.table({name: pa.array([r[name] for r in rows], types.get(name, pa.int64())) for name in NAMES})


@exact
@given(rows=logs(), batch=st.integers(1, 12), stages=st.sampled_from([1, 4]))
def test_every_row_is_used_or_has_the_reason_that_dictionaries_find_in_batches_of_any_size(rows, batch, stages):
    table = as_table(rows)
    read = read_history(table, SPACE, stages=stages)
    used, reasons = slowly(rows, SPACE, stages)
    direct = sf.Counts(SPACE, stages=stages)
    if used:
        direct.add_steps(*(np.array(column) for column in zip(*used, strict=True)))
    for name in ("visits", "reward_sum", "reward_square"):
        assert np.array_equal(getattr(read.counts, name), getattr(direct, name))  # the rewards' sums are exact
    assert transitions(read.counts) == transitions(direct)
    wanted = {}
    for i in sorted(reasons):
        wanted.setdefault(reasons[i], []).append(i + 1)
    assert read.unusable == {reason: len(numbers) for reason, numbers in wanted.items()}
    for reason, examples in read.examples.items():
        if not reason.startswith("next_state is not"):  # these are found in another order
            assert [example.row for example in examples] == wanted[reason][: log_rows.EXAMPLES]
        assert {example.row for example in examples} <= set(wanted[reason])
    assert equal(read, read_history(table, SPACE, stages=stages, batch=batch))


def transitions(counts):
    next_ptr, next_state, count = counts.rows()
    return set(zip(np.repeat(np.arange(counts.n_rows), np.diff(next_ptr)), next_state, count, strict=True))


@exact
@given(rows=logs(), batch=st.integers(1, 12), cut=st.integers(0, 30), block=st.integers(90, 400))
def test_csv_parquet_rows_and_several_files_are_one_log(tmp_path_factory, rows, batch, cut, block):
    folder, table = tmp_path_factory.mktemp("log"), as_table(rows)
    whole = read_history(table, SPACE)
    pcsv.write_csv(table, folder / "whole.csv")
    pq.write_table(table, folder / "whole.parquet", row_group_size=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "BLOCK", block)
        assert equal(whole, read_history(folder / "whole.csv", SPACE, batch=batch))
        assert equal(whole, read_history(str(folder / "whole.parquet"), SPACE, batch=batch))
    if rows:
        assert equal(whole, read_history((dict(r) for r in rows), SPACE, batch=batch))
    (folder / "parts").mkdir()
    pcsv.write_csv(table.slice(0, cut), folder / "parts" / "1.csv")
    pq.write_table(table.slice(cut), folder / "parts" / "2.parquet")
    (folder / "parts" / "_SUCCESS").touch()
    parts = read_history(folder / "parts", SPACE, batch=batch)
    assert same(parts.counts, whole.counts) and parts.unusable == whole.unusable
    places = [
        (e.row + cut * e.file.endswith("2.parquet"), reason)
        for reason in parts.examples
        for e in parts.examples[reason]
    ]
    assert places == [(e.row, reason) for reason in whole.examples for e in whole.examples[reason]]
    listed = read_history([folder / "parts" / name for name in ("1.csv", "2.parquet")], SPACE)
    assert same(listed.counts, whole.counts)


REASONS = [
    ({"state": None}, "state is missing"),
    ({"state": ""}, "state is missing"),
    ({"action": " "}, "action is missing"),
    ({"reward": None}, "reward is missing"),
    ({"next_state": None}, "next_state is missing"),
    ({"episode": None}, "episode is missing"),
    ({"t": None}, "t is missing"),
    ({"terminated": ""}, "terminated is missing"),
    ({"truncated": None}, "truncated is missing"),
    ({"state": "x"}, "state is not a number"),
    ({"action": "0x1"}, "action is not a number"),
    ({"reward": "1,5"}, "reward is not a number"),
    ({"reward": "1_0"}, "reward is not a number"),
    ({"next_state": "--1"}, "next_state is not a number"),
    ({"t": "noon"}, "t is not a number"),
    ({"state": 3}, "state does not exist"),
    ({"state": 0.5}, "state does not exist"),
    ({"state": -1}, "state does not exist"),
    ({"state": "1e300"}, "state does not exist"),
    ({"state": "nan"}, "state does not exist"),
    ({"action": "inf"}, "action does not exist"),
    ({"action": 3}, "action does not exist"),
    ({"action": 2**63}, "action does not exist"),
    ({"next_state": 3}, "next_state does not exist"),
    ({"action": 2}, "action is not available in its state"),
    ({"reward": "nan"}, "reward is not finite"),
    ({"reward": "-inf"}, "reward is not finite"),
    ({"reward": "1e400"}, "reward is not finite"),
    ({"reward": "1e300"}, "reward is outside [0, 2]"),
    ({"reward": -1e-6}, "reward is outside [0, 2]"),
    ({"reward": 2 + 1e-6}, "reward is outside [0, 2]"),
    ({"t": -1}, "t is negative or not whole"),
    ({"t": 1.5}, "t is negative or not whole"),
    ({"t": "inf"}, "t is negative or not whole"),
    ({"t": "1e300"}, "t is negative or not whole"),
    ({"terminated": "maybe"}, "terminated is not true or false"),
    ({"truncated": 2}, "truncated is not true or false"),
]


@pytest.mark.parametrize("values, reason", REASONS, ids=str)
def test_a_row_that_cannot_be_used_is_counted_by_its_reason_and_shown(values, reason):
    flags = {"terminated": "false", "truncated": "0"}
    rows = [row(episode=1, **flags), row(episode=2, **flags | {}) | values, row(episode=3, **flags)]
    read = read_history(rows, SPACE)
    assert read.unusable == {reason: 1} and read.used == 2 and read.rows == 3
    (example,) = read.examples[reason]
    assert (example.file, example.row) == ("rows", 2) and f"{next(iter(values))} " in example.what
    assert reason in str(read) and str(example) in str(read) and "row 2" in str(example)
    outcome = reason.startswith(("reward", "next_state", "terminated", "truncated"))
    assert read.selected == outcome and ("because of their outcome" in str(read)) == outcome


SEQUENCES = [  # the rows' t, state and next state (and flags), and the reason of each
    ([(0, 0, 2), (1, 2, 0), (2, 0, 0)], {}),
    ([(0, 0, 2), (2, 0, 0)], {}),  # a gap says nothing
    ([(0, 0, 2), (1, 0, 0)], {1: "next_state is not where"}),
    ([(0, 0, 2, "truncated"), (1, 0, 0)], {}),
    ([(0, 0, 2, "terminated"), (1, 0, 0), (2, 0, 0)], {2: "episode had terminated", 3: "episode had terminated"}),
    ([(0, 0, 0), (0, 0, 0)], {2: "t repeats"}),
    ([(1, 0, 0), (0, 0, 0), (2, 0, 0)], {2: "t does not increase"}),
    ([(5, 0, 0), (3, 0, 0), (5, 0, 0), (6, 0, 0)], {2: "t does not increase", 3: "t repeats"}),
    ([(0, 0, 2), (1, 9, 0), (2, 0, 0)], {2: "state does not exist"}),  # nothing contradicts the first
]


@pytest.mark.parametrize("steps, reasons", SEQUENCES, ids=str)
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_order_and_continuity_within_an_episode(steps, reasons, batch):
    flags = {"terminated": False, "truncated": False}
    rows = [row(t=t, state=s, next_state=y, **flags | {flag: True for flag in more}) for t, s, y, *more in steps]
    read = read_history(rows, SPACE, batch=batch)
    found = {e.row: reason for reason in read.examples for e in read.examples[reason]}
    assert found.keys() == reasons.keys() and all(found[i].startswith(reasons[i]) for i in found)
    assert read.used == len(rows) - len(reasons) and read.episodes == 1


def test_an_episode_has_terminated_even_if_that_row_cannot_be_used():
    flags = {"terminated": False, "truncated": False}
    for fault in ({"reward": 9}, {"truncated": None}):
        rows = [row(**flags), row(t=1, **flags | {"terminated": True} | fault), row(t=2, **flags)]
        assert read_history(rows, SPACE).unusable["episode had terminated before"] == 1
    rows = [row(**flags), row(t=1, **flags | {"terminated": None}), row(t=2, **flags)]
    assert read_history(rows, SPACE).unusable == {"terminated is missing": 1}


def test_a_contradicted_row_says_by_which(tmp_path):
    first = csv(tmp_path / "a.csv", "t,state,action,reward,next_state", "0,0,0,1,0", "1,0,0,1,2")
    second = csv(tmp_path / "b.csv", "t,state,action,reward,next_state", "2,1,1,1,2")
    read = read_history([first, second], SPACE)
    ((example,),) = read.examples.values()
    assert (example.file, example.row) == (str(first), 2)
    assert example.what == "leads to state 2, but row 1 begins in state 1" and read.selected == 1


def test_a_log_without_episodes_begins_one_after_an_end_and_at_t_0():
    plain = {"action": 0, "reward": 0.5}
    flat = [plain | {"state": s, "next_state": y} for s, y in ((0, 2), (2, 0), (0, 0))]
    assert read_history(flat, SPACE).episodes == 1
    jump = [*flat, plain | {"state": 2, "next_state": 0}]
    assert list(read_history(jump, SPACE).unusable.values()) == [1]
    ends = [r | {"truncated": i == 2} for i, r in enumerate(jump)]
    read = read_history(ends, SPACE)
    assert read.episodes == 2 and read.used == 4
    clock = [r | {"t": i % 3} for i, r in enumerate(jump)]
    read = read_history(clock, SPACE, batch=3)
    assert read.episodes == 2 and read.used == 4
    ended = [r | {"terminated": i == 2} for i, r in enumerate(jump)]
    assert read_history(ended, SPACE, batch=1).used == 4
    with pytest.raises(InvalidInput, match="stages need column t"):
        read_history(flat, SPACE, stages=3)


def test_labels_and_numbers_can_be_mixed_unless_labels_are_numbers():
    rows = [row(state="low", action="go", next_state="0"), row(t=1, state=0, action="stay", next_state="high")]
    rows.append(row(t=2, state="top"))
    labels = {"state_labels": ("low", "mid", "high"), "action_labels": ("stay", "go", "run")}
    for batch in (1, 5):
        read = read_history(rows, SPACE, batch=batch, **labels)
        assert read.unusable == {"state does not exist": 1}
        assert read.actions.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    from_one = [row(state="1", next_state="3"), row(t=1, state="3", next_state="0"), row(episode=1, state="0")]
    read = read_history(from_one, SPACE, state_labels=("1", "2", "3"))
    assert read.unusable == {"next_state does not exist": 1, "state does not exist": 1}
    assert read.counts.rows()[1].tolist() == [2]
    read = read_history(pa.Table.from_pylist([row(state=1, next_state=3)]), SPACE, state_labels=("1", "2", "3"))
    assert read.used == 1 and read.counts.rows()[1].tolist() == [2]
    assert read_history([row(state="1.0", action=1)], SPACE, state_labels=("0", "1", "2")).used == 1
    for bad in ("abc", ("a", "b"), ("a", "a", "b")):
        with pytest.raises(InvalidInput, match="state_labels"):
            read_history(rows, SPACE, state_labels=bad)


def test_other_names_of_columns_and_columns_left_out(tmp_path):
    path = csv(tmp_path / "log.csv", "when,stock,a,r,then,t", "9,0,0,1,2,noon", "9,2,0,1,0,one")
    columns = {"state": "stock", "action": "a", "reward": "r", "next_state": "then"}
    assert read_history(path, SPACE, columns=columns).unusable == {"t is not a number": 2}
    assert read_history(path, SPACE, columns=columns | {"t": None}).used == 2
    write_history(
        tmp_path / "out.csv", {"state": [0], "action": [1], "reward": [1], "next_state": [2]}, columns=columns
    )
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == '"stock","a","r","then"'
    assert read_history(tmp_path / "out.csv", SPACE, columns=columns).used == 1
    for wrong, said in [
        ({"state": "stok"}, "no column 'stok' for state"),
        ({"t": "clock"}, "no column 'clock' for t"),
        ({"stat": "stock"}, "there is no 'stat'"),
        ({"next_state": "stock"}, "cannot be both"),
        ({"state": None}, "no column None for state"),
    ]:
        with pytest.raises(InvalidInput) as error:
            read_history(path, SPACE, columns=columns | wrong)
        assert said in str(error.value) and str(path) in str(error.value) and "'stock'" in str(error.value)


HEADER = "episode,t,state,action,reward,next_state,terminated,truncated"


@pytest.mark.parametrize(
    "content",
    [
        f"\ufeff{HEADER}\n0,0,0,0,0.5,0,false,false\n",
        f"{HEADER}\r\n0,0,0,0,0.5,0,False,TRUE\r\n",
        f"{HEADER}\n0,0,0,0,0.5,0,0,1",
        f"{HEADER}\n\n0,0,0,0,0.5,0,0,1\n\n",
        f'"{HEADER.replace(",", chr(34) + "," + chr(34))}"\n"0","0","0","0","0.5","0","0","1"\n',
        f"note,{HEADER},other\n" + '"two lines, ""x""",0,0,0,0,0.5,0,0,1,\xe9\n',
        f"{HEADER}\n0,0e0,0.0,+0,5e-1,-0, 0 ,1.0\n",
        f"{HEADER}\nday one,0, 0,0 ,+.5,0.,0,1\n",
    ],
    ids=str,
)
def test_csv_files_as_they_come(tmp_path, content):
    path = tmp_path / "log.CSV"
    path.write_bytes(content.encode())
    read = read_history(path, SPACE)
    assert not read.unusable and read.used == 1 and read.counts.reward_sum[0] == 0.5
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(content.encode()))
    assert equal(read, read_history(tmp_path / "log.csv.gz", SPACE))


def test_a_file_with_a_header_alone_holds_nothing(tmp_path):
    read = read_history(csv(tmp_path / "log.csv", HEADER), SPACE)
    assert (read.rows, read.used, read.episodes, dict(read.unusable)) == (0, 0, 0, {}) and read.counts.total == 0
    assert str(read) == "0 rows, 0 used, 0 episodes; 0 of 6 pairs visited"
    pq.write_table(as_table([]), tmp_path / "log.parquet")
    assert read_history(tmp_path / "log.parquet", SPACE).rows == 0


def test_types_of_parquet_files(tmp_path):
    dictionary = pa.array(["low", "high", "low"]).dictionary_encode()
    table = pa.table(
        {
            "episode": pa.array([1.0, 1.0, None]),
            "state": dictionary,
            "action": pa.array([0, 0, 0], pa.uint8()),
            "reward": pa.array([1, 0, 1], pa.decimal128(5, 2)),
            "next_state": pa.array(["high", "low", "low"], pa.large_string()),
            "terminated": pa.array([0.0, 1.0, 0.0], pa.float32()),
            "truncated": pa.array([False, None, False]),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet"):
        read = read_history(source, SPACE, state_labels=("low", "mid", "high"))
        assert read.unusable == {"episode is missing": 1, "truncated is missing": 1} and read.used == 1
    assert read_history(table.append_column("t", pa.nulls(3)), SPACE).unusable["t is missing"] == 2
    moment = table.append_column("t", pa.array([0, 1, 2], pa.timestamp("s")))
    with pytest.raises(InvalidInput, match="column 't' holds dates"):
        read_history(moment, SPACE)
    assert (
        read_history(
            pa.table({"state": pa.array([2**63], pa.uint64()), **{n: [0] for n in NAMES[3:6]}}), SPACE
        ).selected
        == 0
    )


def test_columns_may_stand_in_any_order(tmp_path):
    table = as_table([row(state=0, action=1, reward=1.5, next_state=2, terminated=False, truncated=False)])
    mixed = table.select([NAMES[i] for i in (5, 2, 7, 0, 4, 3, 6, 1)])
    pcsv.write_csv(mixed, tmp_path / "log.csv")
    pq.write_table(mixed, tmp_path / "log.parquet")
    wanted = sf.Counts(SPACE)
    wanted.add(0, 1, 1.5, 2)
    for source in (mixed, tmp_path / "log.csv", tmp_path / "log.parquet", mixed.to_pylist()):
        assert same(read_history(source, SPACE).counts, wanted)


def test_an_episode_goes_on_whether_its_number_is_text_or_not(tmp_path):
    csv(tmp_path / "1.csv", "episode,t,state,action,reward,next_state", "7,0,0,0,1,2")
    pq.write_table(pa.Table.from_pylist([row(episode=7, t=1)]), tmp_path / "2.parquet")
    read = read_history(tmp_path, SPACE)
    assert read.episodes == 1 and read.used == 1 and read.selected == 1


def broken_files(folder):
    """Files that cannot be read, and a word of what is said."""
    good = pa.BufferOutputStream()
    pq.write_table(as_table([row(terminated=False, truncated=False)] * 1000), good)
    good = good.getvalue().to_pybytes()
    flipped = bytearray(good)
    flipped[8:400] = os.urandom(392)
    files = {
        "empty.csv": (b"", "UTF-8"),
        "empty.parquet": (b"", "cut off"),
        "cut.parquet": (good[: len(good) // 2], "cut off"),
        "foreign.parquet": (b"state,action\n", "cut off"),
        "binary.csv": (bytes(range(256)) * 4, "binary.csv"),
        "latin.csv": (f"{HEADER}\n0,0,0,0,1,0,0,0\n\xe9,0,0,0,1,0,0,0\n".encode("latin1"), "UTF-8"),
        "utf16.csv": (f"{HEADER}\n0,0,0,0,1,0,0,0\n".encode("utf-16"), "utf16.csv"),
        "ragged.csv": (f"{HEADER}\n0,0,0,0,1,0,0,0\n0,1,0\n".encode(), "commas"),
        "wide.csv": (f"{HEADER}\n0,0,0,0,1,0,0,0,0\n".encode(), "commas"),
        "colons.csv": (HEADER.replace(",", ":").encode() + b"\n0:0:0:0:1:0:0:0\n", "no column 'state'"),
        "twice.csv": (b"state,state,action,reward,next_state\n0,0,0,0,0\n", "there are two columns 'state'"),
        "case.csv": (b"state,action,reward,next_state,Truncated\n0,0,0,0,1\n", "is this truncated?"),
        "cut.csv.gz": (gzip.compress(f"{HEADER}\n".encode() + os.urandom(5000))[:3000], "cut.csv.gz"),
        "log.txt": (b"state\n", "is not a .csv, .csv.gz or .parquet file"),
    }
    for name, (content, _) in files.items():
        (folder / name).write_bytes(content)
    return {name: said for name, (_, said) in files.items()}


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    for name, said in broken_files(tmp_path).items():
        with pytest.raises(SurefootedError) as error:
            read_history(tmp_path / name, SPACE)
        assert isinstance(error.value, InvalidInput | UnreadableFile), name
        assert name in str(error.value) and said in str(error.value), str(error.value)


def test_corrupt_bytes_never_surface_as_another_error(tmp_path):
    rng = np.random.default_rng(0)
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"log.{suffix}"
        write_history(path, {name: np.zeros(200, dtype=int) for name in NAMES[2:6]} | {"t": np.arange(200)})
        whole = path.read_bytes()
        for _ in range(60):
            bad = bytearray(whole)
            for at in rng.integers(len(bad), size=3):
                bad[at] = rng.integers(256)
            path.write_bytes(bytes(bad[: rng.integers(len(bad) // 2, len(bad) + 1)]))
            try:
                read = read_history(path, SPACE)
            except (InvalidInput, UnreadableFile) as error:
                assert path.name in str(error)
            else:
                assert read.used + sum(read.unusable.values()) == read.rows


@pytest.mark.parametrize("source", [[], [3], "nowhere.csv", ["nowhere.csv", "nor.parquet"]], ids=str)
def test_what_is_no_log(source):
    with pytest.raises((InvalidInput, UnreadableFile), match=r"not a log|files is empty|nowhere\.csv: no such file"):
        read_history(source, SPACE)


def test_files_that_do_not_belong_together(tmp_path):
    csv(tmp_path / "a.csv", "state,action,reward,next_state", "0,0,0,0")
    csv(tmp_path / "b.csv", "t,state,action,reward,next_state", "0,0,0,0,0")
    with pytest.raises(InvalidInput, match="not one log"):
        read_history(tmp_path, SPACE)
    with pytest.raises(UnreadableFile, match="is listed twice"):
        read_history([tmp_path / "a.csv", tmp_path / ".." / tmp_path.name / "a.csv"], SPACE)
    (tmp_path / "none").mkdir()
    with pytest.raises(UnreadableFile, match="empty directory"):
        read_history(tmp_path / "none", SPACE)


def test_strict_lists_every_reason_with_a_row():
    rows = [row(), row(episode=1, reward=7), row(episode=2, reward=8), row(episode=3, state=9)]
    with pytest.raises(InvalidInput) as error:
        read_history(rows, SPACE, strict=True)
    assert len(error.value.faults) == 2 and error.value.faults[0].startswith(
        "2 rows: reward is outside [0, 2]; rows, row 2"
    )
    assert read_history(rows[:1], SPACE, strict=True).used == 1


def test_rewards_of_any_size_where_counts_are_not_bounded():
    rows = [row(reward=-7e200), row(t=1, reward="1e400"), row(t=2, reward=2 + 1e-9)]
    assert read_history(rows, SPACE, bounded=False).unusable == {"reward is not finite": 1}
    assert read_history(rows[2:], SPACE).used == 1  # rounding
    for wrong in ({"stages": 0}, {"batch": 0}, {"batch": 1.5}):
        with pytest.raises(InvalidInput):
            read_history(rows, SPACE, **wrong)


def agents(space, baseline, horizon=10, **options):
    base = sf.Baseline(baseline)
    return {
        "UCRL2": sf.UCRL2(space),
        "PSRL": sf.PSRL(space),
        "CUCRL2": sf.CUCRL2(space, baseline=base, alpha=0.1),
        "UCBVI": sf.UCBVI(space, horizon, **options),
        "EULER": sf.EULER(space, horizon, **options),
        "CUCBVI": sf.CUCBVI(space, horizon, baseline=base, alpha=0.1, **options),
    }


EPISODIC = ("UCBVI", "EULER", "CUCBVI")


@pytest.mark.parametrize(
    "name, staged",
    [(name, False) for name in ("UCRL2", "PSRL", "CUCRL2", *EPISODIC)] + [(name, True) for name in EPISODIC],
)
def test_an_agent_begins_with_what_was_logged_and_takes_nothing_afterwards(tmp_path, simulated, name, staged):
    problem, run = simulated[1]
    write_history(tmp_path / "log.parquet", run)
    read = read_history(tmp_path / "log.parquet", problem.space, stages=10 if staged else 1)
    agent = agents(problem.space, problem.baseline, stage_dependent=staged)[name]
    learner = getattr(agent, "learner", agent)
    learner.plausible()  # a set made before is made anew
    read.into(agent)
    assert same(learner.counts, read.counts) and learner.counts is not read.counts
    wanted = learner.confidence(read.counts, learner.delta)
    assert np.array_equal(learner.plausible().r_lower, wanted.r_lower)
    read.into(agent)  # once more, into counts that hold something
    assert np.array_equal(learner.counts.visits, 2 * read.counts.visits)
    agent.begin(problem.start)
    before = learner.counts.state_dict()
    with pytest.raises(InvalidInput, match="begun already"):
        read.into(agent)
    after = learner.counts.state_dict()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    other = sf.Counts(problem.space, stages=10 if staged else 1)
    other.merge(read.counts)
    other.merge(read.counts)
    assert same(learner.counts, other)


@exact
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 300), m=st.integers(0, 300))
def test_counts_are_added_as_merge_adds_them(seed, n, m):
    rng, space = np.random.default_rng(seed), sf.Space.full(12, 2)
    one, merged, more = sf.Counts(space), sf.Counts(space), sf.Counts(space)
    for size, targets in ((n, (one, merged)), (m, (more,))):
        steps = rng.integers(space.n_pairs, size=size), rng.random(size), rng.integers(space.n_states, size=size)
        for counts in targets:
            counts.add_steps(*steps)
    merged.merge(more)
    one.merge(more)
    assert same(one, merged)
    for counts in (one, merged):
        counts.add_steps(np.array([3, 3]), np.array([0.1, 0.2]), np.array([5, 6]))
    assert same(one, merged)


def test_what_an_agent_must_not_be_given(simulated):
    problem, _ = simulated[1]
    space, baseline = problem.space, problem.baseline
    steps = {"state": 0, "action": space.actions(0)[0], "reward": 0.0, "next_state": 0}
    read = read_history([steps], space)
    some = agents(space, baseline)

    class Bare:
        begun = False

    limited = sf.UCBVI(space, 10, bonus="hoeffding", episodes=100)
    odd = read_history([steps, steps | {"reward": 99}], space)
    for one, agent, said in [
        (read_history([row()], SPACE), some["UCRL2"], "the agent on Space"),
        (read, sf.UCBVI(space, 10, stage_dependent=True), "the agent needs stages=10"),
        (read_history([steps], space, bounded=False), some["CUCBVI"], "bounded=True"),
        (read, Bare(), "Bare, keeps no `counts`"),
        (read, limited, "bonus='boxes'"),
        (odd, some["UCBVI"], "accidents=True"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            one.into(agent)
    odd.into(some["UCBVI"], accidents=True)
    assert some["UCBVI"].counts.total == 1
    assert all(agent.counts.total == 0 for agent in (some["UCRL2"], limited, some["CUCBVI"].learner))


def test_behaviour_by_hand():
    space = sf.Space.full(2, 2)
    plain = {"reward": 0.5, "next_state": 0}
    rows = [plain | {"state": 0, "action": a, "truncated": True} for a in (0, 0, 0, 1)]
    rows += [plain | {"state": 1, "action": 1, "truncated": True}] * 2
    read = read_history(rows, space)
    fits = read.behaviour_matches(sf.Policy.deterministic(space, [0, 1]))
    assert (fits.steps, fits.never, fits.deviance, fits.degrees) == (6, 1, 0.0, 0)
    fits = read.behaviour_matches(sf.Policy.randomised(space, [[0.75, 0.25], [1, 0]]))
    assert (fits.never, fits.degrees) == (2, 1) and fits.deviance == pytest.approx(0, abs=1e-12)
    fits = read.behaviour_matches(sf.Policy.uniform(space))
    wanted = 2 * (3 * np.log(1.5) + np.log(0.5) + 2 * np.log(2))
    assert fits.never == 0 and fits.degrees == 2 and fits.deviance == pytest.approx(wanted)
    assert str(fits).startswith("0 of 6 logged actions are never played") and "expected 2 ± 2.0" in str(fits)
    with pytest.raises(InvalidInput, match="stages=3"):
        read.behaviour_matches(sf.Policy.deterministic(space, [[0, 1]] * 3))
    with pytest.raises(InvalidInput, match="the policy is on"):
        read.behaviour_matches(sf.Policy.uniform(SPACE))


def test_a_staged_policy_fits_its_own_log():
    space = sf.Space.full(2, 2)
    rows = [
        {"episode": e, "t": t, "state": 0, "action": t, "reward": 0, "next_state": 0} for e in "abc" for t in (0, 1)
    ]
    read = read_history(rows, space, stages=2)
    assert read.behaviour_matches(sf.Policy.deterministic(space, [[0, 0], [1, 1]])).never == 0
    assert read.behaviour_matches(sf.Policy.deterministic(space, [0, 0])).never == 3
    assert "4 pairs" not in str(read) and "2 of 8 pairs visited (of all stages)" in str(read)


@pytest.mark.parametrize("termination", ["restart", "absorb"])
def test_what_an_agent_did_in_an_environment_is_learnt_from_its_log(tmp_path, termination):
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=12)
    bridge = sf.gym.Bridge(env, termination=termination)
    agent = sf.UCRL2(bridge.space)
    log = sf.gym.drive(bridge, agent, 300, seed=0)
    columns = {name: getattr(log, name + "s") for name in ("state", "action", "reward", "next_state")}
    columns |= {"terminated": log.terminated, "truncated": log.truncated}
    write_history(tmp_path / "log.parquet", columns)
    read = read_history(tmp_path / "log.parquet", bridge.space, batch=50, strict=True)
    assert same(read.counts, agent.counts) and read.episodes > 10


def test_an_agent_that_knows_the_baselines_log_explores_sooner():
    p = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0], [0.9, 0.1]]])
    mdp = sf.TabularMDP.from_arrays(p, np.array([[1.0, 0.7], [0.4, 0.1]]), noise=sf.Noise("bernoulli"))
    problem = sf.Problem("machine", mdp, sf.Policy.uniform(mdp.space), start=0)
    rng, rows, s = np.random.default_rng(3), [], problem.start
    for _ in range(5000):
        pair = problem.baseline.pair_at(s, rng.random())
        reward, y = mdp.draw(rng, pair)
        rows.append({"state": s, "action": mdp.space.pair_action[pair], "reward": reward, "next_state": y})
        s = y
    read = read_history(rows, mdp.space, strict=True)
    fits = read.behaviour_matches(problem.baseline)
    assert fits.never == 0 and fits.degrees == 2 and fits.deviance < 10
    assert read.behaviour_matches(sf.Policy.always(mdp.space, 0)).never == read.actions[:, 1].sum() > 2000
    played = []
    for informed in (False, True):
        agent = sf.CUCRL2(mdp.space, baseline=sf.Baseline(problem.baseline), alpha=0.3)
        if informed:
            read.into(agent)
        run = sf.simulate(problem, agent, 500, seed=0)
        assert sf.evaluate(run, problem, alpha=0.3).violations == 0
        played.append(run.baseline_steps)
    assert played[1] < played[0] / 2


def test_writing_refuses_what_could_not_be_read_and_leaves_the_old_file(tmp_path, monkeypatch):
    good = {name: [0, 0] for name in NAMES[2:6]}
    for path, log, said in [
        ("log.txt", good, "must end in"),
        ("log.csv", good | {"note": [1, 1]}, "no column 'note'"),
        ("log.csv", {"state": [0]}, "column 'action' is missing"),
        ("log.csv", good | {"t": [1]}, "one length"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            write_history(tmp_path / path, log)
    with pytest.raises(InvalidInput, match="column 'state'"):
        write_history(tmp_path / "log.csv", good | {"state": [0, 5]}, state_labels=["low", "high"])
    assert not os.listdir(tmp_path)
    write_history(tmp_path / "log.csv", good)
    old = (tmp_path / "log.csv").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_history(tmp_path / "log.csv", good | {"t": [0, 1]})
    assert os.listdir(tmp_path) == ["log.csv"] and (tmp_path / "log.csv").read_bytes() == old


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_memory_does_not_grow_with_the_log(tmp_path, monkeypatch, suffix):
    n, path = 200_000, tmp_path / f"log{suffix}"
    monkeypatch.setattr(log_files, "BLOCK", 1 << 14)
    state = np.arange(n + 1) % 3
    steps = {
        "state": state[:-1],
        "action": np.array([0, 1, 0])[state[:-1]],
        "reward": state[1:] / 2,
        "next_state": state[1:],
    }
    write_history(path, steps | {"t": np.arange(n)})
    sizes, arrow, add = [], [], log_rows.Rows.add

    def watched(self, part):
        sizes.append(len(part.columns["t"]))
        arrow.append(pa.total_allocated_bytes())
        add(self, part)

    monkeypatch.setattr(log_rows.Rows, "add", watched)
    read_history(path, SPACE, batch=1000)  # compiles
    sizes.clear()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    read = read_history(path, SPACE, batch=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.used == n and sum(sizes) == n and max(sizes) <= 1000
    assert peak < 2_000_000 and max(arrow) - before < 2_500_000  # all of it is 8_000_000


def test_the_compiled_walk_is_the_plain_one(monkeypatch):
    flags = {"terminated": False, "truncated": False}
    named = [
        row(episode=e, t=t, state=s, next_state=y, **flags | {flag: True for flag in more})
        for e, (steps, _) in enumerate(SEQUENCES * 4)
        for t, s, y, *more in steps
    ]
    named.append(row(episode=None, **flags))
    unnamed = [{key: r[key] for key in NAMES[1:]} for r in named]
    timeless = [{key: r[key] for key in NAMES if key != "t"} for r in named]
    for rows, stages in ((named, 1), (named, 2), (unnamed, 1), (unnamed, 2), (timeless, 1)):
        compiled = read_history(rows, SPACE, stages=stages, batch=4)
        with monkeypatch.context() as patch:
            patch.setattr(log_rows, "follow_rows", walk.follow_rows.py_func)
            patch.setattr(walk, "release", walk.release.py_func)
            assert equal(compiled, read_history(rows, SPACE, stages=stages, batch=5))
        assert all(len(some) == min(compiled.unusable[reason], 3) for reason, some in compiled.examples.items())
    clocked = [r | {"t": t} for t, r in zip((0, 1, 0, 2, 3), unnamed * 5, strict=False)]
    assert read_history(clocked, SPACE).episodes == 2
