"""Where metrics come from: what is checked before the daemon starts, by the key that is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.credentials import MetricSources
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.clusters import BasicAuth, SimpleAuth
from flink_autoscaler.standalone.settings.schema.settings import Settings

HTTP = {"url": "http://localhost:8081"}


HTTPS = {"url": "https://flink:8081"}


YARN = {"type": "yarn", "yarn.url": "http://localhost:8088"}


def load(cluster: Mapping[str, str], *more: str) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with one cluster and the warnings about them."""
    sets = [f"autoscaler.clusters.0.{name}={text}" for name, text in {"name": "a", **cluster}.items()]
    settings, configuration = SettingsLoader(overrides=[*sets, *more], environment={}).load()
    return settings, configuration.warnings


def problems_of(cluster: Mapping[str, str]) -> list[str]:
    """Return what is said about a cluster, without what stands in front of all keys."""
    with pytest.raises(ConfigError) as caught:
        load(cluster)
    return [line.replace("autoscaler.clusters.0.", "") for line in str(caught.value).splitlines()]


def warnings_about(cluster: Mapping[str, str], *more: str) -> list[str]:
    return [line.replace("autoscaler.clusters.0.", "") for line in load(cluster, *more)[1]]


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    return str(file)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        pytest.param(
            {}, "url is not set (the cluster is in --set): expected the URL of a JobManager, or type yarn", id="no URL"
        ),
        pytest.param(
            {"type": "yarn"},
            "yarn.url is not set (the cluster is in --set): type yarn needs the URL of a ResourceManager",
            id="YARN without ResourceManager",
        ),
        pytest.param(
            {**YARN, **HTTP},
            "url = 'http://localhost:8081' (--set): only for type flink; ResourceManagers are in yarn.url",
            id="YARN with JobManager",
        ),
        pytest.param(
            {**HTTP, "yarn.queues": "prod"}, "yarn.queues = 'prod' (--set): only for type yarn, which is flink",
            id="YARN options without YARN",
        ),
        pytest.param(
            {**HTTP, "parameters.x": "y"}, "parameters.x = 'y' (--set): clusters of type flink have no parameters",
            id="parameters",
        ),
        pytest.param(
            {"url": "http://localhost:1;http://localhost:1/"},
            "url = 'http://localhost:1;http://localhost:1/' (--set): http://localhost:1 is there more than once",
            id="one JobManager twice",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_with_the_type_is_named(cluster: dict[str, str], expected: str) -> None:
    assert problems_of(cluster) == [expected]


def test_an_unknown_type_names_the_known_ones() -> None:
    (problem,) = problems_of({"type": "flnk"})

    assert problem.startswith(
        "type = 'flnk' (--set): no plug-in 'flnk' in flink_autoscaler.fetchers; known: flink, yarn"
    )
    assert "did you mean 'flink'?" in problem


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        pytest.param({"auth.kind": "basic"}, ["auth.username is not set", "auth.password-file is not set"], id="basic"),
        pytest.param({"auth.kind": "bearer"}, ["auth.token-file is not set"], id="bearer"),
        pytest.param({"auth.kind": "simple"}, ["auth.username is not set"], id="simple"),
        pytest.param({"auth.username": "me"}, ["auth.username = 'me' (--set): auth.kind none does not"], id="no kind"),
        pytest.param(
            {"auth.kind": "simple", "auth.username": "me", "auth.principal": "me@REALM"},
            ["auth.principal = 'me@REALM' (--set): auth.kind simple does not use it, only kerberos"],
            id="option of another kind",
        ),
    ],
)
@pytest.mark.parametrize("section", ["", "yarn."])
def test_what_a_kind_of_authentication_needs_is_named(section: str, auth: dict[str, str], expected: list[str]) -> None:
    problems = problems_of({**(YARN if section else HTTP), **{section + name: text for name, text in auth.items()}})

    plain = [problem.replace(f"{section}auth.", "auth.") for problem in problems]
    assert all(problem.startswith(start) for problem, start in zip(plain, expected, strict=True))


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({**HTTP, "auth.kind": "basic", "auth.username": "me", "auth.password-file": ""}, id="basic"),
        pytest.param({**HTTP, "auth.kind": "bearer", "auth.token-file": ""}, id="bearer"),
        pytest.param({**HTTP, "auth.kind": "simple", "auth.username": "me"}, id="simple"),
        pytest.param({**HTTP, "headers.X-Tenant": "a", "headers-file.X-Key": ""}, id="headers"),
        pytest.param({**YARN, "yarn.delegation-token-file": "", "yarn.queues": "a;b"}, id="delegation token"),
        pytest.param(
            {**YARN, "yarn.auth.kind": "none", "yarn.types": "Apache Flink", "job-user-config": "true"}, id="YARN"
        ),
        pytest.param({"url": "https://a;https://b"}, id="two JobManagers"),
    ],
)
def test_what_fits_together_is_taken_without_a_word(cluster: dict[str, str], secret: str) -> None:
    filled = {name: text or secret for name, text in cluster.items()}

    assert warnings_about(filled) == []


