"""ICU-Sepsis: the treatment of one patient with sepsis, estimated from the records of an intensive care unit.

Choudhary, Gupta & Thomas (2024), after Komorowski et al. (2018), from the MIMIC-III data. The tables are those of the
package `icu-sepsis`, an extra; nothing of its code runs. It prints an average return of 0.78 for the clinicians' policy
(`expert`) and for random treatment, and of 0.88 for an optimal policy: the share of patients who survive, with no
discount and no limit to the length of a stay.
"""

import numpy as np

from surefooted.problems.baselines import chosen
from surefooted.problems.extras import folder_of
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats

DEATH, SURVIVAL, OVER = 713, 714, 715  # the last states of the package; the state after them is ours
LEVELS = 5  # of each of the two drugs


def icu_sepsis(
    horizon: int = 50,
    actions: str = "all",
    *,
    baseline: str = "expert",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """A stay of at most `horizon` steps; a patient who survives earns 1, and nothing else earns anything.

    - `horizon`: the length of an episode. Who is still in the unit at its end has earned nothing.
    - `actions`: "all" 25 in every state, or the "admissible" ones: those that clinicians took often enough there. With
      "all", each of the others does what the admissible ones of the state do on average, as in the package. With
      "admissible", "expert" is the clinicians' policy given that the action is one of them.
    - `baseline`: "expert" (the clinicians) or "random" (every action equally often).
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.
    - `unit`: None, or a unit such as "patients"; rewards are in [0, 1] anyway.

    The package has 716 states. One more, the start, leads to the first state of a patient in the first step.

    >>> import surefooted as sf
    >>> sf.problems.icu_sepsis(horizon=20).space.n_states
    717
    """
    assets = folder_of("icu_sepsis") / "envs" / "assets"
    require("icu_sepsis", {f"actions {actions!r} must be 'all' or 'admissible'": actions in ("all", "admissible")})
    with np.load(assets / "dynamics.npz", allow_pickle=False) as data:
        p, reward, first, expert = (data[name] for name in ("tx_mat", "r_mat", "d_0", "expert_policy"))
    n, n_actions = expert.shape
    allowed = np.ones((n, n_actions), dtype=bool)
    if actions == "admissible":
        listed = (assets / "admissible_actions.txt").read_text(encoding="ascii").splitlines()[1:]
        allowed[:DEATH] = False
        for i, line in enumerate(listed[:DEATH]):
            allowed[i, [int(a) for a in line.split()]] = True
    s, a, after = np.nonzero((p > 0) & allowed[:, :, None])
    patients = np.flatnonzero(first)
    starts = np.full(patients.size, n)
    mdp = TabularMDP.from_transitions(
        np.r_[s, starts],
        np.r_[a, np.zeros_like(starts)],
        np.r_[after, patients],
        np.r_[p[s, a, after], first[patients]],
        np.r_[reward[s, a, after], np.zeros(patients.size)],
        noise,
        rewards=(0.0, 1.0),
        unit=unit or "",
    )
    law = np.r_[expert, np.eye(1, n_actions)]
    policies = {"expert": Policy.randomised(mdp.space, _on(law, mdp)), "random": Policy.uniform(mdp.space)}
    names = {DEATH: "death", SURVIVAL: "survival", OVER: "over", n: "admission"}
    return Problem(
        name="icu_sepsis",
        mdp=mdp if unit is not None else mdp.normalised(),
        baseline=chosen("icu_sepsis", policies, baseline, random_share),
        start=n,
        horizon=horizon,
        state_labels=tuple(names.get(i, str(i)) for i in range(n + 1)),
        action_labels=tuple(f"{i // LEVELS}-{i % LEVELS}" for i in range(n_actions)),
        axes=("state",),
    )


def _on(law: Floats, mdp: TabularMDP) -> Floats:
    """The law [S, A] given that the action is one that the state has; any of them where the law has none."""
    available = mdp.space.available
    kept: Floats = np.where(available, law, 0.0)
    kept[kept.sum(axis=1) == 0] = available[kept.sum(axis=1) == 0]
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))
