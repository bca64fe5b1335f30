"""Load for a job of a fake cluster in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fake_flink import FakeJob
from fault_setup.driving import drive

_TICK = 0.01


@contextmanager
def driven(job: FakeJob, rate: float) -> Iterator[None]:
    """Let so many records/s arrive as long as the context lasts."""
    is_over = threading.Event()

    def run() -> None:
        before = time.monotonic()
        while not is_over.wait(_TICK):
            now = time.monotonic()
            drive(job, rate, now - before)
            before = now

    thread = threading.Thread(target=run, name="load")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
