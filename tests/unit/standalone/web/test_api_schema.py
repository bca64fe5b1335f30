"""Every answer of the API is as its description says, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from flink_autoscaler.standalone.web.api.endpoints import ENDPOINTS, PREFIX, Endpoint
from testkit.builders.web import OPERATOR, WebSite, operated

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def web() -> Iterator[WebSite]:
    with operated() as web:
        web.decide("orders")
        yield web


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_answers_are_as_described(web: WebSite, endpoint: Endpoint) -> None:
    schema = schemathesis.openapi.from_url(f"{web.url}/api/v1/openapi.json", headers=OPERATOR)
    operation = schema[PREFIX + endpoint.path][endpoint.method]

    @given(case=operation.as_strategy())
    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    def ask(case: Any) -> None:
        case.call_and_validate(headers=OPERATOR, checks=CHECKS)

    ask()


def test_the_description_is_that_of_openapi_3_1(web: WebSite) -> None:
    document = web.client.get("/api/v1/openapi.json").json()

    assert document["openapi"] == "3.1.0"
    assert {"/api/v1/jobs", "/api/v1/pass", "/api/v1/orders", "/api/v1/what-if"} <= document["paths"].keys()
