"""Passes that are built and given back while the daemon runs."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.daemon.wiring import Wiring, standing_orders
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from testkit.scenarios.watching import LogLines


def a_cluster(name: str, **values: object) -> Cluster:
    cluster = ClusterSettings(name=name, url=("http://127.0.0.1:1",), engine=EngineKind.INLINE, **values)  # type: ignore[arg-type]
    (effective,) = Settings(clusters=(cluster,)).effective_clusters()
    return effective


def test_released_passes_are_not_closed_again_with_the_rest() -> None:
    closed = []
    with LogLines() as lines:
        wiring = Wiring(Settings(), engine=EngineKind.INLINE)
        kept, released = (wiring.cluster_pass(a_cluster(name)) for name in "ab")
        for passes in (kept, released):
            passes.close = lambda name=passes.cluster: closed.append(name)  # type: ignore[method-assign,misc]

        wiring.release(released)
        before = list(closed)
        wiring.close()

    assert (before, closed) == (["b"], ["b", "a"])
    assert lines.of("close_failed") == []


def test_passes_that_cannot_be_built_leave_nothing_open() -> None:
    with Wiring(Settings(), engine=EngineKind.INLINE) as wiring, pytest.raises(ConfigError, match="nonsense"):
        wiring.cluster_pass(a_cluster("a", type="nonsense"))


@pytest.mark.parametrize("is_dry_run", [True, False], ids=["dry run", "for real"])
def test_a_dry_run_of_the_daemon_is_ordered_for_every_job(is_dry_run: bool) -> None:
    orders = standing_orders(Settings(dry_run=is_dry_run))

    assert (orders.dry_run is not None) == is_dry_run