@pytest.mark.parametrize(
    ("cluster", "names"),
    [
        pytest.param({**HTTP, "auth.kind": "bearer"}, "auth.token", id="token"),
        pytest.param({**HTTP, "auth.kind": "basic", "auth.username": "me"}, "auth.password", id="password"),
        pytest.param(YARN, "yarn.delegation-token", id="delegation token"),
    ],
)
def test_one_secret_comes_from_one_place(
    cluster: dict[str, str], names: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")

    problems = problems_of({**cluster, f"{names}-file": secret, f"{names}-env-variable": "SECRET"})

    assert problems == [
        f"{names}-file = '{secret}' (--set) and {names}-env-variable = 'SECRET' (--set): expected one of the two"
    ]


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        pytest.param(
            {**HTTP, "auth.kind": "bearer", "auth.token-file": "/no/such"},
            "auth.token-file = '/no/such' (--set): /no/such: No such file or directory; expected a file that the user"
            " of the daemon can read",
            id="token file",
        ),
        pytest.param(
            {**HTTP, "auth.kind": "bearer", "auth.token-env-variable": "NOT_SET_ANYWHERE"},
            "auth.token-env-variable = 'NOT_SET_ANYWHERE' (--set): the environment variable NOT_SET_ANYWHERE is not set"
            " or blank; set it for the daemon",
            id="variable",
        ),
        pytest.param(
            {**HTTP, "headers-file.X-Key": "/no/such"},
            "headers-file.X-Key = '/no/such' (--set): /no/such: No such file or directory; expected a file that the"
            " user of the daemon can read",
            id="header",
        ),
        pytest.param(
            {**HTTPS, "tls.ca-file": "/no/such"},
            "tls.ca-file /no/such cannot be read: No such file or directory",
            id="authorities",
        ),
    ],
)
def test_a_secret_that_cannot_be_read_is_named(cluster: dict[str, str], expected: str) -> None:
    assert problems_of(cluster) == [expected]


def test_a_keytab_has_to_be_readable() -> None:
    problems = problems_of({**HTTP, "auth.kind": "kerberos", "auth.keytab": "/no/such"})

    assert "auth.keytab = '/no/such' (--set): /no/such: No such file or directory" in problems


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        pytest.param({**HTTP, "tls.verify-host": "false"}, "of no use for http://localhost:8081", id="http"),
        pytest.param({**HTTPS, "tls.key-file": "/k"}, "of no use without tls.certificate-file", id="key alone"),
        pytest.param({**HTTPS, "tls.certificate-file": ""}, "holds no certificate in PEM", id="not PEM"),
    ],
)
def test_certificates_and_keys_have_to_fit(tls: dict[str, str], expected: str, secret: str) -> None:
    (problem,) = problems_of({name: text or secret for name, text in tls.items()})

    assert problem.startswith("tls.")
    assert expected in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"headers.X Y": "a"}, "not the name of a header", id="blank in a name"),
        pytest.param({"headers.X-Ü": "a"}, "not the name of a header", id="umlaut in a name"),
        pytest.param({"headers.Host": "a"}, "the daemon sets this header itself", id="ours"),
        pytest.param({"headers.X-A": "ü"}, "expected printable ASCII", id="umlaut in a value"),
        pytest.param({"headers.X-A": "a\r\nX-B: b"}, "expected printable ASCII", id="two lines in a value"),
        pytest.param({"headers.X-A": "a", "headers-file.x-a": ""}, "set more than once", id="twice"),
        pytest.param(
            {"headers.Authorization": "x", "auth.kind": "bearer", "auth.token-file": ""},
            "auth.kind bearer sets this header",
            id="authorization",
        ),
    ],
)
def test_headers_that_cannot_be_sent_are_named(headers: dict[str, str], expected: str, secret: str) -> None:
    problems = problems_of({**HTTP, **{name: text or secret for name, text in headers.items()}})

    assert all(expected in problem for problem in problems)
    assert problems[0].startswith("headers.")


