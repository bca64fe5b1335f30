"""``once --jobmanager-url`` and ``init``: from a URL alone to what is needed, and to a configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_autoscaler.standalone.cli.main import app
from testkit.builders.commands import Call, command_fixture
from testkit.fakes.flink import Canned, FakeFlink, Fault, chain
from testkit.servers.tls import Authority, TlsFront, server_context

ENABLING = "in autoscaler.yaml: job.autoscaler.enabled: true"
PROJECT = Path(__file__).parents[3]


call = command_fixture(app)


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.fault("/checkpoints/config", Canned.json({"interval": 30_000}))
        yield fake


def test_once_needs_nothing_but_a_url(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders", chain(vertices=2, parallelism=3))

    said = call("once", "--jobmanager-url", flink.url)

    assert said.returncode == 0
    assert "Flink 2.3.0, scheduler adaptive" in said.stdout
    assert "127.0.0.1/orders  RUNNING  needs 1 thing before it can be scaled" in said.stdout
    assert "needed: the autoscaler is not enabled for the job" in said.stdout
    assert ENABLING in said.stdout
    assert ["vertex", "1", "3", "128", "50%", "-", "300"] in [line.split() for line in said.stdout.splitlines()]


def test_once_with_a_url_sends_nothing_but_get(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders", configuration={"job.autoscaler.enabled": "true"})

    said = call("once", "--jobmanager-url", flink.url)

    assert "never changes anything" in said.stdout
    assert "ready to be scaled" in said.stdout
    assert flink.paths() == flink.paths("GET")


def test_once_with_a_url_takes_no_notice_of_the_environment(
    call: Call, flink: FakeFlink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOSCALER__CLUSTERS__0__NAME", "elsewhere")
    monkeypatch.setenv("FLINK_AUTOSCALER_CONFIG", "/nonexistent.yaml")

    assert call("once", "--jobmanager-url", flink.url).returncode == 0


def test_scheduler_is_told_once_for_the_cluster(call: Call, flink: FakeFlink) -> None:
    flink.configuration = {"jobmanager.scheduler": "default"}
    flink.add_job("orders", is_adaptive=False)
    flink.add_job("payments", is_adaptive=False)

    said = call("once", "--jobmanager-url", flink.url)

    assert said.stdout.count("in Flink's config.yaml: jobmanager.scheduler: adaptive") == 1
    assert said.stdout.count("needs 2 things before it can be scaled, with what the cluster needs") == 2


def test_every_job_has_its_findings_in_json(call: Call, flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain(vertices=2, parallelism=3), start_ms=1)
    del job.vertices[0].metrics["Source__source_0.pendingRecords"]

    said = call("once", "--jobmanager-url", flink.url, "--json")

    (cluster,) = json.loads(said.stdout)["clusters"]
    (shown,) = cluster["jobs"]
    assert (cluster["version"], cluster["error"], shown["enabled"], shown["ready"]) == ("2.3.0", None, False, False)
    assert [(each["code"], each["weight"]) for each in shown["findings"]] == [
        ("NOT_ENABLED", "needed"),
        ("LAG_UNKNOWN", "limit"),
        ("FIRST_DECISION", "note"),
    ]
    assert [(each["parallelism"], each["busy"], each["lag"]) for each in shown["vertices"]] == [
        (3, 0.5, None),
        (3, 0.5, None),
    ]


def test_cold_metrics_are_waited_for_and_not_claimed_to_be_missing(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders", chain(vertices=2))
    flink.fault("/subtasks/metrics", Canned.json([]), times=2)  # as Flink answers who asks first

    said = call("once", "--jobmanager-url", flink.url)

    assert said.stderr == "waiting for metrics, which Flink gathers when it is asked (up to 15 s)\n"
    assert "METRIC" not in said.stdout
    assert "50%" in said.stdout


def test_metrics_that_flink_does_not_gather_are_not_waited_for(call: Call, flink: FakeFlink) -> None:
    flink.configuration["metrics.fetcher.update-interval"] = "0"
    flink.add_job("orders")
    flink.fault("/subtasks/metrics", Canned.json([]))

    said = call("once", "--jobmanager-url", flink.url)

    assert said.stderr == ""
    assert "in Flink's config.yaml: metrics.fetcher.update-interval: 10000" in said.stdout


def test_several_clusters_are_looked_at_and_one_that_is_away_is_told(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders")
    with FakeFlink() as other:
        other.pause()

        said = call("once", "--jobmanager-url", flink.url, "--jobmanager-url", other.url)

    assert said.returncode == 1
    assert "127.0.0.1/orders" in said.stdout
    (error,) = said.stderr.splitlines()
    assert error.startswith(f"error: cluster 127.0.0.1-{other.url.rpartition(':')[2]}: ")
    assert "connection refused; nothing listens there: does the JobManager run" in error


def test_job_pattern_selects_what_is_shown(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders")
    flink.add_job("payments")

    assert "payments" not in call("once", "--jobmanager-url", flink.url, "--job", "ord*").stdout
    assert call("once", "--jobmanager-url", flink.url, "--job", "nothing").returncode == 1


def test_ended_jobs_are_named_in_one_line(call: Call, flink: FakeFlink) -> None:
    flink.add_job("done", state="FINISHED")

    assert "Ended, not managed: done (FINISHED)" in call("once", "--jobmanager-url", flink.url).stdout


def test_odd_job_names_are_shown_without_control_characters(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders \x1b[31m\nred")

    for arguments in (
        ("once", "--jobmanager-url", flink.url),
        ("init", "--jobmanager-url", flink.url, "--output", "-"),
    ):
        said = call(*arguments)

        assert "orders ?[31m?red" in said.stdout
        assert "\x1b" not in said.stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(Fault.HTML, "this is a page for people", id="a page"),
        pytest.param(Fault.HANG_UP, "is this the REST port of a JobManager", id="another port"),
        pytest.param(Fault.NOT_HTTP, "is this the REST port of a JobManager", id="another protocol"),
        pytest.param(
            Canned(b"", 401, headers={"WWW-Authenticate": "Basic realm=x"}),
            "here with --user NAME and --password-env or --password-file",
            id="password needed",
        ),
    ],
)
@pytest.mark.parametrize("command", [("once",), ("init", "--output", "-")], ids=["once", "init"])
def test_what_is_no_flink_is_one_sentence_that_says_what_to_do(
    call: Call, flink: FakeFlink, command: tuple[str, ...], fault: Fault | Canned, said: str
) -> None:
    flink.fault("/", fault)

    done = call(*command, "--jobmanager-url", flink.url)

    error = done.stderr.splitlines()[0]
    assert done.returncode == 1
    assert done.stdout == ""
    assert error.startswith("error: cluster 127.0.0.1: ")
    assert said in error


def test_certificate_that_is_not_trusted_is_told_with_the_option(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with TlsFront(int(flink.url.rpartition(":")[2]), server_context(authority.issue("localhost"))) as front:
        url = front.url.replace("127.0.0.1", "localhost")

        untrusted = call("once", "--jobmanager-url", url)
        plain = call("once", "--jobmanager-url", url.replace("https:", "http:"))
        trusted = call("once", "--jobmanager-url", url, "--ca-file", authority.ca_file)

    assert "here --ca-file FILE names it" in untrusted.stderr
    assert "if the server wants https, the URL has to begin with https://" in plain.stderr
    assert [untrusted.returncode, plain.returncode, trusted.returncode] == [1, 1, 0]


def test_credentials_are_sent_and_only_their_place_is_written(
    call: Call, flink: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALER_PASSWORD", "hunter2")
    access = ("--user", "ann", "--password-env", "SCALER_PASSWORD")
    file = tmp_path / "autoscaler.yaml"

    assert call("init", "--jobmanager-url", flink.url, *access, "--output", file).returncode == 0

    assert {request.headers["authorization"] for request in flink.requests} == {"Basic YW5uOmh1bnRlcjI="}
    assert "auth.password-env-variable: SCALER_PASSWORD" in file.read_text()
    assert "hunter2" not in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("--jobmanager-url", "jobmanager:8081"), "did you mean http://jobmanager:8081?", id="URL without scheme"
        ),
        pytest.param(
            ("--jobmanager-url", "http://a", "--config", "a.yaml"),
            "--jobmanager-url needs no --config",
            id="URL and file",
        ),
        pytest.param(("--ca-file", "ca.pem"), "go with --jobmanager-url", id="access without URL"),
    ],
)
def test_contradiction_is_a_mistake(call: Call, arguments: tuple[str, ...], said: str) -> None:
    done = call("once", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_once_with_a_file_says_what_jobs_need(call: Call, flink: FakeFlink) -> None:
    flink.configuration = {"jobmanager.scheduler": "default"}
    flink.add_job("orders")
    flink.add_job("payments")
    arguments = ("--set", "autoscaler.clusters.0.name=main", "--set", f"autoscaler.clusters.0.url={flink.url}")

    said = call("once", *arguments, "--set", "autoscaler.engine.kind=inline")
    document = json.loads(call("once", *arguments, "--set", "autoscaler.engine.kind=inline", "--json").stdout)

    assert said.returncode == 0
    assert said.stdout.count("main/orders, main/payments:") == 2
    assert "in Flink's config.yaml: jobmanager.scheduler: adaptive" in said.stdout
    assert [[need["code"] for need in job["needs"]] for job in document["clusters"][0]["jobs"]] == [
        ["SCHEDULER_NOT_ADAPTIVE", "NOT_ENABLED"],
        ["SCHEDULER_NOT_ADAPTIVE", "NOT_ENABLED"],
    ]


def test_init_writes_a_configuration_that_once_runs_with(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    flink.add_job("orders: the 'first' #1")
    file = tmp_path / "autoscaler.yaml"

    written = call("init", "--jobmanager-url", flink.url, "--output", file)
    checked = call("check-config", "--config", file, "--json")
    looked = call("once", "--config", file, "--dry-run", "--set", "autoscaler.engine.kind=inline")

    (cluster,) = json.loads(checked.stdout)["clusters"]
    assert (written.returncode, checked.returncode, looked.returncode) == (0, 0, 0)
    assert (cluster["name"], cluster["url"]) == ("127.0.0.1", flink.url)
    assert "127.0.0.1/orders: the 'first' #1" in looked.stdout
    assert "collecting" in looked.stdout
    assert f"flink-autoscaler once --config {file} --dry-run" in written.stderr


def test_init_takes_a_policy_that_there_is(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    flink.add_job("orders")
    file = tmp_path / "autoscaler.yaml"

    written = call("init", "--jobmanager-url", flink.url, "--policy", "slo", "--output", file)
    checked = call("check-config", "--config", file)
    refused = call("init", "--jobmanager-url", flink.url, "--policy", "hpa", "--output", "-")

    assert (written.returncode, checked.returncode, refused.returncode) == (0, 0, 2)
    assert "\njob.autoscaler.policy: slo\n" in file.read_text()
    assert "\njob.autoscaler.slo.lag: 60 s\n" in file.read_text()
    assert "there is no policy 'hpa'; known: capacity, varga, slo" in refused.stderr


def test_every_line_that_init_comments_out_is_valid(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    flink.add_job("orders")
    text = call("init", "--jobmanager-url", flink.url, "--output", "-").stdout
    options = ("# include", "# exclude", "# options:", "#   job.autoscaler.", "# job.autoscaler.")
    lines = [line.replace("# ", "", 1) if line.strip().startswith(options) else line for line in text.splitlines()]
    file = tmp_path / "all.yaml"
    file.write_text("\n".join(lines))

    said = call("check-config", "--config", file, "--json")

    (cluster,) = json.loads(said.stdout)["clusters"]
    assert (cluster["include"], cluster["exclude"]) == (["orders"], ["test-*"])
    assert cluster["options"] == {"job.autoscaler.vertex.max-parallelism": "16"}


def test_init_tells_what_the_clusters_need(call: Call, flink: FakeFlink) -> None:
    flink.configuration = {}
    flink.add_job("orders", configuration={"job.autoscaler.enabled": "false"})

    text = call("init", "--jobmanager-url", flink.url, "--output", "-").stdout

    assert "# Flink 2.3.0, scheduler not set" in text
    assert "#         in Flink's config.yaml: jobmanager.scheduler: adaptive" in text
    assert "#           in Flink's config.yaml: job.autoscaler.enabled: true" in text


def test_init_overwrites_only_by_force(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text("mine")

    refused = call("init", "--jobmanager-url", flink.url, "--output", file)
    kept = file.read_text()
    forced = call("init", "--jobmanager-url", flink.url, "--output", file, "--force")

    assert (refused.returncode, kept, forced.returncode) == (2, "mine", 0)
    assert "--force" in refused.stderr
    assert flink.url in file.read_text()


def test_init_writes_nothing_when_a_cluster_is_away(call: Call, flink: FakeFlink, tmp_path: Path) -> None:
    flink.pause()

    said = call("init", "--jobmanager-url", flink.url, "--output", tmp_path / "autoscaler.yaml")

    assert said.returncode == 1
    assert "nothing was written" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_sample_as_it_comes_finds_the_jobs_and_says_what_they_need(call: Call, flink: FakeFlink) -> None:
    flink.add_job("orders")
    port = flink.url.rpartition(":")[2]
    given = ("--config", PROJECT / "conf" / "autoscaler.yaml", "--set", "autoscaler.engine.kind=inline")

    said = call("once", *given, "--set", f"autoscaler.standalone.fetcher.flink-cluster.port={port}")

    assert said.returncode == 0
    assert "default/orders" in said.stdout
    assert ENABLING in said.stdout


def test_backpressure_is_shown_for_every_vertex(call: Call, flink: FakeFlink) -> None:
    job = flink.add_job("orders", chain(vertices=3))
    job.vertices[0].metrics["backPressuredTimeMsPerSecond"] = 990.0
    job.vertices[1].metrics["backPressuredTimeMsPerSecond"] = 120.0

    shown = call("once", "--jobmanager-url", flink.url).stdout
    (found,) = json.loads(call("once", "--jobmanager-url", flink.url, "--json").stdout)["clusters"][0]["jobs"]

    assert "BACKPRESSURED" in shown
    assert [vertex["backpressured"] for vertex in found["vertices"]] == [0.99, 0.12, None]
    assert "99%" in shown


def test_what_is_good_to_know_of_several_jobs_is_told_once(call: Call, flink: FakeFlink) -> None:
    for name in ("orders", "payments"):
        flink.add_job(name, start_ms=1, configuration={"job.autoscaler.enabled": "true"})

    said = call("once", "--jobmanager-url", flink.url)

    assert said.stdout.count("the first decision comes when") == 1
    assert "  all jobs:\n    note:" in said.stdout


def test_a_source_whose_busy_time_is_not_a_number_is_told(call: Call, flink: FakeFlink) -> None:
    """Sources of Flink SQL's older connectors report it so."""
    job = flink.add_job("orders", chain(vertices=2))
    job.vertices[0].metrics["busyTimeMsPerSecond"] = "NaN"

    said = call("once", "--jobmanager-url", flink.url)

    assert "Source: source 0: Flink reports NaN for its busyTimeMsPerSecond" in " ".join(said.stdout.split())
