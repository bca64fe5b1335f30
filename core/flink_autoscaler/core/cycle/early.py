"""What becomes of a policy's wish to look again before the next pass is due, and why a pass came early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flink_autoscaler.core.decide.decision import Decided
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.early import LookAgain
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassRequest

LEAST_MS: Final = 5_000
"""Milliseconds from a pass to an early one at least, also where metrics are gathered more often."""


def look_again(decided: Decided, job: EvaluatedJob) -> LookAgain | None:
    """Return when the job is to be looked at again; None where nobody asks, or a rescale was decided.

    Not sooner than Flink gathers metrics again: a pass before that would see the same counters.
    """
    options, wish = job.context.options, decided.look_again
    if wish is None or isinstance(decided.decision, Rescale) or not options.improves(options.early_passes):
        return None
    if options.early_pass_per_hour < 1:
        return None
    wait_ms = max(options.early_pass_delay.ms, job.cluster.interval_ms, LEAST_MS)
    return LookAgain(max(round(wish.at * 1000), job.now_ms + wait_ms), wish.policy, options.early_pass_per_hour)


def early_reasons(request: PassRequest, wish: LookAgain | None) -> Iterator[Reason]:
    """Yield why a pass came before its time, and who wishes that the next one does."""
    if request.early:
        yield Reason("EARLY_PASS", f"this pass came before its time: {request.early} asked for it")
    if wish is not None:
        seconds = (wish.at_ms - request.now_ms) / 1000
        text = f"{wish.policy} asks to look again in {seconds:.0f} s, where the next pass is due later"
        yield Reason("LOOKS_AGAIN", text, figures=(("seconds", seconds),))
