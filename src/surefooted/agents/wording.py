"""The sentences in which agents say why they play what they play."""

from collections.abc import Sequence

import numpy as np

from surefooted.certificates.certificate import Offer
from surefooted.tables.space import Space

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
NO_CHECKPOINTS = (
    'checkpoints with condition="decisions" need a baseline whose gain and bias are declared: what it will have paid '
    "in by the next checkpoint must be certain"
)
ONE_STEP = (
    'condition="replay" proves what a policy earns that is played for many steps, and {} decides each step on its own: '
    'choose condition="decisions", or write an AverageLearner (docs/adding-an-agent.md)'
)
NO_COIN = "Plays the baseline: no probability of exploring is proved to be safe."
NOTHING_PROVED = (
    "Plays the baseline: what is known does not prove yet that the baseline keeps returning to one state. More data "
    "may; so may possible successors or mechanics, and Baseline(policy, span=..) does without."
)


def best_gain(gain: float, space: Space) -> str:
    """An optimist explores; the gain is counted from `low`."""
    return f"Explores: the best plausible gain is {space.amount(space.money.earned(gain))}."


def sampled_gain(gain: float, space: Space) -> str:
    """Who samples explores; the gain is counted from `low`."""
    shown = space.amount(space.money.earned(gain))
    return f"Explores: the best policy in an MDP drawn from the posterior, where it has gain {shown}."


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


def affords(offer: Offer, space: Space) -> str:
    """A certificate proves that exploring is affordable."""
    cost = f"which could cost {space.amount(offer.cost, '.1f')}; {space.amount(offer.budget, '.1f')} saved up"
    return f"Explores for at most {_steps(offer.steps)}, {cost}."


def cannot_afford(offer: Offer, space: Space) -> str:
    """A certificate cannot prove that exploring is affordable."""
    if offer.budget < 0 and np.isfinite(offer.budget):
        missing = space.amount(-offer.budget, ".1f")
        return f"Plays the baseline: {missing} must be saved up before anything can be explored."
    if offer.budget < 0:
        return "Plays the baseline: the baseline itself is not known well enough yet."
    cost = f"could cost {space.amount(offer.too_much, '.1f')}, {space.amount(offer.budget, '.1f')} saved up"
    return f"Plays the baseline: exploring {_steps(offer.one_too_many)} {cost}."


def departs(deposit: float, balance: float, space: Space) -> str:
    """The account pays for a step that departs from the baseline."""
    if deposit == 0:
        return "Explores: this step is proved to be worth no less than the baseline's in the long run."
    cost, saved = space.amount(deposit, ".3g"), space.amount(balance, ".3g")
    return f"Explores: this step could cost {cost} in the long run; {saved} is in the account."


def does_not_depart(deposit: float, balance: float, space: Space) -> str:
    """The account does not pay for a step that would depart from the baseline."""
    if balance == -np.inf:
        return NOTHING_PROVED
    if balance < 0:
        missing = space.amount(-balance, ".3g")
        return f"Plays the baseline: {missing} must be saved up before anything can be explored."
    cost, saved = space.amount(deposit, ".3g"), space.amount(balance, ".3g")
    return f"Plays the baseline: exploring could cost {cost} in the long run; {saved} is in the account."


def saves_up(cost: float, balance: float, space: Space) -> str:
    """The account could not pay for a whole episode."""
    shown, saved = space.amount(cost, ".3g"), space.amount(balance, ".3g")
    return f"Plays the baseline: an episode of exploring could cost {shown}; {saved} is in the account."


def episode_pays(bound: float, margin: float, space: Space) -> str:
    """An episode of exploring keeps the margin; what it earns is in the user's unit."""
    earns, left = space.amount(bound, ".3g"), space.amount(margin, ".3g")
    return f"Explores: it is proved to earn {earns}, and {left} stays saved up."


def episode_does_not_pay(bound: float, margin: float, space: Space) -> str:
    """An episode of exploring might not keep the margin; what it earns is in the user's unit."""
    earns, missing = space.amount(bound, ".3g"), space.amount(-margin, ".3g")
    return f"Plays the baseline: exploring is proved to earn {earns} only, {missing} too little."


def leaves_at(h: int, weight: float, margin: float, space: Space) -> str:
    """An episode plays the baseline before stage h, then the proposal, which sometimes begins one stage before."""
    then = f"Explores from step {h + 1} on" if h else "Explores"
    then += f", and in step {h} with probability {weight:.2g}" if weight else ""
    return f"{then}: it is proved to earn {space.amount(margin, '.3g')} more than it must."


def no_stage(margin: float, before: float, space: Space) -> str:
    """Not even the last step of an episode may be explored."""
    kept, lost = space.amount(margin, ".3g"), space.amount(margin - before, ".3g")
    return f"Plays the baseline: the last step alone could cost {lost}, and an episode may lose {kept}."


def chosen_by_coin(weight: float, margin: float, space: Space, explores: bool) -> str:
    """A coin chose the proposal for an episode, or the baseline."""
    who = "Explores: a coin chose to" if explores else "Plays the baseline: a coin chose it"
    more = space.amount(margin, ".3g")
    return f"{who}. Exploring has probability {weight:.2g}; such an episode is proved to earn {more} more than it must."


def _steps(n: int) -> str:
    return f"{n} step" + "s" * (n > 1)
