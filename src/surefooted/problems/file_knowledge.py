"""What a problem file declares to be known: rewards, successors, and mechanics as formulas or as code."""

from typing import Any

import numpy as np

from surefooted import own_code
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.file_axes import Axis, axis_of
from surefooted.problems.file_reader import Reader
from surefooted.tables.space import Space

MOST_VALUES = 1_000_000  # of a formula: pairs times values of noise


class KnowledgeReader(Reader):
    """Reads `[knowledge]`."""

    def _mechanics(self, space: Space) -> Mechanics | None:
        """Mechanics of a formula or of code."""
        spec, here = self.spec.knowledge, ("knowledge", "mechanics")
        if spec.mechanics is None:
            for key in ("reward", "noise"):
                if getattr(spec, key):
                    self._fault(("knowledge", key), "needs mechanics: where a step leads, given the noise")
            return None
        if self.states.edges is not None:
            self._fault(here, "states are bins of a quantity: a bin does not say where a step leads")
            return None
        noise = [axis_of("knowledge.noise", name, values, None, self._fault) for name, values in spec.noise.items()]
        if not noise:
            self._fault(here, "needs knowledge.noise: the values that each kind of noise may have")
        names = [self.states.name, self.actions.name, *(axis.name for axis in noise)]
        sizes = [axis.size for axis in noise]
        if space.n_pairs * np.prod(np.array(sizes, dtype=np.float64)) > MOST_VALUES:
            self._fault(here, f"{space.n_pairs} pairs times {sizes} values of noise are more than {MOST_VALUES}")
        functions: dict[str, Any] = {}
        for key in ("mechanics", "reward"):
            text = getattr(spec, key)
            if text is not None:
                functions[key] = self._function(("knowledge", key), text, names)
        if self.faults:
            return None

        def after(s: int, a: int, xi: Any) -> int:
            if self.faults:
                return 0  # one step shows what is wrong
            given, led = self._values(names, noise, s, a, xi), functions["mechanics"]
            told = ", ".join(f"{name} {value}" for name, value in given.items())
            return self.states.find(led(**given), here, self._fault, f", for {told}")

        def reward(s: int, a: int, xi: Any) -> float:
            return float(functions["reward"](**self._values(names, noise, s, a, xi)))

        earned = reward if "reward" in functions else None
        found = self._try(here, lambda: Mechanics.of(space, after, sizes, None, earned, spec.observed))
        return None if self.faults else found

    def _values(self, names: list[str], noise: list[Axis], s: int, a: int, xi: Any) -> dict[str, Any]:
        """The values of state, action and noise by their names."""
        drawn = [axis.values[i] for axis, i in zip(noise, xi if isinstance(xi, tuple) else (xi,), strict=True)]
        return dict(zip(names, [self.states.values[s], self.actions.values[a], *drawn], strict=True))

    def _function(self, here: tuple[str, ...], text: str, names: list[str]) -> Any:
        """A formula, or the function that `module:function` names; both take their values by name."""
        if own_code.is_code(text):
            found = self._try(here, lambda: own_code.load(text, self.allow_code))
            return None if found is None else lambda **values: found(*values.values())
        return self._formula(here, text, names)

    def _knowledge(self, space: Space, mechanics: Mechanics | None) -> Knowledge | None:
        """Everything that is known, or None if nothing is."""
        spec, parts = self.spec.knowledge, {}
        for key in ("rewards", "reward_low", "reward_high"):
            if (given := getattr(spec, key)) is not None:
                parts[key] = self._pair_values(space, ("knowledge", key), given)
        if ("reward_low" in parts) != ("reward_high" in parts):
            self._fault(("knowledge",), "give both reward_low and reward_high, or neither")
        successors = self._successors(space) if spec.successors is not None else None
        if self.faults or not (parts or successors or mechanics):
            return None
        bounds = (parts["reward_low"], parts["reward_high"]) if "reward_low" in parts else None
        options: dict[str, Any] = {"rewards": parts.get("rewards"), "reward_bounds": bounds, "successors": successors}
        return self._try(("knowledge",), lambda: Knowledge(space, **options, mechanics=mechanics))

    def _successors(self, space: Space) -> Any:
        """The possible next states: by a formula of state, action and `next`, or by a table."""
        given, here = self.spec.knowledge.successors, ("knowledge", "successors")
        if isinstance(given, str):
            formula = self._formula(here, given, [self.states.name, self.actions.name, "next"])
            if formula is None:
                return None

            def possible(s: int, a: int) -> list[int]:
                found = [bool(formula(**self._names(s, a), next=value)) for value in self.states.values]
                return np.flatnonzero(found).tolist()

            pairs = zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True)
            return self._try(here, lambda: [possible(s, a) for s, a in pairs])
        table: dict[tuple[int, int], list[int]] = {}
        for state, actions in (given or {}).items():
            s = self.states.find(state, (*here, state), self._fault)
            for action, after in actions.items():
                a = self.actions.find(action, (*here, state, action), self._fault)
                table[s, a] = [self.states.find(y, (*here, state, action), self._fault) for y in after]
        return table
