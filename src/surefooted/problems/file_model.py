"""The true table of a problem file that has a `[model]`: laws of the noise, or transitions."""

from typing import Any

import numpy as np

from surefooted.errors import InvalidInput
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.file_knowledge import KnowledgeReader
from surefooted.problems.problem import Problem
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.space import Floats, Space


class ModelReader(KnowledgeReader):
    """Reads `[model]`."""

    def _model(self, space: Space, baseline: Baseline, start: int, mechanics: Mechanics | None) -> Problem | None:
        """The true table, if the file gives it."""
        spec, here = self.spec.model, ("model",)
        if spec is None:
            return None
        laws: list[Any] = []
        if (spec.laws is None) == (spec.transitions is None):
            self._fault(here, "give laws (of the noise of mechanics) or transitions")
            return None
        means = None if spec.rewards is None else self._pair_values(space, (*here, "rewards"), spec.rewards)
        if means is None and self.spec.knowledge.rewards is not None:
            means = self._pair_values(space, ("knowledge", "rewards"), self.spec.knowledge.rewards)
        if spec.laws is not None:
            if mechanics is None:
                self._fault((*here, "laws"), "needs mechanics: see knowledge.mechanics")
                return None
            noise = list(self.spec.knowledge.noise)
            if set(spec.laws) != set(noise):
                self._fault((*here, "laws"), f"give one law for each noise: {', '.join(noise)}")
                return None
            laws = [spec.laws[name] for name in noise]
            rows = self._try((*here, "laws"), lambda: mechanics.table(laws))
            if rows is None:
                return None
            means = rows[3] if rows[3] is not None else means
            row = np.repeat(np.arange(space.n_pairs), np.diff(rows[0]))
            columns = [space.pair_state[row], space.pair_action[row], rows[1], rows[2]]
        else:
            place = (*here, "transitions")
            found = [
                (self.states.find(s, place, self._fault), self.actions.find(a, place, self._fault),
                 self.states.find(y, place, self._fault), p)
                for s, a, y, p in spec.transitions or ()
            ]  # fmt: skip
            columns = [np.array(column) for column in zip(*found, strict=True)]
        if means is None:
            self._fault(here, "rewards are missing: give model.rewards, knowledge.rewards or knowledge.reward")
        if self.faults or means is None:
            return None
        return self._try(here, lambda: self._table(space, baseline, start, columns, means, mechanics, laws))

    def _table(self, space: Space, baseline: Baseline, start: int, columns: Any, means: Floats,
               mechanics: Mechanics | None, laws: list[Any]) -> Problem:  # fmt: skip
        state, action, after, mass = columns
        pair = [space.pair(s, a) for s, a in zip(state.tolist(), action.tolist(), strict=True)]
        scale: dict[str, Any] = {"rewards": (space.low, space.high), "unit": space.unit}
        scale |= {"states": space.state_names, "actions": space.action_names}
        mdp = TabularMDP.from_transitions(state, action, after, mass, means[pair], n_states=space.n_states, **scale)
        if mdp.space != space:
            missing = set(range(space.n_pairs)) - set(pair)
            raise InvalidInput(
                "the model is incomplete", [f"{space.words(k)}: has no transition" for k in sorted(missing)]
            )
        return Problem(
            self.spec.name, mdp, baseline.policy, start, self.spec.horizon, self.states.labels, self.actions.labels,
            axes=(self.states.name,), mechanics=mechanics if laws else None, laws=tuple(laws),
        )  # fmt: skip
