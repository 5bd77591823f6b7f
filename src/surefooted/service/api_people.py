"""What people do: approve, reject, expire, correct, pause, resume, mode, relocate, trust, close and reopen."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter

from surefooted.live.advisor import Advisor
from surefooted.service import answers
from surefooted.service.answers import Answered, Done
from surefooted.service.calls import PROBLEMS, Call, Deployment, Number, command
from surefooted.service.models import AtSite, By, Correction, NewMode, OneSite, Relocation, Trust

router = APIRouter(prefix="/v1/deployments/{deployment}", tags=["people"], responses=PROBLEMS)
Operator = Annotated[Call, command("operate")]


@router.post("/decisions/{number}/approve", response_model=Answered)
def approve(deployment: Deployment, number: Number, body: By, who: Operator) -> Any:
    """Say yes: what was proposed is played."""
    advisor = who.advisor(deployment)
    name = who.by(body.who)
    return who.once(body, advisor, lambda: answers.decision(advisor, advisor.approve(number, who=name, note=body.note)))


@router.post("/decisions/{number}/reject", response_model=Answered)
def reject(deployment: Deployment, number: Number, body: By, who: Operator) -> Any:
    """Say no: the baseline is played."""
    advisor = who.advisor(deployment)
    name = who.by(body.who)
    return who.once(body, advisor, lambda: answers.decision(advisor, advisor.reject(number, who=name, note=body.note)))


@router.post("/decisions/{number}/expire", response_model=Done)
def expire(deployment: Deployment, number: Number, body: By, who: Operator) -> Any:
    """Say that the rest of an outcome will not come: it is charged at its worst."""
    return _do(who, deployment, body, lambda advisor, by: advisor.expire(number, **by))


@router.post("/decisions/{number}/correct", response_model=Done)
def correct(deployment: Deployment, number: Number, body: Correction, who: Operator) -> Any:
    """Put right what was told: the old outcome is taken back, and this one is told instead."""
    given = body.model_dump(exclude={"who", "note"}, exclude_none=True)
    return _do(who, deployment, body, lambda advisor, by: advisor.correct(number, **given, **by))


@router.post("/pause", response_model=Done)
def pause(deployment: Deployment, body: AtSite, who: Operator) -> Any:
    """Play the baseline from the next question on, at one site or at all."""
    return _do(who, deployment, body, lambda advisor, by: advisor.pause(body.site, **by))


@router.post("/resume", response_model=Done)
def resume(deployment: Deployment, body: AtSite, who: Operator) -> Any:
    """Take back a pause."""
    return _do(who, deployment, body, lambda advisor, by: advisor.resume(body.site, **by))


@router.post("/close", response_model=Done)
def close(deployment: Deployment, body: OneSite, who: Operator) -> Any:
    """Answer no more questions about a site; outcomes may still be told."""
    return _do(who, deployment, body, lambda advisor, by: advisor.close_site(body.site, **by))


@router.post("/reopen", response_model=Done)
def reopen(deployment: Deployment, body: OneSite, who: Operator) -> Any:
    """Take back a close."""
    return _do(who, deployment, body, lambda advisor, by: advisor.reopen_site(body.site, **by))


@router.post("/mode", response_model=Done)
def set_mode(deployment: Deployment, body: NewMode, who: Operator) -> Any:
    """Decide in another mode from the next question on, at one site or at all."""
    return _do(who, deployment, body, lambda advisor, by: advisor.set_mode(body.mode, body.site, **by))


@router.post("/relocate", response_model=Done)
def relocate(deployment: Deployment, body: Relocation, who: Operator) -> Any:
    """Say that a site is in this state now, though no decision led there."""
    return _do(
        who, deployment, body, lambda advisor, by: advisor.relocate(body.site, body.state, body.why, who=by["who"])
    )


@router.post("/trust", response_model=Done)
def trust(deployment: Deployment, body: Trust, who: Operator) -> Any:
    """Go on after an alarm or a contradiction."""
    given: dict[str, Any] = {"keep_since": body.keep_since, "knowledge": body.knowledge}
    return _do(who, deployment, body, lambda advisor, by: advisor.trust(**given, **by))


def _do(who: Call, deployment: str, body: Any, act: Callable[[Advisor, dict[str, Any]], None]) -> Any:
    """Do a command, once, and answer with the last event."""
    advisor = who.advisor(deployment)
    by = {"who": who.by(body.who), "note": getattr(body, "note", None)}

    def do() -> dict[str, int]:
        with advisor.store.lock:
            act(advisor, by)
            return {"event": advisor.store.last}

    return who.once(body, advisor, do)
