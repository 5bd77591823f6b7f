"""A problem: a table, a baseline for it, and where it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.pages import Shown
from surefooted.tables import files
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

PARTS = ("rewards", "successors", "mechanics", "noise")  # of a problem, that an agent may know


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Shown):
    """A table, the policy in use today, and a start.

    >>> import surefooted as sf
    >>> mdp = sf.TabularMDP.from_arrays(p=[[[1.0, 0.0], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]]], r=[[0.1, 0.0], [0, 1]])
    >>> problem = sf.Problem("two states", mdp, baseline=sf.Policy.always(mdp.space, 0), start=0)
    >>> run = sf.simulate(problem, sf.UCRL2(problem.space), steps=1000)

    - `name`: for people.
    - `mdp`: the table. It samples rewards and defines regret.
    - `baseline`: the policy in use today.
    - `start`: the first state.
    - `horizon`: the length of an episode, or None for average reward.
    - `state_labels`, `action_labels`: names for people; by default the indices.
    - `positions`: row and column of each state in a picture, [S, 2], if the states form a grid.
    - `axes`: the names of the picture's axes: one, or two if there are positions.
    - `paper`: the numbers that the paper prints for its version of the problem.
    - `mechanics`, `laws`: how noise decides where a step leads, and the true laws of that noise: the table is
      `mechanics.table(laws)`. Files do not hold them.
    """

    name: str
    mdp: TabularMDP
    baseline: Policy
    start: int
    horizon: int | None = None
    state_labels: tuple[str, ...] = ()
    action_labels: tuple[str, ...] = ()
    positions: Ints | None = None  # [S, 2]
    axes: tuple[str, ...] = ("state",)
    paper: Mapping[str, float] = field(default_factory=dict)
    mechanics: Mechanics | None = None
    laws: tuple[Floats, ...] = ()

    def _facts(self) -> dict[str, object]:
        space, horizon = self.mdp.space, "none" if self.horizon is None else self.horizon
        facts: dict[str, object] = {"name": self.name, "states": space.n_states, "pairs": space.n_pairs}
        return facts | {"horizon": horizon, "start": self.start, "rewards": space.money.words}

    def __post_init__(self) -> None:
        """Check that the parts fit together; default labels are numbers."""
        faults = []
        space = self.mdp.space
        if self.baseline.space != space:
            faults.append(f"the baseline is on {self.baseline.space}, the table on {space}")
        object.__setattr__(self, "start", as_whole(self.start))
        object.__setattr__(self, "horizon", as_whole(self.horizon))
        if not (is_whole(self.start, 0) and self.start < space.n_states):
            faults.append(f"the start {self.start} is not one of the states 0 to {space.n_states - 1}")
        if self.horizon is not None and not is_whole(self.horizon, 1):
            faults.append(f"the horizon {self.horizon} is not a positive whole number")
        if self.baseline.horizon not in (None, self.horizon):
            faults.append(f"the baseline has {self.baseline.horizon} decision rules, the horizon is {self.horizon}")
        for labels, size in (("state_labels", space.n_states), ("action_labels", space.n_actions)):
            if isinstance(getattr(self, labels), str):
                faults.append(f"{labels} must be a list of words, not one word")
            object.__setattr__(self, labels, tuple(str(label) for label in getattr(self, labels)))
            if not getattr(self, labels):
                object.__setattr__(self, labels, tuple(str(i) for i in range(size)))
            if len(getattr(self, labels)) != size:
                faults.append(f"{labels} has {len(getattr(self, labels))} entries for {size}")
        if self.positions is not None:
            object.__setattr__(self, "positions", np.array(self.positions))
        if self.positions is not None and np.shape(self.positions) != (space.n_states, 2):
            faults.append(f"positions have shape {np.shape(self.positions)}, not ({space.n_states}, 2)")
        if self.mechanics is not None and self.mechanics.space != space:
            faults.append(f"the mechanics are on {self.mechanics.space}, the table on {space}")
        elif self.mechanics is not None:
            try:
                object.__setattr__(self, "laws", tuple(self.mechanics.check_laws(self.laws)))
            except InvalidInput as error:
                faults += error.faults
        if faults:
            raise InvalidInput(f"problem {self.name!r} is not valid", faults)

    @property
    def space(self) -> Space:
        """The state–action pairs and the largest reward; an agent is told nothing else."""
        return self.mdp.space

    def knowledge(self, *parts: str) -> Knowledge:
        """What is true of the problem: "rewards", "successors", "mechanics", or several of them, read off its table.

        Mechanics imply the successors. If "rewards" is named too, the mechanics' own reward function is dropped. With
        "noise" the mechanics observe their noise.
        """
        faults = [f"there is no part {part!r}; the parts are {', '.join(PARTS)}" for part in parts if part not in PARTS]
        if "mechanics" in parts and self.mechanics is None:
            faults.append(f"problem {self.name!r} has no mechanics")
        if "noise" in parts and "mechanics" not in parts:
            faults.append("'noise' is that of mechanics: name them too")
        if faults:
            raise InvalidInput("no such knowledge", faults)
        mechanics = self.mechanics if "mechanics" in parts else None
        if mechanics is not None and "rewards" in parts:
            mechanics = mechanics.without_rewards()
        if mechanics is not None and "noise" in parts:
            mechanics = replace(mechanics, observed=True)
        successors = None
        if "successors" in parts and mechanics is None:
            successors = np.split(self.mdp.next_state, self.mdp.next_ptr[1:-1])
        rewards = self.mdp.r if "rewards" in parts else None
        return Knowledge(self.space, rewards=rewards, successors=successors, mechanics=mechanics)

    def draw(self, state: int | None = None) -> Any:
        """The picture of the problem, which notebooks show: what the baseline and an optimal policy do.

        `state` is marked. It is `surefooted.draw`: that needs exact answers, which no problem knows.
        """
        import surefooted  # the front door: rooms below are not imported from here

        return surefooted.draw(self, state)

    def save(self, path: str | Path) -> None:
        """Write the problem, without its mechanics, to one `.npz` file; `TabularMDP.load` reads that file, too."""
        extra: dict[str, Any] = {
            "name": self.name,
            "start": self.start,
            "horizon": -1 if self.horizon is None else self.horizon,
            "baseline": self.baseline.dense_weights,
            "state_labels": np.array(self.state_labels),
            "action_labels": np.array(self.action_labels),
            "axes": np.array(self.axes),
            "paper_names": np.array(list(self.paper), dtype=np.str_),
            "paper_values": np.array(list(self.paper.values()), dtype=np.float64),
        }
        if self.positions is not None:
            extra["positions"] = self.positions
        files.save(path, self.mdp.columns() | extra)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save`."""
        return files.load(path, cls._from_columns)

    @classmethod
    def _from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """The problem of the named arrays that `save` writes."""
        mdp = TabularMDP.from_columns(columns)
        horizon = int(columns["horizon"])
        names, values = columns["paper_names"].tolist(), columns["paper_values"].tolist()
        return cls(
            name=str(columns["name"]),
            mdp=mdp,
            baseline=Policy(mdp.space, weights=columns["baseline"]),
            start=int(columns["start"]),
            horizon=None if horizon < 0 else horizon,
            state_labels=tuple(columns["state_labels"].tolist()),
            action_labels=tuple(columns["action_labels"].tolist()),
            positions=columns.get("positions"),
            axes=tuple(columns["axes"].tolist()),
            paper=dict(zip(names, values, strict=True)),
        )


def require(problem: str, rules: Mapping[str, bool]) -> None:
    """Raise one error that lists every rule (a sentence) that does not hold."""
    faults = [sentence for sentence, holds in rules.items() if not holds]
    if faults:
        raise InvalidInput(f"{problem} cannot be built with these parameters", faults)
