"""The API: its endpoints, what they take and answer, and how that is described. Who may ask has been checked before."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.orders import MAX_PARALLELISM, AuditStamp, PauseScope
from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.core.model.syntax import escape_json
from flink_autoscaler.core.rescale.operator_commands import NEEDS_REASON, OperatorCommand, apply_command, orders_for
from flink_autoscaler.standalone.records.codec import latest_snapshot
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.clusters import ClustersView
from flink_autoscaler.standalone.views.commands import (
    CommandPreviewView,
    CommandResultView,
    CommandsView,
    command_preview,
    with_default_orders,
)
from flink_autoscaler.standalone.views.events import EventsView
from flink_autoscaler.standalone.views.fleet import JobNow
from flink_autoscaler.standalone.views.jobs import JobDetailView, JobsView
from flink_autoscaler.standalone.views.passes import ExplainedPassView, PassesView, RecordView, RescalesView
from flink_autoscaler.standalone.views.series import SeriesView
from flink_autoscaler.standalone.web import requests
from flink_autoscaler.standalone.web.app_state import AppState
from flink_autoscaler.standalone.web.authorization import AccessRules, Principal
from flink_autoscaler.standalone.web.errors import NO_STORE, ForbiddenError, Problem, problem_response, status_of
from flink_autoscaler.standalone.web.query_service import AboutView, ConfigurationView, QueryService
from flink_autoscaler.standalone.web.requests import OrderRequest
from flink_autoscaler.standalone.web.sse import STREAM_SECONDS, FleetEvents
from flink_autoscaler.standalone.web.whatif import WhatIfView

log = structlog.get_logger(__name__)


def submit_command(app_state: AppState, asked: OrderRequest, who: str) -> CommandResultView:
    """Give an order for a job that a cluster has now, signed with the instant of the book.

    Args:
        app_state: Of the daemon.
        asked: What is wanted.
        who: Orders it.

    Raises:
        ConfigError: There is no such job, or something is missing.
        StoreError: The book does not answer.
    """
    job = _commanded_job(app_state, asked)
    supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
    seen = None if app_state.records is None else latest_snapshot(app_state.records, asked.job_key)
    signature = (who, asked.reason.strip())
    ordered = apply_command(app_state.order_book, asked.job_key, _parse_command(asked), signature, supervision, seen)
    if ordered.event is not None:
        with ErrorBoundary() as boundary:  # it is ordered, whoever hears of it
            app_state.order_events.handle_event(job.context, ordered.event)
        if boundary.error is not None:
            log.warning("event_not_reported", reason=ordered.event.reason, error=mask_secrets(str(boundary.error)))
        app_state.fleet.update_orders(asked.job_key, with_default_orders(ordered.orders, app_state.default_orders()))
    return CommandResultView(job_key=asked.job_key, text=ordered.text, is_refused=ordered.is_refused)


def preview_command(app_state: AppState, asked: OrderRequest, who: str) -> CommandPreviewView:
    """Tell what an order for a job would do; gives none. Arguments and errors are those of :func:`submit_command`."""
    job, command, now_ms = _commanded_job(app_state, asked), _parse_command(asked), app_state.now_ms()
    supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
    seen = None if app_state.records is None else latest_snapshot(app_state.records, asked.job_key)
    book = app_state.order_book.orders(job.context.cluster)
    orders = orders_for(asked.job_key, job.context.other_keys, book, now_ms)
    result = command.apply(orders, AuditStamp(who, asked.reason.strip(), now_ms), supervision, seen)
    return command_preview(job, command, result, now_ms)


def _commanded_job(app_state: AppState, asked: OrderRequest) -> JobNow:
    job = app_state.fleet.job(asked.job_key)
    if job is None:
        raise ConfigError(f"no cluster has a job {mask_secrets(asked.job_key[:200])} now")
    if asked.order in NEEDS_REASON and not asked.reason.strip():
        raise ConfigError(f"reason: say why, {asked.order} keeps it")
    return job


def _parse_command(asked: OrderRequest) -> OperatorCommand:
    if asked.order == "pin" and not asked.vertices:
        raise ConfigError("vertices: name at least one, with its parallelism")
    if asked.order == "pin" and any(not 1 <= number <= MAX_PARALLELISM for number in asked.vertices.values()):
        raise ConfigError(f"vertices: a parallelism is from 1 to {MAX_PARALLELISM}")
    lasts_ms = None if asked.seconds is None else round(1000 * asked.seconds)
    return OperatorCommand(asked.order, PauseScope(asked.direction), lasts_ms, asked.vertices, asked.force)


PREFIX: Final = "/api/v1"
_JSON: Final = "application/json"
_DIGITS: Final = 15
_PROBLEMS: Final[dict[int | str, str]] = {
    400: "A parameter is not as described.",
    401: "Who you are is not known.",
    403: "You may not do that.",
    404: "There is no such job or pass.",
    409: "Not now, or not with this daemon: what has to change first is said.",
    413: "The request is too long.",
    421: "This daemon has no such name.",
    503: "The database does not answer.",
    "4XX": "The request cannot be answered.",
}
_UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "Nothing has changed since the answer with this ETag."}
}

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _Route(APIRoute):
    """An endpoint whose answer nobody keeps, and in which no character moves a cursor."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            if self.body_field is not None:
                # Whatever a client calls its body, it is read as JSON: curl and urllib say that it is a form.
                MutableHeaders(scope=request.scope)["content-type"] = _JSON
                request = Request(request.scope, request.receive)  # the other one may remember its headers
                if await request.body() and not await _is_json(request):
                    return problem_response(400, "the body is no JSON")
            answer = await handle(request)
            text = escape_json(bytes(answer.body).decode())
            return Response(text, answer.status_code, {**NO_STORE}, _JSON)

        return answered


