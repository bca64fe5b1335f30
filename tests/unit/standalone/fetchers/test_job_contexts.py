from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Endpoint, Headroom, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.lag import LagOptions
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER, JobContexts
from flink_autoscaler.standalone.fetchers.job_keys import assign_keys
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, Fault, chain
from testkit.scenarios.runner import LogLines

ENABLED = "job.autoscaler.enabled"
ON = {ENABLED: "true"}
DEFAULTS = {"jobmanager.scheduler": "adaptive"}


class Reading:
    """Reads the jobs of fake clusters in pass after pass."""

    def __init__(self) -> None:
        self._loop = EventLoopThread()
        self._clients = ClientCache(self._loop)
        self.now = 0.0
        self.contexts = self.make()

    def make(self, *, job_defaults: dict[str, str] | None = None, **settings: Any) -> JobContexts:
        configured = ClusterSettings(name="main", **settings)
        cluster = Cluster("main", Endpoint(""), 10.0, EngineKind.INLINE, job_defaults or {}, configured)
        self.contexts = JobContexts(cluster, clock=lambda: self.now)
        return self.contexts

    def read(self, flink: FakeFlink, **facts: Any) -> tuple[Sequence[JobAutoScalerContext], dict[str, AutoscalerError]]:
        client = self._clients(flink.endpoint())
        jobs = assign_keys("main", self._loop.run(client.jobs_overview()), JobKeyMode.NAME)
        contexts, failures = self._loop.run(self.contexts.contexts(client, jobs, **facts))
        return contexts, dict(failures)

    def configuration(self, flink: FakeFlink) -> dict[str, str]:
        """Read a cluster with one job and return its configuration."""
        (context,), _ = self.read(flink)
        return dict(context.configuration)

    def close(self) -> None:
        self._clients.close()
        self._loop.close()


@pytest.fixture
def reading() -> Iterator[Reading]:
    reading = Reading()
    yield reading
    reading.close()


def config_requests(flink: FakeFlink) -> list[str]:
    return [path.rpartition("/jobs/")[2][33:] for path in flink.paths() if path.endswith("/config")]


def test_what_the_job_brings_along_goes_over_everything_else(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", configuration={ENABLED: "false"}, user_config={**ON, "input": "topic", "s": "******"})

    assert reading.configuration(flink) == {**DEFAULTS, **ON}


def test_it_can_be_switched_off_for_a_cluster(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", user_config=ON)
    reading.make(job_user_config=False)

    assert reading.configuration(flink) == DEFAULTS
    assert config_requests(flink) == ["jobmanager/config"]


LAG = {"job.autoscaler.lag.sources": "orders-kafka,flink"}
SCAN = "[1]:TableSourceScan(table=[[c, d, {}]], fields=[id], hints=[[[OPTIONS options:{{{}}}]]])<br/>+- Sink<br/>"
"""As Flink describes a table in a plan."""


def tables(flink: FakeFlink, *options: str) -> FakeJob:
    """Add a job that reads tables, each with a hint."""
    vertices = chain(sources=len(options), vertices=len(options) + 1)
    for number, text in enumerate(options):
        vertices[number].description = SCAN.format(f"table{number}", text)
    return flink.add_job(vertices=vertices, start_ms=1)


def group_of(reading: Reading, flink: FakeFlink) -> str:
    return LagOptions.of(reading.configuration(flink)).consumer_group


def test_the_consumer_group_is_that_of_a_table(flink: FakeFlink, reading: Reading) -> None:
    reading.make(job_defaults=LAG)
    tables(flink, "scan.parallelism=2, properties.group.id=orders &amp; more, topic=orders")

    assert group_of(reading, flink) == "orders & more"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["properties.group.id=a", "properties.group.id=b"], id="tables differ"),
        pytest.param(["scan.parallelism=2"], id="no table names one"),
        pytest.param(["properties.group.id="], id="empty"),
        pytest.param([], id="no tables"),
    ],
)
def test_there_is_no_group_where_tables_do_not_tell(flink: FakeFlink, reading: Reading, options: list[str]) -> None:
    reading.make(job_defaults=LAG)
    tables(flink, *options)

    assert group_of(reading, flink) == ""


def test_a_job_that_names_its_group_goes_before_its_tables(flink: FakeFlink, reading: Reading) -> None:
    job = tables(flink, "properties.group.id=hinted")
    job.user_config = {**LAG, "group.id": "own"}

    assert group_of(reading, flink) == "own"
    assert f"/jobs/{job.job_id}" not in flink.paths()


