from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.core.errors import ConnectError, RealizeError, RefusedError, ResponseError
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizationTerms, RealizeResult, ScalingRealizer
from flink_autoscaler.realizers import RescaleApiRealizer
from flink_autoscaler.realizers.in_place.rescale_api import describe_bounds_change, target_requirements
from flink_autoscaler.realizers.testing.realizer_contract import ScalingRealizerContract
from testkit.builders.realizers import (
    ADAPTIVE,
    JOB_ID,
    NEXT_JOB_ID,
    PATH,
    SINK,
    SOURCE,
    Clients,
    Clock,
    Cluster,
    body_of,
)
from testkit.fakes.flink import Canned, Fault, flink_error

# As recorded from Flink: what it says, and what it appends to "Internal server error.".
EXCEEDS = (
    "org.apache.flink.runtime.rest.handler.RestHandlerException: "
    f"The newly requested parallelism 999 for the job vertex {SOURCE} exceeds its maximum parallelism 128."
)
SERVER_ERROR = "Internal server error."


class TestRescaleApiRealizer(ScalingRealizerContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, cluster: Cluster, clients: Clients) -> None:
        self.cluster, self.clients = cluster, clients

    def make_realizer(self) -> ScalingRealizer:
        return RescaleApiRealizer(self.clients, self.clients.loop)

    def running_job(self) -> JobAutoScalerContext:
        return self.cluster.context()

    def vertices(self) -> Sequence[str]:
        return [SOURCE, SINK]

    def changes(self) -> Sequence[object]:
        return self.cluster.bodies


def test_changed_requirements_are_one_put_with_all_vertices(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert cluster.requests == [("GET", PATH), ("PUT", PATH)]
    assert cluster.bodies == [body_of({SOURCE: (1, 4), SINK: (1, 2)})]
    assert (realization.result, realization.requested) == (RealizeResult.REQUESTED, {SOURCE: 4})


def test_one_event_has_the_bounds_that_change_by_name(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    terms = RealizationTerms(vertices={SOURCE: "source", SINK: "sink"})
    (event,) = realizer.realize_overrides(cluster.context(), {SOURCE: 4}, terms=terms).events

    assert (event.type, event.reason, event.key, event.interval) == (EventType.NORMAL, "Scaling", None, None)
    assert event.message.endswith(": source 1..2 -> 1..4")


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({SOURCE: 2, SINK: 2}, id="all vertices"),
        pytest.param({SINK: 2}, id="one vertex"),
        pytest.param({"f" * 32: 7}, id="a vertex that the job does not have"),
    ],
)
def test_equal_requirements_are_not_put(
    realizer: RescaleApiRealizer, cluster: Cluster, overrides: dict[str, int]
) -> None:
    realization = realizer.realize_overrides(cluster.context(), overrides)

    assert realization == Realization(RealizeResult.UNCHANGED)
    assert cluster.requests == [("GET", PATH)]


FOUND = {SOURCE: (6, 10), SINK: (2, 4)}


@pytest.mark.parametrize(
    ("options", "least"),
    [
        pytest.param({}, 6, id="kept"),
        pytest.param({"job.autoscaler.compat": "reference"}, 1, id="the reference"),
        pytest.param({"job.autoscaler.rescale.lower-bound": "target"}, 1, id="somebody asked for another one"),
    ],
)
def test_a_lower_bound_that_somebody_set_is_kept(
    realizer: RescaleApiRealizer, cluster: Cluster, options: dict[str, str], least: int
) -> None:
    cluster.requirements.update(FOUND)

    realizer.realize_overrides(cluster.context({**ADAPTIVE, **options}), {SOURCE: 8})

    assert cluster.bodies == [body_of({SOURCE: (least, 8), SINK: (2, 4)})]


