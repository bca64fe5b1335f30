from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import Configuration

TIME = "a duration such as '10 s', '1.5 min' or '1h 30min'"


def a_file(directory: Path, text: str) -> Path:
    file = directory / "a.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def problems_of(
    sets: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Load a file, variables and overrides and return the lines of the error."""
    overrides = [f"{key}={value}" for key, value in (sets or {}).items()]
    with pytest.raises(ConfigError) as caught:
        SettingsLoader(file, overrides, environment=environment or {}).read()
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "line 3: a is already set in line 1", id="duplicate key"),
        pytest.param("a.b: 1\na: {b: 2}", "line 2: a.b is already set in line 1", id="nested and flat duplicate"),
        pytest.param("a: [1, 2\nb: 3", "line 2 column 2: did not find expected ',' or ']'", id="syntax error"),
        pytest.param("a: \x01", "line 1 column 4: control characters are not allowed", id="control character"),
        pytest.param("a: 1\n---\nb: 2", "line 2 column 1: but found another document", id="two documents"),
        pytest.param("- a\n- b", "line 1: expected a mapping of keys to values at the top level", id="list"),
        pytest.param("hello", "line 1: expected a mapping of keys to values at the top level", id="plain text"),
        pytest.param("[a]: 1", "line 1: a key must be text", id="list as a key"),
        pytest.param("a: [[1], 2]", "line 1: a list holds either maps or plain values", id="list of lists"),
        pytest.param(
            "a: !!python/object/apply:os.getcwd []\nb: !c d", "line 2: the tag !c is not supported", id="foreign tag"
        ),
        pytest.param("a: &a\n  b: *a", "line 1: more than 20000 values or 40 levels", id="endless alias"),
        pytest.param("a: " + "[" * 5000, "line 1: more than 20000 values or 40 levels", id="thousands of levels"),
        pytest.param("x: '" + "x" * (1 << 20) + "'", "larger than 1048576 bytes", id="too large"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place(tmp_path: Path, text: str, expected: str) -> None:
    problems = problems_of(file=a_file(tmp_path, text))

    assert len(problems) == 1
    assert problems[0].startswith(str(tmp_path / "a.yaml"))
    assert problems[0].endswith(expected)


def test_aliases_that_stand_for_each_other_many_times_are_refused(tmp_path: Path) -> None:
    levels = "\n".join(f"l{n}: &l{n} [{', '.join([f'{{x: *l{n - 1}}}'] * 9)}]" for n in range(1, 9))

    assert problems_of(file=a_file(tmp_path, f"l0: &l0 [1]\n{levels}"))[0].endswith(
        "more than 20000 values or 40 levels"
    )


def test_a_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")

    assert SettingsLoader(file, environment={}).configuration().problems == (f"{file} line 2: not UTF-8",)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "no.yaml"

    assert SettingsLoader(file, environment={}).configuration().problems == (f"{file}: No such file or directory",)


def test_a_syntax_error_does_not_show_the_line(tmp_path: Path) -> None:
    assert "hunter2" not in problems_of(file=a_file(tmp_path, "password: [hunter2\nb: 3"))[0]


def test_an_installation_directory_must_exist(tmp_path: Path) -> None:
    missing = problems_of(environment={"FLINK_CONF_DIR": str(tmp_path / "no")})
    empty = problems_of(environment={"FLINK_CONF_DIR": ""})
    bare = problems_of(environment={"FLINK_CONF_DIR": str(tmp_path)})

    assert missing == [f"environment variable FLINK_CONF_DIR: there is no directory '{tmp_path / 'no'}'"]
    assert empty == ["environment variable FLINK_CONF_DIR: there is no directory ''"]
    assert bare == [f"environment variable FLINK_CONF_DIR: {tmp_path} has neither config.yaml nor flink-conf.yaml"]


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        pytest.param("autoscaler.http.prt", "autoscaler.http.port", id="daemon"),
        pytest.param("job.autoscaler.utilisation.target", "job.autoscaler.utilization.target", id="core"),
        pytest.param(
            "kubernetes.operator.job.autoscaler.metric.window",
            "kubernetes.operator.job.autoscaler.metrics.window",
            id="core with the legacy prefix",
        ),
        pytest.param("autoscaler.clusters.3.ulr", "autoscaler.clusters.3.url", id="entry of a list"),
    ],
)
def test_an_unknown_key_names_its_origin_and_the_nearest_one(key: str, suggestion: str) -> None:
    assert problems_of({key: "1"}) == [f"{key} (--set): unknown key; did you mean '{suggestion}'?"]


def test_an_unknown_key_in_the_options_of_a_cluster_is_found() -> None:
    key = "autoscaler.clusters.0.options.job.autoscaler.enable"

    problems = problems_of({"autoscaler.clusters.0.name": "a", "autoscaler.clusters.0.url": "http://a", key: "1"})

    assert problems == [f"{key} (--set): unknown key; did you mean 'job.autoscaler.enabled'?"]


@pytest.mark.parametrize(
    "key",
    [
        "job.autoscaler.metrics.custom-evaluator.peaks.class",
        "job.autoscaler.scaling.custom-executor.night.start.hour",
        "kubernetes.operator.job.autoscaler.scaling.parallelism-alignment.mode.even.step",
        "autoscaler.engine.spark-config.spark.ui.enabled",
        "kubernetes.operator.reconcile.interval",
        "pipeline.name",
    ],
)
def test_parameters_of_plugins_and_keys_of_others_are_known(key: str) -> None:
    assert SettingsLoader(overrides=[f"{key}=x"], environment={}).configuration().problems == ()


def test_a_foreign_key_that_is_nearly_ours_is_a_warning() -> None:
    warnings = SettingsLoader(overrides=["autoscaller.http.port=1"], environment={}).configuration().warnings

    assert len(warnings) == 1
    assert "did you mean 'autoscaler.http.port'?" in warnings[0]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {"AUTOSCALER__HTPP__PORT": "1"},
            "environment variable AUTOSCALER__HTPP__PORT: unknown; did you mean 'AUTOSCALER__HTTP__PORT'?",
            id="unknown",
        ),
        pytest.param(
            {"AUTOSCALER__DRY_RUN": "true", "autoscaler__dry_run": "false"},
            "environment variable autoscaler__dry_run: autoscaler.dry-run is already set by environment variable"
            " AUTOSCALER__DRY_RUN",
            id="twice",
        ),
    ],
)
def test_a_variable_below_our_prefixes_must_be_known_and_set_once(environment: dict[str, str], expected: str) -> None:
    assert problems_of(environment=environment) == [expected]


def test_an_override_without_equals_sign_is_refused_without_showing_it() -> None:
    configuration = SettingsLoader(overrides=["a=1", "hunter2"], environment={}).configuration()

    assert configuration.problems == ("--set number 2: expected key=value",)


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("autoscaler.http.port", "99999", "a whole number, at least 0, at most 65535"),
        ("autoscaler.http.port", "x", "a whole number, at least 0, at most 65535"),
        ("autoscaler.dry-run", "yes", "true or false"),
        ("autoscaler.engine.kind", "dask", "spark, auto or inline"),
        ("autoscaler.log.level", "loud", "debug, info, warning or error"),
        ("autoscaler.engine.driver-memory", "1m", "a memory size such as '512m', at least 450m"),
        ("autoscaler.engine.job-deadline", "0", f"{TIME}, more than 0 s"),
        ("autoscaler.engine.spark-master", " ", "text that is not blank"),
        ("scalingInterval", "PT10S", f"{TIME}, at least 100 ms"),
        ("job.autoscaler.metrics.window", "1.5 s", "a whole number and a unit, such as '90 s', '1500 ms' or '2 h'"),
        ("job.autoscaler.metrics.busy-time.aggregator", "P99", "one of AVG, MAX, MIN"),
        ("job.autoscaler.flink.rest-client.timeout", "0", "more than 0 s"),
    ],
)
def test_a_bad_value_is_named_with_origin_and_what_is_allowed(key: str, text: str, expected: str) -> None:
    assert problems_of({key: text}) == [f"{key} = '{text}' (--set): expected {expected}"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://a", "ftp://a"),
        ("http://", "http://"),
        ("http://a:0", "http://a:0"),
        ("http://a:port", "http://a:port"),
        ("http://me:hunter2@a:1", "http://******@a:1"),
        ("http://a?token=hunter2", "http://a?token=******"),
    ],
)
def test_a_bad_url_is_refused_without_showing_its_password(url: str, shown: str) -> None:
    problems = problems_of({"autoscaler.clusters.0.name": "a", "autoscaler.clusters.0.url": url})

    assert len(problems) == 1
    assert problems[0].startswith(f"autoscaler.clusters.0.url = '{shown}' (--set): expected http:// or https://")


def test_an_option_of_the_core_out_of_range_is_named_with_its_range() -> None:
    problems = problems_of({"job.autoscaler.utilization.target": "3", "job.autoscaler.scale-up.max-factor": "-1"})

    assert len(problems) == 2
    assert any("job.autoscaler.utilization.target = '3' (--set)" in line and "[0.0, 1.0]" in line for line in problems)
    assert any("scale-up.max-factor = '-1' (--set)" in line and "[0.0, +Infinity]" in line for line in problems)


@pytest.mark.parametrize(
    ("sets", "start"),
    [
        pytest.param(
            {"job.autoscaler.metrics.window": "10 s"},
            "job.autoscaler.metrics.window = '10 s' (--set): expected more than 10 s,",
            id="window set",
        ),
        pytest.param(
            {"scalingInterval": "1 h"},
            "job.autoscaler.metrics.window = '15 min' (default): expected more than 1 h, the time between two passes"
            " (scalingInterval = '1 h' (--set))",
            id="interval set",
        ),
        pytest.param(
            {
                "autoscaler.clusters.0.name": "a",
                "autoscaler.clusters.0.url": "http://a",
                "autoscaler.clusters.0.interval": "1 h",
            },
            "job.autoscaler.metrics.window = '15 min' (default): expected more than 1 h, the time between two passes"
            " (autoscaler.clusters.0.interval = '1 h' (--set))",
            id="interval of a cluster set",
        ),
    ],
)
def test_the_metric_window_must_be_longer_than_the_interval(sets: dict[str, str], start: str) -> None:
    problems = problems_of(sets)

    assert len(problems) == 1
    assert problems[0].startswith(start)


def test_a_name_that_no_plugin_has_is_refused() -> None:
    problems = problems_of({"autoscaler.standalone.state-store.type": "stone-tablet"})

    assert problems[0].startswith(
        "autoscaler.standalone.state-store.type = 'stone-tablet' (--set): no plug-in 'stone-tablet' in"
        " flink_autoscaler.stores; known: "
    )


def test_a_policy_that_nobody_knows_is_refused_with_its_place(tmp_path: Path) -> None:
    text = """