def test_tables_are_not_asked_about_where_nobody_needs_a_group(flink: FakeFlink, reading: Reading) -> None:
    job = tables(flink, "properties.group.id=hinted")

    assert group_of(reading, flink) == ""
    assert f"/jobs/{job.job_id}" not in flink.paths()


def test_a_plan_that_cannot_be_read_leaves_the_group_unknown(flink: FakeFlink, reading: Reading) -> None:
    reading.make(job_defaults=LAG)
    job = tables(flink, "properties.group.id=hinted")
    wrong: Any = {"text": job.vertices[0].description}
    job.vertices[0].description = wrong

    assert group_of(reading, flink) == ""


def test_both_parts_are_read_together_and_remembered_together(flink: FakeFlink, reading: Reading) -> None:
    job = flink.add_job("orders", user_config=ON, start_ms=1)
    reading.read(flink)
    job.user_config = {}

    remembered = reading.configuration(flink)
    reading.now = REFRESH_AFTER
    refreshed = reading.configuration(flink)

    assert (remembered, refreshed) == ({**DEFAULTS, **ON}, DEFAULTS)
    assert sorted(config_requests(flink)) == ["config", "config", "jobmanager/config", "jobmanager/config"]


def test_jobs_that_were_read_together_are_not_all_read_again_in_one_pass(flink: FakeFlink, reading: Reading) -> None:
    for number in range(40):
        flink.add_job(f"job {number}", start_ms=1)
    reading.read(flink)

    counts = []
    for now in range(150, 601, 15):
        reading.now, before = float(now), len(flink.requests)
        reading.read(flink)
        counts.append(len(flink.requests) - before - 1)  # one for the list

    assert max(counts) < 40, "two requests per job, of less than half of the jobs"
    assert sum(counts[:11]) == 2 * 40, "each of them once until the time is up"


@pytest.mark.parametrize("path", ["/jobmanager/config", "/config"])
@pytest.mark.parametrize("fault", [Fault.HTML, Canned(b"{}", status=500)], ids=["page", "500"])
def test_a_failure_of_either_part_makes_that_job_unreadable(
    flink: FakeFlink, reading: Reading, path: str, fault: Fault | Canned
) -> None:
    bad = flink.add_job("bad")
    flink.add_job("good")
    flink.fault(f"{bad.job_id}{path}", fault)

    contexts, failures = reading.read(flink)

    assert [context.job_key for context in contexts] == ["main/good"]
    assert list(failures) == ["main/bad"]


def restarted(job: FakeJob, state: str) -> None:
    """Put a job into a state in which Flink has a stand-in for it, without its global parameters."""
    job.state = state
    job.user_config = {}
    job.running_at_ms += 1000


@pytest.mark.parametrize("state", ["INITIALIZING", "CREATED", "RECONCILING"])
def test_what_a_job_brought_along_stays_while_flink_does_not_know(
    flink: FakeFlink, reading: Reading, state: str
) -> None:
    job = flink.add_job("orders", user_config=ON)
    reading.read(flink)

    restarted(job, state)

    assert reading.configuration(flink) == {**DEFAULTS, **ON}


def test_what_a_running_job_does_not_bring_along_any_more_is_gone(flink: FakeFlink, reading: Reading) -> None:
    job = flink.add_job("orders", user_config=ON)
    reading.read(flink)

    restarted(job, "RUNNING")

    assert reading.configuration(flink) == DEFAULTS


def test_a_job_that_may_enable_the_autoscaler_itself_does_not_count_as_disabled(
    flink: FakeFlink, reading: Reading
) -> None:
    job = flink.add_job("orders")
    restarted(job, "CREATED")

    (before,), _ = reading.read(flink)
    restarted(job, "RUNNING")
    (after,), _ = reading.read(flink)

    # A disabled autoscaler deletes the state of the job, which cannot be taken back.
    assert (before.options.enabled, before.status) == (True, JobStatus.CREATED)
    assert not after.options.enabled


