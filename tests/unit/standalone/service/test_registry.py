"""What is applied, refused and put off when the configuration is read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.service.registry import (
    ClusterRegistry,
    applicable_settings,
    require_lease,
    restart_keys,
)
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind, SimpleAuth
from flink_autoscaler.standalone.settings.schema.settings import (
    EngineSettings,
    HaSettings,
    HttpSettings,
    LogSettings,
    LoopSettings,
    Settings,
    StandaloneSettings,
)
from testkit.scenarios.runner import LogLines


def a_cluster(name: str, **values: object) -> ClusterSettings:
    return ClusterSettings(name=name, **{"url": (f"http://{name}:8081",), **values})  # type: ignore[arg-type]


def some(*clusters: ClusterSettings, **values: object) -> Settings:
    return Settings(**{"clusters": clusters, "engine": EngineSettings(kind=EngineKind.INLINE), **values})  # type: ignore[arg-type]


class Site:
    """A registry whose schedules have not begun, and what it did."""

    def __init__(self, running: Settings, lines: LogLines) -> None:
        self._lines = lines
        self._parts = ExitStack()
        wiring = self._parts.enter_context(Wiring(running))
        self.registry = ClusterRegistry(running, wiring=wiring, gauges=Gauges())
        self.operators: list[tuple[str, ...]] = []
        self.registry.follow_access = self.follow_access

    def follow_access(self, http: HttpSettings) -> None:
        if "cannot be read" in http.operators:
            raise ConfigError("autoscaler.http.operator-token-file: it is not there")
        self.operators.append(http.operators)

    def reload(self, wanted: Settings) -> bool:
        return self.registry.reload(lambda: wanted)

    @property
    def clusters(self) -> list[str]:
        return sorted(self.registry.health.readiness().clusters)

    @property
    def changes(self) -> tuple[list[str], list[str], list[str]]:
        line = self._lines.of("reloaded")[-1]
        return line["added"], line["changed"], line["removed"]

    def close(self) -> None:
        self._parts.close()


MakeSite = Callable[[Settings], Site]


@pytest.fixture
def make_site(lines: LogLines) -> Iterator[MakeSite]:
    with ExitStack() as parts:

        def make(running: Settings) -> Site:
            site = Site(running, lines)
            parts.callback(site.close)
            return site

        yield make


BEFORE = some(a_cluster("a"), a_cluster("b"), a_cluster("c"), a_cluster("d"))
AFTER = some(a_cluster("e"), a_cluster("d", interval=5.0), a_cluster("a"), a_cluster("b"))
RUNNING = some(a_cluster("a"))


def test_clusters_are_added_changed_and_removed(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(BEFORE)

    is_applied = site.reload(AFTER)

    assert is_applied
    assert site.changes == (["e"], ["d"], ["c"])
    assert site.clusters == ["a", "b", "d", "e"]
    assert [line["event"] for line in lines.all()] == ["reloaded"]

    site.reload(some(*reversed(AFTER.clusters)))

    assert site.changes == ([], [], [])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(some(a_cluster("a", url=("http://other:8081",))), id="URL"),
        pytest.param(some(a_cluster("a", timeout=1.0)), id="timeout"),
        pytest.param(some(a_cluster("a", exclude=("x-*",))), id="jobs excluded"),
        pytest.param(some(a_cluster("a", auth=SimpleAuth(username="u"))), id="credentials"),
        pytest.param(some(a_cluster("a", options={"job.autoscaler.enabled": "true"})), id="defaults of its jobs"),
        pytest.param(some(a_cluster("a"), job_defaults={"job.autoscaler.enabled": "true"}), id="defaults of all jobs"),
        pytest.param(
            some(a_cluster("a"), standalone=StandaloneSettings(control_loop_interval=3.0)), id="interval of all"
        ),
    ],
)
def test_whatever_holds_for_a_cluster_changes_it(make_site: MakeSite, lines: LogLines, changed: Settings) -> None:
    site = make_site(RUNNING)

    site.reload(changed)

    assert site.changes == ([], ["a"], [])
    assert lines.of("restart_needed") == []


def test_the_engine_of_all_changes_every_cluster() -> None:
    wanted = some(a_cluster("a"), engine=EngineSettings(kind=EngineKind.SPARK))

    assert [cluster.engine for cluster in applicable_settings(RUNNING, wanted).effective_clusters()] == [
        EngineKind.SPARK
    ]


def test_clusters_without_names_are_compared_as_well(make_site: MakeSite) -> None:
    site = make_site(some())

    site.reload(some(standalone=StandaloneSettings(port=9999)))

    assert site.changes == ([], ["default"], [])


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        pytest.param(
            ConfigError("a = '1': expected 2\nb = 'x': expected y"),
            ["a = '1': expected 2", "b = 'x': expected y"],
            id="mistakes",
        ),
        pytest.param(OSError("stale file handle"), ["OSError: stale file handle"], id="whatever is raised"),
    ],
)
def test_invalid_configuration_is_refused_with_every_problem(
    make_site: MakeSite, lines: LogLines, error: Exception, problems: list[str]
) -> None:
    def load() -> Settings:
        raise error

    site = make_site(BEFORE)
    is_applied = site.registry.reload(load)

    (line,) = lines.all()
    assert not is_applied
    assert site.registry.settings == BEFORE
    assert (line["event"], line["level"], line["problems"]) == ("reload_refused", "error", problems)


def test_one_cluster_that_cannot_be_built_refuses_all(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(BEFORE)

    is_applied = site.reload(some(a_cluster("e"), a_cluster("d", type="nowhere")))

    assert (is_applied, site.clusters, site.operators) == (False, ["a", "b", "c", "d"], [])
    assert "'nowhere'" in lines.of("reload_refused")[0]["problems"][0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"http": HttpSettings(port=1)}, ["autoscaler.http.port"], id="HTTP"),
        pytest.param({"log": LogSettings(level="debug")}, ["autoscaler.log.level"], id="log"),
        pytest.param({"ha": HaSettings(ttl=99.0)}, ["autoscaler.ha.ttl"], id="leadership"),
        pytest.param({"dry_run": True}, ["autoscaler.dry-run"], id="dry run"),
        pytest.param({"realizer": "log-only"}, ["autoscaler.realizer"], id="realizer"),
        pytest.param(
            {"engine": EngineSettings(kind=EngineKind.INLINE, spark_master="local[1]", job_deadline=1.0)},
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

    assert list(restart_keys(applicable_settings(RUNNING, wanted), wanted)) == expected


def test_what_needs_a_restart_is_one_warning_and_the_rest_is_applied(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(RUNNING)

    site.reload(some(a_cluster("a"), a_cluster("b"), http=HttpSettings(port=1), dry_run=True))

    (line,) = lines.of("restart_needed")
    assert line["keys"] == ["autoscaler.dry-run", "autoscaler.http.port"]
    assert site.changes == (["b"], [], [])
    assert site.registry.settings.http.port == RUNNING.http.port


def test_no_secret_is_in_the_warning(make_site: MakeSite, lines: LogLines) -> None:
    database = StandaloneSettings(jdbc_url="jdbc:postgresql://db/x?password=hunter2")

    make_site(RUNNING).reload(some(a_cluster("a"), standalone=database))

    assert "hunter2" not in str(lines.all())


def test_what_was_taken_back_needs_no_restart(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(RUNNING)

    site.reload(some(a_cluster("a"), http=HttpSettings(port=1)))
    site.reload(RUNNING)

    assert len(lines.of("restart_needed")) == 1


def test_cluster_that_is_too_slow_for_the_lease_is_refused() -> None:
    """The lease that the daemon has counts, not the one of the new configuration."""
    ha = HaSettings(enabled=True, ttl=30.0)
    slow = some(a_cluster("a"), a_cluster("b", interval=60.0), ha=ha.model_copy(update={"ttl": 90.0}))

    with pytest.raises(ConfigError, match=r"'b' needs autoscaler.ha.ttl of at least 80 s.* runs with 30 s"):
        require_lease(applicable_settings(some(a_cluster("a"), ha=ha), slow))


def test_who_may_do_what_changes_and_where_the_endpoint_listens_does_not(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(RUNNING)

    site.reload(some(a_cluster("a"), http=HttpSettings(port=1, allowed_hosts=("scaler.example",), operators=("ann",))))

    assert site.operators == [("ann",)]
    assert site.registry.settings.http.allowed_hosts == ("scaler.example",)
    assert lines.of("restart_needed")[0]["keys"] == ["autoscaler.http.port"]


def test_a_token_that_is_not_there_refuses_the_reload(make_site: MakeSite, lines: LogLines) -> None:
    site = make_site(RUNNING)

    is_applied = site.reload(some(a_cluster("a"), a_cluster("b"), http=HttpSettings(operators=("cannot be read",))))

    assert (is_applied, site.clusters, site.operators) == (False, ["a"], [])
    assert "operator-token-file" in str(lines.of("reload_refused")[0]["problems"])
