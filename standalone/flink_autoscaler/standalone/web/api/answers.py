"""Answers to the requests of the API, from what a site knows. May take a while: not for the thread of the server."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import MOST_PARALLELISM, Orders, PauseScope
from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.core.ports.plugins import NO_PLUGINS
from flink_autoscaler.core.supervise.in_force import OrdersInForce
from flink_autoscaler.core.supervise.order_book import NEEDS_REASON, OperatorCommand, give_order, orders_for
from flink_autoscaler.standalone.daemon.event_handlers import RecentEvent
from flink_autoscaler.standalone.records.codec import PassRecord, decode, to_document
from flink_autoscaler.standalone.records.explain import explain, explanation_document, seen_job
from flink_autoscaler.standalone.settings.loading import effective_values
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.web.api import documents, models
from flink_autoscaler.standalone.web.api.clusters import cluster_document
from flink_autoscaler.standalone.web.api.series import Asked, SeriesReader
from flink_autoscaler.standalone.web.api.whatif import what_if
from flink_autoscaler.standalone.web.fleet import JobNow
from flink_autoscaler.standalone.web.site import NotFoundError, Site

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.live import SparkStatus

log = structlog.get_logger(__name__)

MOST: Final = 1000
"""Entries of a page of an answer."""


class JobDocuments:
    """Describes the jobs that somebody looks at, each once per pass, however many look."""

    def __init__(self) -> None:
        self._known: dict[JobKey, tuple[JobNow, models.JobDoc]] = {}

    def of(self, jobs: Sequence[JobNow]) -> list[models.JobDoc]:
        """Describe some jobs."""
        return [self._document(job) for job in jobs]

    def forget_but(self, jobs: Sequence[JobNow]) -> None:
        """Forget descriptions of all but these: what else is known is of an earlier pass."""
        known = self._known
        found = ((job, known.get(job.context.job_key)) for job in jobs)
        self._known = {job.context.job_key: before for job, before in found if before and before[0] is job}

    def _document(self, job: JobNow) -> models.JobDoc:
        before = self._known.get(job.context.job_key)
        if before is not None and before[0] is job:
            return before[1]
        document = documents.job_document(job)
        self._known[job.context.job_key] = job, document
        return document


class Answers:
    """Answers from what a site knows.

    Args:
        site: The daemon.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self._documents = JobDocuments()
        self._series = SeriesReader(site)

    def jobs(
        self, *, cluster: str = "", search: str = "", sort: str = "concern", limit: int = MOST, offset: int = 0
    ) -> models.JobsDoc:
        """Return a page of the jobs that fit, in an order."""
        version, jobs = self.site.fleet.version, self.site.fleet.jobs()
        self._documents.forget_but(jobs)
        fitting = sorted((job for job in jobs if _fits(job, cluster, search)), key=lambda job: _order(job, sort))
        shown = self._documents.of(fitting[offset : offset + limit])
        return models.JobsDoc(version=version, total=len(fitting), jobs=shown)

    def job(self, job_key: JobKey) -> models.JobDetailDoc:
        """Describe a job. Raises :class:`NotFoundError`."""
        return documents.job_detail(self._job(job_key))

    def clusters(self) -> models.ClustersDoc:
        """Return all clusters."""
        version, jobs, configured = self.site.fleet.version, self.site.fleet.jobs(), self.site.clusters()
        found = [cluster_document(each, jobs, configured.get(each.name)) for each in self.site.fleet.clusters()]
        return models.ClustersDoc(version=version, clusters=found)

    def passes(self, job_key: JobKey, *, before_ms: int | None = None, limit: int = 100) -> models.PassesDoc:
        """Return the recorded passes over a job, the newest first. May raise :class:`StoreError`."""
        records = self.site.records
        found = [] if records is None else records.listed(job_key, before_ms, limit)
        return models.PassesDoc(
            job_key=job_key,
            passes=[models.PassSummaryDoc(at_ms=at_ms, phase=phase, decision=kind) for at_ms, phase, kind in found],
        )

    def record(self, job_key: JobKey, at_ms: int | None = None) -> tuple[PassRecord, PassRecord]:
        """Return the latest recorded pass at or before an instant, and the newest one.

        Raises:
            NotFoundError: None is recorded.
            StoreError: The store does not answer.
        """
        records = self.site.records
        newest = None if records is None else records.latest(job_key)
        if records is None or newest is None:
            raise NotFoundError(f"no pass over {masked(job_key)} is recorded")
        found = newest if at_ms is None else records.latest(job_key, at_ms)
        if found is None:
            raise NotFoundError(f"no pass over {masked(job_key)} at or before {at_ms} is recorded")
        record = decode(found.text)
        return record, record if found == newest else decode(newest.text)

    def exported(self, job_key: JobKey, at_ms: int | None = None) -> models.RecordDoc:
        """Return a pass as ``explain --export`` writes it; errors are those of :meth:`explanation`."""
        record, _ = self._record_or_last(job_key, at_ms)
        return models.RecordDoc(to_document(record))

    def explanation(self, job_key: JobKey, at_ms: int | None = None) -> models.PassDoc:
        """Explain a pass: a recorded one, or the last one where none is."""
        record, newest = self._record_or_last(job_key, at_ms)
        at_ms = record.request.now_ms
        document = explanation_document(explain(record, newest))
        is_latest = at_ms == newest.request.now_ms
        return models.PassDoc(job_key=job_key, at_ms=at_ms, is_latest=is_latest, explanation=document)

    def series(self, job_key: JobKey, asked: Asked) -> models.SeriesDoc:
        """Return how a job went; errors are those of :meth:`.SeriesReader.series`."""
        return self._series.series(self._job(job_key), asked)

    def rescales(self, job_key: JobKey) -> models.RescalesDoc:
        """Return the last rescales of a job. Raises :class:`NotFoundError`."""
        report = self._job(job_key).report
        found = () if report is None else report.outcome.state.supervision.rescales
        names = {} if report is None else report.outcome.vertex_names
        rescales = [documents.rescale_document(each, names) for each in reversed(found)]
        return models.RescalesDoc(job_key=job_key, rescales=rescales)

    def events(self, *, job: str = "", reason: str = "", since_ms: int = 0, limit: int = 100) -> models.EventsDoc:
        """Return events, the newest first: from the database where there is one that answers."""
        stored = self._stored_events(job, reason, since_ms, limit)
        if stored is not None:
            return models.EventsDoc(events=stored, source="database")
        recent = [each for each in self.site.events.newest() if _is_wanted(each, job, reason, since_ms)]
        return models.EventsDoc(events=[_event(each) for each in recent[:limit]], source="memory")

    def orders(self, job_key: JobKey = "") -> models.OrdersDoc:
        """Return what is ordered now. May raise :class:`StoreError`."""
        now_ms = self.site.now_ms()
        jobs = [job for job in self.site.fleet.jobs() if job_key in ("", job.context.job_key)]
        books = {cluster: self.site.order_book.orders(cluster) for cluster in {job.context.cluster for job in jobs}}
        standing = self.site.standing()
        return models.OrdersDoc(
            orders=[order for job in jobs for order in _orders(job, books[job.context.cluster], standing, now_ms)]
        )

    def order(self, asked: models.OrderRequest, who: str) -> models.OrderedDoc:
        """Give an order for a job that a cluster has now, signed with the instant of the book.

        Args:
            asked: What is wanted.
            who: Orders it.

        Raises:
            ConfigError: There is no such job, or something is missing.
            StoreError: The book does not answer.
        """
        site = self.site
        job = site.fleet.job(asked.job_key)
        if job is None:
            raise ConfigError(f"no cluster has a job {masked(asked.job_key[:200])} now")
        if asked.order in NEEDS_REASON and not asked.reason.strip():
            raise ConfigError(f"reason: say why, {asked.order} keeps it")
        supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
        seen = None if site.records is None else seen_job(site.records, asked.job_key)
        signature = (who, asked.reason.strip())
        ordered = give_order(site.order_book, asked.job_key, _command(asked), signature, supervision, seen)
        if ordered.event is not None:
            with Border() as border:  # it is ordered, whoever hears of it
                site.order_events.handle_event(job.context, ordered.event)
            if border.error is not None:
                log.warning("event_not_told", reason=ordered.event.reason, error=masked(str(border.error)))
            site.fleet.take_orders(asked.job_key, with_standing(ordered.orders, site.standing()))
        return models.OrderedDoc(job_key=asked.job_key, text=ordered.text, is_refused=ordered.is_refused)

    def configuration(self) -> models.ConfigurationDoc:
        """Return what the daemon was configured with."""
        configuration = self.site.configuration()
        values = [] if configuration is None else effective_values(configuration)
        return models.ConfigurationDoc(
            values=[models.ValueDoc(key=each.key, value=each.value, origin=each.origin) for each in values]
        )

    def about(self, role: str) -> models.AboutDoc:
        """Return what the daemon is, and what the asker may do."""
        store, spark = self.site.store_status(), self.site.spark_status()
        return models.AboutDoc(
            version=version("flink-autoscaler"),
            python=platform.python_version(),
            now_ms=self.site.now_ms(),
            started_ms=self.site.started_ms,
            is_leader=self.site.may_act(),
            is_dry_run=self.site.settings().dry_run,
            store=None if store.up else store.error or "it does not answer",
            spark=None if spark is None else _spark(spark),
            clusters=len(self.site.fleet.clusters()),
            jobs=self.site.fleet.job_count(),
            role=role,
        )

    def what_if(self, asked: models.WhatIfRequest) -> models.WhatIfDoc:
        """Tell what a recorded pass would have decided with other options.

        Raises:
            NotFoundError: No pass is recorded.
            ConfigError: There is no such option.
            StoreError: The record does not hold what the pass depended on.
        """
        record, _ = self.record(asked.job_key, asked.at_ms)
        plugins = NO_PLUGINS if self.site.plugins is None else self.site.plugins()
        return what_if(record, asked.options, plugins)

    def _job(self, job_key: JobKey) -> JobNow:
        found = self.site.fleet.job(job_key)
        if found is None:
            raise NotFoundError(f"no cluster has a job {masked(job_key[:200])} now")
        return found

    def _record_or_last(self, job_key: JobKey, at_ms: int | None) -> tuple[PassRecord, PassRecord]:
        try:
            return self.record(job_key, at_ms)
        except (NotFoundError, StoreError):
            job = self.site.fleet.job(job_key)
            if at_ms is not None or job is None or job.request is None or job.report is None:
                raise
            last = PassRecord(job.request, job.report.outcome)
            return last, last

    def _stored_events(self, job: str, reason: str, since_ms: int, limit: int) -> list[models.EventDoc] | None:
        if self.site.database is None or not self.site.store_status().up:
            return None
        from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events  # noqa: PLC0415

        since = datetime.fromtimestamp(since_ms / 1000) if since_ms else None
        try:
            rows = list(newest_events(self.site.database, EventFilter(job or None, since, reason or None), limit))
        except StoreError:
            return None
        return [
            models.EventDoc(
                at_ms=round(row.updated_at.timestamp() * 1000),
                job_key=row.job_key,
                type=row.event_type,
                reason=row.reason,
                message=masked(row.message),
                count=row.count,
            )
            for row in reversed(rows)
        ]


