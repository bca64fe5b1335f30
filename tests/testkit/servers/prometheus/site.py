"""A daemon on fake clusters whose jobs go wrong on request, and a Prometheus that scrapes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.fakes.flink.driving import drive, up_and_down
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner.process import RESCALING, DaemonProcess
from testkit.servers.prometheus.server import Prometheus, free_port

TIMEOUT: Final = 90.0
_TICK: Final = 0.02
_PERIOD: Final = 3.0
_OVERLOAD: Final = 500.0
_OPTIONS: Final = {
    **RESCALING,
    "autoscaler.standalone.control-loop.interval": "200 ms",
    "autoscaler.ha.enabled": "true",
    "autoscaler.ha.ttl": "10 s",
    "autoscaler.history.enabled": "true",
    "autoscaler.history.interval": "0 s",
    "autoscaler.history.flush-interval": "1 s",
    "autoscaler.notifications.targets.0.name": "audit",
    "autoscaler.notifications.rules.0.reasons": "*",
}


class Load:
    """Lets load arrive at all jobs of a cluster: up and down at ``orders``, too much at every other one."""

    def __init__(self, flink: FakeFlink) -> None:
        self._flink = flink
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(10)

    def _run(self) -> None:
        started = at = time.monotonic()
        while not self._ending.wait(_TICK):
            before, at = at, time.monotonic()
            for job in list(self._flink.jobs.values()):
                rate = up_and_down(at - started, _PERIOD) if job.name == "orders" else _OVERLOAD
                drive(job, rate, at - before)


class Site:
    """All of it, while open.

    Attributes:
        main: A cluster with a job ``orders`` that is rescaled up and down.
        other: A cluster without jobs.
        receiver: Who is told about events.
    """

    def __init__(self, folder: Path, rules: dict[str, Any]) -> None:
        self.folder = folder
        self.main, self.other = FakeFlink(), FakeFlink()
        self.receiver = Receiver()
        self.daemon = DaemonProcess(folder)
        self._port = free_port()
        self.prometheus = Prometheus(folder, target=f"127.0.0.1:{self._port}", rules=rules)

    @property
    def database(self) -> Path:
        """The file with the state."""
        return self.folder / "autoscaler.db"

    @property
    def history(self) -> Path:
        """The folder of the history."""
        return self.folder / "history"

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            parts.enter_context(self.main)
            parts.enter_context(self.other)
            parts.enter_context(self.receiver)
            parts.enter_context(Load(self.main))
            parts.enter_context(self.daemon)
            self._start_daemon()
            parts.enter_context(self.prometheus)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    def _start_daemon(self) -> None:
        self.main.add_job("orders", obeys=True)
        urls = {"main": self.main.url, "other": self.other.url}
        places = {
            "autoscaler.http.port": str(self._port),
            "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{self.database}",
            "autoscaler.history.path": str(self.history),
            "autoscaler.notifications.targets.0.url": self.receiver.url,
        }
        self.daemon.configure(urls, **(_OPTIONS | places))
        self.daemon.start()

    @contextmanager
    def job(self, name: str, **values: Any) -> Iterator[FakeJob]:
        """Add a job that has too much to do; it is gone afterwards."""
        job = self.main.add_job(name, **values)
        try:
            yield job
        finally:
            self.main.jobs.pop(job.job_id, None)

    @contextmanager
    def late_job(self, name: str) -> Iterator[FakeJob]:
        """Add one that may not grow besides, and whose records wait."""
        with self.job(name, configuration={"job.autoscaler.vertex.max-parallelism": "1"}) as job:
            self.set_pending(job, 1e6)
            yield job

    def set_pending(self, job: FakeJob, records: float) -> None:
        """Let so many records wait at the sources of a job."""
        for vertex in job.vertices:
            for metric in [name for name in vertex.metrics if name.endswith("pendingRecords")]:
                vertex.metrics[metric] = records

    def order(self, *arguments: str) -> None:
        """Give the daemon an order, as a person does."""
        self.daemon.order(*arguments)

    def wait_for_firing(self, alert: str, **labels: str) -> list[dict[str, Any]]:
        """Wait until an alert fires, and return those that do."""
        return wait_until(
            f"{alert} fires",
            lambda: self.prometheus.firing(alert, **labels),
            TIMEOUT,
            context=lambda: f"{self.prometheus.alerts(alert)}\n{self.daemon.text()[-3000:]}",
        )

    def wait_for_end(self, alert: str, **labels: str) -> None:
        """Wait until an alert fires no more."""
        wait_until(
            f"{alert} ends",
            lambda: not self.prometheus.firing(alert, **labels),
            TIMEOUT,
            context=lambda: f"{self.prometheus.alerts(alert)}\n{self.daemon.text()[-3000:]}",
        )
