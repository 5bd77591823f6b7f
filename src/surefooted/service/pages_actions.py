"""What people do on pages: each is a form, needs the role `operate`, and is in the journal under the token's name."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from surefooted.errors import InvalidInput
from surefooted.live.advisor import Advisor
from surefooted.service import access
from surefooted.service.pages_rendering import redirect
from surefooted.service.pages_session import PageRoute, Viewer, check_form, form, viewer

router = APIRouter(prefix="/do", include_in_schema=False, route_class=PageRoute)
LONGEST = 2_000  # characters of a note
DONE = {
    "approved": "Approved: the proposal is played.", "rejected": "Rejected: the baseline is played.",
    "paused": "Paused: the baseline is played from the next question on.", "resumed": "Resumed.",
    "mode": "The mode is changed from the next question on.", "trusted": "Done: decisions go on from here.",
}  # fmt: skip
Sent = Annotated[dict[str, str], Depends(form)]


def operator(request: Request, sent: Sent, who: Annotated[Viewer, Depends(viewer)]) -> Viewer:
    """Who sent a form: the session's own form, by a token that may operate."""
    access.permit(request, who.token, "operate")
    check_form(request, sent, who.form)
    return who


operator.needs = "operate"  # type: ignore[attr-defined]
Operator = Annotated[Viewer, Depends(operator)]


@router.post("/approve")
def approve(sent: Sent, who: Operator) -> Response:
    """Say yes to a proposal."""
    return _do(sent, who, "approved", lambda advisor, by: advisor.approve(_number(sent, "decision"), **by))


@router.post("/reject")
def reject(sent: Sent, who: Operator) -> Response:
    """Say no to a proposal."""
    return _do(sent, who, "rejected", lambda advisor, by: advisor.reject(_number(sent, "decision"), **by))


@router.post("/pause")
def pause(sent: Sent, who: Operator) -> Response:
    """Pause a site, or all of them; a pause needs a reason."""
    if not sent.get("note", "").strip():
        raise InvalidInput("this cannot be paused", ["no reason was given"], "Go back, and say why.")
    return _do(sent, who, "paused", lambda advisor, by: advisor.pause(sent.get("site"), **by))


@router.post("/resume")
def resume(sent: Sent, who: Operator) -> Response:
    """Take back a pause."""
    return _do(sent, who, "resumed", lambda advisor, by: advisor.resume(sent.get("site"), **by))


@router.post("/mode")
def mode(sent: Sent, who: Operator) -> Response:
    """Change the mode of a site, or of all of them."""
    wanted: Any = sent.get("mode", "")
    return _do(sent, who, "mode", lambda advisor, by: advisor.set_mode(wanted, sent.get("site"), **by))


@router.post("/trust")
def trust(sent: Sent, who: Operator) -> Response:
    """Go on after an alarm or a contradiction."""
    keep = sent.get("keep", "all")
    if keep not in ("all", "none", "since"):
        raise InvalidInput("this cannot be done", [f"{keep!r}: there are all, none and since"])
    since = None if keep == "all" else who.held.store.last if keep == "none" else _number(sent, "since")
    knowledge = sent.get("knowledge", "keep")
    return _do(sent, who, "trusted", lambda advisor, by: advisor.trust(keep_since=since, knowledge=knowledge, **by))


def _do(sent: dict[str, str], who: Viewer, done: str, act: Callable[[Advisor, dict[str, Any]], Any]) -> Response:
    """Do it, and go back to the page where it was asked for, which says so."""
    advisor, note = who.held.advisor(sent.get("deployment", "")), sent.get("note", "").strip()
    if len(note) > LONGEST or "\0" in note:
        raise InvalidInput("this note cannot be kept", [f"it may have {LONGEST} characters at most"])
    act(advisor, {"who": access.by(who.token, None), "note": note or None})
    back = local(sent.get("back", ""))
    return redirect(f"{back}{'&' if '?' in back else '?'}done={done}")


def _number(sent: dict[str, str], name: str) -> int:
    told = sent.get(name, "")
    if not told.isascii() or not told.isdecimal() or len(told) > 18:
        raise InvalidInput("this cannot be done", [f"{name} must be the number of an event"])
    return int(told)


def local(where: str) -> str:
    """An address of this service, and of no other; without what was done last."""
    if not where.startswith("/") or where.startswith(("//", "/\\")) or not all("!" <= c <= "~" for c in where):
        return "/"
    path, _, query = where.partition("?")
    kept = "&".join(part for part in query.split("&") if part and not part.startswith("done="))
    return f"{path}?{kept}" if kept else path
