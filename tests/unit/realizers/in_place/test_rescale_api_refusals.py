from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.ports.deployment import Realization, RealizeResult
from flink_autoscaler.realizers import RescaleApiRealizer
from testkit.builders.realizers import ADAPTIVE, JOB_ID, NEXT_JOB_ID, PATH, SOURCE, Clients, Clock, Cluster
from testkit.fakes.flink import Canned, flink_error

# As recorded from Flink 1.20 and 2.3, without most of the stack traces.
SERVER_ERROR = "Internal server error."
JOB_NOT_FOUND = (
    "<Exception on server side:\norg.apache.flink.runtime.messages.FlinkJobNotFoundException: "
    f"Could not find Flink job ({JOB_ID})\n\tat x\nEnd of exception on server side>"
)
NOT_ADAPTIVE = (
    "<Exception on server side:\njava.lang.UnsupportedOperationException: "
    "The DefaultScheduler does not support changing the parallelism without a job restart. This feature is currently "
    "only expected to work with the AdaptiveScheduler.\n\tat x\nEnd of exception on server side>"
)
REACTIVE = (
    "<Exception on server side:\njava.lang.UnsupportedOperationException: "
    "Cannot change the parallelism of a job running in reactive mode.\n\tat x\nEnd of exception on server side>"
)


@pytest.mark.parametrize(
    ("configuration", "status", "level", "reason"),
    [
        pytest.param({}, JobStatus.RUNNING, "warning", "scheduler_not_adaptive", id="scheduler not set"),
        pytest.param(
            {"jobmanager.scheduler": "Default"}, JobStatus.RUNNING, "warning", "scheduler_not_adaptive", id="default"
        ),
        pytest.param(
            {"jobmanager.scheduler": "AdaptiveBatch"},
            JobStatus.RUNNING,
            "warning",
            "scheduler_not_adaptive",
            id="batch",
        ),
        pytest.param(
            {"jobmanager.scheduler": "Default"},
            JobStatus.CREATED,
            "warning",
            "scheduler_not_adaptive",
            id="scheduler comes first",
        ),
        pytest.param(
            {"jobmanager.scheduler": "aDAPTIVE"}, JobStatus.CREATED, "debug", "job_not_running", id="not running"
        ),
    ],
)
def test_a_refusal_is_a_log_line_and_no_request(
    realizer: RescaleApiRealizer,
    cluster: Cluster,
    clients: Clients,
    configuration: dict[str, str],
    status: JobStatus,
    level: str,
    reason: str,
) -> None:
    job = cluster.context(configuration, status=status)

    with capture_logs() as lines:
        realization = realizer.realize_overrides(job, {SOURCE: 4})

    assert realization == Realization(RealizeResult.REFUSED)
    assert [(line["event"], line["log_level"], line["reason"]) for line in lines] == [
        ("rescale_refused", level, reason)
    ]
    assert (cluster.requests, clients.made) == ([], {})


def test_a_refusal_is_logged_once_per_interval(realizer: RescaleApiRealizer, clock: Clock, cluster: Cluster) -> None:
    logged = []
    for clock.now in (0.0, 9.0, 10.0, 11.0):
        with capture_logs() as lines:
            realizer.realize_overrides(cluster.context(status=JobStatus.RESTARTING), {SOURCE: 4})
        logged.append(len(lines))

    assert logged == [1, 0, 1, 0]


