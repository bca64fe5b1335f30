"""What is applied, refused and put off when the configuration is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from watching import LogLines

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.daemon.loop import Watch
from flink_autoscaler.standalone.daemon.reload import ClusterChanges, Reload, applicable, restart_keys
from flink_autoscaler.standalone.settings.schema.clusters import AuthSettings, ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.http import HttpSettings
from flink_autoscaler.standalone.settings.schema.settings import (
    Cluster,
    EngineSettings,
    HaSettings,
    LogLevel,
    LogSettings,
    LoopSettings,
    Settings,
    StandaloneSettings,
)


def a_cluster(name: str, **values: object) -> ClusterSettings:
    return ClusterSettings(name=name, **{"url": (f"http://{name}:8081",), **values})  # type: ignore[arg-type]


def some(*clusters: ClusterSettings, **values: object) -> Settings:
    return Settings(clusters=clusters, **values)  # type: ignore[arg-type]


class NamedWatch:
    """Stands for what looks after a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster


class Daemon:
    """Makes watches and takes them; remembers what was done."""

    def __init__(self) -> None:
        self.deeds: list[str] = []
        self.open: list[str] = []
        self.operators: list[tuple[str, ...]] = []
        self.cannot_make: str | None = None
        self.error: Exception = ConfigError("the plug-in is missing")

    def make(self, cluster: Cluster) -> Watch:
        if cluster.name == self.cannot_make:
            raise self.error
        self.open.append(cluster.name)
        return NamedWatch(cluster)  # type: ignore[return-value]

    def release(self, watch: Watch) -> None:
        self.open.remove(watch.cluster.name)  # type: ignore[attr-defined]

    def put(self, watch: Watch) -> None:
        self.deeds.append(f"put {watch.cluster.name}")  # type: ignore[attr-defined]

    def remove(self, cluster: str) -> None:
        self.deeds.append(f"remove {cluster}")

    def prepare(self, settings: Settings) -> Callable[[], None]:
        if "cannot be read" in settings.http.operators:
            raise ConfigError("autoscaler.http.operator-token-file: it is not there")
        return lambda: self.operators.append(settings.http.operators)

    def follow(self, settings: Settings) -> None:
        self.deeds.append(f"applied {len(settings.clusters)}")


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def lines() -> Iterator[LogLines]:
    with LogLines() as lines:
        yield lines


def a_reload(daemon: Daemon, running: Settings, load: Callable[[], Settings]) -> Reload:
    return Reload(running, load=load, clusters=daemon)


BEFORE = some(a_cluster("a"), a_cluster("b"), a_cluster("c"), a_cluster("d"))
AFTER = some(a_cluster("e"), a_cluster("d", interval=5.0), a_cluster("a"), a_cluster("b"))


def test_clusters_are_added_changed_and_removed(daemon: Daemon, lines: LogLines) -> None:
    reload = a_reload(daemon, BEFORE, lambda: AFTER)

    is_applied = reload()

    (line,) = lines.all()
    assert is_applied
    assert daemon.deeds == ["applied 4", "remove c", "put e", "put d"]
    assert (line["event"], line["added"], line["changed"], line["removed"]) == ("reloaded", ["e"], ["d"], ["c"])


def test_the_next_reload_goes_on_from_there(daemon: Daemon, lines: LogLines) -> None:
    reload = a_reload(daemon, BEFORE, lambda: AFTER)
    reload()
    daemon.deeds.clear()

    reload()

    assert daemon.deeds == ["applied 4"]
    assert lines.of("reloaded")[1]["changed"] == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(some(a_cluster("a", url=("http://other:8081",))), id="URL"),
        pytest.param(some(a_cluster("a", timeout=1.0)), id="timeout"),
        pytest.param(some(a_cluster("a", exclude=("x-*",))), id="jobs left alone"),
        pytest.param(some(a_cluster("a", auth=AuthSettings(username="u"))), id="credentials"),
        pytest.param(some(a_cluster("a", options={"job.autoscaler.enabled": "true"})), id="defaults of its jobs"),
        pytest.param(some(a_cluster("a"), job_defaults={"job.autoscaler.enabled": "true"}), id="defaults of all jobs"),
        pytest.param(
            some(a_cluster("a"), standalone=StandaloneSettings(control_loop_interval=3.0)), id="interval of all"
        ),
        pytest.param(some(a_cluster("a"), engine=EngineSettings(kind=EngineKind.INLINE)), id="engine of all"),
    ],
)
def test_whatever_holds_for_a_cluster_changes_it(daemon: Daemon, lines: LogLines, changed: Settings) -> None:
    a_reload(daemon, some(a_cluster("a")), lambda: changed)()

    assert daemon.deeds == ["applied 1", "put a"]
    assert lines.of("restart_needed") == []


def test_clusters_without_names_are_compared_as_well(daemon: Daemon, lines: LogLines) -> None:
    elsewhere = Settings(standalone=StandaloneSettings(port=9999))

    a_reload(daemon, Settings(), lambda: elsewhere)()

    assert lines.of("reloaded")[0]["changed"] == ["default"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConfigError("a = '1': expected 2\nb = 'x': expected y"), id="a mistake"),
        pytest.param(ConfigError("the file is not there"), id="no file"),
    ],
)
def test_invalid_configuration_is_refused_with_every_problem(
    daemon: Daemon, lines: LogLines, error: ConfigError
) -> None:
    def load() -> Settings:
        raise error

    is_applied = a_reload(daemon, BEFORE, load)()

    (line,) = lines.all()
    assert not is_applied
    assert daemon.deeds == []
    assert (line["event"], line["level"]) == ("reload_refused", "error")
    assert line["problems"] == str(error).splitlines()


