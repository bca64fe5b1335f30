"""Whether the daemon does its work: per cluster, the age of the last pass that succeeded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flink_autoscaler.standalone.logs import masked


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """One cluster, as the readiness page shows it.

    Attributes:
        ready: Whether a pass has succeeded lately.
        last_success_age_seconds: None before the first success.
        stale_after_seconds: Age from which on the cluster is not ready.
        error: What the last pass failed with; None when it succeeded.
    """

    ready: bool
    last_success_age_seconds: float | None
    stale_after_seconds: float
    error: str | None


class Health:
    """Remembers when each cluster was last looked at. Thread-safe.

    Args:
        stale_after: By cluster, the seconds after which a success does not count any more.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, stale_after: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_after = stale_after
        self._clock = clock
        self._lock = threading.Lock()
        self._succeeded_at: dict[str, float | None] = dict.fromkeys(stale_after)
        self._errors: dict[str, str] = {}

    def succeeded(self, cluster: str) -> None:
        """Take note of a pass that worked."""
        with self._lock:
            self._succeeded_at[cluster] = self._clock()
            self._errors.pop(cluster, None)

    def failed(self, cluster: str, error: str) -> None:
        """Take note of a pass that did not."""
        with self._lock:
            self._errors[cluster] = masked(error)

    def clusters(self) -> dict[str, ClusterHealth]:
        """Return the health of every cluster by name."""
        with self._lock:
            return {cluster: self._health(cluster, at) for cluster, at in self._succeeded_at.items()}

    def _health(self, cluster: str, succeeded_at: float | None) -> ClusterHealth:
        age = None if succeeded_at is None else self._clock() - succeeded_at
        return ClusterHealth(
            ready=age is not None and age < self._stale_after[cluster],
            last_success_age_seconds=None if age is None else round(age, 3),
            stale_after_seconds=self._stale_after[cluster],
            error=self._errors.get(cluster),
        )
