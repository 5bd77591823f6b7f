"""The picture of a log: how often each action was taken in each state, and what it earned."""

from typing import TYPE_CHECKING

import numpy as np

from surefooted.data.history import History
from surefooted.tables.policy import Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LABELS = 40  # on an axis; of more, some are left out


def draw_log(history: History, policy: Policy | None = None) -> "Figure":
    """Visits and mean rewards of each state and action; circles mark what the policy does."""
    from matplotlib.figure import Figure

    space = history.counts.space
    visits = np.where(space.available, history.actions.astype(np.float64), np.nan)  # [S, A]
    means = np.full(visits.shape, np.nan)
    total = history.counts.reward_sum.reshape(-1, space.n_pairs).sum(axis=0)
    n = history.counts.visits.reshape(-1, space.n_pairs).sum(axis=0)
    seen = n > 0
    means[space.pair_state[seen], space.pair_action[seen]] = space.money.earned(total[seen] / n[seen])
    figure = Figure(figsize=(10, 5), layout="constrained")
    unit = f" ({space.unit})" if space.unit else ""
    for axes, table, title in zip(
        figure.subplots(1, 2), (visits, means), ("times taken", f"mean reward{unit}"), strict=True
    ):
        shown = axes.imshow(table.T, origin="lower", aspect="auto", cmap="viridis")
        figure.colorbar(shown, ax=axes, shrink=0.8)
        for axis, size, words in ((axes.xaxis, space.n_states, space.state_words),
                                  (axes.yaxis, space.n_actions, space.action_words)):  # fmt: skip
            ticks = np.arange(0, size, max(1, -(-size // MOST_LABELS)))
            axis.set_ticks(ticks, [words(int(i)) for i in ticks])
        if policy is not None and policy.horizon is None:
            axes.plot(
                np.arange(space.n_states), policy.actions, "o", color="C3", markerfacecolor="none", label="policy"
            )
            axes.legend(loc="upper right")
        axes.set(xlabel="state", ylabel="action", title=title)
    return figure
