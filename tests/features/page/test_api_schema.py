"""Every answer of the API is as its description says, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from testkit.builders.web import OPERATOR, WebSite, operated

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
QUESTIONS = ("about", "clusters", "jobs", "job", "passes", "pass", "record", "rescales", "series", "events", "commands")
ORDERS = ("commands", "commands/preview")
OPERATIONS = [("GET", each) for each in (*QUESTIONS, "configuration")] + [
    ("POST", each) for each in ("what-if", *ORDERS)
]


@pytest.fixture(scope="module")
def web() -> Iterator[WebSite]:
    with operated() as web:
        web.decide("orders")
        yield web


@pytest.mark.parametrize(("method", "name"), OPERATIONS)
def test_answers_are_as_described(web: WebSite, method: str, name: str) -> None:
    schema = schemathesis.openapi.from_url(f"{web.url}/api/v1/openapi.json", headers=OPERATOR)
    operation = schema[f"/api/v1/{name}"][method]

    @given(case=operation.as_strategy())
    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    def ask(case: Any) -> None:
        case.call_and_validate(headers=OPERATOR, checks=CHECKS)

    ask()


def test_the_description_is_that_of_openapi_3_1_and_has_every_endpoint(web: WebSite) -> None:
    document = web.client.get("/api/v1/openapi.json").json()

    described = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    assert document["openapi"] == "3.1.0"
    assert sorted(described) == sorted((method, f"/api/v1/{name}") for method, name in OPERATIONS)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"{", "the body is no JSON", id="not JSON"),
        pytest.param(b'{"job_key": "\\ud800", "options": {}}', "the body is no JSON", id="half a character"),
        pytest.param(b'{"job_key": "a", "options": {"\\ud800": "1"}}', "the body is no JSON", id="in a key"),
        pytest.param(b'{"\\ud800": "1"}', "the body is no JSON", id="in a field"),
        pytest.param(b"[" * 50_000, "the body is no JSON", id="too deep"),
        pytest.param(b"\xff\xfe", "the body is no JSON", id="no UTF-8"),
        pytest.param(b"", "the request:", id="nothing"),
    ],
)
def test_a_body_that_is_no_document_is_a_problem_of_whoever_sent_it(web: WebSite, body: bytes, text: str) -> None:
    answer = web.client.post("/api/v1/what-if", content=body)

    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert text in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/api/v1/nothing", 404, id="no such endpoint"),
        pytest.param("DELETE", "/api/v1/commands", 405, id="no such method"),
        pytest.param("GET", "/api/v1/about?verbose=1", 400, id="no such parameter"),
        pytest.param("GET", "/api/v1/jobs?limit=many", 400, id="no number"),
    ],
)
def test_what_the_api_does_not_know_is_a_problem_in_json(web: WebSite, method: str, path: str, status: int) -> None:
    answer = web.client.request(method, path)

    assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_a_head_is_answered_as_its_get_would_be(web: WebSite) -> None:
    answer = web.client.head("/api/v1/jobs")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"].startswith("W/")


def test_the_body_of_a_question_without_one_is_not_read(web: WebSite) -> None:
    answer = web.client.request("GET", "/api/v1/about", content=b"{")

    assert answer.status_code == 200
