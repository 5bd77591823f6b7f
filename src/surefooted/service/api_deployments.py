"""Deployments and their sites: list, create, describe."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query

from surefooted.errors import InvalidInput
from surefooted.live import exchange
from surefooted.live.advisor import Advisor
from surefooted.live.deployments import LiveStore
from surefooted.own_code import is_code
from surefooted.problems.from_file import load_text
from surefooted.rehearsal.deploying import baseline_of, deploy
from surefooted.service.answers import Deployments, Described, Done, Sites
from surefooted.service.calls import PROBLEMS, Call, Deployment, Limit, call, command
from surefooted.service.models import NewDeployment, NewSite

router = APIRouter(prefix="/v1", tags=["deployments"], responses=PROBLEMS)
OWN = ("who", "note", "counts", "knowledge", "guardrails", "space", "baseline", "name", "mode", "inherits",
       "allow_code")  # fmt: skip
REFUSED = ("who", "note", "name", "mode", "allow_code")  # in a definition
LARGEST = 1_000_000  # state–action pairs and values of noise of a definition from elsewhere


@router.get("/deployments", response_model=Deployments)
def list_deployments(who: Annotated[Call, call("see")]) -> Any:
    """The names of the deployments that the token may see."""
    store = who.held.store
    return {"deployments": [name for name in store.deployments() if who.token.may_see(name)], "event": store.last}


@router.post("/deployments", response_model=Described, status_code=201)
def create_deployment(body: NewDeployment, who: Annotated[Call, command("administer")]) -> Any:
    """Create a deployment from the text of a problem file, or from a definition, with its sites."""
    make = _maker(body, who.by(body.who))
    store, made = who.held.store, list[Advisor]()

    def create() -> dict[str, Any]:
        with store.transaction():
            made.append(make(store))
        return _described(made[0])

    return who.once(body, None, create)


@router.get("/deployments/{deployment}", response_model=Described)
def describe_deployment(deployment: Deployment, who: Annotated[Call, call("see")]) -> Any:
    """What a client needs to ask and to read answers: states, actions, unit."""
    return _described(who.advisor(deployment))


@router.get("/deployments/{deployment}/sites", response_model=Sites)
def list_sites(
    deployment: Deployment,
    who: Annotated[Call, call("read")],
    after: Annotated[int, Query(ge=0, lt=2**31, description="Only sites after so many.")] = 0,
    limit: Limit = None,
) -> Any:
    """The sites, in the order in which they were added."""
    advisor, most = who.advisor(deployment), limit or who.limit
    with advisor.store.lock:
        machine = advisor.machine()
        rows = [
            {"name": site.name, "mode": machine.mode_of(i), "paused": site.paused, "closed": site.closed}
            for i, site in enumerate(machine.sites[after : after + most], start=after)
        ]
        more = len(machine.sites) > after + most
    path = who.request.url.path
    return {"sites": rows, "next": f"{path}?after={after + most}&limit={most}" if more else None}


@router.post("/deployments/{deployment}/sites", response_model=Done, status_code=201)
def add_site(deployment: Deployment, body: NewSite, who: Annotated[Call, command("administer")]) -> Any:
    """Add a site."""
    advisor = who.advisor(deployment)

    def add() -> dict[str, int]:
        with advisor.store.lock:
            advisor.add_site(body.name, who=who.by(body.who), note=body.note)
            return {"event": advisor.store.last}

    return who.once(body, advisor, add)


def _described(advisor: Advisor) -> dict[str, Any]:
    definition = advisor.definition
    return {
        "id": advisor.id, "name": advisor.name, "fingerprint": definition.fingerprint,
        "space": exchange.space_as_json(advisor.space),
        "alpha": definition.alpha, "delta": definition.delta, "inherits": definition.inherits,
        "guardrails": [rail.name for rail in definition.rules.guardrails],
    }  # fmt: skip


def _maker(body: NewDeployment, who: str) -> Callable[[LiveStore], Advisor]:
    """Check a request, and say how to do it."""
    what = "this deployment cannot be created"
    if (body.problem is None) == (body.definition is None):
        raise InvalidInput(what, ["give either problem, the text of a problem file, or definition"])
    reserved = [f"options.{name}: is not an option" for name in body.options if name in OWN]
    learner = body.options.get("learner", (body.definition or {}).get("learner"))
    if is_code(learner):  # nothing is told of where it is
        reserved.append(f"learner {learner}: only the machine itself may run code")
    if reserved:
        raise InvalidInput(what, reserved)
    given: dict[str, Any] = body.options | {"who": who, "note": body.note, "mode": body.mode}
    if body.inherits is not None:
        given["inherits"] = body.inherits
    if body.problem is not None:
        file = load_text(body.problem, largest=LARGEST)
        estimate = baseline_of(file, body.baseline)
        name = _addressable(body.name or file.name)
        sites = tuple(body.sites)
        return lambda store: _typed(lambda: deploy(store, file, estimate.baseline, name=name, sites=sites, **given))
    if body.name is None:
        raise InvalidInput(what, ["name is missing"])
    name = _addressable(body.name)
    told = exchange.from_json(_small(body.definition or {}))
    known = [f"definition.{key}: is not part of a definition" for key in told if key in REFUSED]
    if known:
        raise InvalidInput(what, known)

    def create(store: LiveStore) -> Advisor:
        advisor = _typed(lambda: store.create_deployment(name, **told | given))
        for site in body.sites:
            advisor.add_site(site, who=who)
        return advisor

    return create


def _typed(make: Callable[[], Advisor]) -> Advisor:
    """What it makes; options of a wrong type are the caller's mistake."""
    try:
        return make()
    except (TypeError, AttributeError, OverflowError) as error:
        raise InvalidInput("no such deployment", [f"an option has the wrong type: {error}"]) from error
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("no such deployment", [str(error)]) from error


def _addressable(name: str) -> str:
    """A name that can stand in an address."""
    if "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidInput("no such deployment", [f"name {name!r}: it cannot stand in an address; leave out / and \\"])
    return name


def _small(told: dict[str, Any]) -> dict[str, Any]:
    """A definition whose noise does not blow up: sizes are numbers, and could be huge where lists cannot."""
    knowledge = told.get("knowledge")
    mechanics = knowledge.get("mechanics") if isinstance(knowledge, dict) else None
    sizes = mechanics.get("sizes") if isinstance(mechanics, dict) else None
    for size in sizes if isinstance(sizes, list) else [sizes or 0]:
        if not isinstance(size, int) or size > LARGEST:
            raise InvalidInput("this definition cannot be read", [f"sizes of noise must be at most {LARGEST}"])
    return told
