"""Answers to the requests of the API, from what a site knows. May take a while: not for the thread of the server."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase, translate
from importlib.metadata import version
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pydantic import Field

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.supervision import describe_change
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.plugins import NO_PLUGINS
from flink_autoscaler.standalone.daemon.event_handlers import RecentEvent
from flink_autoscaler.standalone.records.codec import PassRecord, decode, to_document
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.base import View
from flink_autoscaler.standalone.views.clusters import ClustersView, FleetSummaryView, cluster_view, fleet_summary
from flink_autoscaler.standalone.views.commands import CommandsView, command_views
from flink_autoscaler.standalone.views.events import EventsView, EventView, event_view
from flink_autoscaler.standalone.views.explanation import explain_pass, pass_view
from flink_autoscaler.standalone.views.fleet import JobNow
from flink_autoscaler.standalone.views.jobs import (
    JobDetailView,
    JobHealth,
    JobsView,
    JobView,
    health_of,
    job_detail_view,
    job_view,
)
from flink_autoscaler.standalone.views.outcomes import names_of
from flink_autoscaler.standalone.views.passes import (
    ExplainedPassView,
    JobRescaleView,
    PassesView,
    PassSummaryView,
    RecordView,
    RescalesView,
)
from flink_autoscaler.standalone.views.series import RescaleView, SeriesView
from flink_autoscaler.standalone.web.app_state import AppState
from flink_autoscaler.standalone.web.errors import NotFoundError
from flink_autoscaler.standalone.web.requests import EventsQuery, JobsQuery, PassesQuery, SeriesQuery, WhatIfRequest
from flink_autoscaler.standalone.web.series import SeriesReader
from flink_autoscaler.standalone.web.whatif import WhatIfView, what_if

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.live import SparkStatus


_RANKS = {health: rank for rank, health in enumerate(JobHealth)}


class ValueView(View):
    """One line of the configuration."""

    key: str
    value: str | None
    origin: str


class ConfigurationView(View):
    """What the daemon was configured with, secrets masked."""

    values: list[ValueView]


class AboutView(View):
    """The daemon."""

    version: str
    python: str
    now_ms: int
    started_ms: int
    is_leader: bool
    is_dry_run: bool
    store: str | None = Field(description="Why the database does not work; null where it does.")
    spark: str | None
    clusters: int
    jobs: int
    role: str = Field(description="What you may do: viewer or operator.")


class QueryService:
    """Answers from what a site knows.

    Args:
        site: The daemon.
    """

    def __init__(self, site: AppState) -> None:
        self.site = site
        self._views: WeakKeyDictionary[JobNow, JobView] = WeakKeyDictionary()
        self._health: WeakKeyDictionary[JobNow, JobHealth] = WeakKeyDictionary()
        self._series = SeriesReader(site)

    def jobs(self, asked: JobsQuery) -> JobsView:
        """Return a page of the jobs that fit, in an order."""
        version, jobs = self.site.fleet.version, self.site.fleet.jobs()
        fits_team = team_matcher(self.teams.get(asked.team, "")) if asked.team else lambda _: True
        fitting = [
            job
            for job in jobs
            if _matches(job, asked) and fits_team(job.context) and asked.health in ("", self._health_of(job))
        ]
        fitting.sort(key=lambda job: _sort_key(job, asked.sort, self._health_of(job)))
        shown = [self._job_view(job) for job in fitting[asked.offset : asked.offset + asked.limit]]
        return JobsView(version=version, total=len(fitting), jobs=shown)

    @property
    def teams(self) -> Mapping[str, str]:
        """Patterns for the jobs of each team, as they are configured now."""
        return self.site.settings().http.teams

    def job(self, job_key: JobKey) -> JobDetailView:
        """Describe a job. Raises :class:`NotFoundError`."""
        return job_detail_view(self._job(job_key))

    def clusters(self) -> ClustersView:
        """Return all clusters."""
        version, jobs, configured = self.site.fleet.version, self.site.fleet.jobs(), self.site.clusters()
        found = [cluster_view(each, jobs, configured.get(each.name)) for each in self.site.fleet.clusters()]
        return ClustersView(version=version, clusters=found)

    def summary(self, clusters: ClustersView) -> FleetSummaryView:
        """Sum the fleet up."""
        jobs = self.site.fleet.jobs()
        health = {job: self._health_of(job) for job in jobs}
        return fleet_summary(jobs, health, clusters.clusters, self.site.now_ms())

    def passes(self, asked: PassesQuery) -> PassesView:
        """Return the recorded passes over a job, the newest first. May raise :class:`StoreError`."""
        records = self.site.records
        found = [] if records is None else records.list_newest(asked.job, asked.before_ms, asked.limit)
        return PassesView(
            job_key=asked.job,
            passes=[PassSummaryView(at_ms=at_ms, phase=phase, decision=kind) for at_ms, phase, kind in found],
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
            raise NotFoundError(f"no pass over {mask_secrets(job_key)} is recorded")
        found = newest if at_ms is None else records.latest(job_key, at_ms)
        if found is None:
            raise NotFoundError(f"no pass over {mask_secrets(job_key)} at or before {at_ms} is recorded")
        record = decode(found.text)
        return record, record if found == newest else decode(newest.text)

    def export(self, job_key: JobKey, at_ms: int | None = None) -> RecordView:
        """Return a pass as ``explain --export`` writes it; errors are those of :meth:`explanation`."""
        record, _ = self._record_or_last(job_key, at_ms)
        return RecordView(to_document(record))

    def explanation(self, job_key: JobKey, at_ms: int | None = None) -> ExplainedPassView:
        """Explain a pass: a recorded one, or the last one where none is."""
        return _explained(*self._record_or_last(job_key, at_ms))

    def decision(self, job_key: JobKey) -> ExplainedPassView | None:
        """Explain the pass that a job is under: the one that began a rescale which is not done yet, else the last one.

        Returns:
            None where no pass has looked at the job.

        Raises:
            NotFoundError: There is no such job.
        """
        job = self._job(job_key)
        if job.request is None or job.report is None:
            return None
        last = record = PassRecord(job.request, job.report.outcome)
        under_way = last.outcome.state.supervision.under_way
        if under_way is not None:
            with suppress(NotFoundError, StoreError):
                recorded, _ = self.record(job_key, under_way.decided_ms)
                record = recorded if recorded.request.now_ms == under_way.decided_ms else last
        return _explained(record, last)

    def series(self, asked: SeriesQuery) -> SeriesView:
        """Return how a job went; errors are those of :meth:`.SeriesReader.series`."""
        return self._series.series(self._job(asked.job), asked)

    def rescales(self, job_key: JobKey) -> RescalesView:
        """Return the last rescales of a job. Raises :class:`NotFoundError`."""
        report = self._job(job_key).report
        found = () if report is None else report.outcome.state.supervision.rescales
        names = names_of(None if report is None else report.outcome)
        rescales = [
            JobRescaleView(
                **RescaleView.model_validate(each).model_dump(),
                settled_ms=each.settled_ms,
                reason=each.reason,
                changes=describe_change(names, each.before, each.target),
            )
            for each in reversed(found)
        ]
        return RescalesView(job_key=job_key, rescales=rescales)

    def events(self, asked: EventsQuery) -> EventsView:
        """Return events, the newest first: from the database where there is one that answers."""
        stored = self._stored_events(asked)
        if stored is not None:
            return EventsView(events=stored, source="database")
        recent = [each for each in self.site.events.list_newest() if _event_matches(each, asked)]
        return EventsView.model_validate({"events": recent[: asked.limit], "source": "memory"})

    def orders(self, job_key: JobKey = "") -> CommandsView:
        """Return what is ordered now. May raise :class:`StoreError`."""
        now_ms = self.site.now_ms()
        jobs = [job for job in self.site.fleet.jobs() if job_key in ("", job.context.job_key)]
        books = {cluster: self.site.order_book.orders(cluster) for cluster in {job.context.cluster for job in jobs}}
        standing = self.site.default_orders()
        found = (command_views(job, books[job.context.cluster], standing, now_ms) for job in jobs)
        return CommandsView(commands=[each for views in found for each in views])

    def configuration(self) -> ConfigurationView:
        """Return what the daemon was configured with."""
        configuration = self.site.configuration()
        values = [] if configuration is None else configuration.effective_values()
        return ConfigurationView.model_validate({"values": values})

    def about(self, role: str) -> AboutView:
        """Return what the daemon is, and what the asker may do."""
        store, spark = self.site.store_status(), self.site.spark_status()
        return AboutView(
            version=version("flink-autoscaler"),
            python=platform.python_version(),
            now_ms=self.site.now_ms(),
            started_ms=self.site.started_ms,
            is_leader=self.site.is_leader(),
            is_dry_run=self.site.settings().dry_run,
            store=None if store.up else store.error or "it does not answer",
            spark=None if spark is None else _spark_text(spark),
            clusters=len(self.site.fleet.clusters()),
            jobs=self.site.fleet.job_count(),
            role=role,
        )

    def what_if(self, asked: WhatIfRequest) -> WhatIfView:
        """Tell what a recorded pass would have decided with other options.

        Raises:
            NotFoundError: No pass is recorded.
            ConfigError: There is no such option.
            StoreError: The record does not hold what the pass depended on.
        """
        record, _ = self.record(asked.job_key, asked.at_ms)
        plugins = NO_PLUGINS if self.site.plugins is None else self.site.plugins()
        return what_if(record, asked.options, plugins)

    def _job_view(self, job: JobNow) -> JobView:
        """Describe a job that somebody looks at once per pass, however many look."""
        view = self._views.get(job)
        if view is None:
            view = self._views[job] = job_view(job)
        return view

    def _health_of(self, job: JobNow) -> JobHealth:
        """Return how a job is, worked out once per pass: all jobs are sorted by it whenever somebody looks."""
        health = self._health.get(job)
        if health is None:
            health = self._health[job] = health_of(job)
        return health

    def _job(self, job_key: JobKey) -> JobNow:
        found = self.site.fleet.job(job_key)
        if found is None:
            raise NotFoundError(f"no cluster has a job {mask_secrets(job_key[:200])} now")
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

    def _stored_events(self, asked: EventsQuery) -> list[EventView] | None:
        if self.site.database is None or not self.site.store_status().up:
            return None
        from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events  # noqa: PLC0415

        since = datetime.fromtimestamp(asked.since_ms / 1000) if asked.since_ms else None
        wanted = EventFilter(asked.job or None, since, asked.reason or None)
        try:
            rows = list(newest_events(self.site.database, wanted, asked.limit))
        except StoreError:
            return None
        return [event_view(row) for row in reversed(rows)]


def _explained(record: PassRecord, newest: PassRecord) -> ExplainedPassView:
    at_ms = record.request.now_ms
    return ExplainedPassView(
        job_key=record.request.context.job_key,
        at_ms=at_ms,
        is_latest=at_ms == newest.request.now_ms,
        explanation=pass_view(explain_pass(record, newest)),
    )


def _matches(job: JobNow, asked: JobsQuery) -> bool:
    context, wanted = job.context, asked.search.casefold()
    if asked.cluster not in ("", context.cluster):
        return False
    labels = " ".join(f"{name}={text}" for name, text in context.labels.items())
    return not wanted or wanted in f"{context.job_key} {context.job_name} {labels}".casefold()


def team_matcher(patterns: str) -> Callable[[JobAutoScalerContext], bool]:
    """Return what tells whether a job is one of a team.

    Args:
        patterns: For keys, names, or labels such as ``yarn_queue=nightly``, with * and ?; divided by semicolons.
    """
    known = [each.strip() for each in patterns.split(";") if each.strip()]
    # In brackets, what else would be a class of characters stands for itself.
    matches = re.compile("|".join(translate(each.replace("[", "[[]")) for each in known) or r"(?!)").match

    def is_of_team(job: JobAutoScalerContext) -> bool:
        labels = (f"{name}={text}" for name, text in job.labels.items())
        return any(matches(each) is not None for each in (job.job_key, job.job_name, *labels))

    return is_of_team


def _sort_key(job: JobNow, sort: str, health: JobHealth) -> tuple[object, ...]:
    """Return what a job is sorted by: what is greatest comes first, what is not known comes last."""
    figures, job_key = job.figures, job.context.job_key
    value = {"lag": figures.lag_seconds, "load": figures.load, "slots": figures.slots}.get(sort)
    if sort == "concern":
        return (_RANKS[health], job_key)
    return (sort != "name" and value is None, -(value or 0), job_key)


def _event_matches(event: RecentEvent, asked: EventsQuery) -> bool:
    name = event.job_key.partition("/")[2]
    fits = not asked.job or fnmatchcase(event.job_key, asked.job) or fnmatchcase(name, asked.job)
    return fits and asked.reason in ("", event.reason) and event.at_ms >= asked.since_ms


def _spark_text(status: SparkStatus) -> str:
    return {None: "it has not been needed yet", True: "it works"}.get(status.up) or mask_secrets(
        status.error or "it is away"
    )
