"""One row for each decision and what came of it, for people and other programs; rows are made one by one."""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from surefooted.errors import InvalidInput
from surefooted.live import outcomes
from surefooted.live.following import Following
from surefooted.live.outcomes import Outcome
from surefooted.live.store import Event

Format = Literal["csv", "parquet", "jsonl"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "jsonl")
WORDS = ("time", "site", "key", "state", "asked", "played", "reason", "unit", "next_state", "status", "mode", "role",
         "complete")  # fmt: skip
AMOUNTS = ("deposit", "balance", "reward")
FLAGS = ("departs", "override", "expired", "corrected")
COLUMNS = frozenset(("decision", "action", "noise", *WORDS, *AMOUNTS, *FLAGS))  # names that a guardrail cannot have
EVENT = "e.n, e.deployment, e.at, e.kind, e.body"
CHUNK = 2_000  # decisions that are read at once


class Tables(Following):
    """Reads decisions with their outcomes; nothing here changes anything."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each decision and what came of it, in the user's unit and words, as of now.

        Rows are made one by one, so that a long history needs no memory; others may write meanwhile.
        """
        with self.store.lock:
            sites, last = [site.name for site in self.machine().sites], self.store.last
        return (self._row(found, sites) for found in self._outcomes(last))

    def table(self) -> list[dict[str, Any]]:
        """All `rows` in a list."""
        return list(self.rows())

    def _outcomes(self, last: int) -> Iterator[Outcome]:
        """The outcome of every decision, as of event `last`, in the order of the decisions."""
        asked = "SELECT n FROM decisions WHERE deployment = ? AND n > ? AND n <= ? ORDER BY n LIMIT ?"
        about = (
            f"SELECT t.decision, {EVENT} FROM told t JOIN events e ON e.n = t.n "
            "WHERE t.decision >= ? AND t.decision <= ? AND t.n <= ? ORDER BY t.decision, t.n"
        )
        after, guardrails = 0, len(self.definition.rules.guardrails)
        while numbers := [n for (n,) in self.store.read(asked, self.id, after, last, CHUNK)]:
            first, after = numbers[0], numbers[-1]
            asks = self.store.read(f"SELECT {EVENT} FROM events e WHERE e.n >= ? AND e.n <= ?", first, after)
            made = {row[0]: row for row in asks if row[1] == self.id and row[3] == "ask"}
            found = {n: outcomes.begin(self._event(made[n])) for n in numbers}
            for decision, *row in self.store.read(about, first, after, last):
                if decision in found:
                    found[decision].take(self._event(row), guardrails)
            yield from found.values()

    def _event(self, row: Sequence[Any]) -> Event:
        """An event, given its columns."""
        n, deployment, at, kind, body = row
        return Event(n, deployment, at, kind, self.store._parsed(n, body))

    def _row(self, found: Outcome, sites: list[str]) -> dict[str, Any]:
        body, space, reward = found.body, self.space, found.reward
        asked, played = (space.action_words(int(space.pair_action[k])) for k in (found.pair, found.pair_played))
        row = {"decision": found.decision, "time": found.time, "site": sites[body["site"]], "key": body["key"]}
        row |= {"state": space.state_words(body["state"]), "asked": asked, "played": played}
        row |= {"override": found.played is not None, "departs": body["departs"], "status": found.status}
        row |= {"reward": None if reward is None else float(space.money.earned(reward)), "unit": space.unit}
        row |= {"next_state": None if found.next_state is None else space.state_words(found.next_state)}
        row |= {name: body[name] for name in ("deposit", "balance", "reason", "mode", "role")}
        row |= {"complete": found.complete_at, "expired": found.lost, "corrected": found.corrected}
        for i, rail in enumerate(self.definition.rules.guardrails):
            value = None if found.guards is None else found.guards[i]
            row[rail.name] = None if value is None else rail.told(value)
        return row

    def export(self, path: str | Path, format: Format | None = None) -> None:
        """Write all rows to a file: CSV, Parquet or JSON lines, by `format` or the ending of the name.

        The file takes its place once it is complete.
        """
        path = Path(path)
        kind = format or path.suffix.lstrip(".")
        if kind not in FORMATS:
            raise InvalidInput("no such format", [f"{kind!r}: there are {', '.join(FORMATS)}"])
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            {"csv": self._to_csv, "jsonl": self._to_json_lines, "parquet": self._to_parquet}[kind](part)
            os.replace(part, path)
        finally:
            with suppress(OSError):
                part.unlink()

    def _to_json_lines(self, path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows())

    def _to_csv(self, path: Path) -> None:
        rows = self.rows()
        first = next(rows, None)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["decision"] if first is None else list(first))
            writer.writeheader()
            if first is not None:
                writer.writerow(first)
                writer.writerows(rows)

    def _to_parquet(self, path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        kinds = {"decision": pyarrow.int64()} | dict.fromkeys(FLAGS, pyarrow.bool_())
        kinds |= dict.fromkeys(WORDS, pyarrow.string()) | dict.fromkeys(AMOUNTS, pyarrow.float64())
        kinds |= {rail.name: pyarrow.float64() for rail in self.definition.rules.guardrails}
        rows = self.rows()
        some = list(islice(rows, CHUNK))
        schema = pyarrow.schema([(name, kinds[name]) for name in (some[0] if some else ["decision"])])
        with parquet.ParquetWriter(path, schema) as writer:
            while some:
                writer.write_table(pyarrow.Table.from_pylist(some, schema=schema))
                some = list(islice(rows, CHUNK))
