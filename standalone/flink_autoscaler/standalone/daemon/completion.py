"""Carries out what a pass came to: records, tells and realizes, many jobs at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from structlog.contextvars import bound_contextvars

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.decide.slot_sharing import more_slots
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.rescale.suspension import suspensions
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobTracker
from flink_autoscaler.standalone.daemon.pass_report import job_facts
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.standalone.records.writer import PassRecorder

T = TypeVar("T")

Pair = tuple[PassRequest, PassOutcome]

MIN_BATCH: Final = 2
"""Jobs for which recording together is worth it."""


@dataclass
class _CompletionRun:
    """The outcomes of one pass while they are carried out.

    Attributes:
        deadline: When to wait no longer, by ``time.monotonic``.
        failures: Takes why a job has no report.
    """

    term: int
    deadline: float
    tracker: JobTracker
    failures: dict[JobKey, AutoscalerError]
    reports: dict[JobKey, JobPassReport]


class Completion:
    """Carries out the outcomes of passes over one cluster.

    Most jobs of a pass have nothing but their state to be recorded: where the store can, they share transactions, and
    no thread is woken for each of them. A job whose plan is to be carried out is recorded by itself, before that.

    Args:
        cluster: Its name.
        autoscaler: Records, tells and realizes.
        leadership: Knows under which term this is done.
        recorder: Keeps passes for those who ask later; None keeps none.
        parallelism: Jobs that are completed at the same time.
        deadline: Seconds to wait for all of them.
        best_effort: Does something that no job waits for.
    """

    def __init__(
        self,
        cluster: str,
        *,
        autoscaler: JobAutoScaler,
        leadership: Leadership,
        recorder: PassRecorder | None,
        parallelism: int,
        deadline: float,
        best_effort: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._autoscaler = autoscaler
        self._leadership = leadership
        self._recorder = recorder
        self._deadline = deadline
        self._best_effort = best_effort
        self._workers = ThreadPoolExecutor(parallelism, thread_name_prefix=f"job-{cluster}")

    def complete(
        self,
        requests: Sequence[PassRequest],
        outcomes: Sequence[PassOutcome],
        failures: dict[JobKey, AutoscalerError],
        term: int,
        roster: JobTracker,
    ) -> dict[JobKey, JobPassReport]:
        """Carry out the outcomes of a pass and return what became of them.

        Args:
            requests: Of the pass.
            outcomes: One per request, in the same order.
            failures: Takes why a job has no report.
            term: Under which that is done.
            roster: Knows what is under way, also after this has returned.
        """
        run = _CompletionRun(term, time.monotonic() + self._deadline, roster, failures, {})
        pairs = list(zip(requests, outcomes, strict=True))
        growing = [pair for pair in pairs if _needs_more_slots(pair[1])]
        others = [pair for pair in pairs if not _needs_more_slots(pair[1])]
        # Begun first, so that their requests are under way while the batch is recorded.
        planned = self._submit(run, [pair for pair in others if isinstance(pair[1].decision, Rescale)])
        held = self._record_batch(run, [pair for pair in others if not isinstance(pair[1].decision, Rescale)])
        self._await_results(run, planned)
        self._await_results(run, held)
        # What gives slots back has come first, so that they are there for what takes some.
        self._await_results(run, self._submit(run, growing))
        keys = (request.context.job_key for request in requests)
        return {job_key: run.reports[job_key] for job_key in keys if job_key in run.reports}

    def close(self) -> None:
        """Release the idle workers; work under way is not waited for."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _submit(
        self, run: _CompletionRun, pairs: Iterable[Pair], recorded: frozenset[JobKey] = frozenset()
    ) -> dict[JobKey, Future[JobPassReport]]:
        work = {}
        for request, outcome in pairs:
            job_key = request.context.job_key
            is_recorded = job_key in recorded
            work[job_key] = self._workers.submit(
                self._complete_job, request, outcome, run.term, is_recorded=is_recorded
            )
            # Known before anything is waited for: the next pass must not touch a job that a hanging worker still holds.
            run.tracker.track_work(job_key, work[job_key])  # type: ignore[arg-type]
        return work

    def _await_results(self, run: _CompletionRun, work: Mapping[JobKey, Future[JobPassReport]]) -> None:
        wait(work.values(), timeout=max(0.0, run.deadline - time.monotonic()))
        for job_key, future in work.items():
            found = self._result_of(future)
            if isinstance(found, AutoscalerError):
                run.failures[job_key] = found
            else:
                run.reports[job_key] = found

    def _result_of(self, future: Future[T]) -> T | AutoscalerError:
        """Return what came of work that was waited for."""
        # Cancelling what has not begun keeps a hanging job from filling the queue pass by pass.
        if future.cancel():
            return NotReadyError(f"no free worker within {self._deadline:g} s")
        if not future.done():
            return NotReadyError(f"still under way after {self._deadline:g} s")
        return try_call(future.result)

    def _record_batch(self, run: _CompletionRun, pairs: Sequence[Pair]) -> dict[JobKey, Future[JobPassReport]]:
        """Record jobs together, and begin with those of them for which there is more to do."""
        if len(pairs) < MIN_BATCH:
            return self._submit(run, pairs)
        together = self._workers.submit(self._save_batch, pairs, run.term)
        for request, _ in pairs:
            run.tracker.track_work(request.context.job_key, together)  # type: ignore[arg-type]
        wait([together], timeout=max(0.0, run.deadline - time.monotonic()))
        found = self._result_of(together)
        # Nobody knows whether any of them was recorded: none may be carried out.
        if isinstance(found, AutoscalerError):
            run.failures.update((request.context.job_key, found) for request, _ in pairs)
            return {}
        reports, recorded = found
        run.reports.update(reports)
        rest = [pair for pair in pairs if pair[0].context.job_key not in reports]
        return self._submit(run, rest, recorded)

    def _save_batch(self, pairs: Sequence[Pair], term: int) -> tuple[Mapping[JobKey, JobPassReport], frozenset[JobKey]]:
        """Record jobs in one transaction; return the reports of those that are done, and all that were recorded."""
        # The fence is bound in the worker: terms are of a thread, and this one may outlive the lease.
        with self._leadership.bound_to_term(term):
            recorded = self._autoscaler.record_all({request.context.job_key: outcome for request, outcome in pairs})
        # Whatever else is to be done for a job gets a worker of its own: a slow cluster delays no other job.
        quiet = [pair for pair in pairs if pair[0].context.job_key in recorded and _has_no_effects(pair[1])]
        reports = {
            request.context.job_key: self._complete_job(request, outcome, term, is_recorded=True)
            for request, outcome in quiet
        }
        return reports, recorded

    def _complete_job(
        self, request: PassRequest, outcome: PassOutcome, term: int, *, is_recorded: bool = False
    ) -> JobPassReport:
        context = request.context
        with bound_contextvars(**job_facts(context)), self._leadership.bound_to_term(term):
            report = try_call(partial(self._autoscaler.complete, context, outcome, is_recorded=is_recorded))
            if isinstance(report, AutoscalerError):
                return JobPassReport(context.job_key, outcome, None, (report,))
            # After the realization, which it must neither delay nor fail.
            if self._recorder is not None:
                self._best_effort("record of passes", partial(self._recorder.put, request, outcome))
            alone = suspensions(request.orders, outcome.state.supervision, request.now_ms)
            return replace(report, suspensions=alone) if alone else report


def _has_no_effects(outcome: PassOutcome) -> bool:
    """Tell whether an outcome is only to be recorded: nobody is told about it, and nothing is realized."""
    return not (outcome.target.parallelism or outcome.target.tunes_memory or outcome.events) and outcome.report is None


def _needs_more_slots(outcome: PassOutcome) -> bool:
    slots = more_slots(outcome)
    return slots is not None and slots[1] > slots[0]
