"""Gathers what runs of ``backtest`` and ``tune`` come to, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Outcome
from flink_autoscaler.pipeline.backtest.runner import Runner
from flink_autoscaler.standalone.cli import backtest_view


def collect(runner: Runner, plan: BacktestPlan, outcomes: list[Outcome]) -> bool:
    """Gather outcomes until all are there, or until Ctrl-C, which is False; pressed again it ends the process."""
    try:
        with _interruptible(), backtest_view.progress("simulating") as tell:
            tell(0, plan.size)
            for outcome in runner.outcomes(plan):
                outcomes.append(outcome)
                tell(len(outcomes), plan.size)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return False
    return True


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt, unless whoever started us wants it ignored."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and before is not signal.SIG_IGN
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