def _fits(job: JobNow, cluster: str, search: str) -> bool:
    context, wanted = job.context, search.casefold()
    return cluster in ("", context.cluster) and (
        not wanted or wanted in f"{context.job_key} {context.job_name}".casefold()
    )


def _order(job: JobNow, sort: str) -> tuple[object, ...]:
    """Return what a job is sorted by: what is greatest comes first, what is not known comes last."""
    figures, job_key = job.figures, job.context.job_key
    value = {"lag": figures.lag_seconds, "load": figures.load, "slots": figures.slots}.get(sort)
    if sort == "concern":
        return (not documents.concerns_of(job), job_key)
    return (sort != "name" and value is None, -(value or 0), job_key)


def _orders(job: JobNow, book: Mapping[JobKey, Orders], standing: Orders, now_ms: int) -> Iterator[models.OrderDoc]:
    key = job.context.job_key
    orders = with_standing(orders_for(key, job.context.other_keys, book, now_ms), standing)
    supervision = NO_SUPERVISION if job.report is None else job.report.outcome.state.supervision
    for what, signed, until in OrdersInForce(key, orders, supervision, now_ms).lines():
        yield models.OrderDoc(
            job_key=key,
            order=what,
            by=masked(signed.who),
            since_ms=signed.at_ms,
            until=until,
            reason=masked(signed.reason),
        )


