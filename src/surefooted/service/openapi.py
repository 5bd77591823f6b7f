"""The description of the API (OpenAPI): every error is a problem (RFC 9457), and every example works."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from surefooted.service.answers import Problem
from surefooted.service.errors import MEDIA

FAILED = 400  # the first status that is an error


def describe(app: FastAPI) -> None:
    """Let `app.openapi()` return this package's description."""

    def made() -> dict[str, Any]:
        if app.openapi_schema is None:
            told = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _errors(told)
            app.openapi_schema = told
        return app.openapi_schema

    app.openapi = made  # type: ignore[method-assign]


def _errors(told: dict[str, Any]) -> None:
    """Say of every error that it is a problem."""
    schemas = told.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in told["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= FAILED:
                    response["content"] = content
