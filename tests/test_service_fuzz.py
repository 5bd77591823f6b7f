"""Requests that nobody would write, made from the description of the API: answers are as described, never 5xx."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

pytest.importorskip("fastapi", reason="fastapi is missing")
pytest.importorskip("schemathesis", reason="schemathesis is missing")

import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from service_help import served

CHECKS = (not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
          checks.response_schema_conformance)  # fmt: skip
MOST = 20  # requests for each operation and kind


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_nothing_that_is_sent_breaks_the_service(place, mode):
    service, advisor = served(place, sites=("a", "b"), settings={"seconds": 120.0})
    with service:
        advisor.ask("a", 0, key="1")
        headers = {"Authorization": f"Bearer {service.token()}"}
        schema = schemathesis.openapi.from_url(service.url + "/v1/openapi.json")
        tried = 0
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path.endswith("/events"):
                continue  # streams have no end

            @settings(max_examples=MOST, database=None, deadline=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case):
                if "deployment" in (case.path_parameters or {}) and case.path_parameters["deployment"] != "x":
                    case.path_parameters["deployment"] = "shop"
                case.call_and_validate(headers=headers, checks=CHECKS)

            try:
                send()
                tried += 1
            except Unsatisfiable:
                continue  # there is no invalid request for an operation without parameters
        assert tried >= (20 if mode is GenerationMode.POSITIVE else 10)
        assert service.store.verify().is_whole
