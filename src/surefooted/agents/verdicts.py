"""What an account says to a proposal, as a decision; for average reward and for episodes."""

from dataclasses import replace

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.certificates.account import Account
from surefooted.certificates.unknown import UnknownAccount
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space


def check_proposal(proposal: Policy) -> None:
    """Raise an error if an account cannot judge this proposal: it must name one action in each state."""
    if not proposal.is_deterministic:
        fault = "the learner proposes a randomised policy: with an account it must propose one action a state"
        raise InvalidInput("this proposal cannot be played", [fault])


def by_account(decision: Decision, account: Account | UnknownAccount, place: int, space: Space) -> Decision:
    """The decision at a place (a state, or a state of a stage), which the account may turn into the baseline's."""
    if account.proposed(place) < 0:
        return replace(decision, reason=wording.PROPOSES_BASELINE)
    verdict = account.verdict(place)
    words = wording.departs if verdict.pays else wording.does_not_depart
    role: Role = "optimistic" if verdict.pays else "baseline"
    told = replace(decision, reason=words(verdict.deposit, verdict.balance, space), deposit=verdict.deposit)
    return replace(told, role=role, policy=decision.policy if verdict.pays else 0, budget=verdict.balance)