def test_a_lower_bound_alone_is_no_reason_for_a_request(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    cluster.requirements.update({SOURCE: (2, 2), SINK: (2, 2)})

    assert realizer.realize_overrides(cluster.context(), {SOURCE: 2}).result is RealizeResult.UNCHANGED
    assert cluster.bodies == []


def test_what_was_decided_without_a_lower_bound_above_it_waits_for_the_next_pass(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    cluster.requirements.update(FOUND)

    assert realizer.realize_overrides(cluster.context(), {SOURCE: 4}).result is RealizeResult.UNCHANGED
    assert cluster.bodies == []


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param(
            RealizationTerms(found_requirements=FOUND), id="who knew it wants it all the same, as a person with a pin"
        ),
        pytest.param(RealizationTerms(is_repair=True), id="a job that has to be repaired"),
    ],
)
def test_a_lower_bound_goes_no_higher_than_what_is_wanted(
    realizer: RescaleApiRealizer, cluster: Cluster, terms: RealizationTerms
) -> None:
    cluster.requirements.update(FOUND)

    realizer.realize_overrides(cluster.context(), {SOURCE: 4}, terms=terms)

    assert cluster.bodies == [body_of({SOURCE: (4, 4), SINK: (2, 4)})]


def test_who_changed_the_requirements_since_they_were_read_is_not_overruled(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    found = {SOURCE: (1, 2), SINK: (1, 2)}
    cluster.requirements.update({SOURCE: (1, 3), SINK: (1, 2)})

    overruling = realizer.realize_overrides(
        cluster.context(), {SOURCE: 4}, terms=RealizationTerms(found_requirements=found)
    )
    agreeing = realizer.realize_overrides(
        cluster.context(), {SOURCE: 4}, terms=RealizationTerms(found_requirements={**found, SOURCE: (1, 3)})
    )

    assert overruling == Realization(RealizeResult.UNCHANGED)
    assert agreeing.result is RealizeResult.REQUESTED
    assert cluster.bodies == [body_of({SOURCE: (1, 4), SINK: (1, 2)})]


def test_requirements_that_leave_out_a_vertex_of_the_job_are_not_sent_back(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    cluster.requirements.update({SOURCE: (1, 2)})
    cluster.requirements.pop(SINK, None)

    with pytest.raises(RealizeError, match=f"leave out {SINK}"):
        realizer.realize_overrides(
            cluster.context(), {SOURCE: 4}, terms=RealizationTerms(vertices={SOURCE: "source", SINK: "sink"})
        )

    assert cluster.bodies == []


def test_an_unusable_bound_on_the_cluster_is_overwritten(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    cluster.requirements.update({SOURCE: (1, -1), SINK: (1, 2)})

    realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert cluster.bodies == [body_of({SOURCE: (1, 4), SINK: (1, 2)})]


@pytest.mark.parametrize("unusable", [(1, -1), (0, 2), (3, 2)])
def test_an_unusable_bound_on_the_cluster_is_never_sent_back(
    realizer: RescaleApiRealizer, cluster: Cluster, unusable: tuple[int, int]
) -> None:
    cluster.requirements.update({SOURCE: (1, 2), SINK: unusable})

    with pytest.raises(RealizeError, match=f"vertex {SINK}"):
        realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert cluster.bodies == []


@pytest.mark.parametrize("unusable", [0, -1, True, "4"])
def test_an_unusable_override_costs_no_request(
    realizer: RescaleApiRealizer, cluster: Cluster, unusable: object
) -> None:
    overrides: dict[str, Any] = {SOURCE: unusable}

    with pytest.raises(RealizeError, match=f"vertex {SOURCE}"):
        realizer.realize_overrides(cluster.context(), overrides)

    assert cluster.requests == []


def test_a_refused_put_is_told_with_flinks_first_line(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    cluster.flink.fault(PATH, flink_error(400, f"{EXCEEDS}\n\tat java.base/java.lang.Thread"), method="PUT")

    with pytest.raises(RealizeError) as caught:
        realizer.realize_overrides(cluster.context(), {SOURCE: 999})

    assert str(caught.value).endswith(EXCEEDS)
    assert isinstance(caught.value.__cause__, RefusedError)
    assert caught.value.__cause__.status == 400


def test_a_refused_put_is_tried_again_in_the_next_pass(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    cluster.flink.fault(
        PATH,
        flink_error(500, SERVER_ERROR, "<Exception on server side:\njava.lang.RuntimeException: x\n"),
        method="PUT",
    )
    with pytest.raises(RealizeError, match="RuntimeException: x"):
        realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    cluster.flink.clear_faults()
    cluster.requirements.update({SOURCE: (1, 2)})

    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert realization.result is RealizeResult.REQUESTED


@pytest.mark.parametrize("fault", [Fault.HANG_UP, Fault.RESET, Fault.HALF_CLOSE])
def test_a_put_that_was_accepted_although_its_answer_was_lost_is_not_repeated(
    realizer: RescaleApiRealizer, cluster: Cluster, fault: Fault
) -> None:
    cluster.flink.fault(PATH, fault, method="PUT")
    with pytest.raises(RealizeError):
        realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert realization.result is RealizeResult.UNCHANGED
    assert len(cluster.bodies) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Canned.json([]), id="a list"),
        pytest.param(Canned.json({SOURCE: {}}), id="no bounds"),
        pytest.param(Canned.json({SOURCE: {"parallelism": {"lowerBound": 1}}}), id="one bound"),
        pytest.param(Fault.HTML, id="a page"),
        pytest.param(Fault.TRUNCATED_JSON, id="half of it"),
    ],
)
def test_an_answer_that_flink_never_gives_is_an_error(
    realizer: RescaleApiRealizer, cluster: Cluster, answer: Canned | Fault
) -> None:
    cluster.flink.fault(PATH, answer)

    with pytest.raises(RealizeError) as caught:
        realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert isinstance(caught.value.__cause__, ResponseError)
    assert cluster.bodies == []


@pytest.mark.parametrize(("method", "puts"), [("GET", 0), ("PUT", 1)])
def test_a_cluster_that_hangs_is_given_up_in_time(
    realizer: RescaleApiRealizer, cluster: Cluster, method: str, puts: int
) -> None:
    cluster.flink.fault(PATH, Fault.HANG, method=method)

    with pytest.raises(RealizeError, match=r"within 0\.2 s") as caught:
        realizer.realize_overrides(cluster.context(timeout=0.2), {SOURCE: 4})

    assert isinstance(caught.value.__cause__, ConnectError)
    assert len(cluster.bodies) == puts


def test_errors_say_which_job(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    job = cluster.context(endpoint=Endpoint("http://127.0.0.1:1", timeout=1.0))

    with pytest.raises(RealizeError, match=JOB_ID):
        realizer.realize_overrides(job, {SOURCE: 4})


def test_one_client_serves_all_passes_and_survives_the_realizer(
    realizer: RescaleApiRealizer, clients: Clients, cluster: Cluster
) -> None:
    for parallelism in (3, 4):
        realizer.realize_overrides(cluster.context(), {SOURCE: parallelism})

    realizer.close()

    assert len(clients.made) == 1
    assert realizer.realize_overrides(cluster.context(), {SOURCE: 5}).result is RealizeResult.REQUESTED


# As recorded from Flink 1.20 and 2.3, without most of the stack traces.
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
    assert [(line["event"], line["log_level"]) for line in lines] == [("job_removed", "debug")]


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


CURRENT = {"a": ParallelismBounds(1, 2), "b": ParallelismBounds(2, 4)}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param({"a": 2}, CURRENT, id="equal: keep"),
        pytest.param({"a": 3}, {**CURRENT, "a": ParallelismBounds(1, 3)}, id="other upper bound"),
        pytest.param({"b": 4}, {**CURRENT, "b": ParallelismBounds(1, 4)}, id="other lower bound"),
        pytest.param({"c": 4}, CURRENT, id="unknown vertex"),
        pytest.param({"a": 1, "b": 1}, {"a": ParallelismBounds(1, 1), "b": ParallelismBounds(1, 1)}, id="all"),
    ],
)
def test_wanted_requirements_name_every_vertex(
    overrides: dict[str, int], expected: dict[str, ParallelismBounds]
) -> None:
    assert target_requirements(CURRENT, overrides) == expected


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        pytest.param({"a": 3}, "work 1..2 -> 1..3", id="a name"),
        pytest.param({"b": 3}, "b 2..4 -> 1..3", id="no name"),
        pytest.param({"a": 3, "b": 3}, "work 1..2 -> 1..3, b 2..4 -> 1..3", id="two"),
    ],
)
def test_a_change_reads_as_old_and_new_bounds_by_the_names_of_the_vertices(
    overrides: dict[str, int], text: str
) -> None:
    assert describe_bounds_change(CURRENT, target_requirements(CURRENT, overrides), {"a": "work"}) == text
