"""The evaluation engine that runs passes as Spark jobs."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from flink_autoscaler.core.cycle.outcome import failed
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.base import (
    CONFIGURED,
    INLINE,
    Answer,
    Deadlines,
    used,
    whole,
    with_settled,
)
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from flink_autoscaler.pipeline.engine.run_pass import wants_fresh
from flink_autoscaler.pipeline.spark.batching import JobBatcher, SlowEndpoints
from flink_autoscaler.pipeline.spark.codec import CodecError, Encoded, decode_outcome, encode
from flink_autoscaler.pipeline.spark.environment import require_environment
from flink_autoscaler.pipeline.spark.session import PassSession, open_driver
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SessionSupply, SparkLostError, reason_of
from flink_autoscaler.pipeline.spark.task import WHOLE_JOBS, OutcomeRow, PartitionPlan, PassTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK: Final = "spark"
STARTING: Final = "Spark is starting"

GRACE: Final = 5.0
"""Seconds beyond the pass deadline, which the tasks keep themselves, after which Spark counts as hung."""

START_SECONDS: Final = 60.0
"""How long a pass waits for a session that is being opened."""

PROBE_SECONDS: Final = 5.0
"""How long a session may take to say that it is alive."""

FAILURES_BEFORE_LOSS: Final = 2
"""Spark jobs in a row that fail on a session that says it is alive, after which it is given up nevertheless."""

MOST_JOBS: Final = 64
"""Spark jobs at the same time."""

PASSES_SHARING_SLOTS: Final = 4
"""Spark jobs that leave each other task slots."""

STAY: Final = 0.8
"""Share of the number of jobs from which Spark is taken, down to which it is kept."""

REMEMBERED: Final = 900.0
"""Seconds for which the jobs of a cluster count that is not asked about any more."""

_EncodedClusters = dict[Endpoint, list[tuple[int, Encoded]]]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SparkStatus:
    """Status of Spark, for people.

    Attributes:
        up: Whether the last pass meant for Spark ran there; None before the first one.
        error: Why it did not; None when it did.
    """

    up: bool | None = None
    error: str | None = None


class SparkEngine:
    """Runs passes as Spark jobs (an ``EvaluationEngine``); those of clusters that are due together share one.

    A shared job ends when its slowest cluster does. Therefore a cluster that takes longer than ``cut_after`` there is
    given up and read in this process, as it is from then on until it is quick again: only its own pass waits for it.

    Spark's tasks poll and evaluate the jobs that need it; the daemon itself reads the cluster-wide metrics of clusters
    whose jobs are dealt out to several tasks. Only GET requests are sent, so that a task that is repeated does no harm.
    When Spark fails, the pass runs inline and the session is opened anew in the background. A pass takes at most
    twice its deadline (once on Spark, once inline) and 15 s for finding out that Spark hangs.
    """

    def __init__(
        self,
        settings: SparkSettings,
        fallback: InlineEngine,
        *,
        job_deadline: float,
        pass_deadline: float = math.inf,
        on_fallback: Callable[[str], None] | None = None,
        opener: Callable[[SparkSettings], PassSession] = open_driver,
    ) -> None:
        """Make an engine. The caller closes ``fallback`` afterwards.

        Args:
            settings: How Spark is run.
            fallback: Runs a pass when Spark does not.
            job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
            pass_deadline: Seconds that reading all jobs of a pass may take.
            on_fallback: Told why a pass ran inline that was meant for Spark; may be called from several threads.
            opener: Opens a session; the engine runs a first, empty job in it.

        Raises:
            ConfigError: Java is missing or too old, the configuration of YARN is missing, or a Spark Connect server
                is the master.
        """
        require_environment(settings)
        self._settings = settings
        self._is_packed = not settings.is_embedded
        self._fallback = fallback
        self._deadlines = Deadlines(job_deadline, pass_deadline)
        self._on_fallback = on_fallback
        self._supply = SessionSupply(lambda: _warmed(opener(settings)))
        self._threads = ThreadPoolExecutor(MOST_JOBS, thread_name_prefix="spark-job")
        self._batcher = JobBatcher(self._spark_job, timeout=settings.cut_after)
        self._slow = SlowEndpoints(settings.cut_after)
        self._labels = itertools.count(1)
        self._failures = 0
        self._starts_aside = False
        self._is_starting_told = False
        self._status = SparkStatus()
        self._telling = threading.Lock()

    def start(self) -> None:
        """Open the session in the background and never let a pass wait for it: passes run inline until it is there."""
        self._starts_aside = True
        self._supply.prepare()

    @property
    def status(self) -> SparkStatus:
        """Status of Spark."""
        return self._status

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Jobs behind different endpoints do not wait for each other. Cluster-wide metrics are read once per call and
        endpoint, where a job needs them.

        Raises:
            ConnectError: The event loop of the inline engine is closed.
        """
        return with_settled(requests, lambda open_: self.evaluate_open(open_, CONFIGURED))

    def evaluate_open(self, requests: Sequence[PassRequest], reason: str) -> Sequence[PassOutcome]:
        """Do the same for jobs that all have to be read, for a reason of somebody else's choice."""
        if self._starts_aside and self._supply.is_first_opening:
            self._note_starting()
            return self._fallback.evaluate_open(requests, STARTING)
        places = range(len(requests))
        is_large = len(requests) > WHOLE_JOBS  # it has a Spark job of its own, in which nothing is given up
        slow = [place for place in places if not is_large and requests[place].context.endpoint in self._slow]
        quick = [place for place in places if place not in slow]
        shared = self._batcher.submit([requests[place] for place in quick]) if quick else None
        outcomes = self._evaluated_here(requests, slow)
        if shared is not None:
            outcomes |= self._outcomes(requests, quick, shared, reason)
        return [outcomes[place] for place in places]

    @contextmanager
    def lend(self) -> Iterator[SparkSession]:
        """Lend the session for other work than passes; it is started where there is none. From any thread.

        Raises:
            SparkLostError: There is none within the time to start.
        """
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
        self._batcher.close()
        self._supply.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _outcomes(
        self, requests: Sequence[PassRequest], places: Sequence[int], shared: Future[Sequence[Answer]], reason: str
    ) -> dict[int, PassOutcome]:
        """Return the outcomes of those requests of a pass that were put into a Spark job."""
        try:
            answers = dict(zip(places, shared.result(), strict=True))
        except SparkLostError as error:
            return dict(zip(places, self._inline([requests[each] for each in places], str(error)), strict=True))
        self._note(SparkStatus(True))
        use = EngineUse(SPARK, reason)
        outcomes = {
            place: replace(answer.outcome, engine=use)
            for place, answer in answers.items()
            if answer.outcome is not None
        }
        given_up = [place for place in places if place not in outcomes]
        for place in given_up:
            self._slow.note(requests[place].context.endpoint, answers[place].seconds)
        return outcomes | self._evaluated_here(requests, given_up)

    def _evaluated_here(self, requests: Sequence[PassRequest], places: Sequence[int]) -> dict[int, PassOutcome]:
        """Return the outcomes of jobs of slow clusters, for which others in a Spark job do not wait."""
        if not places:
            return {}
        answers = self._fallback.answers([requests[place] for place in places])
        for place, answer in zip(places, answers, strict=True):
            self._slow.note(requests[place].context.endpoint, answer.seconds)
        use = EngineUse(INLINE, f"its cluster takes longer than {self._settings.cut_after:.3g} s")
        return dict(zip(places, used(use, whole(answers)), strict=True))

    def _inline(self, requests: Sequence[PassRequest], reason: str) -> Sequence[PassOutcome]:
        self._note(SparkStatus(False, reason), cluster=requests[0].context.cluster, jobs=len(requests))
        if self._on_fallback is not None:
            self._on_fallback(reason)
        return self._fallback.evaluate_open(requests, f"Spark is away: {reason}")

    def _note_starting(self) -> None:
        with self._telling:
            is_news, self._is_starting_told = not self._is_starting_told, True
        if is_news:
            _log.info("spark_starting")

    def _note(self, status: SparkStatus, **about: object) -> None:
        """Remember how Spark is, and tell what is new about it."""
        with self._telling:
            before, self._status = self._status, status
        if status.error is not None:
            write = _log.debug if status == before else _log.warning
            write("spark_pass_inline", reason=status.error, **about)
        elif before.up is False:
            _log.info("spark_available")

    def _spark_job(self, requests: Sequence[PassRequest], cut_after: float) -> list[Answer]:
        """Run one Spark job; jobs of any number of passes."""
        session = self._supply.get(min(START_SECONDS, self._deadlines.pass_))
        try:
            answers = self._on_session(session, requests, cut_after)
        except SparkLostError as error:
            self._judge(session, str(error))
            raise
        self._failures = 0
        self._supply.praise()
        return answers

    def _on_session(self, session: PassSession, requests: Sequence[PassRequest], cut_after: float) -> list[Answer]:
        encoded, answers = _encoded(requests, is_packed=self._is_packed)
        if encoded:
            label = f"flink-autoscaler pass {next(self._labels)}"
            fresh = {request.context.endpoint for request in requests if wants_fresh(request)}
            job = self._threads.submit(self._run, session, encoded, fresh, label, cut_after)
            rows = self._result(session, job, label, cut_after)
            answers |= {row[0]: _answer(requests[row[0]], row) for row in rows}
        lost = CodecError("the Spark job had no row for this job")
        return [answers.get(place) or Answer(failed(request, lost), 0.0) for place, request in enumerate(requests)]

    def _run(
        self,
        session: PassSession,
        encoded: _EncodedClusters,
        fresh: Collection[Endpoint],
        label: str,
        cut_after: float,
    ) -> list[OutcomeRow]:
        sharing = min(self._settings.concurrent_passes, PASSES_SHARING_SLOTS)
        share = self._settings.partitions or max(1, session.slots() // sharing)
        plan = PartitionPlan.of(encoded, share)
        readings = self._fallback.read_clusters(plan.divided(), fresh)
        clusters = plan.clusters(readings, is_packed=self._is_packed)
        task = PassTask(clusters, self._deadlines.job, self._deadlines.pass_, cut_after, self._is_packed)
        return session.run(plan, task, label=label)

    def _result(
        self, session: PassSession, job: Future[list[OutcomeRow]], label: str, cut_after: float
    ) -> list[OutcomeRow]:
        limit = min(self._deadlines.pass_, cut_after + self._deadlines.job) + GRACE
        try:
            return job.result(None if math.isinf(limit) else limit)
        except TimeoutError as exc:
            self._bounded(session.cancel, label)
            raise SparkLostError(f"Spark did not finish a pass within {limit:.3g} s") from exc
        except Exception as exc:  # py4j, pyspark and sockets raise dozens of kinds when Spark fails
            raise SparkLostError(reason_of(exc)) from exc

    def _judge(self, session: PassSession, reason: str) -> None:
        """Give the session up if it is gone; a job that was slow or broken is no reason to end those of others."""
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


class AutoEngine:
    """Chooses for each pass (an ``EvaluationEngine``), by the jobs to be read that the whole daemon has.

    The two engines belong to the caller, who closes them. Thread-safe.

    Args:
        spark: Takes the passes of many jobs; not started before there are so many.
        inline: Takes those of few.
        min_jobs: Jobs from which Spark is taken.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        spark: SparkEngine,
        inline: InlineEngine,
        *,
        min_jobs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._inline = inline
        self._min_jobs = min_jobs
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[int, float]] = {}
        self._takes_spark = False
        self._starts_aside = False

    def start(self) -> None:
        """Let Spark, once it is needed, start in the background."""
        self._starts_aside = True

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Raises:
            ConnectError: The event loop of the inline engine is closed.
        """
        return with_settled(requests, self._evaluate)

    def close(self) -> None:
        """Do nothing: the engines belong to the caller."""

    def _evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        if not self._is_spark_worth(requests[0].context.cluster, len(requests)):
            return self._inline.evaluate_open(requests, f"auto: fewer than {self._min_jobs} jobs")
        if self._starts_aside:
            self._spark.start()
        return self._spark.evaluate_open(requests, f"auto: {self._min_jobs} jobs or more")

    def _is_spark_worth(self, cluster: str, jobs: int) -> bool:
        now = self._clock()
        with self._lock:
            self._jobs[cluster] = jobs, now
            self._jobs = {name: seen for name, seen in self._jobs.items() if now - seen[1] < REMEMBERED}
            total = sum(count for count, _ in self._jobs.values())
            self._takes_spark = total >= self._min_jobs * (STAY if self._takes_spark else 1.0)
            return self._takes_spark


def _encoded(requests: Sequence[PassRequest], *, is_packed: bool) -> tuple[_EncodedClusters, dict[int, Answer]]:
    """Encode requests by endpoint; those that cannot be encoded have their outcome at once, by position."""
    encoded: _EncodedClusters = {}
    answers: dict[int, Answer] = {}
    for position, request in enumerate(requests):
        try:
            data = encode(request, is_packed=is_packed)
        except CodecError as error:
            answers[position] = Answer(failed(request, error), 0.0)
        else:
            encoded.setdefault(request.context.endpoint, []).append((position, data))
    return encoded, answers


def _answer(request: PassRequest, row: OutcomeRow) -> Answer:
    _, encoded, problem, seconds = row
    if encoded is None:
        return Answer(None if problem is None else failed(request, CodecError(problem)), seconds)
    try:
        return Answer(decode_outcome(encoded, request), seconds)
    except CodecError as error:
        return Answer(failed(request, error), seconds)


def _warmed(session: PassSession) -> PassSession:
    """Run one job that starts the Python workers and imports our code there, so that the first pass need not wait."""
    nobody = tuple(((place, 0, b""),) for place in range(session.slots()))
    plan = PartitionPlan((Endpoint("http://127.0.0.1:0"),), nobody)
    try:
        session.run(plan, PassTask(b"", job_deadline=0.0, pass_deadline=0.0), label="flink-autoscaler start")
    except Exception as exc:  # whatever Spark raises
        reason = reason_of(exc)
        session.close()
        raise SparkLostError(reason) from exc
    return session
