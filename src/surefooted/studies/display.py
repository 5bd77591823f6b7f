"""The progress of a study: bars on a terminal, a small table in a notebook, plain lines elsewhere, nothing if quiet."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from surefooted.pages import table
from surefooted.studies.columns import judged_by, kept
from surefooted.studies.parts import Part
from surefooted.studies.settings import Setting
from surefooted.studies.spec import StudySpec, Task

EVERY = 10.0  # seconds between plain lines
SOON = 0.5  # seconds between two tables in a notebook


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Display:
    """Counts finished runs and shows progress on stderr, so that output can be piped."""

    def __init__(self, study: StudySpec, todo: list[Task], done: dict[Task, Part], quiet: bool) -> None:
        self.study, self.quiet = study, quiet
        self.total, self.before = len(todo) + len(done), len(done)
        self.count = self.before
        self.violated = {setting.index: 0 for setting in study.settings}
        self.runs = {setting.index: 0 for setting in study.settings}
        for part in done.values():
            self._tally(part.row)
        self.began = self.said = time.monotonic()
        self.console = Console(stderr=True, highlight=False)
        self._progress: Progress | None = None
        self._bars: dict[int, Any] = {}
        self._cell: Any = None  # what a notebook shows, and can replace
        self._wanted = {s.index: sum(task.setting == s.index for task in [*todo, *done]) for s in study.settings}

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show progress in this context."""
        if not self.quiet and in_notebook():
            self._cell = sys.modules["IPython"].display.display(_Cell(self), display_id=True)
            yield
            self._cell.update(_Cell(self))
            return
        if self.quiet or not self.console.is_terminal:
            self.say(f"{self.study.name}: {self.total - self.before} runs to do, {self.before} finished already")
            yield
            return
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        more = (TextColumn("{task.fields[note]}"), TimeElapsedColumn())
        with Progress(*columns, *more, console=self.console, refresh_per_second=8) as progress:
            self._progress = progress
            for s in self.study.settings:
                if self._wanted[s.index]:
                    bar = progress.add_task(
                        self._words(s), total=self._wanted[s.index], completed=self.runs[s.index], note=""
                    )
                    self._bars[s.index] = bar
            self._bars[-1] = progress.add_task("all", total=self.total, completed=self.count, note="")
            yield
        self._progress = None

    def finished(self, row: dict[str, Any]) -> None:
        """Count one finished run."""
        self.count += 1
        self._tally(row)
        spent = time.monotonic() - self.began
        rate = (self.count - self.before) / max(spent, 1e-9)
        left = (self.total - self.count) / rate
        if self._cell is not None:
            if time.monotonic() - self.said >= SOON:
                self.said = time.monotonic()
                self._cell.update(_Cell(self))
        elif self._progress is not None:
            index = row["setting"]
            note = f"[red]{self.violated[index]} violated[/red]" if self.violated[index] else "none violated"
            self._progress.update(self._bars[index], completed=self.runs[index], note=note)
            self._progress.update(self._bars[-1], completed=self.count, note=f"{rate:.1f} runs/s, {clock(left)} left")
        elif time.monotonic() - self.said >= EVERY or self.count == self.total:
            self.said = time.monotonic()
            violated = ", ".join(
                f"{s.label}: {self.violated[s.index]}" for s in self.study.settings if self.violated[s.index]
            )
            seen = f"violated in runs of {violated}" if violated else "no violations"
            self.say(f"{self.count}/{self.total} runs, {rate:.1f} runs/s, {clock(left)} left, {seen}")

    def say(self, line: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            self.console.print(line, markup=False, soft_wrap=True)

    def _words(self, setting: Setting) -> str:
        """What a setting is called, with its problem if there are several."""
        several = len({s.on for s in self.study.settings}) > 1
        return f"{setting.on}: {setting.label}" if several else setting.label

    def lines(self) -> list[list[str]]:
        """For each setting that is run, and for all: its label, how many runs are finished, how many violate."""
        shown = [s for s in self.study.settings if self._wanted[s.index]]
        lines = [
            [self._words(s), f"{self.runs[s.index]} of {self._wanted[s.index]}", str(self.violated[s.index])]
            for s in shown
        ]
        return [*lines, ["all", f"{self.count} of {self.total}", str(sum(self.violated.values()))]]

    def _tally(self, row: dict[str, Any]) -> None:
        self.runs[row["setting"]] += 1
        condition = judged_by(row.get("condition"), row["violations_total"])
        self.violated[row["setting"]] += bool(row[kept(condition, "violations_total")])


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class _Cell:
    """The progress as a notebook shows it."""

    def __init__(self, display: Display) -> None:
        self._name, self._lines = display.study.name, display.lines()

    def __repr__(self) -> str:
        return f"{self._name}: {self._lines[-1][1]} runs"

    def _repr_html_(self) -> str:
        """A table; whatever a label contains is shown, never obeyed."""
        return table([self._name, "runs", "with violations"], self._lines)
