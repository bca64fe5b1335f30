"""Waiting for a cluster, with a deadline and a reason."""

import time
from collections.abc import Callable
from typing import TypeVar

from testkit.clusters.flink.errors import HarnessError

T = TypeVar("T")


def wait_until(
    description: str,
    probe: Callable[[], T],
    timeout: float = 300.0,
    *,
    interval: float = 0.2,
    context: Callable[[], str] = str,
) -> T:
    """Return the first truthy result of ``probe``.

    Args:
        description: What is waited for, as a noun phrase or a claim.
        probe: Called every ``interval``. Harness errors end the wait.
        timeout: Seconds to wait at most.
        interval: Seconds between two calls.
        context: Text for the error, asked for only when the wait fails.

    Raises:
        HarnessError: Nothing truthy in time; tells the last result.
    """
    deadline = time.monotonic() + timeout
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() > deadline:
            raise HarnessError(f"not within {timeout:g} s: {description}; last seen: {result!r}\n{context()}")
        time.sleep(interval)
