"""The pages of the service: sign in, the fleet, a deployment, a site, approvals, and their stream of events.

Pages are rendered here, on the server. A small script renews the parts that have changed when an event arrives, by
asking for the same page again: there is one source of what is shown.
"""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response

from surefooted.service import (
    access,
    api_events,
    pages_actions,
    pages_approvals,
    pages_fleet,
    pages_rendering,
    pages_site,
)
from surefooted.service import pages_session as session
from surefooted.service.context import context
from surefooted.service.errors import Refusal
from surefooted.service.pages_rendering import redirect, render
from surefooted.service.pages_session import PageRoute, Viewer, form, viewer

router = APIRouter(include_in_schema=False, route_class=PageRoute)
Who = Annotated[Viewer, Depends(viewer)]
Sent = Annotated[dict[str, str], Depends(form)]
Text = Annotated[str, Query(max_length=200)]
Done = Annotated[str, Query(max_length=20)]
Number = Annotated[int | None, Query(ge=1, lt=2**62)]


@router.get("/sign-in")
def sign_in_form(request: Request, why: Text = "", to: Annotated[str, Query(max_length=2_000)] = "") -> Response:
    """The form for a token."""
    mark = secrets.token_urlsafe(32)
    answer = render("sign_in.html", viewer=None, why=session.ENDED.get(why, ""), fault="", form=mark,
                    to=pages_actions.local(to))  # fmt: skip
    session.set_cookie(request, answer, session.BEFORE, mark)
    return answer


@router.post("/sign-in")
def sign_in(request: Request, sent: Sent) -> Response:
    """Exchange a token for a session."""
    held, expected = context(request), request.cookies.get(session.BEFORE, "")
    to = pages_actions.local(sent.get("to", ""))
    session.check_form(request, sent, expected)
    try:
        token = access.check(held, sent.get("token", "").strip(), access.address(request))
        access.permit(request, token, "read")
    except Refusal as error:
        wrong = "This token is not valid: it is mistyped, expired or revoked."
        fault = wrong if error.status == 401 else str(error)
        return render("sign_in.html", error.status, viewer=None, why="", fault=fault, form=expected, to=to)
    if before := request.cookies.get(session.COOKIE):
        session.end(held, before)
    answer = redirect(to)
    session.set_cookie(request, answer, session.COOKIE, session.create(held, token))
    answer.delete_cookie(session.BEFORE, path="/")
    return answer


@router.post("/sign-out")
def sign_out(request: Request, sent: Sent) -> Response:
    """End the session."""
    secret = request.cookies.get(session.COOKIE, "")
    if secret:
        session.check_form(request, sent, session.mark(secret))
        session.end(context(request), secret)
    answer = redirect("/sign-in?why=out")
    answer.delete_cookie(session.COOKIE, path="/")
    return answer


@router.get("/")
def fleet(
    request: Request, who: Who, q: Text = "", deployment: Text = "", show: Text = "all",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1, done: Done = "",
) -> Response:  # fmt: skip
    """All sites, and what needs a person first."""
    told = pages_fleet.fleet(who.held, pages_fleet.Query(q, deployment, show, page))
    return _page(request, who, "fleet.html", done, **told)


@router.get("/deployment")
def deployment(request: Request, who: Who, name: Text, done: Done = "") -> Response:
    """A deployment: its shared account, alarms and what to do, controls for all sites."""
    told = pages_site.deployment(who.held, who.held.advisor(name))
    return _page(request, who, "deployment.html", done, stream=name, **told)


@router.get("/site")
def site(
    request: Request, who: Who, deployment: Text, site: Text, before: Number = None, show: Text = "all",
    done: Done = "",
) -> Response:  # fmt: skip
    """A site: its account, decisions, what was learnt, the forecast."""
    advisor = who.held.advisor(deployment)
    told = pages_site.site(who.held, advisor, site, pages_site.Part(before, show == "departures"))
    with who.held.store.lock:
        number = advisor.machine().site(site)
    cards = pages_approvals.approvals(who.held, (deployment, number))["waiting"] if told["waiting_here"] else []
    return _page(request, who, "site.html", done, stream=deployment, cards=cards, **told)


@router.get("/approvals")
def approvals(request: Request, who: Who, done: Done = "") -> Response:
    """What waits for a yes or no."""
    return _page(request, who, "approvals.html", done, **pages_approvals.approvals(who.held))


@router.get("/chart")
def chart(who: Who, deployment: Text, site: Text | None = None) -> Response:
    """The points of the charts of a site, or of the accounts that all sites share."""
    advisor = who.held.advisor(deployment)
    with who.held.store.lock:
        machine = advisor.machine()
        number = None if site is None else advisor._site(machine, site)
        return JSONResponse(pages_site.chart(advisor, machine, number), 200, pages_rendering.HEADERS)


@router.get("/live")
async def live(
    request: Request, who: Who, deployment: Text | None = None,
    after: Annotated[int | None, Query(ge=0, lt=2**62)] = None,
) -> Any:  # fmt: skip
    """Events as they happen, of a deployment or of all; ends when the session does."""
    secret = request.cookies.get(session.COOKIE, "")
    last = request.headers.get("last-event-id")
    return api_events.stream(
        who.held, who.token.name, deployment, api_events.first(after, last), lambda: session.find(who.held, secret)
    )


def _page(request: Request, who: Viewer, template: str, done: str, stream: str | None = None, **told: Any) -> Response:
    """A page for somebody who is signed in."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    said = pages_actions.DONE.get(done, "")
    return render(template, viewer=who, here=here, said=said, stream=stream, **told)
