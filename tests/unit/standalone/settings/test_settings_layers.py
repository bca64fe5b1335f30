from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import Configuration

INSTALLATIONS = Path(__file__).parents[3] / "fixtures" / "flink-conf"
INTERVAL = "autoscaler.standalone.control-loop.interval"


def a_configuration(
    *, file: Path | None = None, environment: Mapping[str, str] | None = None, overrides: Sequence[str] = ()
) -> Configuration:
    return SettingsLoader(file, overrides, environment=environment or {}).configuration()


def settings_of(
    *, file: Path | None = None, environment: Mapping[str, str] | None = None, overrides: Sequence[str] = ()
) -> Settings:
    return SettingsLoader(file, overrides, environment=environment or {}).read()


def texts_of(configuration: Configuration) -> dict[str, str]:
    return {key: value.text for key, value in configuration.values.items()}


def a_file(directory: Path, text: str) -> Path:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_set_gives_the_defaults() -> None:
    assert settings_of() == Settings()


def test_every_layer_wins_over_the_ones_before(tmp_path: Path) -> None:
    java = {"FLINK_CONF_DIR": str(INSTALLATIONS / "flat")}
    file = a_file(tmp_path, f"{INTERVAL}: 50 s")
    variable = {**java, "AUTOSCALER__STANDALONE__CONTROL_LOOP__INTERVAL": "40 s"}

    intervals = [
        settings_of(environment=java),
        settings_of(environment=java, file=file),
        settings_of(environment=variable, file=file),
        settings_of(environment=variable, file=file, overrides=[f"{INTERVAL}=30 s"]),
    ]

    assert [settings.standalone.control_loop_interval for settings in intervals] == [60.0, 50.0, 40.0, 30.0]


def test_every_value_says_where_it_was_set(tmp_path: Path) -> None:
    file = a_file(tmp_path, "\nautoscaler:\n  dry-run: true\n")

    values = a_configuration(
        file=file, environment={"AUTOSCALER__HTTP__PORT": "1"}, overrides=["autoscaler.log.level=debug"]
    ).values

    assert values["autoscaler.dry-run"].origin == f"{file} line 3"
    assert values["autoscaler.http.port"].origin == "environment variable AUTOSCALER__HTTP__PORT"
    assert values["autoscaler.log.level"].origin == "--set"


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = a_file(tmp_path, "autoscaler.dry-run: true")

    assert settings_of(environment={"FLINK_AUTOSCALER_CONFIG": str(file)}).dry_run


@pytest.mark.parametrize("name", ["nested", "flat", "legacy"])
def test_an_installation_of_the_java_autoscaler_is_read(name: str) -> None:
    settings = settings_of(environment={"FLINK_CONF_DIR": str(INSTALLATIONS / name)})

    cluster = settings.effective_clusters()[0]
    assert cluster.endpoint.url == "http://flink.example.com:8082"
    assert cluster.interval == 60.0
    assert cluster.job_defaults["taskmanager.numberOfTaskSlots"] == "4"
    assert cluster.job_defaults["job.autoscaler.enabled"] == "True"
    assert cluster.job_defaults["job.autoscaler.excluded.periods"] == "9:00-10:00;20:00-21:00"


@pytest.mark.parametrize("name", ["nested", "flat"])
def test_words_that_old_yaml_takes_for_booleans_stay_words(name: str) -> None:
    settings = settings_of(environment={"FLINK_CONF_DIR": str(INSTALLATIONS / name)})

    assert settings.job_defaults["job.autoscaler.scaling.parallelism-alignment.mode"] == "OFF"


def test_a_legacy_file_is_read_as_flink_reads_it() -> None:
    configuration = a_configuration(environment={"FLINK_CONF_DIR": str(INSTALLATIONS / "legacy")})

    assert configuration.values["scalingInterval"].text == "60s"
    assert configuration.values["env.java.opts"].text == '"-Dlabel=a: b"'
    assert configuration.values["flinkClusterPort"].origin.endswith("flink-conf.yaml line 5")
    assert [warning.partition(" is skipped")[0][-7:] for warning in configuration.warnings] == [
        "line 11",
        "line 12",
        "line 13",
    ]


def test_of_two_files_in_an_installation_only_the_legacy_one_counts() -> None:
    configuration = a_configuration(environment={"FLINK_CONF_DIR": str(INSTALLATIONS / "both")})

    assert texts_of(configuration) == {INTERVAL: "30s"}
    assert "config.yaml is ignored" in configuration.warnings[0]


