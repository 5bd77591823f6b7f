"""What a problem file says of guardrails: `[[guardrails]]`."""

from typing import Any

import numpy as np

from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.expressions import Formula
from surefooted.problems.file_axes import axis_of, find_all
from surefooted.problems.file_model import ModelReader
from surefooted.problems.file_spec import GuardrailSpec
from surefooted.problems.guardrails import NEXT, Expected, FileGuardrail
from surefooted.tables.space import Space


class GuardrailReader(ModelReader):
    """Reads `[[guardrails]]`."""

    def _guardrails(self, space: Space, mechanics: Mechanics | None) -> tuple[FileGuardrail, ...]:
        """All guardrails; faults are collected."""
        listed = [self._guardrail(i, given, space, mechanics) for i, given in enumerate(self.spec.guardrails)]
        names = [rail.name for rail in listed]
        for i, name in enumerate(names):
            if name in names[:i]:
                self._fault(("guardrails", i, "name"), f"{name!r} is the name of another one")
        return tuple(listed)

    def _guardrail(self, i: int, given: GuardrailSpec, space: Space, mechanics: Mechanics | None) -> FileGuardrail:
        here: tuple[Any, ...] = ("guardrails", i)
        bias: Any = given.bias
        if isinstance(bias, dict):
            bias = find_all(self.states, bias, (*here, "bias"), self._fault)
        elif bias is not None:
            bias = np.array(bias, dtype=np.float64)
        if (given.gain is None) != (bias is None):
            self._fault((*here, "gain"), "give gain and bias together: one says nothing without the other")
        if given.gain is None and given.expected is None:
            self._fault(here, "needs gain and bias of the baseline, or expected: what the number is on average")
        expected = None if given.expected is None else self._expected((*here, "expected"), given.expected, mechanics)
        named = given.model_dump(exclude={"name", "gain", "bias", "expected"})
        rail = FileGuardrail(given.name, gain=given.gain, bias=bias, expected=expected, **named)
        filled = rail.keeping(
            rail.low if rail.gain is None else rail.gain, np.zeros(space.n_states) if bias is None else bias
        )
        for fault in filled.faults(space):
            self._fault(here, fault.partition(": ")[2])
        return rail

    def _expected(self, here: tuple[Any, ...], text: str, mechanics: Mechanics | None) -> Expected | None:
        """A formula of state, action and next; of the noise, too, if it names any and there are mechanics."""
        plain = [self.states.name, self.actions.name, NEXT]
        noise = self.spec.knowledge.noise if mechanics is not None else {}
        axes = tuple(axis_of("knowledge.noise", name, values, None, self._fault) for name, values in noise.items())
        formula = self._try(here, lambda: Formula(text, [*plain, *noise]))
        if formula is None:
            return None
        if self.states.edges is not None:
            self._fault(here, "states are bins of a quantity: a formula cannot say what the number is in a bin")
        return Expected(formula, self.states, self.actions, axes if formula.names & set(noise) else ())
