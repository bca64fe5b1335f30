"""A page over passes of the daemon's own wiring on a fake cluster, in this process."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring, default_orders
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.http import HttpServer, create_app
from flink_autoscaler.standalone.views.fleet import Fleet
from flink_autoscaler.standalone.web.app_state import AppState
from flink_autoscaler.standalone.web.authorization import AccessRules
from flink_autoscaler.standalone.web.serving import build_pages
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.load import stand_at
from testkit.scenarios.runner.wired import IN_MEMORY, INLINE, loader_of

TOKEN: Final = "operators-token"
OPERATOR: Final = {"Authorization": f"Bearer {TOKEN}"}
VIEWER: Final = {"Authorization": "Bearer viewers-token"}

_LEFT_UNFINISHED: Final = (
    b"",
    b"GET / HTTP/1.1\r\nHost: local",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 8,
)
"""A client that says nothing, one that does not finish its request, and one that does not take its answers."""

_OPTIONS: Final = {
    "autoscaler.standalone.control-loop.interval": "100 ms",
    "job.autoscaler.metrics.window": "4 s",
    "job.autoscaler.scale-down.interval": "1 h",
    "job.autoscaler.catch-up.duration": "1 min",
}


@contextmanager
def hanging(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections to a server that nobody goes on with, and give them, oldest first."""
    parts = urlsplit(url)
    with ExitStack() as opened:
        clients = []
        for number in range(count):
            client = opened.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=60))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.sendall(_LEFT_UNFINISHED[number % len(_LEFT_UNFINISHED)])
            clients.append(client)
        yield clients


class WebSite:
    """A fake cluster, passes over it, and page and API behind a client.

    Args:
        options: Further settings.
        access: Who may do what; everybody may look unless given.
        step_ms: By how much the clock of the passes goes on from one to the next, where none takes longer.

    Attributes:
        now_ms: The clock of the passes, epoch milliseconds.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, access: AccessRules | None = None, *, step_ms: int = 2000
    ) -> None:
        self.flink = FakeFlink()
        self.flink.taskmanagers = [{"id": "tm", "slotsNumber": 16, "freeSlots": 8}]
        self.access = access or AccessRules()
        self._options = {**_OPTIONS, **(options or {})}
        self._parts = ExitStack()
        self._step_ms = step_ms
        self.now_ms = self._begun_ms = time.time_ns() // 1_000_000

    def __enter__(self) -> Self:
        self._parts.enter_context(self.flink)
        place = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": self.flink.url}
        settings, configuration = loader_of({**INLINE, **IN_MEMORY, **self._options, **place}).load()
        self.wiring = self._parts.enter_context(Wiring(settings))
        self.fleet = Fleet(lambda: self.now_ms)
        self.passes = self.wiring.cluster_pass(settings.effective_clusters()[0], now_ms=lambda: self.now_ms)
        storage = self.wiring.storage
        self.site = AppState(
            fleet=self.fleet,
            settings=lambda: settings,
            order_book=storage.order_book,
            order_events=self.wiring.order_events,
            default_orders=lambda: default_orders(settings),
            events=self.wiring.recent_events,
            records=storage.records,
            configuration=lambda: configuration,
            database=storage.events_database,
            plugins=installed_plugins,
            now_ms=lambda: self.now_ms,
        )
        self.app = self._app()
        server = HttpServer(self.app, host="127.0.0.1", port=0)
        self._parts.callback(server.close)
        server.start()
        self.url = server.url
        self.client = self._parts.enter_context(httpx.Client(base_url=self.url, timeout=30, trust_env=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def add(self, name: str, **options: Any) -> FakeJob:
        """Serve a job of a source and a vertex."""
        job = self.flink.add_job(name, chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True, **options)
        job.vertices[1].name = "work"
        return job

    def run(self, times: int = 1) -> PassReport:
        """Do passes; between them every job does some work."""
        for _ in range(times):
            # Ahead of the real clock, by which answers are dated: one that is late counts as of its own instant.
            self.now_ms = max(self.now_ms, time.time_ns() // 1_000_000) + self._step_ms
            for job in self.flink.jobs.values():
                self._work(job)
            report = self.passes.run()
            self.fleet.record_pass(report)
        return report

    def decide(self, name: str) -> PassReport:
        """Do passes until something was decided about a job and it was recorded, for a while at most."""
        deadline = time.monotonic() + 60.0
        report = self.run()
        while report.reports[f"main/{name}"].outcome.phase is not PassPhase.EXECUTED and time.monotonic() < deadline:
            report = self.run()
        recorder = self.wiring.storage.recorder
        assert recorder is not None
        assert recorder.flush(60.0)
        return report

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the document of an endpoint."""
        answer = self.client.get(f"/api/v1{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _app(self) -> Starlette:
        routes, middleware = build_pages(self.site, lambda: self.access)
        health = Health({"main": 60.0})
        return create_app(gauges=Gauges(), health=health, is_alive=lambda: True, routes=routes, middleware=middleware)

    def _work(self, job: FakeJob) -> None:
        """Let the counters of a job grow as those of one that does 100 records/s, half busy."""
        passed = (self.now_ms - self._begun_ms) / 1000
        stand_at(job, 1_000_000 + round(100 * passed))
        for vertex in job.vertices:
            vertex.busy_ms = 500.0 * (1000 + passed)


@contextmanager
def operated(job: str = "orders", options: Mapping[str, str] | None = None) -> Iterator[WebSite]:
    """Give a site with one job, whose client may order."""
    with WebSite(options, AccessRules(operator_token=TOKEN)) as web:
        web.client.headers.update(OPERATOR)
        web.add(job)
        yield web
