"""A problem as a Gymnasium environment."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from surefooted import problems
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.problems import Problem
from surefooted.tables.space import Bools

if TYPE_CHECKING:
    from surefooted.evaluation.sketch import Sketch


class AvailableActions(spaces.Discrete):
    """All actions of a problem; `sample` draws only actions of the current state."""

    def __init__(self, n: int, mask: Callable[[], NDArray[np.int8]]) -> None:
        super().__init__(n)
        self._current = mask

    def sample(self, mask: NDArray[np.int8] | None = None, probability: Any = None) -> np.int64:
        """A random action; without a mask or probabilities, an action of the current state."""
        if mask is None and probability is None:
            mask = self._current()
        return super().sample(mask, probability)

    def __deepcopy__(self, memo: dict[int, Any]) -> "AvailableActions":
        """A copy that refers to the same environment."""
        copy = AvailableActions(int(self.n), self._current)
        copy._np_random = self._np_random
        return copy


class TabularEnv(gymnasium.Env[np.int64, np.int64]):
    """A `Problem` as an environment: observations are states, `info["action_mask"]` marks the actions of the state.

    >>> import surefooted as sf
    >>> env = sf.gym.TabularEnv(sf.problems.riverswim(), render_mode="ansi")
    >>> state, info = env.reset(seed=0)
    >>> state, reward, terminated, truncated, info = env.step(1)
    >>> print(env.render().strip())
    riverswim, step 1: state 1 after → in 0, reward 0.000

    - `problem`: what to play.
    - `render_mode`: "ansi" (one line), "rgb_array" (the picture of the problem with the state marked), or None.

    Average-reward problems never end; problems with a horizon are truncated after it. An action that the state does not
    have raises an error and changes nothing.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012  (Gymnasium's own name and kind)

    def __init__(self, problem: Problem, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise SurefootedError(f"render_mode {render_mode!r}: this environment has 'ansi' and 'rgb_array'")
        self.problem, self.render_mode = problem, render_mode
        self.observation_space = spaces.Discrete(problem.space.n_states)
        self.action_space = AvailableActions(problem.space.n_actions, self.action_mask)
        self._s, self._t = problem.start, 0
        self._last = ""
        self._sketch: Sketch | None = None  # solved when first rendered

    @property
    def available(self) -> Bools:
        """Which action exists where, [S, A]."""
        return self.problem.space.available

    def action_mask(self) -> NDArray[np.int8]:
        """1 for the actions of the current state, 0 for others, [A]."""
        mask = np.zeros(self.problem.space.n_actions, dtype=np.int8)
        mask[self.problem.space.actions(self._s)] = 1
        return mask

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Go back to the start, or to s with `options={"state": s}`."""
        super().reset(seed=seed)
        start = self.problem.start if options is None else options.get("state", self.problem.start)
        self._s, self._t, self._last = self.problem.space.check_state(start), 0, ""
        return np.int64(self._s), {"action_mask": self.action_mask()}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Play one action."""
        pair = self.problem.space.pair(self._s, int(action))
        if self.problem.horizon is not None and self._t >= self.problem.horizon:
            raise InvalidInput(
                "the episode is over", [f"{self._t} of {self.problem.horizon} steps played: call reset()"]
            )
        reward, s_next = self.problem.mdp.draw(self.np_random, pair)
        labels = self.problem.state_labels, self.problem.action_labels
        self._last = f" after {labels[1][int(action)]} in {labels[0][self._s]}, reward {reward:.3f}"
        self._s, self._t = s_next, self._t + 1
        truncated = self._t == self.problem.horizon
        return np.int64(s_next), float(reward), False, truncated, {"action_mask": self.action_mask()}

    def render(self) -> str | NDArray[np.uint8] | None:
        """The current state as a line or as an image, depending on `render_mode`."""
        if self.render_mode == "ansi":
            return f"{self.problem.name}, step {self._t}: state {self.problem.state_labels[self._s]}{self._last}\n"
        if self.render_mode == "rgb_array":
            from surefooted.evaluation.pictures import draw_sketch, pixels
            from surefooted.evaluation.sketch import sketch

            self._sketch = self._sketch or sketch(self.problem)
            return pixels(draw_sketch(self._sketch, self._s))
        return None


def make_problem(problem: str, render_mode: str | None = None, **parameters: Any) -> TabularEnv:
    """The environment of a problem by name; `gymnasium.make("surefooted/…", **parameters)` calls this.

    - `problem`: the name of a problem, one of `surefooted.problems.ALL`.
    - `render_mode`: None, "ansi" (a line) or "rgb_array" (a picture).
    - `parameters`: of the problem.

    >>> import surefooted as sf
    >>> env = sf.gym.make_problem("riverswim", n_states=10)
    >>> observation, info = env.reset(seed=0)
    >>> int(observation)
    0
    """
    return TabularEnv(problems.make(problem, **parameters), render_mode)
