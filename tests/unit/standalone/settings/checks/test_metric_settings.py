"""Where metrics come from: what is checked before the daemon starts, by the key that is wrong."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.credentials import MetricSources
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings

CLUSTER = "autoscaler.clusters.0."
SECTION = f"{CLUSTER}metrics.prometheus."
BASE = {f"{CLUSTER}name": "main", f"{CLUSTER}url": "http://flink:8081", f"{CLUSTER}metrics.source": "prometheus"}


def settings_of(**values: str) -> Settings:
    options = {**BASE, f"{SECTION}url": "http://prometheus:9090"}
    options |= {f"{SECTION}{name}": value for name, value in values.items()}
    return SettingsLoader(
        overrides=[f"{key}={value}" for key, value in options.items() if value], environment={}
    ).read()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"url": ""}, "metrics.prometheus.url", id="no server"),
        pytest.param({"url": "[http://a:9090, http://b:9090]"}, "the URL of one server", id="two servers"),
        pytest.param({"url": "prometheus:9090"}, "metrics.prometheus.url", id="no URL"),
        pytest.param({"max-age": "0 s"}, "metrics.prometheus.max-age", id="no age"),
        pytest.param({"preset": "graphite"}, "metrics.prometheus.preset", id="unknown preset"),
        pytest.param({"auth.kind": "kerberos"}, "expected none, basic or bearer", id="kerberos"),
        pytest.param({"auth.kind": "bearer"}, "metrics.prometheus.auth.token-file", id="no token"),
        pytest.param({"selector.a-b": "x"}, "not the name of a label", id="label"),
        pytest.param({"selector.pod": "~("}, "not a regular expression", id="pattern"),
        pytest.param({"labels.job-id": "jid"}, "did you mean 'job_id'?", id="unknown label"),
        pytest.param({"labels.job_id": "j-id"}, "not a name of Prometheus", id="no label"),
        pytest.param({"names.flink_busy": "x"}, "is not used", id="unknown metric"),
        pytest.param({"replica-labels": "a-b"}, "'a-b' is not the name of a label", id="replica"),
    ],
)
def test_a_mistake_is_told_by_its_key(values: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_of(**values)

    assert expected in str(raised.value)


def test_options_of_prometheus_without_it_are_a_mistake() -> None:
    values = {**BASE, f"{CLUSTER}metrics.source": "rest", f"{SECTION}url": "http://prometheus:9090"}

    with pytest.raises(ConfigError, match=r"only for .*metrics\.source prometheus, which is rest"):
        SettingsLoader(overrides=[f"{key}={value}" for key, value in values.items()], environment={}).read()


def test_the_options_reach_the_endpoint() -> None:
    settings = settings_of(
        **{
            "selector.namespace": "~flink-.*",
            "labels.job_id": "jid",
            "names.flink_taskmanager_job_task_busyTimeMsPerSecond": "busy",
            "max-age": "45 s",
            "preset": "pushgateway",
            "replica-labels": "r1;r2",
        }
    )
    cluster = settings.effective_clusters()[0]

    source = MetricSources(cluster.settings, "").with_metric_source(cluster.endpoint).prometheus

    assert source is not None
    assert source.endpoint.url == "http://prometheus:9090"
    assert source.selector == (("namespace", "~flink-.*"),)
    assert source.labels == (("job_id", "jid"),)
    assert source.names == (("flink_taskmanager_job_task_busyTimeMsPerSecond", "busy"),)
    assert (source.max_age, source.is_pushed, source.replica_labels) == (45.0, True, ("r1", "r2"))


def test_rest_is_the_source_where_nothing_is_said() -> None:
    settings = Settings()
    cluster = settings.effective_clusters()[0]

    assert MetricSources(cluster.settings, "").with_metric_source(cluster.endpoint) == cluster.endpoint
