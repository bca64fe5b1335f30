"""The views: which documents each shows."""

from __future__ import annotations

import gzip
import hashlib
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from flink_autoscaler.core.errors import AutoscalerError, StoreError
from flink_autoscaler.pipeline.pages.drawing import sparkline
from flink_autoscaler.pipeline.pages.rendering import style, templates_of
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.clusters import ClusterView
from flink_autoscaler.standalone.views.jobs import JobHealth, JobView
from flink_autoscaler.standalone.views.passes import PassSummaryView
from flink_autoscaler.standalone.web.authorization import AccessRules
from flink_autoscaler.standalone.web.errors import NO_STORE, NotFoundError, status_of
from flink_autoscaler.standalone.web.query_service import QueryService
from flink_autoscaler.standalone.web.requests import (
    MAX_INSTANT_MS,
    EventsQuery,
    JobQuery,
    JobsQuery,
    PassesQuery,
    PassQuery,
    Query,
)

ROWS: Final = 60
"""Jobs that the fleet shows at first; the next ones come as its end comes near."""

_WORDS: Final = 8
_BRIEF: Final = 72
"""Words and characters of a reason in one line."""

SYMBOLS: Final = {
    JobHealth.FAILING: ("bad", "✕"),
    JobHealth.BEHIND: ("bad", "▲"),
    JobHealth.LIMITED: ("warn", "◔"),
    JobHealth.SUSPENDED: ("off", "‖"),
    JobHealth.UNKNOWN: ("off", "?"),
    JobHealth.HEALTHY: ("good", "✓"),
}
"""What the health of a job looks like: its colour, and a symbol for who sees none."""

PAGES: Final = (("/", "Fleet"), ("/events", "Events"), ("/configuration", "Configuration"), ("/about", "About"))
KEYS: Final = (
    ("/", "to the filter"),
    ("j k", "along the rows of a table"),
    ("g f, g e, g c, g a", "to the fleet, the events, the configuration, about"),
    ("Esc", "back to the fleet; out of a field or dialog"),
    ("← →", "earlier and later, in the charts of a job"),
    ("Shift ← →", "chooses the instant before or after"),
    ("+ -", "zooms in and out, in the charts of a job"),
    ("Home", "follows the present again"),
    ("v V", "chooses the next or the previous vertex of a job"),
    ("?", "this list"),
)
_STATIC: Final = (
    "page.css",
    "format.js",
    "page.js",
    "theme.js",
    "timeline.js",
    "graph.js",
    "icon.svg",
    "vendor/dagre.min.js",
    "vendor/uPlot.iife.min.js",
    "vendor/uPlot.min.css",
)
_KINDS: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

Values = Mapping[str, Any]
View = Callable[[Any], Values]


