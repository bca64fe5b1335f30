"""Load for a job of a fake cluster in this process."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from testkit.fakes.flink import FakeJob
from testkit.fakes.flink.driving import drive
from testkit.fakes.flink.load import repeated

_TICK = 0.01


def driven(job: FakeJob, rate: float) -> AbstractContextManager[None]:
    """Let so many records/s arrive as long as the context lasts."""
    before = time.monotonic()

    def arrive() -> None:
        nonlocal before
        now = time.monotonic()
        drive(job, rate, now - before)
        before = now

    return repeated(arrive, _TICK)
