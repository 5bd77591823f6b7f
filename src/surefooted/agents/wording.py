"""The sentences in which agents say why they play what they play."""

from collections.abc import Sequence

import numpy as np

from surefooted.certificates.certificate import Offer

STEP_BY_STEP = "Plays what the learner proposes wherever the account pays for it, and the baseline elsewhere."
PROPOSES_BASELINE = "Plays the baseline: the learner proposes it too."
SPOT_CHECK = "Plays the baseline, to compare what it earns with what was declared of it."
RESTS = "Plays the baseline: on so large a problem, the agent does not ask at every step whether exploring is safe."
OPTIMISTIC = "Explores: the best policy in the best plausible MDP."
SAMPLED = "Explores: the best policy in an MDP drawn from the posterior."
TOO_LITTLE_KNOWN = (
    'condition="decisions" needs more than the policy of the baseline: declare its gain and bias, or how much a state '
    "can matter in the long run, Baseline(policy, span=..), or knowledge such as mechanics that proves such a span; or "
    'choose condition="replay"'
)
NOTHING_PROVED = (
    "Plays the baseline: what is known does not prove yet that the baseline keeps returning to one state. More data "
    "may; so may possible successors or mechanics, and Baseline(policy, span=..) does without."
)


def best_gain(gain: float) -> str:
    """An optimist explores."""
    return f"Explores: the best plausible gain is {gain:.4g}."


def sampled_gain(gain: float) -> str:
    """Who samples explores."""
    return f"Explores: the best policy in an MDP drawn from the posterior, where it has gain {gain:.4g}."


def contradicted(contradictions: Sequence[str]) -> str:
    """Observations contradict what was declared."""
    return f"Plays the baseline: what was declared is contradicted: {_first(contradictions)}."


def not_used(contradictions: Sequence[str]) -> str:
    """That an agent without a certificate goes on without what was declared, if observations contradict it."""
    return f" What was declared is contradicted and not used: {_first(contradictions)}." if contradictions else ""


def _first(contradictions: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    first, *others = contradictions
    return first + (f" (and {len(others)} more)" if others else "")


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
    return f"Plays the baseline: exploring {_steps(offer.one_too_many)} {cost}."


def departs(deposit: float, balance: float) -> str:
    """The account pays for a step that departs from the baseline."""
    if deposit == 0:
        return "Explores: this step is proved to be worth no less than the baseline's in the long run."
    return f"Explores: this step could cost {deposit:.3g} in the long run; {balance:.3g} is in the account."


def does_not_depart(deposit: float, balance: float) -> str:
    """The account does not pay for a step that would depart from the baseline."""
    if balance == -np.inf:
        return NOTHING_PROVED
    if balance < 0:
        return f"Plays the baseline: {-balance:.3g} must be saved up before anything can be explored."
    return f"Plays the baseline: exploring could cost {deposit:.3g} in the long run; {balance:.3g} is in the account."


def saves_up(value: float, balance: float) -> str:
    """The account could not pay for a whole episode."""
    return f"Plays the baseline: an episode of exploring could cost {value:.3g}; {balance:.3g} is in the account."


def episode_pays(bound: float, margin: float) -> str:
    """An episode of exploring keeps the margin."""
    return f"Explores: it is proved to earn {bound:.3g}, and {margin:.3g} stays saved up."


def episode_does_not_pay(bound: float, margin: float) -> str:
    """An episode of exploring might not keep the margin."""
    return f"Plays the baseline: exploring is proved to earn {bound:.3g} only, {-margin:.3g} too little."


def _steps(n: int) -> str:
    return f"{n} step" + "s" * (n > 1)
