"""For those who run the service: is it alive, is it ready, and what has it counted."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from surefooted.service.calls import PROBLEMS, Call, call
from surefooted.service.context import context
from surefooted.service.errors import Refusal

router = APIRouter(tags=["operations"], responses=PROBLEMS)


class Well(BaseModel):
    """All is well."""

    status: str


@router.get("/healthz", response_model=Well)
async def healthz() -> Any:
    """Whether the process is alive; needs no token and tells nothing else."""
    return {"status": "alive"}


@router.get("/readyz", response_model=Well)
def readyz(request: Request) -> Any:
    """Whether it can answer: the store can be read, and the service is not about to end. Needs no token."""
    held = context(request)
    if held.stopping:
        raise Refusal(503, "stopping", "the service is about to end", "It answers what was asked, and ends.")
    held.store.last  # noqa: B018 raises StoreFault if the store cannot be read
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(who: Annotated[Call, call("read")]) -> Any:
    """Counters and gauges for Prometheus."""
    return Response(who.held.metrics.text(), media_type=CONTENT_TYPE_LATEST)
