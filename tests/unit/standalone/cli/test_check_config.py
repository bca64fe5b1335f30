from __future__ import annotations

import json

import pytest

from flink_autoscaler.standalone.cli.check_config import render_effective
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.secrets import mask_value


def rendered(*overrides: str, as_json: bool) -> str:
    settings, configuration = SettingsLoader(overrides=overrides, environment={}).load()
    return render_effective(configuration, settings, as_json)


def origins(*overrides: str) -> dict[str, tuple[str | None, str]]:
    document = json.loads(rendered(*overrides, as_json=True))
    return {line["key"]: (line["value"], line["origin"]) for line in document["values"]}


def test_every_option_is_shown_with_value_and_origin() -> None:
    lines = origins("autoscaler.http.port=1", "pipeline.name=x")

    assert lines["autoscaler.http.port"] == ("1", "--set")
    assert lines["autoscaler.http.host"] == ("127.0.0.1", "default")
    assert lines["job.autoscaler.metrics.window"] == ("15 min", "default")
    assert lines["job.autoscaler.quota.cpu"] == (None, "default")
    assert lines["pipeline.name"] == ("x", "--set")


def test_an_old_key_is_named_in_the_origin() -> None:
    lines = origins("scalingInterval=20 s", "kubernetes.operator.job.autoscaler.metrics.window=1 h")

    assert lines["autoscaler.standalone.control-loop.interval"] == ("20 s", "--set, as scalingInterval")
    assert lines["job.autoscaler.metrics.window"] == (
        "1 h",
        "--set, as kubernetes.operator.job.autoscaler.metrics.window",
    )


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "table"])
def test_secrets_are_masked(as_json: bool) -> None:
    text = rendered(
        "s3.Secret-Key=hunter2",
        "security.token=hunter2",
        "autoscaler.standalone.jdbc.url=jdbc:mysql://me:hunter2@db/x?password=hunter2&ssl=true",
        as_json=as_json,
    )

    assert "hunter2" not in text
    assert "******" in text
    assert "ssl=true" in text


def test_the_table_shows_keys_values_origins_and_clusters() -> None:
    text = rendered("autoscaler.log.level=debug", "autoscaller.dry-run=true", as_json=False)

    assert any(line.split() == ["autoscaler.log.level", "debug", "--set"] for line in text.splitlines())
    cluster = ["default", "flink", "http://localhost:8081", "none", "all", "10", "10", "spark"]
    assert any(line.split() == cluster for line in text.splitlines())
    assert "warning: autoscaller.dry-run (--set)" in text


CLUSTERS = (
    "autoscaler.clusters.0.name=web",
    "autoscaler.clusters.0.url=http://127.0.0.1:1;http://127.0.0.1:2",
    "autoscaler.clusters.0.auth.kind=simple",
    "autoscaler.clusters.0.auth.username=me",
    "autoscaler.clusters.0.headers.X-Key=hunter2",
    "autoscaler.clusters.0.include=a-*;b-*",
    "autoscaler.clusters.0.exclude=*-test",
    "autoscaler.clusters.0.options.s3.secret=hunter2",
    "autoscaler.clusters.1.name=hadoop",
    "autoscaler.clusters.1.type=yarn",
    "autoscaler.clusters.1.yarn.url=http://rm:8088",
    "autoscaler.clusters.1.yarn.queues=prod;test",
    "autoscaler.clusters.1.yarn.headers.X-Token=hunter2",
)


def test_clusters_are_shown_with_how_they_are_reached_and_without_secrets() -> None:
    text = rendered(*CLUSTERS, as_json=True)

    web, hadoop = json.loads(text)["clusters"]
    assert (web["type"], web["url"], web["auth"]) == ("flink", "http://127.0.0.1:1, http://127.0.0.1:2", "simple")
    assert (web["headers"], web["include"], web["exclude"]) == (["X-Key"], ["a-*", "b-*"], ["*-test"])
    assert "yarn" not in web
    assert (hadoop["url"], hadoop["yarn"]["queues"]) == ("http://rm:8088", ["prod", "test"])
    assert "hunter2" not in text


def test_the_table_shows_which_jobs_and_as_whom() -> None:
    lines = rendered(*CLUSTERS, as_json=False).splitlines()

    assert any("simple" in line and "a-*, b-*, not *-test" in line for line in lines)
    assert any("hadoop" in line and "none, YARN: none" in line for line in lines)


def test_dangers_are_shown_with_the_other_warnings() -> None:
    document = json.loads(rendered(*CLUSTERS, as_json=True))

    assert document["warnings"] == [
        "autoscaler.clusters.1.yarn.headers.X-Token = '******' (--set): sent to http://rm:8088 without encryption, so"
        " that others can read it; use https"
    ]


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("my.PASSWORD", "x", "******"),
        ("fs.azure.account.key.store", "x", "******"),
        ("client.api-key", "x", "******"),
        ("rest.http-headers", "x", "******"),
        ("security.jaas.config", "x", "******"),
        ("autoscaler.standalone.jdbc.password-env-variable", "JDBC_PWD", "JDBC_PWD"),
        ("env.java.opts", "-Djavax.net.ssl.keyStorePassword=x -Da=b", "-Djavax.net.ssl.keyStorePassword=****** -Da=b"),
        ("autoscaler.clusters.0.url", "http://u:p@h/x", "http://******@h/x"),
        ("autoscaler.clusters.0.auth.password-file", "/p", "/p"),
        ("autoscaler.clusters.0.auth.token-env-variable", "FLINK_TOKEN", "FLINK_TOKEN"),
        ("autoscaler.clusters.0.yarn.delegation-token-file", "/p", "/p"),
        ("autoscaler.clusters.0.headers.x-tenant", "hunter2", "******"),
        ("autoscaler.clusters.0.yarn.headers.x-tenant", "hunter2", "******"),
        ("autoscaler.clusters.0.headers-env.x-api-key", "API_KEY", "API_KEY"),
        ("autoscaler.clusters.0.headers-file.x-token", "/p", "/p"),
        ("autoscaler.clusters.0.parameters.password", "hunter2", "******"),
        ("autoscaler.clusters.0.options.s3.secret-file", "hunter2", "******"),
        ("a", "plain", "plain"),
    ],
)
def test_a_value_is_shown_without_its_secrets(key: str, text: str, expected: str) -> None:
    assert mask_value(key, text) == expected