def test_keys_of_flink_and_of_jobs_become_defaults_of_jobs_and_those_of_the_daemon_do_not() -> None:
    overrides = ["state.backend.type=rocksdb", "job.autoscaler.enabled=true", "flinkClusterHost=h", f"{INTERVAL}=1 s"]

    assert settings_of(overrides=overrides).job_defaults == {
        "state.backend.type": "rocksdb",
        "job.autoscaler.enabled": "true",
    }


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param(["scalingInterval=20 s"], 20.0, id="old key alone"),
        pytest.param([f"{INTERVAL}=30 s", "scalingInterval=20 s"], 30.0, id="current key wins"),
    ],
)
def test_an_old_key_counts_where_the_current_one_is_not_set(overrides: list[str], expected: float) -> None:
    assert settings_of(overrides=overrides).standalone.control_loop_interval == expected


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        pytest.param("JOB__AUTOSCALER__METRICS__WINDOW", "job.autoscaler.metrics.window", id="core option"),
        pytest.param("job__autoscaler__scale_down__interval", "job.autoscaler.scale-down.interval", id="any case"),
        pytest.param("AUTOSCALER__CLUSTERS__2__MAX_CONNECTIONS", "autoscaler.clusters.2.max-connections", id="list"),
        pytest.param(
            "AUTOSCALER__ENGINE__SPARK_CONFIG__SPARK__UI__ENABLED",
            "autoscaler.engine.spark-config.spark.ui.enabled",
            id="free key in upper case",
        ),
        pytest.param(
            "AUTOSCALER__ENGINE__SPARK_CONFIG__spark__extraListeners",
            "autoscaler.engine.spark-config.spark.extraListeners",
            id="free key as written",
        ),
        pytest.param(
            "AUTOSCALER__CLUSTERS__0__OPTIONS__JOB__AUTOSCALER__METRICS__WINDOW",
            "autoscaler.clusters.0.options.job.autoscaler.metrics.window",
            id="option of a cluster",
        ),
        pytest.param(
            "JOB__AUTOSCALER__METRICS__CUSTOM_EVALUATOR__PEAKS__LOOK_AHEAD",
            "job.autoscaler.metrics.custom-evaluator.peaks.look-ahead",
            id="parameter of a plug-in",
        ),
    ],
)
def test_a_variable_sets_the_key_it_spells(variable: str, key: str) -> None:
    configuration = a_configuration(environment={variable: "x", "PATH": "/bin"})

    assert texts_of(configuration) == {key: "x"}
    assert configuration.problems == ()


def test_an_override_may_hold_equals_signs_and_the_last_one_wins() -> None:
    assert texts_of(a_configuration(overrides=["a=1", "a=b=c"])) == {"a": "b=c"}


def test_clusters_have_their_own_values_and_else_those_of_all(tmp_path: Path) -> None:
    text = """
    autoscaler:
      engine.kind: inline
      clusters:
        - name: orders
          url: https://orders.example.com/flink/
          timeout: 500 ms
          interval: 1 min
          engine: spark
          max-connections: 4
          options:
            job.autoscaler.metrics.window: 30 min
        - {name: billing, url: "http://billing:8081"}
    job.autoscaler.flink.rest-client.timeout: 7 s
    job.autoscaler.metrics.window: 20 min
    """

    orders, billing = settings_of(file=a_file(tmp_path, text)).effective_clusters()

    assert (orders.endpoint.url, orders.endpoint.timeout, orders.endpoint.max_connections) == (
        "https://orders.example.com/flink",
        0.5,
        4,
    )
    assert (orders.interval, orders.engine) == (60.0, "spark")
    assert orders.job_defaults["job.autoscaler.metrics.window"] == "30 min"
    assert (billing.endpoint.timeout, billing.interval, billing.engine) == (7.0, 10.0, "inline")
    assert billing.job_defaults["job.autoscaler.metrics.window"] == "20 min"


def test_a_variable_changes_one_value_of_a_cluster_in_the_file(tmp_path: Path) -> None:
    file = a_file(tmp_path, "autoscaler.clusters: [{name: a, url: 'http://a:1'}, {name: b, url: 'http://b:1'}]")

    clusters = settings_of(file=file, environment={"AUTOSCALER__CLUSTERS__1__URL": "http://c:2"}).effective_clusters()

    assert [cluster.endpoint.url for cluster in clusters] == ["http://a:1", "http://c:2"]


@pytest.mark.parametrize(
    ("host", "url"),
    [("flink", "http://flink:8081"), ("::1", "http://[::1]:8081"), ("[::1]", "http://[::1]:8081")],
)
def test_host_and_port_make_the_only_cluster(host: str, url: str) -> None:
    assert settings_of(overrides=[f"flinkClusterHost={host}"]).effective_clusters()[0].endpoint.url == url


@pytest.mark.parametrize(
    ("text", "name"), [("MEMORY", "heap"), ("memory", "heap"), ("heap", "heap")], ids=["Java", "any case", "ours"]
)
def test_the_state_store_of_java_has_our_name(text: str, name: str) -> None:
    assert settings_of(overrides=[f"autoscaler.standalone.state-store.type={text}"]).standalone.state_store == name


def test_values_are_not_in_the_text_of_settings_and_configuration() -> None:
    overrides = ["s3.secret-key=hunter2", "autoscaler.standalone.jdbc.url=hunter2"]

    settings, configuration = SettingsLoader(overrides=overrides, environment={}).load()

    assert "hunter2" not in repr(configuration) + repr(settings) + repr(settings.effective_clusters())
