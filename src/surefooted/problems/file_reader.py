"""What all readers of a problem file share: its axes, its formulas, and the faults found, with their lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surefooted.errors import InvalidInput, SurefootedError
from surefooted.problems.expressions import Formula
from surefooted.problems.file_axes import axis_of
from surefooted.problems.file_lines import placed
from surefooted.problems.file_spec import FileSpec
from surefooted.tables.space import Floats, Space

SHOWN = 20  # faults of one part that are named
T = TypeVar("T")


class Reader:
    """A problem file under way: every part is read, and what is wrong with each is collected."""

    def __init__(self, path: Path, spec: FileSpec, places: dict[str, int], allow_code: bool) -> None:
        self.path, self.spec, self.places, self.allow_code = path, spec, places, allow_code
        self.faults: list[str] = []
        self.states = axis_of(
            "states", spec.states.name, spec.states.values, spec.states.labels, self._fault, spec.states.bins
        )
        self.actions = axis_of("actions", spec.actions.name, spec.actions.values, spec.actions.labels, self._fault)
        if self.states.name == self.actions.name:
            self._fault(("actions", "name"), f"states and actions are both called {self.actions.name!r}")

    def _pair_values(self, space: Space, here: tuple[str, ...], given: Any) -> Floats:
        """A number for each pair, by a formula of state and action."""
        formula = self._formula(here, str(given), [self.states.name, self.actions.name])
        if formula is None:
            return np.zeros(space.n_pairs)
        values = [
            self._try(here, lambda s=s, a=a: float(formula(**self._names(s, a))))  # type: ignore[misc]
            for s, a in zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True)
        ]
        return np.array([0.0 if value is None else value for value in values])

    def _names(self, s: int, a: int) -> dict[str, Any]:
        return {self.states.name: self.states.values[s], self.actions.name: self.actions.values[a]}

    def _formula(self, here: tuple[str, ...], text: str, names: list[str]) -> Formula | None:
        return self._try(here, lambda: Formula(text, names))

    def _try(self, here: tuple[str, ...], make: Callable[[], T]) -> T | None:
        """What `make` returns; None, and its faults at this place, if it raises."""
        try:
            return make()
        except InvalidInput as error:
            for fault in error.faults[:SHOWN]:
                self._fault(here, fault)
            if error.hint:
                self._fault(here, error.hint)
        except SurefootedError as error:
            self._fault(here, str(error))
        except Exception as error:  # anything that a user's function raises
            self._fault(here, f"{type(error).__name__}: {error}")
        return None

    def _fault(self, here: tuple[Any, ...], fault: str) -> None:
        said = placed(self.places, here, fault)
        if said not in self.faults:
            self.faults.append(said)

    def _stop(self) -> None:
        if self.faults:
            raise InvalidInput(f"{self.path} is not a problem", self.faults)
