"""What every route gets: the caller's token, the store, and the rule that a repeated command is done once."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from pydantic import BaseModel

from surefooted.live.advisor import Advisor
from surefooted.service import access, idempotency
from surefooted.service.context import Context, context
from surefooted.service.tokens import Token

KEY = r"^[\x21-\x7e]{1,200}$"
Deployment = Annotated[
    str, Path(min_length=1, max_length=200, description="The name of a deployment.", examples=["shop"])
]
Number = Annotated[int, Path(ge=1, lt=2**63, description="The number of a decision.", examples=[4])]
After = Annotated[int, Query(ge=0, lt=2**63, description="Only what comes after this number.")]
Limit = Annotated[int | None, Query(ge=1, le=1_000, description="How many rows at most.")]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": said}
    for status, said in (
        (400, "The request cannot be read."), (401, "No valid token was sent."), (403, "The token may not do that."),
        (404, "There is no such thing."), (405, "There is no such method here."), (408, "The request came too slowly."),
        (409, "It does not fit what happened before."), (413, "The request is too large."),
        (422, "The request is not valid."), (429, "There were too many requests."),
        (500, "Something went wrong in the service."), (503, "The service or its store cannot be used now."),
    )
}  # fmt: skip


class Call:
    """One request: who asks, and what the service has."""

    def __init__(self, request: Request, token: Token, key: str | None = None) -> None:
        self.request, self.token, self.key = request, token, key
        self.held: Context = context(request)

    @property
    def limit(self) -> int:
        """Rows of a page, unless asked otherwise."""
        return self.held.settings.page

    def advisor(self, deployment: str) -> Advisor:
        """The advisor of a deployment."""
        return self.held.advisor(deployment)

    def by(self, claimed: str | None) -> str:
        """Who stands in the journal."""
        return access.by(self.token, claimed)

    def once(self, body: BaseModel, advisor: Advisor | None, do: Callable[[], Any]) -> Any:
        """Do a command; if it came before with the same Idempotency-Key, only answer as then."""
        if self.key is None:
            return do()
        what = f"{self.request.method} {self.request.url.path}\n{body.model_dump_json()}"
        return idempotency.once(self.held.store, advisor, (self.token.name, self.key, what), do)


def call(what: str) -> Any:
    """The dependency of a route that needs a role."""
    permitted = access.needs(what)

    def depends(request: Request, _: Annotated[Any, Depends(access.SCHEME)]) -> Call:
        return Call(request, permitted(request))

    depends.needs = what  # type: ignore[attr-defined]
    return Depends(depends)


def command(what: str) -> Any:
    """The dependency of a route that changes something and may be repeated under an Idempotency-Key."""
    permitted = access.needs(what)

    def depends(
        request: Request,
        _: Annotated[Any, Depends(access.SCHEME)],
        idempotency_key: Annotated[
            str | None, Header(pattern=KEY, description="The same key with the same request is done once.")
        ] = None,
    ) -> Call:
        return Call(request, permitted(request), idempotency_key)

    depends.needs = what  # type: ignore[attr-defined]
    return Depends(depends)