def test_a_job_that_has_ended_is_refused_quietly(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    with capture_logs() as lines:
        realizer.realize_overrides(cluster.context(status=JobStatus.FINISHED), {SOURCE: 4})

    assert [line["log_level"] for line in lines] == ["debug"]


@pytest.mark.parametrize("scheduler", [{}, {"jobmanager.scheduler": "adaptive"}, {"jobmanager.scheduler": "default"}])
@pytest.mark.parametrize("mode", ["reactive", "REACTIVE"])
def test_reactive_mode_is_refused_with_an_event(
    realizer: RescaleApiRealizer, cluster: Cluster, scheduler: dict[str, str], mode: str
) -> None:
    realization = realizer.realize_overrides(cluster.context({"scheduler-mode": mode, **scheduler}), {SOURCE: 4})

    (event,) = realization.events
    assert (realization.result, event.type) == (RealizeResult.REFUSED, EventType.WARNING)
    assert (event.reason, event.key) == ("ReactiveModeNotRescalable", "ReactiveModeNotRescalable")
    assert event.interval == parse_duration("30 min")
    assert "number of TaskManagers" in event.message
    assert cluster.requests == []


def test_reactive_mode_is_told_once_per_interval(realizer: RescaleApiRealizer, clock: Clock, cluster: Cluster) -> None:
    job = cluster.context({**ADAPTIVE, "scheduler-mode": "reactive"})
    told = []
    for clock.now in (0.0, 9.0, 10.0):
        told.append(len(realizer.realize_overrides(job, {SOURCE: 4}).events))

    assert told == [1, 0, 1]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_cluster_that_cannot_rescale_is_not_asked_again(
    realizer: RescaleApiRealizer, cluster: Cluster, method: str
) -> None:
    cluster.flink.fault(PATH, flink_error(500, SERVER_ERROR, NOT_ADAPTIVE), method=method)

    first = realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    requests = list(cluster.requests)
    second = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert [event.reason for event in first.events] == ["RescaleNotSupported"]
    assert second == Realization(RealizeResult.REFUSED)
    assert cluster.requests == requests


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"configuration": {**ADAPTIVE, "new": "value"}}, id="configuration"),
        pytest.param({"job_id": NEXT_JOB_ID}, id="job"),
        pytest.param({"job_key": "c/other"}, id="another job"),
    ],
)
def test_a_cluster_that_could_not_rescale_is_asked_again_after_a_change(
    realizer: RescaleApiRealizer, cluster: Cluster, changes: dict[str, Any]
) -> None:
    cluster.flink.fault(PATH, flink_error(500, SERVER_ERROR, NOT_ADAPTIVE), method="GET")
    realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    cluster.flink.clear_faults()

    realization = realizer.realize_overrides(cluster.context(**changes), {SOURCE: 4})

    assert realization.result is RealizeResult.REQUESTED


def test_reactive_mode_is_recognised_by_the_clusters_answer(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    cluster.flink.fault(PATH, flink_error(500, SERVER_ERROR, REACTIVE), method="PUT")

    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert [event.reason for event in realization.events] == ["ReactiveModeNotRescalable"]


def test_a_cluster_without_resource_requirements_is_not_asked_again(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    cluster.flink.fault(PATH, flink_error(404, f"Not found: {PATH}"), method="GET")

    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert [event.reason for event in realization.events] == ["RescaleNotSupported"]
    assert len(cluster.requests) == 1


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(flink_error(500, SERVER_ERROR, JOB_NOT_FOUND), id="as Flink says it"),
        pytest.param(flink_error(404, f"Job {JOB_ID} not found"), id="not found"),
    ],
)
def test_a_job_that_vanishes_is_refused_quietly(
    realizer: RescaleApiRealizer, cluster: Cluster, method: str, answer: Canned
) -> None:
    cluster.flink.fault(PATH, answer, method=method)

    with capture_logs() as lines:
        realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert realization == Realization(RealizeResult.REFUSED)
    assert [(line["event"], line["log_level"]) for line in lines] == [("job_gone", "debug")]


def test_a_job_that_vanishes_between_both_requests_changes_nothing_of_the_next_job(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    cluster.flink.fault(PATH, flink_error(500, SERVER_ERROR, JOB_NOT_FOUND), method="PUT")
    realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    cluster.flink.clear_faults()

    realization = realizer.realize_overrides(cluster.context(job_id=NEXT_JOB_ID), {SOURCE: 4})

    assert realization.result is RealizeResult.REQUESTED


def test_configuration_is_refused_with_an_event_once_per_interval(
    realizer: RescaleApiRealizer, cluster: Cluster, clock: Clock
) -> None:
    changes = ConfigChanges({"b.password": "secret"}, ("a.b",))
    realizations = []
    for clock.now in (0.0, 9.0, 10.0):
        realizations.append(realizer.realize_config(cluster.context(), changes))

    event = realizations[0].events[0]
    assert [len(realization.events) for realization in realizations] == [1, 0, 1]
    assert {realization.result for realization in realizations} == {RealizeResult.REFUSED}
    assert (event.type, event.reason) == (EventType.WARNING, "ConfigNotApplied")
    assert event.message.endswith(": a.b, b.password")
    assert cluster.requests == []