class Range(StrEnum):
    """How much of the past the timeline shows at first."""

    HOUR = "hour"
    HOURS = "hours"
    QUARTER = "quarter"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def hours(self) -> int:
        """How long that is; two hours are in memory, more is in the history."""
        return {"hour": 1, "hours": 2, "quarter": 6, "day": 24, "week": 168, "month": 720}[self.value]

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.hours} h" if self.hours <= 24 else f"{self.hours // 24} d"  # noqa: PLR2004 - a day


class FleetQuery(JobsQuery):
    """What the fleet page is asked."""

    limit: int = Field(default=ROWS, ge=1, le=1000)


class JobPageQuery(JobQuery):
    """What the page of a job is asked."""

    range: Range = Range.HOURS
    from_ms: int | None = Field(
        default=None, ge=0, le=MAX_INSTANT_MS, description="Of a part of time; now unless given."
    )
    to_ms: int | None = Field(default=None, ge=0, le=MAX_INSTANT_MS)
    at_ms: int | None = Field(default=None, ge=0, le=MAX_INSTANT_MS, description="The chosen instant.")
    vertex: str = Field(default="", max_length=64, description="Id of the chosen vertex.")


class NameQuery(Query):
    """A cluster."""

    name: str = Field(max_length=200)


class Slider(NamedTuple):
    """An option that a what-if moves: its value, and between which values in which steps."""

    key: str
    words: str
    value: str
    unit: str
    minimum: float
    maximum: float
    step: float


class Views:
    """Renders the views.

    Args:
        answers: What is shown.
        access: Makes the tokens of forms now.
    """

    def __init__(self, answers: QueryService, access: Callable[[], AccessRules]) -> None:
        self._answers = answers
        self._access = access
        self._kept = KeptViews()
        self._templates = templates_of("flink_autoscaler.standalone.web.page")
        self._templates.globals |= {"link": link, "sparkline": _load, "symbols": SYMBOLS}
        self._templates.filters |= {"brief": brief, "sentence": sentence}

    def routes(self) -> list[Route]:
        """Return the routes of all views."""
        views: tuple[tuple[str, type[BaseModel], View, str, bool], ...] = (
            ("/", FleetQuery, self._fleet, "fleet", True),
            ("/cluster", NameQuery, self._cluster, "cluster", True),
            ("/job", JobPageQuery, self._job, "job", True),
            ("/pass", PassQuery, self._pass, "pass", False),
            ("/what-if", PassQuery, self._what_if, "what_if", False),
            ("/events", EventsQuery, self._events, "events", True),
            ("/configuration", Query, self._configuration, "configuration", False),
            ("/about", Query, self._about, "about", True),
        )
        static = [Route(f"/static/{name}", _static(name)) for name in _STATIC]
        shown = [Route(path, self._route(query, view, name, live)) for path, query, view, name, live in views]
        return [*shown, *static]

    def _route(self, query: type[BaseModel], view: View, template: str, is_live: bool) -> Callable[..., Any]:
        async def serve(request: Request) -> Response:
            try:
                asked = query.model_validate(dict(request.query_params))
                values = await run_in_threadpool(view, asked)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                return self._problem(request, 400, f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}")
            except AutoscalerError as error:
                return self._problem(request, status_of(error), str(error))
            return await run_in_threadpool(self._page, request, template, values, is_live=is_live)

        async def serve_kept(request: Request) -> Response:
            try:
                asked = query.model_validate(dict(request.query_params))
            except ValidationError:
                return await serve(request)
            return await run_in_threadpool(self._kept_page, request, template, view, asked)

        return serve_kept if view == self._fleet else serve

    def _kept_page(self, request: Request, template: str, view: View, asked: BaseModel) -> Response:
        """Return a view that changes with passes, roles and what is told above every view, and with nothing else."""
        visitor, about = request.state.visitor, self._answers.about(request.state.visitor.role.value)
        state = about.model_copy(update={"now_ms": 0})
        text = self._kept.view(
            (template, asked, self._answers.site.fleet.version, state.model_dump_json()),
            lambda: self._text(
                request, template, view(asked), is_live=True, form_token=self._kept.form_token, now=self._kept.now_ms
            ),
            form_token=self._access().form_token(visitor),
            now_ms=about.now_ms,
        )
        return HTMLResponse(text, headers=NO_STORE)

    def _page(
        self, request: Request, template: str, values: Values, *, is_live: bool = False, status: int = 200
    ) -> Response:
        token, now = self._access().form_token(request.state.visitor), str(self._answers.site.now_ms())
        text = self._text(request, template, values, is_live=is_live, form_token=token, now=now)
        return HTMLResponse(text, status, headers=NO_STORE)

    def _text(
        self, request: Request, template: str, values: Values, *, is_live: bool, form_token: str, now: str
    ) -> str:
        visitor = request.state.visitor
        return self._templates.get_template(f"{template}.html.j2").render(
            {"title": template.replace("_", " "), **values},
            about=self._answers.about(visitor.role.value),
            pages=PAGES,
            keys=KEYS,
            here=request.url.path,
            role=visitor.role.value,
            is_live=is_live,
            form_token=form_token,
            now=now,
            version=self._answers.site.fleet.version,
        )

    def _problem(self, request: Request, status: int, text: str) -> Response:
        return self._page(request, "problem", {"title": "That did not work", "text": mask_secrets(text)}, status=status)

    def _fleet(self, asked: FleetQuery) -> Values:
        jobs, clusters = self._answers.jobs(asked), self._answers.clusters()
        after = asked.offset + asked.limit
        return {
            "jobs": jobs,
            "clusters": clusters.clusters,
            "away": _away(clusters.clusters),
            "query": asked,
            "teams": sorted(self._answers.teams),
            "summary": self._answers.summary(clusters),
            "sorts": {"concern": "attention", "name": "name", "lag": "lag", "load": "load", "slots": "slots"},
            "after": after if after < jobs.total else None,
        }

    def _cluster(self, asked: NameQuery) -> Values:
        found = next((each for each in self._answers.clusters().clusters if each.name == asked.name), None)
        if found is None:
            raise NotFoundError(f"there is no cluster {asked.name}")
        return {"cluster": found}

    def _job(self, asked: JobPageQuery) -> Values:
        job, clusters = self._answers.job(asked.job), self._answers.clusters().clusters
        cluster = next((each for each in clusters if each.name == job.cluster), None)
        return {
            "title": job.job_key,
            "job": job,
            "decided": self._answers.decision(asked.job),
            "away": _away(clusters),
            "flink": _flink_page(cluster, job),
            "sliders": self._sliders(asked.job),
            "ranges": tuple(Range),
            "range": asked.range,
            "rescales": self._answers.rescales(asked.job).rescales[:20],
            "passes": self._recorded(asked.job),
            "orders": self._orders(asked.job),
            "events": self._answers.events(EventsQuery(job=_literally(asked.job), limit=20)).events,
        }

    def _recorded(self, job_key: str) -> list[PassSummaryView]:
        try:
            return self._answers.passes(PassesQuery(job=job_key, limit=30)).passes
        except StoreError:
            return []

    def _orders(self, job_key: str) -> list[Any]:
        try:
            return list(self._answers.orders(job_key).commands)
        except StoreError:
            return []

    def _pass(self, asked: PassQuery) -> Values:
        return {"title": f"pass over {asked.job}", "explained": self._answers.explanation(asked.job, asked.at_ms)}

    def _what_if(self, asked: PassQuery) -> Values:
        job = self._answers.site.fleet.job(asked.job)
        target = "" if job is None else f"utilization.target: {job.context.options.utilization_target:g}"
        return {
            "title": "what if",
            "job_key": asked.job,
            "at_ms": asked.at_ms,
            "options": target,
            "sliders": self._sliders(asked.job),
        }

    def _sliders(self, job_key: str) -> list[Slider]:
        """Return the options that a what-if moves most often, as the job has them; none where they cannot be read."""
        job = self._answers.site.fleet.job(job_key)
        if job is None:
            return []
        options = job.context.options
        try:
            return [
                Slider(
                    "utilization.target",
                    "Busy at most, as planned",
                    f"{options.utilization_target:g}",
                    "",
                    0.3,
                    1,
                    0.05,
                ),
                Slider(
                    "catch-up.duration",
                    "Catch up within",
                    f"{options.catch_up_duration.seconds // 60}",
                    " min",
                    0,
                    120,
                    5,
                ),
                Slider("restart.time", "A restart takes", f"{options.restart_time.seconds}", " s", 0, 600, 10),
            ]
        except AutoscalerError:
            return []

    def _events(self, asked: EventsQuery) -> Values:
        return {"events": self._answers.events(asked), "query": asked}

    def _configuration(self, _: Query) -> Values:
        return {"values": self._answers.configuration().values}

    def _about(self, _: Query) -> Values:
        return {"clusters": self._answers.clusters().clusters}


def link(path: str, **parameters: object) -> str:
    """Make an address of this page; parameters that are None or empty are left out."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def brief(text: str) -> str:
    """Return the first words of a sentence."""
    words = text.split()
    first = " ".join(words[:_WORDS])
    return first if len(words) <= _WORDS and len(first) <= _BRIEF else f"{first[:_BRIEF].rstrip(' ,;:')}…"


def sentence(text: str) -> str:
    """Return a text with the full stop that others may follow."""
    return text if not text or text[-1] in ".!?" else f"{text}."


def _load(job: JobView) -> Markup:
    ticks = [(each.at_ms, each.is_up) for each in job.rescales]
    return sparkline([(each.at_ms, each.load) for each in job.points], ticks)


def _away(clusters: Sequence[ClusterView]) -> dict[str, str]:
    """Return the clusters that did not answer last, and why: what is known of their jobs is older."""
    return {each.name: each.error for each in clusters if each.error is not None}


def _flink_page(cluster: ClusterView | None, job: JobView) -> str | None:
    """Return where Flink's own page shows a job; None where no address of a JobManager is configured."""
    url = None if cluster is None or job.job_id is None or cluster.type == "yarn" else cluster.url
    return f"{url.rstrip('/')}/#/job/running/{job.job_id}/overview" if url and url.startswith("http") else None


def _literally(text: str) -> str:
    """Return a pattern that fits a text to the letter."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)


def _static(name: str) -> Callable[..., Any]:
    file = files("flink_autoscaler.standalone.web.page").joinpath("static", *name.split("/"))
    content = style().encode() if name == "page.css" else file.read_bytes()
    packed, tag = gzip.compress(content, mtime=0), f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        encoding = {"Content-Encoding": "gzip"} if is_packed else {}
        kind = _KINDS[name.rpartition(".")[2]]
        return Response(packed if is_packed else content, media_type=kind, headers=headers | encoding)

    return serve


MAX_KEPT: Final = 32
"""Views that are kept; the one that was asked for longest ago goes first."""


class KeptViews:
    """Keeps rendered views, and makes each once also when many ask at the same time. Thread-safe.

    Attributes:
        form_token: Stands in a kept view where each visitor gets a form token of its own; nobody can guess it, so that
            nothing that is shown can contain it.
        now_ms: Stands there for the instant of the request.
    """

    def __init__(self) -> None:
        self.form_token = f"form-{secrets.token_hex(16)}"
        self.now_ms = f"now-{secrets.token_hex(16)}"
        self._lock = threading.Lock()
        self._views: OrderedDict[Hashable, str] = OrderedDict()

    def view(self, key: Hashable, make: Callable[[], str], *, form_token: str, now_ms: int) -> str:
        """Return a view for one visitor.

        Args:
            key: Everything that it depends on.
            make: Renders it, with the attributes in place of token and instant.
            form_token: Of the visitor.
            now_ms: Epoch milliseconds.
        """
        with self._lock:
            text = self._views.pop(key, None)
            self._views[key] = text = make() if text is None else text
            if len(self._views) > MAX_KEPT:
                self._views.popitem(last=False)
        return text.replace(self.form_token, form_token).replace(self.now_ms, str(now_ms))