def test_whatever_is_raised_while_reading_is_a_refusal(daemon: Daemon, lines: LogLines) -> None:
    def load() -> Settings:
        raise OSError("stale file handle")

    assert not a_reload(daemon, BEFORE, load)()
    assert lines.of("reload_refused")[0]["problems"] == ["OSError: stale file handle"]


@pytest.mark.parametrize(
    "error", [pytest.param(ConfigError("no plug-in"), id="ours"), pytest.param(ValueError("x"), id="a plug-in's")]
)
def test_one_cluster_that_cannot_be_built_refuses_all(daemon: Daemon, lines: LogLines, error: Exception) -> None:
    daemon.cannot_make, daemon.error = "d", error

    is_applied = a_reload(daemon, BEFORE, lambda: AFTER)()

    assert not is_applied
    assert (daemon.deeds, daemon.open) == ([], [])


RUNNING = some(a_cluster("a"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"http": HttpSettings(port=1)}, ["autoscaler.http.port"], id="HTTP"),
        pytest.param({"log": LogSettings(level=LogLevel.DEBUG)}, ["autoscaler.log.level"], id="log"),
        pytest.param({"ha": HaSettings(ttl=99.0)}, ["autoscaler.ha.ttl"], id="leadership"),
        pytest.param({"dry_run": True}, ["autoscaler.dry-run"], id="dry run"),
        pytest.param({"realizer": "log-only"}, ["autoscaler.realizer"], id="realizer"),
        pytest.param(
            {"engine": EngineSettings(spark_master="local[1]", job_deadline=1.0)},
            ["autoscaler.engine.spark-master", "autoscaler.engine.job-deadline"],
            id="engine",
        ),
        pytest.param(
            {"standalone": StandaloneSettings(state_store="jdbc", jdbc_url="jdbc:sqlite:x", control_loop_interval=5.0)},
            ["autoscaler.standalone.state-store.type", "autoscaler.standalone.jdbc.url"],
            id="store",
        ),
        pytest.param({"loop": LoopSettings(shutdown_grace=1.0)}, [], id="loop: applied"),
    ],
)
def test_what_needs_a_restart_is_named(changes: dict[str, object], expected: list[str]) -> None:
    wanted = RUNNING.model_copy(update=changes)

    assert list(restart_keys(applicable(RUNNING, wanted), wanted)) == expected


def test_what_needs_a_restart_is_one_warning_and_the_rest_is_applied(daemon: Daemon, lines: LogLines) -> None:
    wanted = some(a_cluster("a"), a_cluster("b"), http=HttpSettings(port=1), dry_run=True)
    reload = a_reload(daemon, RUNNING, lambda: wanted)

    reload()

    (line,) = lines.of("restart_needed")
    assert line["keys"] == ["autoscaler.dry-run", "autoscaler.http.port"]
    assert daemon.deeds == ["applied 2", "put b"]
    assert reload.settings.http.port == RUNNING.http.port


def test_no_secret_is_in_the_warning(daemon: Daemon, lines: LogLines) -> None:
    database = StandaloneSettings(jdbc_url="jdbc:postgresql://db/x?password=hunter2")

    a_reload(daemon, RUNNING, lambda: some(a_cluster("a"), standalone=database))()

    assert "hunter2" not in str(lines.all())


def test_what_was_taken_back_needs_no_restart(daemon: Daemon, lines: LogLines) -> None:
    wanted = [some(a_cluster("a"), http=HttpSettings(port=1)), RUNNING]
    reload = a_reload(daemon, RUNNING, lambda: wanted.pop(0))

    reload()
    reload()

    assert len(lines.of("restart_needed")) == 1


def test_cluster_that_is_too_slow_for_the_lease_is_refused(daemon: Daemon, lines: LogLines) -> None:
    ha = HaSettings(enabled=True, ttl=30.0)
    slow = some(a_cluster("a"), a_cluster("b", interval=60.0), ha=ha.model_copy(update={"ttl": 90.0}))

    is_applied = a_reload(daemon, some(a_cluster("a"), ha=ha), lambda: slow)()

    assert not is_applied
    assert "'b' needs autoscaler.ha.ttl of at least 80 s" in lines.of("reload_refused")[0]["problems"][0]


def test_equal_clusters_are_no_change() -> None:
    clusters = AFTER.effective_clusters()

    changes = ClusterChanges.between(clusters, [replace(cluster) for cluster in reversed(clusters)])

    assert changes == ClusterChanges((), (), ())


def test_who_may_do_what_changes_and_where_the_endpoint_listens_does_not(daemon: Daemon, lines: LogLines) -> None:
    http = HttpSettings(port=1, allowed_hosts=("scaler.example",), operators=("ann",))
    reload = a_reload(daemon, RUNNING, lambda: some(a_cluster("a"), http=http))

    reload()

    assert daemon.operators == [("ann",)]
    assert reload.settings.http.allowed_hosts == ("scaler.example",)
    assert lines.of("restart_needed")[0]["keys"] == ["autoscaler.http.port"]


def test_a_token_that_is_not_there_refuses_the_reload(daemon: Daemon, lines: LogLines) -> None:
    http = HttpSettings(operators=("cannot be read",))
    reload = a_reload(daemon, RUNNING, lambda: some(a_cluster("a"), a_cluster("b"), http=http))

    is_applied = reload()

    assert (is_applied, daemon.deeds, daemon.open, daemon.operators) == (False, [], [], [])
    assert "operator-token-file" in str(lines.of("reload_refused")[0]["problems"])
