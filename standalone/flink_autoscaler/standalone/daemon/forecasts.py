"""The load profiles of the jobs of a cluster: read when there are new ones, and handed to the passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.core.forecast.pass_forecast import Profiles, profiles_around
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.forecast_store import ForecastStore
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.stores.sql.database.failures import RowError

log = structlog.get_logger(__name__)

REVISION_CHECK_INTERVAL: Final = 300.0
"""Seconds between looks for new profiles: they are made once a night."""


class JobForecasts:
    """Gives the profiles of those jobs of a cluster that have forecasts. Belongs to the thread of its passes.

    While the store cannot be read, what was read before goes on to be used; how old it is, the passes check.

    Args:
        store: Where profiles are kept.
        is_ready: Tells whether the store answers; else it is not asked.
        interval: Seconds between looks for new profiles; the first look at a job comes with its first pass.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        store: ForecastStore,
        *,
        is_ready: Callable[[], bool] = lambda: True,
        interval: float = REVISION_CHECK_INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._is_ready = is_ready
        self._interval = interval
        self._clock = clock
        # The results of a job, and the revision that the store named when they were read.
        self._loaded: dict[JobKey, tuple[str, Profiles]] = {}
        self._known: frozenset[JobKey] = frozenset()
        self._next_look = clock()
        self._is_failing = False
        self._log_once = LogOnce()

    def with_profiles(self, requests: list[PassRequest], now_ms: int) -> list[PassRequest]:
        """Return the requests with what is known about the usual load of their jobs. Never raises."""
        profiles: Mapping[JobKey, Profiles] = {}
        with ErrorBoundary() as boundary:  # a store of somebody else may raise anything
            profiles = self.profiles([request.context for request in requests], now_ms / 1000)
        if self._log_once.is_news("profiles", boundary.error) and boundary.error is not None:
            log.warning("pass_part_failed", part="profiles", error=str(boundary.error))
        known = ((request, profiles.get(request.context.job_key)) for request in requests)
        return [request if found is None else replace(request, profiles=found) for request, found in known]

    def profiles(self, contexts: Sequence[JobAutoScalerContext], now: float) -> dict[JobKey, Profiles]:
        """Return what passes need of the profiles of jobs, by job; jobs without forecasts or profiles are missing.

        That the store cannot be read is logged once.
        """
        wanted = frozenset(context.job_key for context in contexts if _has_forecast(context))
        is_due = self._clock() >= self._next_look or not wanted <= self._known
        if wanted and is_due and self._is_ready():
            self._check_revisions(wanted)
        found: dict[JobKey, Profiles] = {}
        for job_key in self._loaded.keys() & wanted:
            with ErrorBoundary() as boundary:  # a store of somebody else may have put anything into a profile
                found[job_key] = profiles_around(self._loaded[job_key][1], now)
            self._log_step(job_key, "is used", boundary.error)
        return found

    def _check_revisions(self, wanted: frozenset[JobKey]) -> None:
        self._known, self._next_look = wanted, self._clock() + self._interval
        try:
            self._reload(wanted, self._store.revisions())
        except StoreError as error:
            if not self._is_failing:
                log.warning(
                    "profiles_unreadable", error=mask_secrets(str(error)), effect="jobs go on with what was read"
                )
            self._is_failing = True
        else:
            self._is_failing = False

    def _reload(self, wanted: frozenset[JobKey], revisions: Mapping[JobKey, str]) -> None:
        """Read what is new, and drop what is gone or not wanted any more."""
        available = wanted & revisions.keys()
        self._loaded = {job_key: loaded for job_key, loaded in self._loaded.items() if job_key in available}
        for job_key in sorted(available):
            if job_key not in self._loaded or self._loaded[job_key][0] != revisions[job_key]:
                with ErrorBoundary() as boundary:
                    results = self._store.load(job_key)
                    _warn_unusable(results)
                    self._loaded[job_key] = revisions[job_key], results
                if isinstance(boundary.error, StoreError) and not isinstance(boundary.error, RowError):
                    raise boundary.error  # the store is away, for all jobs
                self._log_step(job_key, "is read", boundary.error)

    def _log_step(self, job_key: JobKey, step: str, error: AutoscalerError | None) -> None:
        if self._log_once.is_news(f"{job_key} {step}", error) and error is not None:
            log.warning("job_profiles_unusable", job_key=job_key, error=mask_secrets(str(error)))


def _warn_unusable(results: Profiles) -> None:
    """Warn about what the store has and nobody can use; what is missing is told in every decision."""
    for each in results.values():
        if not each.is_readable:
            log.warning("profile_unusable", job_key=each.job_key, source_id=each.source_id, problem=each.problem)


def _has_forecast(context: JobAutoScalerContext) -> bool:
    try:
        return context.options.enabled and context.options.forecast_enabled
    except ConfigError:
        return False  # the pass comes upon it, too, and tells
