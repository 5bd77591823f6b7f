"""What CUCRL2 can be asked for: which baselines, learners and conditions, and what is wrong with others."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from surefooted.agents import wording
from surefooted.agents.adopted import adoption_faults, can_be_adopted
from surefooted.agents.agent import Agent
from surefooted.agents.average import AveragePlayer
from surefooted.agents.episode_settings import CONDITIONS, Condition
from surefooted.agents.learner import AverageLearner
from surefooted.certificates.account import Account
from surefooted.certificates.anchors import Anchors
from surefooted.certificates.baseline_log import bounds_its_gain
from surefooted.certificates.certificate import Certificate
from surefooted.certificates.paper import PaperCertificate
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.shares import FOR_ANCHORS, HALF, Shares, share
from surefooted.certificates.tolerance import Tolerance
from surefooted.certificates.unknown import UnknownAccount
from surefooted.errors import InvalidInput, not_among
from surefooted.sets.confidence import simplified_bernstein
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space

CertificateName = Literal["paper", "reevaluated", "segments", "induction"]
CERTIFICATES: tuple[CertificateName, ...] = ("paper", "reevaluated", "segments", "induction")


class Settings(NamedTuple):
    """What proves the condition: who proposes, the shares of δ, and whether anchors are used, or the baseline's log."""

    held: AverageLearner | None  # None: UCRL2's learner, or one for the agent that is adopted
    adopted: Agent | None
    shares: Shares
    anchored: bool
    logged: bool


def settle(
    space: Space,
    baseline: Baseline,
    tolerance: Tolerance,
    learner: AverageLearner | AveragePlayer[Any] | Agent | None,
    delta: float | None,
    condition: Condition,
    certificate: CertificateName,
    anchored: bool,
    options: Mapping[str, Any],
    faults: list[str],
) -> Settings:
    """The settings of CUCRL2's arguments; one error names all that is wrong with them, `faults` included."""
    faults += _baseline_faults(baseline, space)
    if condition not in CONDITIONS:
        faults.append(not_among("condition", condition, CONDITIONS))
    if certificate not in CERTIFICATES:
        faults.append(not_among("certificate", certificate, CERTIFICATES))
    held: Any = learner.learner if isinstance(learner, AveragePlayer) else learner
    adopted = None
    if can_be_adopted(held):
        adopted, held = held, None
        faults += adoption_faults(adopted, space, None)
        faults += [wording.ONE_STEP.format(type(adopted).__name__)] if condition == "replay" else []
    if held is not None and options:
        faults.append(f"{', '.join(options)}: a learner is given, so these options of UCRL2 have no effect")
    if not isinstance(held, AverageLearner | None):
        faults.append(f"the learner must be an AverageLearner or an agent that has one, not {type(held).__name__}")
        held = None
    elif held is not None and held.space != space:
        faults.append(f"the learner is on {held.space}, the agent on {space}")
    by_account, has_share = condition == "decisions", held is None or delta is not None
    knowledge = options.get("knowledge") if held is None else held.belief.knowledge
    by_set = not by_account or (knowledge is not None and has_share)
    confidence = options.get("confidence") if held is None else held.confidence
    may_add = not by_account and certificate in ("segments", "induction")
    may_add = may_add and confidence not in (simplified_bernstein, "simplified_bernstein")
    anchored = anchored and may_add and baseline.gain is not None
    bounded = bool(options.get("bounded", True)) if held is None else held.bounded
    logged = may_add and has_share and bounded and bounds_its_gain(baseline)
    by_outcomes, fraction = by_account or logged or (anchored and has_share), HALF if by_account else FOR_ANCHORS
    if by_account and baseline.gain is None:
        faults += [] if by_set or baseline.span is not None else [wording.TOO_LITTLE_KNOWN]
        faults += [] if tolerance.at_every_step else [wording.NO_CHECKPOINTS]
    try:
        shares = share(delta, None if held is None else held.delta, by_set, by_outcomes, fraction)
    except InvalidInput as error:
        faults += error.faults
    if faults:
        raise InvalidInput("no such agent", faults)
    return Settings(held, adopted, shares, anchored, logged)


def _baseline_faults(baseline: Baseline, space: Space) -> list[str]:
    """Why a baseline is none for average reward on a space."""
    faults = []
    if baseline.policy.space != space:
        faults.append(f"the baseline is on {baseline.policy.space}, the agent on {space}")
    if baseline.policy.horizon is not None:
        faults.append(f"the baseline has {baseline.policy.horizon} decision rules: an average-reward one has one")
    if baseline.values is not None:
        faults.append("the baseline has values: for average reward give its gain and bias, or neither")
    return faults


def effort_faults(minimum: int, patience: float | None) -> list[str]:
    """Why an agent cannot ask this rarely, or for so few steps."""
    faults = [] if minimum >= 1 else [f"minimum {minimum} must be at least 1"]
    if patience is not None and not 0 <= patience < np.inf:
        faults.append(f"patience {patience} must be finite and not negative")
    return faults


def new_account(
    space: Space, baseline: Baseline, tolerance: Tolerance, delta: float, strict: bool, saving: float
) -> Account | UnknownAccount:
    """An account of this baseline, whose gain and bias are known or not."""
    kind = Account if baseline.is_known else UnknownAccount
    return kind(space, baseline, tolerance, delta, strict, saving)


def new_certificate(
    name: CertificateName,
    baseline: Baseline,
    tolerance: Tolerance,
    strict: bool,
    anchors: Anchors | None,
    of_log: float = 0.0,
) -> Certificate:
    """The certificate of that name; `of_log` is the share of δ of the baseline's log."""
    if name in ("paper", "reevaluated"):
        return PaperCertificate(baseline, tolerance, name == "reevaluated", strict)
    return ReplayCertificate(baseline, tolerance, name == "induction", strict, anchors, of_log)
