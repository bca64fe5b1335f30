"""The evaluation engine that runs a pass as one Spark job."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import structlog

from flink_autoscaler.clients.flink.passes import settled
from flink_autoscaler.core.cycle.ending import failed
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.inline.engine import Deadlines, InlineEngine
from flink_autoscaler.pipeline.spark.codec import CodecError, Encoded, decode_outcome, encode
from flink_autoscaler.pipeline.spark.environment import require_environment
from flink_autoscaler.pipeline.spark.session import PassSession, open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SessionSupply, SparkLostError, reason_of
from flink_autoscaler.pipeline.spark.task import PartitionPlan, PassTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE: Final = 5.0
"""Seconds beyond the pass deadline, which the tasks keep themselves, after which Spark counts as hung."""

START_SECONDS: Final = 60.0
"""How long a pass waits for a session that is being opened."""

PROBE_SECONDS: Final = 5.0
"""How long a session may take to say that it is alive."""

FAILURES_BEFORE_LOSS: Final = 2
"""Passes in a row that fail on a session that says it is alive, after which it is given up nevertheless."""

MOST_PASSES: Final = 64
"""Passes on Spark at the same time."""

PASSES_SHARING_SLOTS: Final = 4
"""Passes that leave each other task slots: of many clusters only the large ones have passes that are worth Spark."""

_EncodedClusters = dict[Endpoint, list[tuple[int, Encoded]]]

_log = structlog.get_logger(__name__)


class SparkEngine:
    """Runs each pass as one Spark job (an ``EvaluationEngine``).

    Spark's tasks poll and evaluate the jobs that need it; the daemon itself reads the cluster-wide metrics of clusters
    whose jobs are dealt out to several tasks. Only GET requests are sent, so that a task that is repeated does no harm.
    A pass that is too small to be worth a Spark job runs inline, and Spark is not started before the first one that is
    not. When Spark fails, the pass runs inline and the session is opened anew in the background. A pass takes at most
    twice its deadline (once on Spark, once inline) and 15 s for finding out that Spark hangs.
    """

    def __init__(
        self,
        settings: SparkSettings,
        fallback: InlineEngine,
        *,
        job_deadline: float,
        pass_deadline: float = math.inf,
        min_jobs: int = 1,
        on_fallback: Callable[[str], None] | None = None,
        opener: Callable[[SparkSettings], PassSession] = open_session,
    ) -> None:
        """Make an engine. The caller closes ``fallback`` afterwards.

        Args:
            settings: How Spark is run.
            fallback: Runs a pass when Spark does not, and those that are too small.
            job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
            pass_deadline: Seconds that reading all jobs of a pass may take.
            min_jobs: Jobs to be read that make a pass worth a Spark job.
            on_fallback: Told why a pass ran inline that was meant for Spark; may be called from several threads.
            opener: Opens a session; the engine runs a first, empty job in it.

        Raises:
            ConfigError: Java is missing or too old, or the configuration of YARN is missing.
        """
        require_environment(settings)
        self._settings = settings
        self._fallback = fallback
        self._deadlines = Deadlines(job_deadline, pass_deadline)
        self._min_jobs = min_jobs
        self._on_fallback = on_fallback
        self._supply = SessionSupply(lambda: _warmed(opener(settings)))
        self._threads = ThreadPoolExecutor(MOST_PASSES, thread_name_prefix="spark-pass")
        self._labels = itertools.count(1)
        self._failures = 0
        self._starts_aside = False

    def start(self) -> None:
        """Never let a pass wait for Spark to start: passes run inline until it is there."""
        self._starts_aside = True
        if self._min_jobs <= 1:
            self._supply.prepare()

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Jobs behind different endpoints do not wait for each other. Cluster-wide metrics are read once per call and
        endpoint, where a job needs them.

        Raises:
            ConnectError: The event loop of the inline engine is closed.
        """
        outcomes = settled(requests)
        open_ = [position for position in range(len(requests)) if position not in outcomes]
        if open_:
            found = self._evaluate([requests[position] for position in open_])
            outcomes |= zip(open_, found, strict=True)
        return [outcomes[position] for position in range(len(requests))]

    def _evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        if len(requests) < self._min_jobs or self._is_starting(len(requests)):
            return self._fallback.evaluate(requests)
        try:
            session = self._supply.get(min(START_SECONDS, self._deadlines.pass_))
        except SparkLostError as error:
            return self._inline(requests, str(error))
        try:
            outcomes = self._on_spark(session, requests)
        except SparkLostError as error:
            self._judge(session, str(error))
            return self._inline(requests, str(error))
        self._failures = 0
        self._supply.praise()
        return outcomes

    def _is_starting(self, jobs: int) -> bool:
        if not self._starts_aside:
            return False
        self._supply.prepare()
        if self._supply.is_first_opening:
            _log.info("spark_starting", jobs=jobs)
            return True
        return False

    @contextmanager
    def lend(self) -> Iterator[SparkSession]:
        """Lend the session for other work than passes; it is started where there is none. From any thread.

        Raises:
            SparkLostError: There is none within the time to start, or it is that of a Spark Connect server.
        """
        if self._settings.is_connect:
            raise SparkLostError("a Spark Connect server lends no access to its file systems")
        session: Any = self._supply.get(START_SECONDS)
        try:
            yield session.spark
        except Exception as exc:
            if not self._bounded(session.is_alive):
                _log.warning("spark_session_lost", reason=reason_of(exc))
                self._supply.discard(session)
            raise
        self._supply.praise()

    def close(self) -> None:
        """End Spark. Passes under way fall back."""
        self._supply.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _inline(self, requests: Sequence[PassRequest], reason: str) -> Sequence[PassOutcome]:
        _log.warning("spark_pass_inline", cluster=requests[0].context.cluster, jobs=len(requests), reason=reason)
        if self._on_fallback is not None:
            self._on_fallback(reason)
        return self._fallback.evaluate(requests)

    def _on_spark(self, session: PassSession, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        encoded, outcomes = _encoded(requests)
        if encoded:
            label = f"flink-autoscaler pass {next(self._labels)}"
            pass_ = self._threads.submit(self._run, session, encoded, label)
            rows = self._result(session, pass_, label)
            outcomes |= {position: _decoded(requests[position], row) for position, row in rows.items()}
        lost = CodecError("the Spark job had no row for this job")
        return [outcomes.get(i) or failed(request, lost) for i, request in enumerate(requests)]

    def _run(self, session: PassSession, encoded: _EncodedClusters, label: str) -> pa.Table:
        sharing = min(self._settings.concurrent_passes, PASSES_SHARING_SLOTS)
        share = self._settings.partitions or max(1, session.slots() // sharing)
        deal = PartitionPlan.of(encoded, share)
        clusters = deal.clusters(self._fallback.read_clusters(deal.divided()))
        return session.run(deal.table(), PassTask(clusters, self._deadlines.job, self._deadlines.pass_), label=label)

    def _result(self, session: PassSession, pass_: Future[pa.Table], label: str) -> dict[int, dict[str, Any]]:
        limit = self._deadlines.pass_ + GRACE
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


def _encoded(requests: Sequence[PassRequest]) -> tuple[_EncodedClusters, dict[int, PassOutcome]]:
    """Encode requests by endpoint; those that cannot be encoded have their outcome at once, by position."""
    encoded: _EncodedClusters = {}
    outcomes: dict[int, PassOutcome] = {}
    for position, request in enumerate(requests):
        try:
            data = encode(request)
        except CodecError as error:
            outcomes[position] = failed(request, error)
        else:
            encoded.setdefault(request.context.endpoint, []).append((position, data))
    return encoded, outcomes


def _decoded(request: PassRequest, row: dict[str, Any]) -> PassOutcome:
    try:
        if row["outcome"] is None:
            raise CodecError(row["problem"])
        return decode_outcome(row["outcome"], request)
    except CodecError as error:
        return failed(request, error)


def _warmed(session: PassSession) -> PassSession:
    """Run one job that starts the Python workers and imports our code there, so that the first pass need not wait."""
    nobody = tuple(((place, 0, b""),) for place in range(session.slots()))
    table = PartitionPlan((Endpoint("http://127.0.0.1:0"),), nobody).table()
    try:
        session.run(table, PassTask(b"", job_deadline=0.0, pass_deadline=0.0), label="flink-autoscaler start")
    except Exception as exc:  # whatever Spark raises
        reason = reason_of(exc)
        session.close()
        raise SparkLostError(reason) from exc
    return session
