from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings

HA = (
    "autoscaler.ha.enabled=true",
    "autoscaler.standalone.state-store.type=JDBC",
    "autoscaler.standalone.jdbc.url=jdbc:sqlite:/tmp/autoscaler.db",
)


def settings(*overrides: str) -> Settings:
    return SettingsLoader(overrides=overrides, environment={}).read()


def problems(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(*overrides)
    return str(caught.value)


def test_the_defaults_fit_together() -> None:
    assert settings(*HA).ha.ttl == 30.0


def test_a_lease_shorter_than_interval_and_two_timeouts_is_refused() -> None:
    text = problems(*HA, "autoscaler.ha.ttl=29 s")

    assert "autoscaler.ha.ttl = '29 s' (--set): expected at least 30 s for cluster 'default'" in text
    assert "its interval of 10 s and twice the timeout of 10 s" in text


def test_every_cluster_has_to_fit() -> None:
    clusters = (
        "autoscaler.clusters.0.name=quick",
        "autoscaler.clusters.0.url=http://one",
        "autoscaler.clusters.1.name=slow",
        "autoscaler.clusters.1.url=http://two",
        "autoscaler.clusters.1.interval=60 s",
        "autoscaler.clusters.1.timeout=20 s",
    )

    text = problems(*HA, *clusters)

    assert "expected at least 1 min 40 s" in text or "expected at least 100 s" in text
    assert "cluster 'slow'" in text
    assert "cluster 'quick'" not in text


def test_without_several_daemons_the_time_to_live_is_of_no_account() -> None:
    assert settings("autoscaler.ha.ttl=1 s").ha.ttl == 1.0


def test_several_daemons_need_a_store_that_they_share() -> None:
    text = problems("autoscaler.ha.enabled=true", "autoscaler.standalone.jdbc.url=jdbc:sqlite:/tmp/autoscaler.db")

    assert "autoscaler.ha.enabled = 'true' (--set): expected autoscaler.standalone.state-store.type JDBC" in text


@pytest.mark.parametrize(
    "override",
    [
        pytest.param("autoscaler.standalone.state-store.type=JDBC", id="state store"),
        pytest.param("autoscaler.standalone.event-handler.type=JDBC", id="event handler"),
    ],
)
def test_a_database_needs_its_url(override: str) -> None:
    assert "autoscaler.standalone.jdbc.url is not set" in problems(override)
