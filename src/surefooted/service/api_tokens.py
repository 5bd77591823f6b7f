"""Tokens over HTTP, for administrators; and who one is."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from surefooted.service import answers, tokens
from surefooted.service.answers import TokenMade, Tokens, TokenTold
from surefooted.service.calls import PROBLEMS, Call, call
from surefooted.service.errors import not_found
from surefooted.service.models import NewToken

router = APIRouter(prefix="/v1", tags=["tokens"], responses=PROBLEMS)
Administrator = Annotated[Call, call("administer")]
Name = Annotated[str, Path(min_length=1, max_length=64, examples=["till-4"])]


@router.get("/me", response_model=TokenTold)
def me(who: Annotated[Call, call("see")]) -> Any:
    """The token that this request was sent with, without its secret."""
    return answers.token(who.token)


@router.get("/tokens", response_model=Tokens)
def list_tokens(who: Administrator) -> Any:
    """All tokens, without their secrets."""
    return {"tokens": [answers.token(found) for found in tokens.listed(who.held.store)]}


@router.post("/tokens", response_model=TokenMade, status_code=201)
def create_token(body: NewToken, who: Administrator) -> Any:
    """Create a token. Its secret is in this answer and nowhere else: a name is used once, so repeat with another."""
    places = None if body.sites is None else [(place.deployment, place.site) for place in body.sites]
    secret, made = tokens.create(who.held.store, body.name, body.role, sites=places, days=body.days)
    return answers.token(made) | {"token": secret}


@router.delete("/tokens/{name}", response_model=TokenTold)
def revoke_token(name: Name, who: Administrator) -> Any:
    """Revoke a token: it is useless from now on. To repeat this changes nothing."""
    if not any(found.name == name for found in tokens.listed(who.held.store)):
        raise not_found("no such token", f"There is no token {name!r}.")
    return answers.token(tokens.revoke(who.held.store, name))
