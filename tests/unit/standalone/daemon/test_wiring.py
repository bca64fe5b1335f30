from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.realizers import LogOnlyRealizer, RescaleApiRealizer
from flink_autoscaler.standalone.daemon.wiring import Wiring, default_orders
from flink_autoscaler.standalone.settings.plugins import build
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from testkit.scenarios.runner import LogLines

OFFERED = {"settings": "the settings", "loop": "the loop", "clients": "the clients"}


def test_plugin_gets_what_it_asks_for_by_name() -> None:
    def plugin(clients: str, *, settings: str, pool: int = 3) -> Any:
        return SimpleNamespace(clients=clients, settings=settings, pool=pool)

    part = build(plugin, OFFERED, "a plug-in")

    assert vars(part) == {"clients": "the clients", "settings": "the settings", "pool": 3}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(StoreError("no database"), StoreError, id="ours goes through"),
        pytest.param(RuntimeError("oops"), ConfigError, id="others are wrapped"),
    ],
)
def test_plugin_that_cannot_start_is_an_error_of_ours(error: Exception, expected: type[Exception]) -> None:
    def plugin() -> None:
        raise error

    with pytest.raises(expected, match=str(error)):
        build(plugin, OFFERED, "a plug-in")


def test_plugin_that_wants_more_than_there_is_is_a_configuration_error() -> None:
    def plugin(secret_sauce: str) -> None:
        pass

    with pytest.raises(ConfigError, match="secret_sauce"):
        build(plugin, OFFERED, "a plug-in")


@pytest.mark.parametrize(
    ("is_dry_run", "expected"),
    [pytest.param(True, LogOnlyRealizer, id="dry run"), pytest.param(False, RescaleApiRealizer, id="for real")],
)
def test_dry_run_has_a_realizer_that_sends_nothing(is_dry_run: bool, expected: type) -> None:
    with Wiring(Settings(dry_run=is_dry_run)) as wiring:
        assert isinstance(wiring.realizer, expected)


def test_clusters_share_the_engine_of_their_kind() -> None:
    clusters = (
        ClusterSettings(name="a", url=("http://127.0.0.1:1",)),
        ClusterSettings(name="b", url=("http://127.0.0.1:2",)),
    )
    settings = Settings(clusters=clusters)

    with Wiring(settings, engine=EngineKind.INLINE) as wiring:
        engines = {id(wiring.engine_of(cluster)) for cluster in settings.effective_clusters()}

    assert len(engines) == 1


def test_unknown_plugin_leaves_nothing_open() -> None:
    with pytest.raises(ConfigError, match="known: "):
        Wiring(Settings(realizer="nonsense"))


def test_part_that_cannot_be_closed_keeps_no_other_open() -> None:
    closed = []

    def fail() -> None:
        raise RuntimeError("stuck")

    with LogLines() as lines:
        wiring = Wiring(Settings(), engine=EngineKind.INLINE)
        wiring.on_close(lambda: closed.append("first"))
        wiring.on_close(fail)
        wiring.close()

    assert closed == ["first"]
    assert [line["error"] for line in lines.of("close_failed")] == ["RuntimeError: stuck"]


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
    orders = default_orders(Settings(dry_run=is_dry_run))

    assert (orders.dry_run is not None) == is_dry_run
