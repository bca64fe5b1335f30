"""One pass over one cluster: list, clean up, evaluate, record and realize."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog
from structlog.contextvars import bound_contextvars

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_call
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, StoreError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import JobKey, name_key
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import EvaluationEngine, JobList, JobListFetcher
from flink_autoscaler.core.ports.order_store import OrderStore
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.rescale.operator_commands import last_known_orders, orders_for
from flink_autoscaler.standalone.daemon.completion import Completion
from flink_autoscaler.standalone.daemon.forecasts import JobForecasts
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobStateCleaner, JobTracker
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.slot_allocator import SlotAllocator, SlotSource
from flink_autoscaler.standalone.external_metrics.provider import ExternalMetricsProvider
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.standalone.records.writer import PassRecorder
from flink_autoscaler.stores.heap import HeapOrderStore, HeapTombstones

if TYPE_CHECKING:
    from flink_autoscaler.standalone.history.sink import HistorySink

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PassCommands:
    """The orders that hold in one pass.

    Attributes:
        orders_by_key: By job key or name, as they were read last.
        default_orders: For every job, such as a dry run of the whole daemon.
        is_known: Whether they could be read; else nothing is changed in this pass.
    """

    orders_by_key: Mapping[JobKey, Orders]
    default_orders: Orders
    now_ms: int
    is_known: bool = True

    def orders_for(self, context: JobAutoScalerContext) -> Orders:
        """Return the orders for a job."""
        book, dry_run = self.orders_by_key, self.default_orders.dry_run
        orders = orders_for(context.job_key, context.other_keys, book, self.now_ms) if book else NO_ORDERS
        if dry_run is not None:
            # What is to be done once waits until it can be.
            orders = replace(orders, dry_run=orders.dry_run or dry_run, rollback=None, reset=None)
        return orders if self.is_known else last_known_orders(orders, self.now_ms)

    def former_keys_in_use(self, job_list: JobList) -> frozenset[JobKey]:
        """Return keys with orders that no job has now but one that is there has had: they hold for it."""
        absent = self.orders_by_key.keys() - job_list.present
        if not absent:
            return frozenset()
        return frozenset(absent.intersection(key for job in job_list.jobs for key in job.other_keys))


class ClusterCommands:
    """Reads the orders for the jobs of a cluster. Belongs to the thread of its passes.

    Args:
        cluster: Its name.
        book: Keeps the orders.
        standing: Orders for every job.
    """

    def __init__(self, cluster: str, book: OrderStore, standing: Orders) -> None:
        self._cluster = cluster
        self._book = book
        self._standing = standing
        self._last: Mapping[JobKey, Orders] = {}
        self._sharing: set[JobKey] = set()

    def read(self, now_ms: int) -> PassCommands:
        """Return the orders for a pass; where they cannot be read, those that were read last, with every job held."""
        try:
            self._last = self._book.orders(self._cluster)
        except StoreError as error:
            # Who watches the store says that it is away; metrics are collected meanwhile.
            log.debug("commands_unreadable", error=str(error))
            return PassCommands(self._last, self._standing, now_ms, is_known=False)
        return PassCommands(self._last, self._standing, now_ms)

    def remove_expired(self, now_ms: int) -> None:
        """Remove what is over. May raise :class:`StoreError`."""
        self._book.tidy(self._cluster, now_ms)

    def log_shared_names(self, contexts: Iterable[JobAutoScalerContext]) -> None:
        """Log once of every job that another one has its name, and that orders for the name hold for both."""
        shared = {each.job_key for each in contexts if name_key(each.job_key) != each.job_key}
        for job_key in sorted(shared - self._sharing):
            name = name_key(job_key)
            log.warning("job_name_shared", job_key=job_key, name_key=name, has_orders=name in self._last)
        self._sharing = shared


@dataclass(frozen=True)
class PassDependencies:
    """Services that the passes of a cluster use.

    Attributes:
        leadership: Tells whether to act or to look on.
        state_cleaner: Deletes the state of jobs that are gone; None deletes it at once.
        now_ms: The clock, epoch milliseconds.
        default_orders: Orders for every job, such as a dry run of the whole daemon.
        order_book: Keeps what people ordered for single jobs.
        slot_source: Adds TaskManagers when slots are short; None where nobody does.
        forecasts: Tells what the usual load of jobs is; None where nobody does.
        recorder: Keeps passes for those who ask later; None keeps none.
        history: Keeps what was measured and decided; None keeps nothing.
        external_metrics: Knows the lag of jobs from elsewhere than Flink.
    """

    leadership: Leadership = field(default_factory=Leadership)
    state_cleaner: JobStateCleaner | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    default_orders: Orders = NO_ORDERS
    order_book: OrderStore = field(default_factory=HeapOrderStore)
    recorder: PassRecorder | None = None
    history: HistorySink | None = None
    slot_source: SlotSource | None = None
    forecasts: JobForecasts | None = None
    external_metrics: ExternalMetricsProvider = field(default_factory=lambda: ExternalMetricsProvider({}))


class ClusterPass:
    """Runs the passes of one cluster, one after the other. Belongs to one thread at a time.

    Args:
        cluster: Name of the cluster.
        fetcher: Lists its jobs.
        engine: Collects, evaluates and decides.
        autoscaler: Loads, records and realizes.
        parallelism: Jobs that are recorded and realized at the same time.
        deadline: Seconds to wait for that. A job that takes longer is left out of later passes until it is done.
        selects: Tells which of the listed jobs to look at.
        dependencies: Clock, leadership and clean-up; those of a daemon that is alone unless given.
    """

    def __init__(
        self,
        cluster: str,
        *,
        fetcher: JobListFetcher,
        engine: EvaluationEngine,
        autoscaler: JobAutoScaler,
        parallelism: int,
        deadline: float,
        selects: Callable[[JobAutoScalerContext], bool] = lambda _: True,
        dependencies: PassDependencies | None = None,
    ) -> None:
        self.cluster = cluster
        self._fetcher = fetcher
        self._engine = engine
        self._autoscaler = autoscaler
        self._selects = selects
        self._deps = deps = dependencies or PassDependencies()
        self._leadership = deps.leadership
        self._vanished = deps.state_cleaner or JobStateCleaner(
            cluster, autoscaler=autoscaler, tombstones=HeapTombstones()
        )
        self._commands = ClusterCommands(cluster, deps.order_book, deps.default_orders)
        self._roster = JobTracker()
        self._log_once = LogOnce()
        self._slots = SlotAllocator(deps.slot_source)
        self._completion = Completion(
            cluster,
            autoscaler=autoscaler,
            leadership=self._leadership,
            recorder=deps.recorder,
            parallelism=parallelism,
            deadline=deadline,
            best_effort=self._best_effort,
        )

    def run(self) -> PassReport:
        """Look at every job of the cluster once. Never raises; failures are in the report."""
        started = time.monotonic()
        with bound_contextvars(cluster=self.cluster):
            found = try_call(self._run)  # a fetcher or an engine that breaks its contract must not end the passes
            report = PassReport(self.cluster, error=found) if isinstance(found, AutoscalerError) else found
        return replace(report, started_at=started, seconds=time.monotonic() - started)

    def is_idle(self) -> bool:
        """Tell whether nothing is being recorded or realized any more, also of passes that did not wait for it."""
        return self._roster.is_idle()

    def take_over(self, before: ClusterPass) -> None:
        """Go on where other passes of the cluster ended: with the jobs they knew and what they have under way."""
        self._roster, self._vanished, self._slots = before._roster, before._vanished, before._slots
        self._commands = before._commands

    def forget_jobs(self) -> None:
        """Free the memory that the jobs take; their states stay."""
        for job_key in self._roster.job_keys():
            self._autoscaler.drop(job_key)

    def close(self) -> None:
        """Release the fetcher and the idle workers; work under way is not waited for."""
        self._completion.close()
        self._fetcher.close()

    def _run(self) -> PassReport:
        now_ms = self._deps.now_ms()
        term = self._leadership.term()
        commands = self._commands.read(now_ms)  # unreadable: every job is held
        job_list = self._fetcher.fetch()
        gone, deleted = self._clean_up(job_list, commands, term, now_ms)
        jobs = tuple(context for context in job_list.jobs if self._selects(context))
        failures = dict(job_list.unreadable)
        asked = self._requests_for(jobs, commands, failures, term, now_ms)
        requests: Sequence[PassRequest] = self._slots.cap_requests(asked, failures)
        outcomes = self._slots.arbitrate(requests, self._engine.evaluate(requests), failures) if requests else ()
        requests, outcomes = _without_failed(failures, requests, outcomes)
        if term is not None and self._leadership.holds(term):
            # Per job: recorded and reported, then realized; those that give slots first.
            reports = self._completion.complete(requests, outcomes, failures, term, self._roster)
            self._best_effort("history", partial(self._add_to_history, requests, reports, now_ms))
        else:
            reports = self._observe_only(requests, outcomes, failures)
        return PassReport(
            self.cluster,
            jobs,
            {request.context.job_key: request for request in requests},
            reports,
            failures,
            job_list.problems,
            gone,
            deleted,
            engine=next((outcome.engine for outcome in outcomes if outcome.engine is not None), None),
            reservations=self._slots.reservations(),
            # Asked again: what was begun under a term that is over by now was refused.
            is_acting=term is not None and self._leadership.holds(term),
        )

    def _best_effort(self, part: str, work: Callable[[], None]) -> None:
        """Do something that no job waits for; that it fails is told once, and again when it fails otherwise."""
        with ErrorBoundary() as boundary:
            work()
        if self._log_once.is_news(part, boundary.error) and boundary.error is not None:
            log.warning("pass_part_failed", part=part, error=str(boundary.error))

    def _add_to_history(
        self, requests: Sequence[PassRequest], reports: Mapping[JobKey, JobPassReport], now_ms: int
    ) -> None:
        """Hand what was measured and decided to the history."""
        if self._deps.history is not None:
            contexts = [request.context for request in requests if request.context.job_key in reports]
            self._deps.history.add([reports[each.job_key].outcome for each in contexts], contexts, now_ms)

    def _observe_only(
        self, requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome], failures: dict[JobKey, AutoscalerError]
    ) -> dict[JobKey, JobPassReport]:
        """Take what a pass taught, without acting on it."""
        reports = {}
        for request, outcome in zip(requests, outcomes, strict=True):
            with ErrorBoundary() as boundary:
                reports[request.context.job_key] = self._autoscaler.observe(request.context, outcome)
            if boundary.error is not None:
                failures[request.context.job_key] = boundary.error
        return reports

    def _clean_up(
        self, job_list: JobList, commands: PassCommands, term: int | None, now_ms: int
    ) -> tuple[tuple[JobAutoScalerContext, ...], tuple[JobKey, ...]]:
        gone = self._roster.update(job_list)
        for context in gone:
            self._best_effort(f"clean-up of {context.job_key}", partial(self._drop_job, context.job_key))
        if term is None:
            self._vanished.reload_marks()
            return gone, ()
        gone_keys = [context.job_key for context in gone]
        try:
            with self._leadership.bound_to_term(term):
                present = job_list.present | commands.former_keys_in_use(job_list)
                deleted = self._vanished.update(present, gone_keys, is_complete=not job_list.problems)
                self._commands.remove_expired(now_ms)
                return gone, deleted
        except StoreError as error:
            # Nothing is lost: what is due is done in a later pass, and who watches the store says that it is away.
            log.debug("cleanup_deferred", error=str(error))
            return gone, ()

    def _drop_job(self, job_key: JobKey) -> None:
        self._autoscaler.drop(job_key)
        if self._deps.recorder is not None:
            self._deps.recorder.forget(job_key)

    def _requests_for(
        self,
        contexts: Sequence[JobAutoScalerContext],
        commands: PassCommands,
        failures: dict[JobKey, AutoscalerError],
        term: int | None,
        now_ms: int,
    ) -> list[PassRequest]:
        """Return what the engine is asked about the jobs, with their usual load and what is known of them elsewhere."""
        self._commands.log_shared_names(contexts)
        requests = []
        recorder = None if term is None else self._deps.recorder
        for context in contexts:
            job_key = context.job_key
            with ErrorBoundary() as boundary:
                if self._roster.is_under_way(job_key):
                    raise NotReadyError("still under way since an earlier pass")
                recorded = None if recorder is None else recorder.last_recorded(job_key)
                request = self._autoscaler.request(
                    context, now_ms, term=term, orders=commands.orders_for(context), recorded=recorded
                )
                requests.append(request)
            if boundary.error is not None:
                failures[job_key] = boundary.error
        if self._deps.forecasts is not None:
            requests = self._deps.forecasts.with_profiles(requests, now_ms)
        return self._deps.external_metrics.enrich(requests)


def _without_failed(
    failures: Mapping[JobKey, AutoscalerError], requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]
) -> tuple[list[PassRequest], tuple[PassOutcome, ...]]:
    """Leave out the jobs that have failed since they were asked for."""
    kept = [pair for pair in zip(requests, outcomes, strict=True) if pair[0].context.job_key not in failures]
    return [request for request, _ in kept], tuple(outcome for _, outcome in kept)
