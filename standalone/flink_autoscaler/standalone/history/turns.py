"""Which passes the history keeps of each job, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import PassOutcome
from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.pipeline.history.rows import NamedRow, is_eventful, rows_of
from flink_autoscaler.standalone.observability.logs import masked

log = structlog.get_logger(__name__)

TOLERANCE: Final = 0.9
"""A pass counts as one interval later although it comes a little early: passes jitter."""

LEAST_INTERVAL: Final = 60.0
"""Seconds; rates may cover less than that where the metric window of a job does."""

_FORGOTTEN_MS: Final = 86_400_000


class Turns:
    """Remembers when each job was kept last. Belongs to one thread.

    Args:
        interval: Seconds between two kept passes of a job in which nothing happens.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last_ms: dict[JobKey, int] = {}

    def rows(
        self, outcomes: Sequence[PassOutcome], contexts: Sequence[JobAutoScalerContext], now_ms: int
    ) -> Iterator[NamedRow]:
        """Yield the rows of the jobs whose turn it is; those of a job that cannot be written as rows are left out.

        Args:
            outcomes: Of a pass.
            contexts: The jobs, one per outcome, in the same order.
            now_ms: The instant of the pass, epoch milliseconds.
        """
        for outcome, context in zip(outcomes, contexts, strict=True):
            try:
                span_ms = round(1000 * interval_of(self._interval, context))
                if self._is_turn(context.job_key, now_ms, span_ms) or is_eventful(outcome, now_ms):
                    rows = list(rows_of(outcome, context, now_ms, span_ms=span_ms, mask=masked))
                    self._last_ms[context.job_key] = now_ms
                    yield from rows
            except Exception as error:  # a plug-in may have put anything into an outcome
                problem = f"{type(error).__name__}: {error}"
                log.warning("history_pass_left_out", job_key=context.job_key, error=problem)

    def forget(self, now_ms: int) -> None:
        """Forget the jobs that were not kept for a day."""
        self._last_ms = {key: at_ms for key, at_ms in self._last_ms.items() if now_ms - at_ms < _FORGOTTEN_MS}

    def _is_turn(self, job_key: JobKey, now_ms: int, interval_ms: int) -> bool:
        last_ms = self._last_ms.get(job_key)
        is_soon = last_ms is not None and 0 <= now_ms - last_ms < interval_ms * TOLERANCE
        return not is_soon


def interval_of(wanted: float, context: JobAutoScalerContext) -> float:
    """Return the seconds between two kept passes of a job: no more than its samples reach back, or rates had gaps."""
    if wanted <= LEAST_INTERVAL:
        return wanted
    try:
        window = context.options.metrics_window.exact_seconds
    except ConfigError:
        return wanted  # the pass comes upon it, too, and tells
    return min(wanted, max(window, LEAST_INTERVAL))
