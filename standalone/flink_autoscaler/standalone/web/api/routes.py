"""Serves the endpoints: checks who asks, reads what is asked, answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.core.model.syntax import escaped_json
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.web.api.answers import Answers
from flink_autoscaler.standalone.web.api.endpoints import ENDPOINTS, PREFIX, Endpoint
from flink_autoscaler.standalone.web.api.openapi import description
from flink_autoscaler.standalone.web.news import STREAM_SECONDS, News
from flink_autoscaler.standalone.web.rights import Access
from flink_autoscaler.standalone.web.site import ConflictError, NotFoundError

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=BaseModel)

_DIGITS: Final = 15
_JSON: Final = "application/json"
_NO_STORE: Final = {"Cache-Control": "no-store"}


class RefusedError(Exception):
    """A request that is not answered, with the status that says so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def api_routes(answers: Answers, access: Callable[[], Access], news: News) -> list[Route]:
    """Make the routes of the API; who may ask has been checked before."""
    document = json.dumps(description(), separators=(",", ":")).encode()

    async def openapi(_: Request) -> Response:
        return Response(document, media_type=_JSON)

    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes = [
        Route(PREFIX + path, partial(_serve, endpoints, answers, access), methods=[each.method for each in endpoints])
        for path, endpoints in by_path.items()
    ]
    stream = Route(f"{PREFIX}/news", partial(_stream, news, answers))
    return [*routes, stream, Route(f"{PREFIX}/openapi.json", openapi)]


async def _serve(
    endpoints: list[Endpoint], answers: Answers, access: Callable[[], Access], request: Request
) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    endpoint = next(each for each in endpoints if each.method == method)
    return await answered(lambda: _answer(endpoint, answers, access, request))


async def answered(handle: Callable[[], Awaitable[Response]]) -> Response:
    """Answer a request; what goes wrong is a problem document."""
    try:
        return await handle()
    except RefusedError as error:
        return problem(error.status, error.text)
    except NotFoundError as error:
        return problem(404, str(error))
    except ConfigError as error:
        return problem(400, str(error))
    except ConflictError as error:
        return problem(409, str(error))
    except StoreError as error:
        return problem(503, str(error))
    except AutoscalerError as error:
        return problem(400, str(error))


def problem(status: int, text: str) -> Response:
    """Say why a request is not answered."""
    return JSONResponse({"error": masked(text)}, status, headers=_NO_STORE)


async def _answer(endpoint: Endpoint, answers: Answers, access: Callable[[], Access], request: Request) -> Response:
    visitor = request.state.visitor
    refusal = access().refusal(visitor, request.headers) if endpoint.is_order else None
    if refusal is not None:
        raise RefusedError(403, refusal)
    query = _read(endpoint.query, dict(request.query_params))
    tag = f'W/"{answers.site.started_ms}-{answers.site.fleet.version}"' if endpoint.is_of_fleet else None
    if tag is not None and request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    asked = query if endpoint.body is None else _read(endpoint.body, await body_of(request))
    answer = await run_in_threadpool(endpoint.handle, answers, asked, visitor.name, visitor.role.value)
    headers = _NO_STORE if tag is None else {"ETag": tag, "Cache-Control": "private, no-cache"}
    return Response(escaped_json(answer.model_dump_json()), media_type=_JSON, headers=headers)


async def body_of(request: Request) -> object:
    """Return what was sent, decoded.

    Raises:
        RefusedError: It is no JSON, or has half a character, which nothing behind it could write down.
    """
    try:
        value = json.loads(await request.body())
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, "the body is no JSON") from error
    return value


def _read(model: type[M], value: object) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the request"
        raise RefusedError(400, f"{place[:200]}: {first['msg']}") from error


async def _stream(news: News, answers: Answers, request: Request) -> Response:
    if news.is_full:
        return problem(503, f"too many pages follow the news; one ends after {STREAM_SECONDS:g} s at the latest")
    known = request.headers.get("last-event-id") or request.query_params.get("since") or ""
    since = int(known) if known.isascii() and known.isdigit() and len(known) <= _DIGITS else answers.site.fleet.version
    return StreamingResponse(news.stream(since), media_type="text/event-stream", headers=_NO_STORE)
