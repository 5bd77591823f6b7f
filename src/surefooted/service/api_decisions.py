"""Ask and tell, and the decisions that were made."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query

from surefooted.live.advisor import Advisor
from surefooted.service import access, answers
from surefooted.service.answers import Answered, Decisions, Done, OutcomeTold
from surefooted.service.calls import PROBLEMS, Call, Deployment, Limit, Number, call
from surefooted.service.errors import not_found
from surefooted.service.models import Name, Question, Told
from surefooted.service.turns import Turn, turn

router = APIRouter(prefix="/v1/deployments/{deployment}", tags=["decisions"], responses=PROBLEMS)


@router.post("/ask", response_model=Answered)
async def ask(deployment: Deployment, body: Question, here: Annotated[Turn, turn("use")]) -> Any:
    """What to play in a state of a site. The same key gives the same decision for ever, so repeat it if in doubt."""

    def decide(who: Call, advisor: Advisor) -> dict[str, Any]:
        access.at_site(who.token, deployment, body.site)
        return answers.decision(advisor, advisor.ask(body.site, body.state, body.key))

    return await here.take(deployment, decide)


@router.post("/tell", response_model=Done)
async def tell(deployment: Deployment, body: Told, here: Annotated[Turn, turn("use")]) -> Any:
    """What came of a decision, all of it or a part. To tell the same again changes nothing."""

    def write(who: Call, advisor: Advisor) -> dict[str, Any]:
        site = body.site if body.decision is None else _site_of(advisor, body.decision)
        if site is not None:
            access.at_site(who.token, deployment, site)
        given = body.model_dump(exclude={"who"}, exclude_none=True)
        advisor.tell(given.pop("decision", None), who=who.by(body.who), **given)
        return {"event": advisor.store.last}

    return await here.take(deployment, write)


@router.get("/decisions", response_model=Decisions)
def list_decisions(
    deployment: Deployment,
    who: Annotated[Call, call("read")],
    after: Annotated[
        int | None, Query(ge=0, lt=2**63, description="Only decisions after this one, oldest first.")
    ] = None,
    before: Annotated[
        int | None, Query(ge=1, lt=2**63, description="Only decisions before this one, newest first.")
    ] = None,
    site: Annotated[Name | None, Query(description="Only decisions of this site.")] = None,
    limit: Limit = None,
) -> Any:
    """Decisions with what came of them: oldest first, or with `before` newest first."""
    advisor, most = who.advisor(deployment), limit or who.limit
    forward = before is None
    where, values = (
        ["deployment = ?", "n > ?" if forward else "n < ?"],
        [advisor.id, (after or 0) if forward else before],
    )
    if site is not None:
        with advisor.store.lock:
            where.append("site = ?")
            values.append(advisor._site(advisor.machine(), site))
    order = "ASC" if forward else "DESC"
    query = f"SELECT n FROM decisions WHERE {' AND '.join(where)} ORDER BY n {order} LIMIT {most + 1}"
    found = [int(n) for (n,) in advisor.store.read(query, *values)]
    rows = [_listed(advisor, n) for n in found[:most]]
    following = None
    if len(found) > most:
        told: dict[str, Any] = {"after" if forward else "before": found[most - 1], "limit": most}
        following = f"{who.request.url.path}?{urlencode(told | ({} if site is None else {'site': site}))}"
    return {"decisions": rows, "next": following}


@router.get("/decisions/{number}", response_model=Answered)
def get_decision(deployment: Deployment, number: Number, who: Annotated[Call, call("see")]) -> Any:
    """A decision as it stands now."""
    advisor = who.advisor(deployment)
    _seen(who, advisor, number)
    return answers.decision(advisor, advisor.decision(number))


@router.get("/decisions/{number}/outcome", response_model=OutcomeTold)
def get_outcome(deployment: Deployment, number: Number, who: Annotated[Call, call("see")]) -> Any:
    """What is known of a decision."""
    advisor = who.advisor(deployment)
    _seen(who, advisor, number)
    return answers.outcome(advisor, advisor.known(number))


def _seen(who: Call, advisor: Advisor, number: int) -> None:
    """Refuse a decision of a site that the token is not for."""
    site = _site_of(advisor, number)
    if who.token.role == "use":
        access.at_site(who.token, advisor.name, site)


def _site_of(advisor: Advisor, number: int) -> str:
    """The site of a decision."""
    found = advisor.store.read("SELECT site FROM decisions WHERE n = ? AND deployment = ?", number, advisor.id)
    if not found:
        raise not_found("no such decision", f"{advisor.name} has made no decision {number}.")
    with advisor.store.lock:
        name: str = advisor.machine().sites[found[0][0]].name
        return name


def _listed(advisor: Advisor, number: int) -> dict[str, Any]:
    """A decision and what came of it."""
    return answers.decision(advisor, advisor.decision(number)) | {
        "outcome": answers.outcome(advisor, advisor.known(number))
    }
