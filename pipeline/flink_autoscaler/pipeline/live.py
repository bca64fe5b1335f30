"""The evaluation engine that runs a pass as one Spark job."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import structlog

from flink_autoscaler.core.cycle import failed
from flink_autoscaler.core.decision import PassOutcome, PassRequest
from flink_autoscaler.core.job import Endpoint
from flink_autoscaler.core.reading import ClusterReading
from flink_autoscaler.pipeline.codec import CodecError, Encoded, decode_outcome, encode
from flink_autoscaler.pipeline.engine import InlineEngine
from flink_autoscaler.pipeline.java import require_java
from flink_autoscaler.pipeline.session import PassSession, SparkSettings, open_session
from flink_autoscaler.pipeline.supply import SessionSupply, SparkLostError, reason_of
from flink_autoscaler.pipeline.task import REQUESTS, PassTask

JOBS_PER_TASK: Final = 16
"""Fewer jobs are not worth another task."""

GRACE: Final = 5.0
"""Seconds beyond the pass deadline, which the tasks keep themselves, after which Spark counts as hung."""

PROBE_SECONDS: Final = 5.0
"""How long a session may take to say that it is alive."""

FAILURES_BEFORE_LOSS: Final = 2
"""Passes in a row that fail on a session that says it is alive, after which it is given up nevertheless."""

MOST_PASSES: Final = 64
"""Passes on Spark at the same time."""

_log = structlog.get_logger(__name__)


class SparkEngine:
    """Runs each pass as one Spark job (an ``EvaluationEngine``).

    The daemon reads the cluster-wide metrics, Spark's tasks poll and evaluate the jobs. Only GET requests are sent, so
    that a task that is repeated does no harm. When Spark fails, the pass runs inline and the session is opened anew in
    the background. A pass takes at most twice its deadline (once on Spark, once inline) and 15 s for
    finding out that Spark hangs.
    """

    def __init__(
        self,
        settings: SparkSettings,
        fallback: InlineEngine,
        *,
        job_deadline: float,
        pass_deadline: float = math.inf,
        on_fallback: Callable[[str], None] | None = None,
        opener: Callable[[SparkSettings], PassSession] = open_session,
    ) -> None:
        """Make an engine. The caller closes ``fallback`` afterwards.

        Args:
            settings: How Spark is run.
            fallback: Runs a pass when Spark does not.
            job_deadline: Seconds that reading one job may take.
            pass_deadline: Seconds that reading all jobs of a pass may take.
            on_fallback: Told why a pass ran inline; may be called from several threads.
            opener: Opens a session; the engine runs a first, empty job in it.

        Raises:
            ConfigError: Java is missing or too old.
        """
        if not settings.is_connect:
            require_java()
        self._settings = settings
        self._fallback = fallback
        self._deadlines = (job_deadline, pass_deadline)
        self._on_fallback = on_fallback
        self._supply = SessionSupply(lambda: _warmed(opener(settings)))
        self._threads = ThreadPoolExecutor(MOST_PASSES, thread_name_prefix="spark-pass")
        self._labels = itertools.count(1)
        self._failures = 0
        self._starts_aside = False

    def start(self) -> None:
        """Start Spark in the background; passes run inline until it is there. Without this the first pass waits."""
        self._starts_aside = True
        self._supply.prepare()

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order; all requests belong to one endpoint.

        Cluster-wide metrics are read once per call.

        Raises:
            ConnectError: The event loop of the inline engine is closed.
        """
        if not requests:
            return []
        if self._starts_aside and self._supply.is_first_opening:
            _log.info("spark_starting", jobs=len(requests))
            return self._fallback.evaluate(requests)
        try:
            session = self._supply.get(min(self._settings.start_timeout, self._deadlines[1]))
        except SparkLostError as error:
            return self._inline(requests, self._fallback.read_cluster(requests[0].context.endpoint), str(error))
        cluster = self._fallback.read_cluster(requests[0].context.endpoint)
        try:
            outcomes = self._on_spark(session, requests, cluster)
        except SparkLostError as error:
            self._judge(session, str(error))
            return self._inline(requests, cluster, str(error))
        self._failures = 0
        self._supply.praise()
        return outcomes

    def close(self) -> None:
        """End Spark. Passes under way fall back."""
        self._supply.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _inline(self, requests: Sequence[PassRequest], cluster: ClusterReading, reason: str) -> Sequence[PassOutcome]:
        _log.warning("spark_pass_inline", cluster=requests[0].context.cluster, jobs=len(requests), reason=reason)
        if self._on_fallback is not None:
            self._on_fallback(reason)
        return self._fallback.evaluate_jobs(requests, cluster)

    def _on_spark(
        self, session: PassSession, requests: Sequence[PassRequest], cluster: ClusterReading
    ) -> list[PassOutcome]:
        encoded, outcomes = _encoded(requests)
        if encoded:
            label = f"flink-autoscaler pass {next(self._labels)}"
            pass_ = self._threads.submit(self._run, session, (requests[0].context.endpoint, cluster, encoded), label)
            rows = self._result(session, pass_, label)
            outcomes |= {position: _decoded(requests[position], row) for position, row in rows.items()}
        lost = CodecError("the Spark job had no row for this job")
        return [outcomes.get(i) or failed(request, lost) for i, request in enumerate(requests)]

    def _run(
        self, session: PassSession, work: tuple[Endpoint, ClusterReading, dict[int, Encoded]], label: str
    ) -> pa.Table:
        endpoint, cluster, encoded = work
        share = self._settings.partitions or max(1, session.slots() // self._settings.concurrent_passes)
        tasks = min(share, math.ceil(len(encoded) / JOBS_PER_TASK))
        job_deadline, pass_deadline = self._deadlines
        task = PassTask(
            endpoint=replace(endpoint, max_connections=max(1, endpoint.max_connections // tasks)),
            cluster=encode(cluster),
            job_deadline=job_deadline,
            pass_deadline=pass_deadline,
        )
        return session.run(_table(encoded, tasks), task, label=label)

    def _result(self, session: PassSession, pass_: Future[pa.Table], label: str) -> dict[int, dict[str, Any]]:
        limit = self._deadlines[1] + GRACE
        try:
            table = pass_.result(None if math.isinf(limit) else limit)
        except TimeoutError as exc:
            self._bounded(session.cancel, label)
            raise SparkLostError(f"Spark did not finish a pass within {limit:.3g} s") from exc
        except Exception as exc:  # py4j, pyspark and sockets raise dozens of kinds when Spark fails
            raise SparkLostError(reason_of(exc)) from exc
        return {row["position"]: row for row in table.to_pylist()}

    def _judge(self, session: PassSession, reason: str) -> None:
        """Give the session up if it is gone; a pass that was slow or broken is no reason to end those of others."""
        self._failures += 1
        if self._failures >= FAILURES_BEFORE_LOSS or not self._bounded(session.is_alive):
            _log.warning("spark_session_lost", reason=reason)
            self._failures = 0
            self._supply.discard(session)

    def _bounded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a call returns, None when it fails or hangs."""
        try:
            return self._threads.submit(call, *arguments).result(PROBE_SECONDS)
        except Exception:  # whatever Spark raises
            return None


def _encoded(requests: Sequence[PassRequest]) -> tuple[dict[int, Encoded], dict[int, PassOutcome]]:
    """Encode requests by position; those that cannot be encoded have their outcome at once."""
    encoded: dict[int, Encoded] = {}
    outcomes: dict[int, PassOutcome] = {}
    for position, request in enumerate(requests):
        try:
            encoded[position] = encode(request)
        except CodecError as error:
            outcomes[position] = failed(request, error)
    return encoded, outcomes


def _decoded(request: PassRequest, row: dict[str, Any]) -> PassOutcome:
    try:
        if row["outcome"] is None:
            raise CodecError(row["problem"])
        return decode_outcome(row["outcome"], request)
    except CodecError as error:
        return failed(request, error)


def _table(encoded: dict[int, Encoded], tasks: int) -> pa.Table:
    """Deal the requests out to tasks: one chunk each, which becomes one partition."""
    return pa.Table.from_batches(list(_batches(list(encoded.items()), tasks)), REQUESTS)


def _batches(rows: Sequence[tuple[int, Encoded]], tasks: int) -> Iterator[pa.RecordBatch]:
    for start in range(tasks):
        columns = zip(*rows[start::tasks], strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, REQUESTS.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=REQUESTS)


def _warmed(session: PassSession) -> PassSession:
    """Run one job that starts the Python workers and imports our code there, so that the first pass need not wait."""
    slots = session.slots()
    nobody = PassTask(Endpoint("http://127.0.0.1:0"), b"", job_deadline=0.0, pass_deadline=0.0)
    try:
        session.run(_table(dict.fromkeys(range(slots), b""), slots), nobody, label="flink-autoscaler start")
    except Exception as exc:  # whatever Spark raises
        reason = reason_of(exc)
        session.close()
        raise SparkLostError(reason) from exc
    return session