class Lagging:
    """A job that runs again while the JobManager's answers about it still come from a cache."""

    def __init__(self, flink: FakeFlink) -> None:
        self.job = flink.add_job("orders", configuration={ENABLED: "false"})
        self._flink = flink
        details = {"jid": self.job.job_id, "name": "orders", "state": "CREATED"}
        flink.fault(f"/jobs/{self.job.job_id}", Canned.json(details))
        flink.fault(f"{self.job.job_id}/jobmanager/config", Canned.json([{"key": ENABLED, "value": "false"}]))
        flink.fault(f"{self.job.job_id}/config", Canned.json({"execution-config": {"user-config": {}}}))

    def catch_up(self, user_config: dict[str, str]) -> None:
        """Answer about the job as it is."""
        self._flink.clear_faults()
        self.job.user_config = user_config


@pytest.mark.parametrize(
    ("user_config", "expected"),
    [pytest.param(ON, True, id="enabled by itself"), pytest.param({}, False, id="not enabled")],
)
def test_an_answer_from_the_past_is_not_believed(
    flink: FakeFlink, reading: Reading, user_config: dict[str, str], expected: bool
) -> None:
    lagging = Lagging(flink)

    (early,), _ = reading.read(flink)
    lagging.catch_up(user_config)
    (late,), _ = reading.read(flink)

    assert (early.options.enabled, early.status) == (True, JobStatus.CREATED)
    assert (late.options.enabled, late.status) == (expected, JobStatus.RUNNING)


def test_what_is_known_of_a_job_outlasts_an_answer_from_the_past(flink: FakeFlink, reading: Reading) -> None:
    job = flink.add_job("orders", user_config=ON)
    reading.read(flink)
    flink.fault(f"/jobs/{job.job_id}", Canned.json({"jid": job.job_id, "name": "orders", "state": "CREATED"}))
    flink.fault(f"{job.job_id}/jobmanager/config", Canned.json([]))
    flink.fault(f"{job.job_id}/config", Canned.json({"execution-config": {"user-config": {}}}))
    job.running_at_ms += 1

    (context,), _ = reading.read(flink)

    assert (context.options.enabled, context.status) == (True, JobStatus.RUNNING)


def test_what_an_ended_job_brought_along_stays(flink: FakeFlink, reading: Reading) -> None:
    job = flink.add_job("orders", user_config=ON)
    reading.read(flink)

    restarted(job, "CANCELED")

    assert reading.configuration(flink) == {**DEFAULTS, **ON}


def test_a_job_that_waits_for_slots_is_asked_about_once(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", state="CREATED", running_at_ms=1)

    for _ in range(3):
        reading.read(flink)

    assert sorted(config_requests(flink)) == ["config", "jobmanager/config"]


def test_a_configuration_that_is_wrong_stays_so(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", state="CREATED", configuration={ENABLED: "maybe"})

    assert reading.configuration(flink)[ENABLED] == "maybe"


def test_jobs_with_one_id_in_two_places_are_told_apart(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", job_id="0" * 32, start_ms=1, user_config=ON)
    with FakeFlink() as other:
        other.add_job("orders", job_id="0" * 32, start_ms=1)

        assert [reading.configuration(each) for each in (flink, other, flink)] == [
            {**DEFAULTS, **ON},
            DEFAULTS,
            {**DEFAULTS, **ON},
        ]
        assert len(config_requests(flink)) == len(config_requests(other)) == 2


def test_a_jobmanager_that_is_gone_is_forgotten(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", start_ms=1)
    reading.read(flink)

    reading.contexts.keep_only(["http://elsewhere"])
    reading.read(flink)

    assert len(config_requests(flink)) == 4


def test_facts_about_the_jobs_are_in_every_context(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders")
    headroom = Headroom("queue", cpu=2.0)

    (context,), _ = reading.read(flink, labels={"yarn_queue": "prod"}, headroom=headroom, taskmanager_cpu=1.5)

    assert (context.labels, context.headroom, context.taskmanager_cpu) == ({"yarn_queue": "prod"}, headroom, 1.5)


def test_options_that_were_removed_are_told_once_where_a_job_still_has_them(flink: FakeFlink, reading: Reading) -> None:
    flink.add_job("orders", user_config={**ON, "job.autoscaler.policies": "slo", "input": "topic"})

    with LogLines() as lines:
        reading.read(flink)
        reading.now += REFRESH_AFTER
        reading.read(flink)

    (told,) = lines.of("job_option_removed")
    assert (told["cluster"], told["job"], told["key"]) == ("main", "orders", "job.autoscaler.policies")
    assert "use job.autoscaler.policy" in told["problem"]