job.autoscaler.policy: slow
autoscaler.clusters:
  - {name: a, url: "http://a"}
  - name: b
    url: http://b
    options: {job.autoscaler.policy.shadow: slo2}
"""

    problems = problems_of(file=a_file(tmp_path, text))

    assert len(problems) == 2
    assert "job.autoscaler.policy" in problems[0]
    assert "no policy is called 'slow'; known: capacity, slo" in problems[0]
    assert problems[0].endswith("did you mean 'slo'?")
    assert "autoscaler.clusters.1.options.job.autoscaler.policy.shadow = 'slo2'" in problems[1]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
autoscaler.clusters:
  - {name: a, url: "http://a"}
  - {name: a, url: "http://b", timeout: 0}
  - {url: "http://c"}
autoscaler.http.prt: 1
job.autoscaler.restart.time: 3x
autoscaler.log.level: loud
"""

    problems = problems_of(file=a_file(tmp_path, text), environment={"AUTOSCALER__X": "1"})

    assert len(problems) == 7
    for part in ("name 'a'", "1.timeout", "2.name is not set", "http.prt", "restart.time", "AUTOSCALER__X", "loud"):
        assert any(part in problem for problem in problems), part


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


def flink_file(directory: Path, text: str) -> Path:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_nothing_set_gives_the_defaults() -> None:
    assert settings_of() == Settings()


