"""Replaying behaviour vectors through the code that also runs in the daemon."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from behaviour_vectors.cluster import VectorCluster
from behaviour_vectors.outputs import call_function, pass_output, state_output
from flink_autoscaler.clients.flink.collector import read_cluster
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.engine.base import evaluate_pending
from flink_autoscaler.pipeline.engine.run_pass import run_passes
from flink_autoscaler.realizers import RescaleApiRealizer
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER
from flink_autoscaler.standalone.records.codec import READ_LIMIT
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode
from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, read_bytes
from flink_autoscaler.stores import HeapStateStore

Json = dict[str, Any]

FORMAT: Final = "autoscaler-behaviour-vectors/1"
_DEADLINE: Final = 60.0
_GZIP: Final = 31
"""Says to zlib that there is a header of gzip."""

_UNPACKED_LIMIT: Final = 1 << 30
_AS_RECORDED: Final = ClusterSettings(name="vector", job_user_config=False)
"""The reference does not ask for the parameters of jobs."""


def read_vectors(path: Path) -> Json:
    """Read a file of behaviour vectors, compressed or not.

    Raises:
        ConfigError: It cannot be read, or is something else.
    """
    try:
        vectors: Json = json.loads(_content(path))
    except FileUnreadableError as error:
        raise ConfigError(f"--vectors {error}") from error
    except (ValueError, RecursionError, zlib.error) as error:
        raise ConfigError(f"--vectors {path}: cannot be read: {error}") from error
    if not isinstance(vectors, dict) or vectors.get("format") != FORMAT:
        raise ConfigError(f"--vectors {path}: not a file of behaviour vectors (format {FORMAT})")
    return vectors


def _content(path: Path) -> bytes:
    """Return what a file holds, unpacked; both are bounded."""
    data = read_bytes(path, READ_LIMIT)
    if path.suffix != ".gz":
        return data
    inflater = zlib.decompressobj(wbits=_GZIP)
    content = inflater.decompress(data, _UNPACKED_LIMIT)
    if not inflater.eof:
        raise ValueError(f"it is cut off, or longer than {_UNPACKED_LIMIT >> 20} MiB")
    return content


def replay(vectors: Json, progress: Callable[[int, int], None]) -> Json:
    """Replay all cases.

    Args:
        vectors: What :func:`read_vectors` returned.
        progress: Told how many cases of how many were replayed.

    Returns:
        ``{"cases": [...]}``: outputs per tick for scenarios, one output per case for functions.

    Raises:
        ConfigError: A case is not what the format says.
    """
    try:
        return _replayed(vectors, progress)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"--vectors: a case that cannot be replayed: {type(error).__name__}: {error}") from error


def _replayed(vectors: Json, progress: Callable[[int, int], None]) -> Json:
    if vectors["kind"] == "functions":
        return {"cases": [{"out": call_function(case["fn"], case["in"])} for case in vectors["cases"]]}
    loop = EventLoopThread("replay")
    try:
        cases: list[Json] = []
        for case in vectors["cases"]:
            progress(len(cases), len(vectors["cases"]))
            ticks = [tick["in"] for tick in case["ticks"]]
            cases.append({"id": case["id"], "ticks": list(ScenarioReplay(case["scenario"], loop).run(ticks))})
        return {"cases": cases}
    finally:
        loop.close()


class RecordingEventHandler:
    """Keeps the events of one pass; nothing is de-duplicated."""

    def __init__(self) -> None:
        self.events: list[Event | ScalingReport] = []

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Keep one event."""
        del context
        self.events.append(event)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Keep one report."""
        del context
        self.events.append(report)

    def close(self) -> None:
        """Do nothing."""


class ScenarioReplay:
    """Takes one job through the ticks of a scenario, as a daemon with an injected clock would.

    Args:
        scenario: The static part of the case.
        loop: Runs the client's coroutines.
    """

    def __init__(self, scenario: Json, loop: EventLoopThread) -> None:
        endpoint = Endpoint("http://vector", timeout=_DEADLINE)
        self._cluster = VectorCluster(scenario)
        self._client = FlinkRestClient(endpoint, self._cluster)
        self._loop = loop
        self._taskmanager_cpu: float | None = scenario.get("tm_cpu")
        self._store = HeapStateStore()
        self._handler = RecordingEventHandler()
        self._autoscaler = JobAutoScaler(
            store=self._store,
            realizer=RescaleApiRealizer(lambda _: self._client, loop),
            event_handler=self._handler,
        )
        defaults = {AutoscalerOptions.compat.key: "reference", **scenario.get("base_conf", {})}
        seconds = count(step=int(REFRESH_AFTER))
        self._fetcher = FlinkClusterFetcher(
            Cluster("vector", endpoint, 1.0, EngineKind.INLINE, defaults, _AS_RECORDED),
            loop=loop,
            clients=lambda _: self._client,
            job_key=JobKeyMode.JOB_ID,
            clock=lambda: float(next(seconds)),
        )
        self._key: str = scenario["jid"]
        self._known: JobAutoScalerContext | None = None
        self._shown: Json = {"trk": [], "dsd": {}, "cfg": {}}

    def run(self, ticks: list[Json]) -> Iterator[Json]:
        """Return one output per tick."""
        for tick in ticks:
            self._cluster.show(tick)
            self._handler.events = []
            written = self._pass(tick["t"])
            yield {**written, **self._after()}

    def _pass(self, now_ms: int) -> Json:
        try:
            jobs = self._fetcher.fetch()
        except AutoscalerError:
            return {"phase": "fetch_error"}
        if jobs.unreadable:
            return {"phase": "fetch_error"}
        if not jobs.jobs:
            if self._known is not None:
                self._autoscaler.cleanup(self._known)
            return {"phase": "absent"}
        self._known = self._with_cpu(jobs.jobs[0])
        self._key = self._known.job_key
        request = self._autoscaler.request(self._known, now_ms)
        cluster = self._loop.run(read_cluster(self._client))
        (outcome,) = evaluate_pending(
            [request],
            lambda open_: self._loop.run(run_passes(self._client, open_, cluster, job_deadline=_DEADLINE)),
        )
        self._autoscaler.complete(self._known, outcome)
        return pass_output(outcome, self._handler.events)

    def _with_cpu(self, context: JobAutoScalerContext) -> JobAutoScalerContext:
        if self._taskmanager_cpu is None:
            return context
        return replace(context, taskmanager_cpu=self._taskmanager_cpu)

    def _after(self) -> Json:
        """Write the state after a tick: overrides always, the rest where it changed."""
        state = self._store.load(self._key)
        written: Json = {"ovr": dict(state.overrides)}
        if self._cluster.put is not None:
            written["put"] = self._cluster.put
        shown = state_output(state)
        written |= {name: value for name, value in shown.items() if value != self._shown[name]}
        self._shown = shown
        return written
