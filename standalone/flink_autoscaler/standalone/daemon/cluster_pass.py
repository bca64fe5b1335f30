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
from flink_autoscaler.core.border import Border, attempted
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, StoreError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import JobKey, name_key
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import EvaluationEngine, JobList, JobListFetcher
from flink_autoscaler.core.ports.order_book import OrderBook
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.supervise.order_book import held, orders_for
from flink_autoscaler.standalone.daemon.completion import Completion
from flink_autoscaler.standalone.daemon.forecasts import JobForecasts
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.slot_allocator import SlotAllocator, SlotSource
from flink_autoscaler.standalone.daemon.vanished import Roster, VanishedJobs
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.standalone.lags.book import LagBook
from flink_autoscaler.standalone.records.writer import PassRecorder
from flink_autoscaler.stores.heap import HeapOrderBook, HeapTombstones

if TYPE_CHECKING:
    from flink_autoscaler.standalone.history.sink import HistorySink

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PassCommands:
    """The orders that hold in one pass.

    Attributes:
        book: By job key or name, as they were read last.
        standing: For every job, such as a dry run of the whole daemon.
        is_known: Whether they could be read; else nothing is changed in this pass.
    """

    book: Mapping[JobKey, Orders]
    standing: Orders
    now_ms: int
    is_known: bool = True

    def of(self, context: JobAutoScalerContext) -> Orders:
        """Return the orders for a job."""
        book, dry_run = self.book, self.standing.dry_run
        orders = orders_for(context.job_key, context.other_keys, book, self.now_ms) if book else NO_ORDERS
        if dry_run is not None:
            # What is to be done once waits until it can be.
            orders = replace(orders, dry_run=orders.dry_run or dry_run, rollback=None, reset=None)
        return orders if self.is_known else held(orders, self.now_ms)

    def followed(self, job_list: JobList) -> frozenset[JobKey]:
        """Return keys with orders that no job has now but one that is there has had: they hold for it."""
        absent = self.book.keys() - job_list.present
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

    def __init__(self, cluster: str, book: OrderBook, standing: Orders) -> None:
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
            log.debug("orders_unknown", error=str(error))
            return PassCommands(self._last, self._standing, now_ms, is_known=False)
        return PassCommands(self._last, self._standing, now_ms)

    def tidy(self, now_ms: int) -> None:
        """Remove what is over. May raise :class:`StoreError`."""
        self._book.tidy(self._cluster, now_ms)

    def note_shared_names(self, contexts: Iterable[JobAutoScalerContext]) -> None:
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
        vanished: Deletes the state of jobs that are gone; None deletes it at once.
        now_ms: The clock, epoch milliseconds.
        standing: Orders for every job, such as a dry run of the whole daemon.
        order_book: Keeps what people ordered for single jobs.
        slot_source: Adds TaskManagers when slots are short; None where nobody does.
        forecasts: Tells what the usual load of jobs is; None where nobody does.
        recorder: Keeps passes for those who ask later; None keeps none.
        history: Keeps what was measured and decided; None keeps nothing.
        lags: Knows the lag of jobs from elsewhere than Flink.
    """

    leadership: Leadership = field(default_factory=Leadership)
    vanished: VanishedJobs | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    standing: Orders = NO_ORDERS
    order_book: OrderBook = field(default_factory=HeapOrderBook)
    recorder: PassRecorder | None = None
    history: HistorySink | None = None
    slot_source: SlotSource | None = None
    forecasts: JobForecasts | None = None
    lags: LagBook = field(default_factory=lambda: LagBook({}))


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
        self._vanished = deps.vanished or VanishedJobs(cluster, autoscaler=autoscaler, tombstones=HeapTombstones())
        self._commands = ClusterCommands(cluster, deps.order_book, deps.standing)
        self._roster = Roster()
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
            found = attempted(self._run)  # a fetcher or an engine that breaks its contract must not end the passes
            report = PassReport(self.cluster, error=found) if isinstance(found, AutoscalerError) else found
        return replace(report, began=started, seconds=time.monotonic() - started)

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
        requests, outcomes = _without(failures, requests, outcomes)
        if term is not None and self._leadership.holds(term):
            # Per job: recorded and reported, then realized; those that give slots first.
            reports = self._completion.complete(requests, outcomes, failures, term, self._roster)
            self._best_effort("history", partial(self._keep, requests, reports, now_ms))
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
            promised=self._slots.reservations(),
            # Asked again: what was begun under a term that is over by now was refused.
            is_acting=term is not None and self._leadership.holds(term),
        )

    def _best_effort(self, part: str, work: Callable[[], None]) -> None:
        """Do something that no job waits for; that it fails is told once, and again when it fails otherwise."""
        with Border() as border:
            work()
        if self._log_once.is_news(part, border.error) and border.error is not None:
            log.warning("pass_part_failed", part=part, error=str(border.error))

    def _keep(self, requests: Sequence[PassRequest], reports: Mapping[JobKey, JobPassReport], now_ms: int) -> None:
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
            with Border() as border:
                reports[request.context.job_key] = self._autoscaler.observe(request.context, outcome)
            if border.error is not None:
                failures[request.context.job_key] = border.error
        return reports

    def _clean_up(
        self, job_list: JobList, commands: PassCommands, term: int | None, now_ms: int
    ) -> tuple[tuple[JobAutoScalerContext, ...], tuple[JobKey, ...]]:
        gone = self._roster.update(job_list)
        for context in gone:
            self._best_effort(f"clean-up of {context.job_key}", partial(self._drop, context.job_key))
        if term is None:
            self._vanished.hand_over()
            return gone, ()
        gone_keys = [context.job_key for context in gone]
        try:
            with self._leadership.acting(term):
                present = job_list.present | commands.followed(job_list)
                deleted = self._vanished.update(present, gone_keys, is_complete=not job_list.problems)
                self._commands.tidy(now_ms)
                return gone, deleted
        except StoreError as error:
            # Nothing is lost: what is due is done in a later pass, and who watches the store says that it is away.
            log.debug("clean_up_put_off", error=str(error))
            return gone, ()

    def _drop(self, job_key: JobKey) -> None:
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
        self._commands.note_shared_names(contexts)
        requests = []
        recorder = None if term is None else self._deps.recorder
        for context in contexts:
            job_key = context.job_key
            with Border() as border:
                if self._roster.is_under_way(job_key):
                    raise NotReadyError("still under way since an earlier pass")
                recorded = None if recorder is None else recorder.recorded(job_key)
                request = self._autoscaler.request(
                    context, now_ms, term=term, orders=commands.of(context), recorded=recorded
                )
                requests.append(request)
            if border.error is not None:
                failures[job_key] = border.error
        if self._deps.forecasts is not None:
            requests = self._deps.forecasts.with_profiles(requests, now_ms)
        return self._deps.lags.added(requests)


def _without(
    failures: Mapping[JobKey, AutoscalerError], requests: Sequence[PassRequest], outcomes: Sequence[PassOutcome]
) -> tuple[list[PassRequest], tuple[PassOutcome, ...]]:
    """Leave out the jobs that have failed since they were asked for."""
    kept = [pair for pair in zip(requests, outcomes, strict=True) if pair[0].context.job_key not in failures]
    return [request for request, _ in kept], tuple(outcome for _, outcome in kept)