def _is_wanted(event: RecentEvent, job: str, reason: str, since_ms: int) -> bool:
    name = event.job_key.partition("/")[2]
    fits = not job or fnmatchcase(event.job_key, job) or fnmatchcase(name, job)
    return fits and reason in ("", event.reason) and event.at_ms >= since_ms


def _event(event: RecentEvent) -> models.EventDoc:
    return models.EventDoc(**asdict(event))


def _spark(status: SparkStatus) -> str:
    return {None: "it has not been needed yet", True: "it works"}.get(status.up) or masked(status.error or "it is away")


def with_standing(orders: Orders, standing: Orders) -> Orders:
    """Return the orders for a job with those that the settings give for every job."""
    return replace(orders, dry_run=orders.dry_run or standing.dry_run)


def _command(asked: models.OrderRequest) -> OperatorCommand:
    if asked.order == "pin" and not asked.vertices:
        raise ConfigError("vertices: name at least one, with its parallelism")
    if asked.order == "pin" and any(not 1 <= number <= MOST_PARALLELISM for number in asked.vertices.values()):
        raise ConfigError(f"vertices: a parallelism is from 1 to {MOST_PARALLELISM}")
    lasts_ms = None if asked.seconds is None else round(1000 * asked.seconds)
    return OperatorCommand(asked.order, PauseScope(asked.direction), lasts_ms, asked.vertices, asked.force)
