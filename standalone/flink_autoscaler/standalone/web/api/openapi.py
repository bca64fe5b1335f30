"""The description of the API, OpenAPI 3.1, from the endpoints themselves."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from flink_autoscaler.standalone.web.api.endpoints import ENDPOINTS, PREFIX, Endpoint
from flink_autoscaler.standalone.web.api.models import Problem

_REFERENCE: Final = "#/components/schemas/{model}"
_PROBLEMS: Final = {
    "400": "A parameter is not as described.",
    "401": "Who you are is not known.",
    "403": "You may not do that.",
    "404": "There is no such job or pass.",
    "409": "Not now, or not with this daemon: what has to change first is said.",
    "413": "The request is too long.",
    "421": "This daemon has no such name.",
    "503": "The database does not answer.",
}


def description() -> dict[str, Any]:
    """Return the document."""
    models = {model for each in ENDPOINTS for model in (each.answer, each.body, Problem) if model is not None}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(each, "validation") for each in ordered], ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "flink-autoscaler",
            "version": version("flink-autoscaler"),
            "description": "What the daemon knows about the fleet, and orders for it. Instants are epoch "
            "milliseconds, rates records/s; null is not known.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "Any name, the token as password."},
            },
        },
        "security": [{}, {"token": []}, {"password": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    problems = {code: _answer(text, Problem) for code, text in _PROBLEMS.items()}
    answers = {"200": _answer("The answer.", endpoint.answer)}
    if endpoint.is_of_fleet:
        answers["304"] = {"description": "Nothing has changed since the answer with this ETag."}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.method.lower() + endpoint.path.replace("/", "_").replace("-", "_"),
        "parameters": _parameters(endpoint.query),
        "responses": {**answers, **problems},
    }
    if endpoint.body is not None:
        schema = {"$ref": _REFERENCE.format(model=endpoint.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _answer(text: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _parameters(query: type[BaseModel]) -> list[dict[str, Any]]:
    schema = query.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema.get("properties", {}).items()
    ]