def test_every_layer_wins_over_the_ones_before(tmp_path: Path) -> None:
    java = {"FLINK_CONF_DIR": str(INSTALLATIONS / "flat")}
    file = flink_file(tmp_path, f"{INTERVAL}: 50 s")
    variable = {**java, "AUTOSCALER__STANDALONE__CONTROL_LOOP__INTERVAL": "40 s"}

    intervals = [
        settings_of(environment=java),
        settings_of(environment=java, file=file),
        settings_of(environment=variable, file=file),
        settings_of(environment=variable, file=file, overrides=[f"{INTERVAL}=30 s"]),
    ]

    assert [settings.standalone.control_loop_interval for settings in intervals] == [60.0, 50.0, 40.0, 30.0]


def test_every_value_says_where_it_was_set(tmp_path: Path) -> None:
    file = flink_file(tmp_path, "\nautoscaler:\n  dry-run: true\n")

    values = a_configuration(
        file=file, environment={"AUTOSCALER__HTTP__PORT": "1"}, overrides=["autoscaler.log.level=debug"]
    ).values

    assert values["autoscaler.dry-run"].origin == f"{file} line 3"
    assert values["autoscaler.http.port"].origin == "environment variable AUTOSCALER__HTTP__PORT"
    assert values["autoscaler.log.level"].origin == "--set"


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = flink_file(tmp_path, "autoscaler.dry-run: true")

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

    orders, billing = settings_of(file=flink_file(tmp_path, text)).effective_clusters()

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
    file = flink_file(tmp_path, "autoscaler.clusters: [{name: a, url: 'http://a:1'}, {name: b, url: 'http://b:1'}]")

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