def test_values_of_headers_are_not_shown() -> None:
    (problem,) = problems_of({**HTTP, "headers.X-A": "hunter2 ü"})

    assert problem == "headers.X-A = '******' (--set): expected printable ASCII"


def test_a_secret_that_cannot_be_sent_is_named_without_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2\tü")

    (problem,) = problems_of({**HTTP, "auth.kind": "bearer", "auth.token-file": str(tmp_path / "token")})

    assert problem.endswith("what it holds cannot be sent; expected printable ASCII")
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"url": "ftp://x", "auth.kind": "simple", "auth.username": "me"}, id="URL"),
        pytest.param({**HTTP, "auth.kind": "magic", "auth.username": "me"}, id="authentication"),
        pytest.param({**YARN, "yarn.auth.kind": "magic", "yarn.auth.username": "me"}, id="authentication of YARN"),
    ],
)
def test_nothing_follows_from_what_cannot_be_read(broken: dict[str, str]) -> None:
    assert len(problems_of(broken)) == 1


@pytest.mark.parametrize(
    ("url", "is_dangerous"),
    [
        ("http://flink:8081", True),
        ("http://127.0.0.1:8081", False),
        ("http://localhost:8081", False),
        ("http://[::1]:8081", False),
        ("http://10.0.0.1:8081", True),
        ("https://flink:8081", False),
        ("https://a;http://b", True),
    ],
)
def test_a_secret_without_encryption_is_a_warning(url: str, is_dangerous: bool, secret: str) -> None:
    found = warnings_about({"url": url, "auth.kind": "bearer", "auth.token-file": secret})

    assert bool(found) is is_dangerous
    assert all(line.startswith(f"auth.token-file = '{secret}' (--set): sent to http://") for line in found)


@pytest.mark.parametrize(
    ("pattern", "is_odd"),
    [
        ("orders-.*", True),
        (".*", True),
        ("^orders", True),
        ("orders$", True),
        ("com.acme.*", False),
        ("orders-*", False),
        ("a+b", False),
    ],
)
def test_a_pattern_that_looks_like_a_regular_expression_is_a_warning(pattern: str, is_odd: bool) -> None:
    assert bool(warnings_about({**HTTP, "include": pattern})) is is_odd


@pytest.mark.parametrize(
    ("include", "expected"),
    [pytest.param((), 1, id="all jobs"), pytest.param(("autoscaler.clusters.1.include=b-*",), 0, id="some of them")],
)
def test_two_clusters_with_one_jobmanager_are_a_warning(include: tuple[str, ...], expected: int) -> None:
    second = ("autoscaler.clusters.1.name=b", "autoscaler.clusters.1.url=http://localhost:8081")

    found = warnings_about(HTTP, *second, *include)

    assert len(found) == expected
    assert all("the cluster 'a' has http://localhost:8081, too" in line for line in found)


