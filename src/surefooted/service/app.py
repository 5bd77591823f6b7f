"""The application: routers, one after the other, on one store. `create_app` makes it; `serving` runs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import to_thread
from fastapi import FastAPI

from surefooted import __version__
from surefooted.live.deployments import LiveStore
from surefooted.service import (
    api_decisions,
    api_deployments,
    api_events,
    api_operations,
    api_people,
    api_reports,
    api_tokens,
    errors,
    idempotency,
    openapi,
    pages,
    pages_actions,
    pages_rendering,
    pages_session,
)
from surefooted.service.access import Bucket
from surefooted.service.context import Context
from surefooted.service.guard import Guard
from surefooted.service.hub import Hub
from surefooted.service.metrics import Metrics
from surefooted.service.settings import Settings
from surefooted.service.turns import Turns
from surefooted.service.webhooks import Teller

# What is asked most often comes first: routes are tried one after the other.
ROUTERS = (api_decisions, api_deployments, api_people, api_reports, api_events, api_tokens, api_operations)
PAGES = (pages, pages_actions, pages_rendering)
ABOUT = "Ask what to do, tell what came of it. Every answer is on disk before it is sent (docs/service.md)."


def create_app(store: LiveStore, settings: Settings | None = None) -> FastAPI:
    """The application on an open store; whoever made the store closes it.

    >>> import surefooted as sf
    >>> from surefooted.service.app import create_app
    >>> app = create_app(sf.live.open(":memory:"))
    >>> app.title
    'Surefooted'
    """
    settings = settings or Settings()
    held = Context(store, settings)
    held.requests = Bucket(settings.rate, settings.burst)
    held.failures = Bucket(settings.failures / 60.0, settings.failures)
    held.hub = Hub(store)
    held.metrics = Metrics(held)
    held.turns = Turns(held)
    idempotency.prepare(store)
    pages_session.prepare(store)
    teller = Teller(held)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = settings.threads
        held.hub.start()
        held.turns.start()
        teller.start()
        yield
        held.stop()
        held.turns.stop()
        teller.stop()
        held.hub.stop()

    app = FastAPI(title="Surefooted", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None,
                  redoc_url=None, openapi_url="/v1/openapi.json", redirect_slashes=False,
                  generate_unique_id_function=lambda route: route.name)  # fmt: skip
    app.state.context = held
    errors.install(app)
    for part in (*ROUTERS, *PAGES):
        app.include_router(part.router)
    openapi.describe(app)
    app.openapi()  # routes are built now, and not by the first request
    guarded: Any = Guard
    app.add_middleware(guarded, held=held)
    return app
