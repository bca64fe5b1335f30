"""The autoscaler for embedding: build a context, call :meth:`JobAutoScaler.scale`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from flink_autoscaler.core.cycle import advance, error_event, without_reading
from flink_autoscaler.core.decision import PassOutcome, PassRequest
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.events import Event
from flink_autoscaler.core.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.ports import (
    AutoScalerEventHandler,
    AutoScalerStateStore,
    MetricCollector,
    Realization,
    ScalingRealizer,
)
from flink_autoscaler.core.reading import EMPTY_MEMORY, CollectorMemory


@dataclass(frozen=True, slots=True)
class JobPassReport:
    """One pass over one job, after its effects.

    Attributes:
        outcome: What was found out and decided.
        realization: What the realizer did; None when it was not called or failed.
        errors: Everything that went wrong, in order; empty for a good pass.
    """

    job_key: JobKey
    outcome: PassOutcome
    realization: Realization | None = None
    errors: tuple[AutoscalerError, ...] = ()


@dataclass
class _Effects:
    """What happens while one outcome is carried out."""

    errors: list[AutoscalerError] = field(default_factory=list)
    realization: Realization | None = None


class JobAutoScaler:
    """Looks after jobs (``JobAutoScaler`` of FLIP-334).

    Calls for different jobs may come from different threads; calls for one job must not overlap.

    Args:
        store: Where the state of jobs is kept.
        realizer: Applies decisions.
        event_handler: Takes events and reports.
        collector: Reads metrics; only :meth:`scale` needs it.
    """

    def __init__(
        self,
        *,
        store: AutoScalerStateStore,
        realizer: ScalingRealizer,
        event_handler: AutoScalerEventHandler,
        collector: MetricCollector | None = None,
    ) -> None:
        self._store = store
        self._realizer = realizer
        self._events = event_handler
        self._collector = collector
        self._memories: dict[JobKey, CollectorMemory] = {}
        self._lock = threading.Lock()

    def scale(self, context: JobAutoScalerContext, now_ms: int) -> JobPassReport:
        """Do one whole pass over one job. Never raises for anything about the job.

        Args:
            context: The job.
            now_ms: The instant of the pass, epoch milliseconds.

        Raises:
            StoreError: The state could not be loaded; nothing was done.
            ValueError: There is no collector.
        """
        if self._collector is None:
            raise ValueError("JobAutoScaler.scale needs a collector")
        request = self.request(context, now_ms)
        outcome = without_reading(request)
        if outcome is None:
            cluster = self._collector.read_cluster(context)
            outcome = advance(request, self._collector.read_job(request), cluster)
        return self.complete(context, outcome)

    def request(self, context: JobAutoScalerContext, now_ms: int) -> PassRequest:
        """Return what an engine needs to look at a job.

        Raises:
            StoreError: The state could not be loaded.
        """
        with self._lock:
            memory = self._memories.get(context.job_key, EMPTY_MEMORY)
        return PassRequest(context, self._store.load(context.job_key), now_ms, memory)

    def complete(self, context: JobAutoScalerContext, outcome: PassOutcome) -> JobPassReport:
        """Record, report and realize an outcome, in this order. Never raises.

        Without a recorded state nothing is realized: a change that would be forgotten must not happen.
        """
        effects = _Effects([outcome.error] if outcome.error is not None else [])
        with self._lock:
            self._memories[context.job_key] = outcome.memory
        is_recorded = _attempt(effects, lambda: self._store.save(context.job_key, outcome.state))
        self._report(context, outcome, effects)
        if is_recorded:
            _attempt(effects, lambda: self._realize(context, outcome, effects))
        self._report_errors(context, outcome, effects)
        return JobPassReport(context.job_key, outcome, effects.realization, tuple(effects.errors))

    def _report(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        report = outcome.report
        if report is not None:
            _attempt(effects, lambda: self._events.handle_scaling_report(context, report))
        self._tell(context, outcome.events, effects)

    def _tell(self, context: JobAutoScalerContext, events: tuple[Event, ...], effects: _Effects) -> None:
        for event in events:
            if not _attempt(effects, partial(self._events.handle_event, context, event)):
                return

    def _realize(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        if outcome.wanted:
            effects.realization = self._realizer.realize_overrides(context, outcome.wanted)
            self._tell(context, effects.realization.events, effects)
        if outcome.wanted_config:
            realization = self._realizer.realize_config(context, outcome.state.config_changes)
            self._tell(context, realization.events, effects)

    def _report_errors(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        """Tell about the errors of recording, reporting and realizing; the outcome's own has its event already."""
        own = 0 if outcome.error is None else 1
        events = tuple(error_event(context, error) for error in effects.errors[own:])
        self._tell(context, events, effects)

    def cleanup(self, context: JobAutoScalerContext) -> tuple[AutoscalerError, ...]:
        """Forget a job that is gone. Never raises; returns what went wrong."""
        effects = _Effects()
        with self._lock:
            self._memories.pop(context.job_key, None)
        _attempt(effects, lambda: self._store.delete(context.job_key))
        return tuple(effects.errors)


def _attempt(effects: _Effects, action: Callable[[], object]) -> bool:
    """Do one thing; an error is noted and False returned. Foreign code may raise anything."""
    try:
        action()
    except AutoscalerError as error:
        effects.errors.append(error)
    except Exception as error:
        wrapped = PluginError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        effects.errors.append(wrapped)
    else:
        return True
    return False
