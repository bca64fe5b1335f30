"""Health of the daemon: the age of each cluster's last good pass, state store and leadership."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flink_autoscaler.standalone.ha.leadership import LeadershipState, LeadershipStatus
from flink_autoscaler.standalone.ha.store_health import WORKING, StoreStatus
from flink_autoscaler.standalone.settings.secrets import mask_secrets

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.live import SparkStatus


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


@dataclass(frozen=True, slots=True)
class Readiness:
    """Readiness of the daemon, with the reasons against it. A daemon that stands by is ready, too.

    Attributes:
        store: Of the state store.
        leadership: None where there is only one daemon.
        spark: Whether passes meant for Spark run there, and why they do not; without it passes run in the daemon, so
            that readiness does not depend on it. None where none is meant for it.
    """

    ready: bool
    clusters: Mapping[str, ClusterHealth]
    store: StoreStatus
    leadership: LeadershipStatus | None = None
    spark: SparkStatus | None = None


class Health:
    """Remembers when each cluster was last looked at. Thread-safe.

    Args:
        stale_after: By cluster, the seconds after which a success does not count any more.
        store: Gives what is known about the state store.
        leadership: Gives what this daemon is among several.
        spark: Gives how Spark is.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        stale_after: Mapping[str, float],
        *,
        store: Callable[[], StoreStatus] = lambda: WORKING,
        leadership: Callable[[], LeadershipStatus | None] = lambda: None,
        spark: Callable[[], SparkStatus | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stale_after = dict(stale_after)
        self._store = store
        self._leadership = leadership
        self._spark = spark
        self._clock = clock
        self._lock = threading.Lock()
        self._succeeded_at: dict[str, float | None] = dict.fromkeys(stale_after)
        self._errors: dict[str, str] = {}

    def set_clusters(self, stale_after: Mapping[str, float]) -> None:
        """Manage these clusters from now on; what is known about those among them that are not new is kept."""
        with self._lock:
            self._stale_after = dict(stale_after)
            self._succeeded_at = {cluster: self._succeeded_at.get(cluster) for cluster in stale_after}
            self._errors = {cluster: error for cluster, error in self._errors.items() if cluster in stale_after}

    def record_success(self, cluster: str) -> None:
        """Take note of a pass that worked; the last one of a cluster that is not managed any more is none."""
        with self._lock:
            if cluster in self._stale_after:
                self._succeeded_at[cluster] = self._clock()
                self._errors.pop(cluster, None)

    def record_failure(self, cluster: str, error: str) -> None:
        """Take note of a pass that did not."""
        with self._lock:
            if cluster in self._stale_after:
                self._errors[cluster] = mask_secrets(error)

    def readiness(self) -> Readiness:
        """Return whether the daemon is ready."""
        with self._lock:
            clusters = {cluster: self._cluster_health(cluster, at) for cluster, at in self._succeeded_at.items()}
        store, leadership = self._store(), self._leadership()
        is_settled = leadership is None or leadership.standing is not LeadershipState.UNKNOWN
        is_ready = all(cluster.ready for cluster in clusters.values()) and store.up and is_settled
        return Readiness(is_ready, clusters, store, leadership, self._spark())

    def _cluster_health(self, cluster: str, succeeded_at: float | None) -> ClusterHealth:
        age = None if succeeded_at is None else self._clock() - succeeded_at
        return ClusterHealth(
            ready=age is not None and age < self._stale_after[cluster],
            last_success_age_seconds=None if age is None else round(age, 3),
            stale_after_seconds=self._stale_after[cluster],
            error=self._errors.get(cluster),
        )