async def _is_json(request: Request) -> bool:
    """Tell whether the body is JSON without half a character, which nothing behind it could write down."""
    try:
        json.dumps(await request.json(), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


class _FleetRoute(_Route):
    """An endpoint whose answer changes with the passes only; who has seen it is told so."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            app_state = request.app.state.answers.site
            tag = f'W/"{app_state.started_ms}-{app_state.fleet.version}"'
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers={"ETag": tag})
            answer = await handle(request)
            answer.headers.update({"ETag": tag, "Cache-Control": "private, no-cache"})
            return answer

        return answered


class _OrderRoute(_Route):
    """An endpoint that takes orders, from those who may give them; others are told nothing else about their request."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request; raises :class:`ForbiddenError`."""
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            access: AccessRules = request.app.state.access()
            if refusal := access.refusal(request.state.visitor, request.headers):
                raise ForbiddenError(refusal)
            return await handle(request)

        return answered


async def _query_service(request: Request) -> QueryService:
    found: QueryService = request.app.state.answers
    return found


async def _principal(request: Request) -> Principal:
    found: Principal = request.state.visitor
    return found


_Known = Annotated[QueryService, Depends(_query_service)]
_Caller = Annotated[Principal, Depends(_principal)]
_NoParameters = Annotated[requests.Query, Query()]

_fleet = APIRouter(prefix=PREFIX, route_class=_FleetRoute, responses=_UNCHANGED)
_router = APIRouter(prefix=PREFIX, route_class=_Route)
_order_router = APIRouter(prefix=PREFIX, route_class=_OrderRoute)


@_router.get("/about")
def _about(query_service: _Known, visitor: _Caller, _: _NoParameters) -> AboutView:
    """Tell of the daemon, and what you may do."""
    return query_service.about(visitor.role.value)


@_fleet.get("/clusters")
def _clusters(query_service: _Known, _: _NoParameters) -> ClustersView:
    """List all clusters."""
    return query_service.clusters()


@_fleet.get("/jobs")
def _jobs(query_service: _Known, asked: Annotated[requests.JobsQuery, Query()]) -> JobsView:
    """List the jobs, a page of them."""
    return query_service.jobs(asked)


@_fleet.get("/job")
def _job(query_service: _Known, asked: Annotated[requests.JobQuery, Query()]) -> JobDetailView:
    """Describe a job."""
    return query_service.job(asked.job)


@_router.get("/passes")
def _passes(query_service: _Known, asked: Annotated[requests.PassesQuery, Query()]) -> PassesView:
    """List the recorded passes over a job, the newest first."""
    return query_service.passes(asked)


@_router.get("/pass")
def _explained(query_service: _Known, asked: Annotated[requests.PassQuery, Query()]) -> ExplainedPassView:
    """Explain a pass with every term."""
    return query_service.explanation(asked.job, asked.at_ms)


@_router.get("/record")
def _record(query_service: _Known, asked: Annotated[requests.PassQuery, Query()]) -> RecordView:
    """Return a recorded pass, as explain --export writes it."""
    return query_service.export(asked.job, asked.at_ms)


@_fleet.get("/rescales")
def _rescales(query_service: _Known, asked: Annotated[requests.JobQuery, Query()]) -> RescalesView:
    """List the last rescales of a job."""
    return query_service.rescales(asked.job)


@_router.get("/series")
def _series(query_service: _Known, asked: Annotated[requests.SeriesQuery, Query()]) -> SeriesView:
    """Tell how a job went: from memory, and further back from the metric history."""
    return query_service.series(asked)


@_router.get("/events")
def _events(query_service: _Known, asked: Annotated[requests.EventsQuery, Query()]) -> EventsView:
    """List what happened, the newest first."""
    return query_service.events(asked)


@_router.get("/commands")
def _orders(query_service: _Known, asked: Annotated[requests.OrdersQuery, Query()]) -> CommandsView:
    """List what is ordered now."""
    return query_service.orders(asked.job)


@_router.get("/configuration")
def _configuration(query_service: _Known, _: _NoParameters) -> ConfigurationView:
    """Tell what the daemon was configured with."""
    return query_service.configuration()


@_router.post("/what-if")
def _what_if(query_service: _Known, _: _NoParameters, asked: requests.WhatIfRequest) -> WhatIfView:
    """Tell what a recorded pass would have decided with other options; changes nothing."""
    return query_service.what_if(asked)


@_order_router.post("/commands")
def _give_order(
    query_service: _Known, visitor: _Caller, _: _NoParameters, asked: requests.OrderRequest
) -> CommandResultView:
    """Give an order for a job; needs the role operator."""
    return submit_command(query_service.site, asked, visitor.name)


@_order_router.post("/commands/preview")
def _preview_order(
    query_service: _Known, visitor: _Caller, _: _NoParameters, asked: requests.OrderRequest
) -> CommandPreviewView:
    """Tell what an order for a job would do, without giving it; needs the role operator."""
    return preview_command(query_service.site, asked, visitor.name)


class AutoscalerApi(FastAPI):
    """The application that answers below ``/api/v1``.

    Args:
        answers: What it answers with.
        access: Who may do what now.
        news: What browsers follow.
    """

    def __init__(self, answers: QueryService, access: Callable[[], AccessRules], news: FleetEvents) -> None:
        super().__init__(
            title="flink-autoscaler",
            version=version("flink-autoscaler"),
            description="What the daemon knows about the fleet, and orders for it. Instants are epoch milliseconds, "
            "rates records/s; null is not known.",
            openapi_url=f"{PREFIX}/openapi.json",
            docs_url=None,
            redoc_url=None,
            responses={code: {"description": text, "model": Problem} for code, text in _PROBLEMS.items()},
            exception_handlers={
                AutoscalerError: _on_error,
                RequestValidationError: _on_invalid_request,
                HTTPException: _on_refused,
            },
            generate_unique_id_function=lambda route: f"{min(route.methods or ()).lower()}{route.name}",
        )
        self.state.answers, self.state.access, self.state.news = answers, access, news
        for each in (_fleet, _router, _order_router):
            self.include_router(each)
        self.add_route(f"{PREFIX}/news", _stream)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the server leaves out what a HEAD has no use for."""
        await super().__call__({**scope, "method": scope["method"].replace("HEAD", "GET")}, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the description of the API, with the ways to say who asks; without a token nobody need."""
        document = super().openapi()
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "password": {"type": "http", "scheme": "basic", "description": "Any name, the token as password."},
        }
        document["security"] = [{}, {"token": []}, {"password": []}]
        for operation in (each for methods in document["paths"].values() for each in methods.values()):
            operation["summary"] = operation.pop("description", operation["summary"])
        return document


async def _on_error(_: Request, error: AutoscalerError) -> Response:
    return problem_response(status_of(error), str(error))


async def _on_invalid_request(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:])) or "the request"
    return problem_response(400, f"{place[:200]}: {first['msg']}")


async def _on_refused(_: Request, error: HTTPException) -> Response:
    answer = problem_response(error.status_code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


async def _stream(request: Request) -> Response:
    news: FleetEvents = request.app.state.news
    if news.is_full:
        return problem_response(
            503, f"too many pages follow the news; one ends after {STREAM_SECONDS:g} s at the latest"
        )
    known = request.headers.get("last-event-id") or request.query_params.get("since") or ""
    current = request.app.state.answers.site.fleet.version
    since = int(known) if known.isascii() and known.isdigit() and len(known) <= _DIGITS else current
    return StreamingResponse(news.stream(since), media_type="text/event-stream", headers=NO_STORE)
