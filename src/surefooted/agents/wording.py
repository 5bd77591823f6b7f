"""The sentences in which agents say why they play what they play."""

from collections.abc import Sequence

import numpy as np

from surefooted.certificates.certificate import Offer

PROPOSES_BASELINE = "Plays the baseline: the learner proposes it too."
RESTS = "Plays the baseline: on so large a problem, the agent does not ask at every step whether exploring is safe."
OPTIMISTIC = "Explores: the best policy in the best plausible MDP."
SAMPLED = "Explores: the best policy in an MDP drawn from the posterior."


def best_gain(gain: float) -> str:
    """An optimist explores."""
    return f"Explores: the best plausible gain is {gain:.4g}."


def sampled_gain(gain: float) -> str:
    """Who samples explores."""
    return f"Explores: the best policy in an MDP drawn from the posterior, where it has gain {gain:.4g}."


def contradicted(contradictions: Sequence[str]) -> str:
    """Observations contradict what was declared."""
    first, *others = contradictions
    more = f" (and {len(others)} more)" if others else ""
    return f"Plays the baseline: what was declared is contradicted: {first}{more}."


def affords(offer: Offer) -> str:
    """A certificate proves that exploring is affordable."""
    cost = f"which could cost {offer.cost:.1f}; {offer.budget:.1f} saved up"
    return f"Explores for at most {_steps(offer.steps)}, {cost}."


def cannot_afford(offer: Offer) -> str:
    """A certificate cannot prove that exploring is affordable."""
    if offer.budget < 0 and np.isfinite(offer.budget):
        return f"Plays the baseline: {-offer.budget:.1f} must be saved up before anything can be explored."
    if offer.budget < 0:
        return "Plays the baseline: the baseline itself is not known well enough yet."
    cost = f"could cost {offer.too_much:.1f}, {offer.budget:.1f} saved up"
    return f"Plays the baseline: exploring {_steps(offer.asked)} {cost}."


def episode_pays(bound: float, margin: float) -> str:
    """An episode of exploring keeps the margin."""
    return f"Explores: it is proved to earn {bound:.3g}, and {margin:.3g} stays saved up."


def episode_does_not_pay(bound: float, margin: float) -> str:
    """An episode of exploring might not keep the margin."""
    return f"Plays the baseline: exploring is proved to earn {bound:.3g} only, {-margin:.3g} too little."


def _steps(n: int) -> str:
    return f"{n} step" + "s" * (n > 1)
