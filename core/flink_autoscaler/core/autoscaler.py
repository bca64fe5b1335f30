"""The autoscaler for embedding: build a context, call :meth:`JobAutoScaler.scale`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from flink_autoscaler.core.cycle.outcome import error_event, failed_outcome
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_call
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.evaluate.downtime import ENOUGH, ClusterOutages, newest_outages
from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import SHARED_JOB_ID, JobKey
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import (
    AutoScalerEventHandler,
    AutoScalerStateStore,
    BatchingStateStore,
    MetricCollector,
    Realization,
    RealizationTerms,
    RealizeResult,
    ReleasingStateStore,
    ScalingRealizer,
    SharedStateStore,
)
from flink_autoscaler.core.ports.passes import LastRecord, PassOutcome, PassRequest
from flink_autoscaler.core.rescale.suspension import Suspension

ALWAYS: Final = 0
"""The term of a daemon that shares its jobs with nobody."""

_NEVER: Final = -1


@value
class JobPassReport:
    """One pass over one job, after its effects.

    Attributes:
        outcome: What was found out and decided.
        realization: What the realizer did; None when it was not called or failed.
        errors: Everything that went wrong, in order; empty for a good pass.
        suspensions: What suspends the scaling of the job; empty where nothing does, or nobody asked.
    """

    job_key: JobKey
    outcome: PassOutcome
    realization: Realization | None = None
    errors: tuple[AutoscalerError, ...] = ()
    suspensions: tuple[Suspension, ...] = ()


@dataclass
class _Effects:
    """What happens while one outcome is carried out."""

    errors: list[AutoscalerError] = field(default_factory=list)
    realization: Realization | None = None


@value
class _JobMemory:
    """What is kept in memory about one job.

    Attributes:
        memory: Of the collector.
        term: Under which ``given`` was loaded; None when only looking on.
        given: The state that the last pass began with.
        unrecorded: What to go on with while the store does not take anything.
        refusal: Why the last attempt to realize something failed; None when it did not.
    """

    memory: CollectorMemory = EMPTY_MEMORY
    term: int | None = _NEVER
    given: JobState = EMPTY_STATE
    unrecorded: JobState | None = None
    refusal: str | None = None


_NOTHING: Final = _JobMemory()


class JobAutoScaler:
    """Manages jobs (``JobAutoScaler`` of FLIP-334).

    Calls for different jobs may come from different threads; calls for one job must not overlap.

    Args:
        store: Where the state of jobs is kept.
        realizer: Applies decisions.
        event_handler: Takes events and reports.
        collector: Takes a job one pass further, as the engines of the daemon do; only :meth:`scale` needs it.
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
        self._jobs: dict[JobKey, _JobMemory] = {}
        self._outages = ClusterOutages()
        self._lock = threading.Lock()

    def scale(self, context: JobAutoScalerContext, now_ms: int, *, orders: Orders = NO_ORDERS) -> JobPassReport:
        """Do one whole pass over one job. Never raises for anything about the job.

        Args:
            context: The job.
            now_ms: The instant of the pass, epoch milliseconds.
            orders: What people ordered for the job.

        Raises:
            StoreError: The state could not be loaded; nothing was done.
            ValueError: There is no collector.
        """
        if self._collector is None:
            raise ValueError("JobAutoScaler.scale needs a collector")
        request = self.request(context, now_ms, orders=orders)
        return self.complete(context, _evaluate(self._collector, request))

    def request(
        self,
        context: JobAutoScalerContext,
        now_ms: int,
        *,
        term: int | None = ALWAYS,
        orders: Orders = NO_ORDERS,
        recorded: LastRecord | None = None,
    ) -> PassRequest:
        """Return what an engine needs to look at a job.

        Args:
            context: The job.
            now_ms: The instant of the pass, epoch milliseconds.
            term: Under which this daemon acts. What was loaded under another term is loaded again: somebody else may
                have written since. None only looks on and always loads again.
            orders: What people ordered for the job.
            recorded: The last pass that was recorded, where passes are.

        Raises:
            StoreError: The state could not be loaded.
        """
        kept = self._memory_of(context.job_key)
        if term is None or kept.term not in (term, _NEVER):
            kept = replace(kept, unrecorded=None)
            if isinstance(self._store, SharedStateStore):
                self._store.forget()
        state = self._load(context, kept) if kept.unrecorded is None else kept.unrecorded
        self._set_memory(context.job_key, replace(kept, term=term, given=state))
        outages = self._outages_elsewhere(context, state)
        return PassRequest(context, state, now_ms, kept.memory, orders, kept.refusal, recorded, outages=outages)

    def _load(self, context: JobAutoScalerContext, kept: _JobMemory) -> JobState:
        """Load the state of a job, from another key where it had that until a job of its name came or went."""
        state = self._store.load(context.job_key)
        # A job without a state, such as one that is not enabled, is looked for elsewhere once and not in every pass.
        is_known = state.job_id is None and kept.term != _NEVER
        if is_known or context.job_id in (state.job_id, SHARED_JOB_ID):
            return state
        others = (self._store.load(job_key) for job_key in context.other_keys)
        return next((other for other in others if other.job_id == context.job_id), state)

    def observe(self, context: JobAutoScalerContext, outcome: PassOutcome) -> JobPassReport:
        """Take what an outcome taught the collector, and nothing else: another daemon acts on it."""
        self._set_memory(context.job_key, replace(self._memory_of(context.job_key), memory=outcome.memory))
        return JobPassReport(context.job_key, outcome, None, () if outcome.error is None else (outcome.error,))

    def complete(
        self, context: JobAutoScalerContext, outcome: PassOutcome, *, is_recorded: bool = False
    ) -> JobPassReport:
        """Record, report and realize an outcome, in this order. Never raises.

        Without a recorded state nothing is realized: a change that would be forgotten must not happen. The decision
        counts as not made then; what was collected is kept, and the next pass decides again.

        Args:
            context: The job.
            outcome: What its pass came to.
            is_recorded: Whether :meth:`record_all` has recorded it already.
        """
        effects = _Effects([outcome.error] if outcome.error is not None else [])
        is_recorded = is_recorded or self._record(context, outcome, effects)
        if is_recorded:
            self._report(context, outcome, effects)
        self._report_events(context, outcome.events, effects)
        if is_recorded:
            self._realize_and_note(context, outcome, effects)
        self._report_errors(context, outcome, effects)
        return JobPassReport(context.job_key, outcome, effects.realization, tuple(effects.errors))

    def record_all(self, outcomes: Mapping[JobKey, PassOutcome]) -> frozenset[JobKey]:
        """Record outcomes together, where the store can, and return the jobs for which that is done. Never raises.

        All of them still have to be completed.
        """
        if not isinstance(self._store, BatchingStateStore):
            return frozenset()
        states = {job_key: outcome.state for job_key, outcome in outcomes.items()}
        found = try_call(partial(self._store.save_all, states))
        recorded = frozenset[JobKey]() if isinstance(found, AutoscalerError) else found
        for job_key in recorded:
            self._set_memory(
                job_key, replace(self._memory_of(job_key), memory=outcomes[job_key].memory, unrecorded=None)
            )
        return recorded

    def _outages_elsewhere(self, context: JobAutoScalerContext, state: JobState) -> tuple[int, ...]:
        """Return what rescales took other jobs of the cluster away, for a job that was not measured often enough."""
        self._outages.note(context.cluster, context.job_key, state.supervision)
        if len(newest_outages(state.supervision, ENOUGH)) >= ENOUGH:
            return ()
        return self._outages.elsewhere(context.cluster, context.job_key)

    def _memory_of(self, job_key: JobKey) -> _JobMemory:
        with self._lock:
            return self._jobs.get(job_key, _NOTHING)

    def _set_memory(self, job_key: JobKey, kept: _JobMemory) -> None:
        with self._lock:
            self._jobs[job_key] = kept

    def _record(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> bool:
        """Save the state; tell whether that is done. What could not be saved is kept in memory."""
        is_recorded = _attempt(effects, lambda: self._store.save(context.job_key, outcome.state))
        unrecorded = None if is_recorded else outcome.undecided or outcome.state
        kept = self._memory_of(context.job_key)
        self._set_memory(context.job_key, replace(kept, memory=outcome.memory, unrecorded=unrecorded))
        return is_recorded

    def _report(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        report = outcome.report
        if report is not None:
            _attempt(effects, lambda: self._events.handle_scaling_report(context, report))

    def _report_events(self, context: JobAutoScalerContext, events: tuple[Event, ...], effects: _Effects) -> None:
        """Tell about events; one that cannot be told does not keep the others from being told."""
        failed = _Effects()
        for event in events:
            _attempt(failed, partial(self._events.handle_event, context, event))
        # A handler that fails for every event is one error.
        effects.errors += {str(error): error for error in failed.errors}.values()

    def _realize_and_note(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        """Realize, and remember for the next pass whether that was refused."""
        known = len(effects.errors)
        _attempt(effects, lambda: self._realize(context, outcome, effects))
        texts = [str(error) for error in effects.errors[known:]]
        if effects.realization is not None and effects.realization.result is RealizeResult.REFUSED:
            texts += [event.message for event in effects.realization.events]
        self._set_memory(context.job_key, replace(self._memory_of(context.job_key), refusal="; ".join(texts) or None))

    def _realize(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        if outcome.target.parallelism:
            known = outcome.observation.vertices
            names = {vertex_id: vertex.name for vertex_id, vertex in known.items()}
            terms = RealizationTerms(
                outcome.target.min_parallelism, outcome.target.found_requirements, outcome.target.is_repair, names
            )
            effects.realization = self._realizer.realize_overrides(context, outcome.target.parallelism, terms=terms)
            self._report_events(context, effects.realization.events, effects)
        if outcome.target.tunes_memory:
            realization = self._realizer.realize_config(context, outcome.state.config_changes)
            self._report_events(context, realization.events, effects)

    def _report_errors(self, context: JobAutoScalerContext, outcome: PassOutcome, effects: _Effects) -> None:
        """Tell about the errors of recording, reporting and realizing; the outcome's own has its event already."""
        own = 0 if outcome.error is None else 1
        events = tuple(error_event(context, error) for error in effects.errors[own:])
        self._report_events(context, events, effects)

    def cleanup(self, context: JobAutoScalerContext) -> tuple[AutoscalerError, ...]:
        """Forget a job that is gone, its state included. Never raises; returns what went wrong."""
        self.drop(context.job_key)
        return self.delete(context.job_key)

    def drop(self, job_key: JobKey) -> None:
        """Free the memory that a job takes; its state stays."""
        with self._lock:
            self._jobs.pop(job_key, None)
        self._outages.forget(job_key)
        if isinstance(self._store, ReleasingStateStore):
            self._store.release(job_key)

    def delete(self, job_key: JobKey) -> tuple[AutoscalerError, ...]:
        """Delete the state of a job. Never raises; returns what went wrong."""
        effects = _Effects()
        _attempt(effects, lambda: self._store.delete(job_key))
        return tuple(effects.errors)


def _evaluate(collector: MetricCollector, request: PassRequest) -> PassOutcome:
    """Return what a pass came to; a collector that breaks its contract is an error of the job. Never raises."""
    with ErrorBoundary() as boundary:
        (outcome,) = collector.evaluate((request,))
        return outcome
    return failed_outcome(request, boundary.error or PluginError("the collector gave no outcome"))


def _attempt(effects: _Effects, action: Callable[[], object]) -> bool:
    """Do one thing; an error is noted and False returned. Foreign code may raise anything."""
    with ErrorBoundary() as boundary:
        action()
    if boundary.error is not None:
        effects.errors.append(boundary.error)
    return boundary.error is None