def test_nested_keys_of_a_list_come_from_variables(secret: str) -> None:
    environment = {
        "AUTOSCALER__CLUSTERS__0__NAME": "a",
        "AUTOSCALER__CLUSTERS__0__URL": "https://one;https://two/flink/",
        "AUTOSCALER__CLUSTERS__0__AUTH__KIND": "BASIC",
        "AUTOSCALER__CLUSTERS__0__AUTH__USERNAME": "me",
        "AUTOSCALER__CLUSTERS__0__AUTH__PASSWORD_FILE": secret,
        "AUTOSCALER__CLUSTERS__0__HEADERS__X_TENANT": "t",
        "AUTOSCALER__CLUSTERS__0__HEADERS_FILE__X_Key": secret,
        "AUTOSCALER__CLUSTERS__0__TLS__VERIFY_HOST": "false",
        "AUTOSCALER__CLUSTERS__1__NAME": "y",
        "AUTOSCALER__CLUSTERS__1__TYPE": "yarn",
        "AUTOSCALER__CLUSTERS__1__YARN__URL": "http://localhost:8088",
        "AUTOSCALER__CLUSTERS__1__YARN__AUTH__KIND": "simple",
        "AUTOSCALER__CLUSTERS__1__YARN__AUTH__USERNAME": "yarn",
    }

    one, two = SettingsLoader(environment=environment).read().clusters

    assert (one.url, one.tls.verify_host) == (("https://one", "https://two/flink"), False)
    assert one.auth == BasicAuth(username="me", password_file=secret)
    assert (one.headers, one.headers_file) == ({"x-tenant": "t"}, {"X-Key": secret})
    assert (two.type, two.yarn.auth) == ("yarn", SimpleAuth(username="yarn"))


def test_a_key_of_another_kind_of_authentication_hides_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "autoscaler.clusters:\n"
        "  - name: a\n"
        "    url: https://a:1\n"
        "    auth: {kind: Basic, token-file: /t, password-file: /nowhere}\n"
        "    provider: {type: none, auth.username: me}\n"
    )

    with pytest.raises(ConfigError) as caught:
        SettingsLoader(file, environment={}).read()

    auth = "autoscaler.clusters.0.auth"
    provider = "autoscaler.clusters.0.provider.auth"
    assert sorted(str(caught.value).splitlines()) == [
        f"{auth}.password-file = '/nowhere' ({file} line 4): /nowhere: No such file or directory; expected a file that"
        " the user of the daemon can read",
        f"{auth}.token-file = '/t' ({file} line 4): {auth}.kind basic does not use it, only bearer",
        f"{auth}.username is not set (the cluster is in {file} line 2): {auth}.kind basic needs it",
        f"{provider}.username = 'me' ({file} line 5): {provider}.kind none does not use it, only basic and simple",
    ]


def test_lists_in_a_file_are_lists(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "autoscaler.clusters:\n"
        "  - {name: a, url: ['http://a:1', 'http://b:1'], include: ['x;y', '[ab]*', '*.c'], exclude: test-*}\n"
    )

    (cluster,) = SettingsLoader(file, environment={}).read().clusters

    assert cluster.url == ("http://a:1", "http://b:1")
    assert (cluster.include, cluster.exclude) == (("x;y", "[ab]*", "*.c"), ("test-*",))


@pytest.mark.parametrize("count", [1, 8])
def test_the_number_of_jobmanagers_is_of_no_account_for_the_lease(count: int) -> None:
    ha = (
        "autoscaler.ha.enabled=true",
        "autoscaler.standalone.state-store.type=JDBC",
        "autoscaler.standalone.jdbc.url=jdbc:sqlite:/tmp/autoscaler.db",
    )

    settings, _ = load({"url": ";".join(f"https://j{number}" for number in range(count))}, *ha)

    assert settings.ha.ttl == 30.0


GUIDE = Path(__file__).parents[5] / "docs" / "guide" / "clusters.md"


YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(YAML_BLOCK.findall(GUIDE.read_text()))))
def test_examples_of_the_guide_lack_nothing_but_their_secrets(number: int, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(YAML_BLOCK.findall(GUIDE.read_text())[number])

    try:
        SettingsLoader(file, environment={}).read()
        problems = []
    except ConfigError as error:
        problems = str(error).splitlines()

    assert all("No such file" in problem or "is not set or blank" in problem for problem in problems)


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
