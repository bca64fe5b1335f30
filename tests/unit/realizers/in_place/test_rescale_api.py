from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flink_autoscaler.core.errors import ConnectError, RealizeError, RefusedError, ResponseError
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizationTerms, RealizeResult, ScalingRealizer
from flink_autoscaler.realizers import RescaleApiRealizer
from flink_autoscaler.realizers.testing.realizer_contract import ScalingRealizerContract
from testkit.builders.realizers import ADAPTIVE, JOB_ID, PATH, SINK, SOURCE, Clients, Cluster, body_of
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
        pytest.param(RealizationTerms(found=FOUND), id="who knew it wants it all the same, as a person with a pin"),
        pytest.param(RealizationTerms(is_repair=True), id="a job that has to be repaired"),
    ],
)
def test_a_lower_bound_goes_no_higher_than_what_is_wanted(
    realizer: RescaleApiRealizer, cluster: Cluster, terms: RealizationTerms
) -> None:
    cluster.requirements.update(FOUND)

    realizer.realize_overrides(cluster.context(), {SOURCE: 4}, terms=terms)

    assert cluster.bodies == [body_of({SOURCE: (4, 4), SINK: (2, 4)})]


def test_drift_is_healed(realizer: RescaleApiRealizer, cluster: Cluster) -> None:
    realizer.realize_overrides(cluster.context(), {SOURCE: 4})
    cluster.requirements.update({SOURCE: (1, 2), SINK: (1, 2)})

    realization = realizer.realize_overrides(cluster.context(), {SOURCE: 4})

    assert realization.result is RealizeResult.REQUESTED
    assert len(cluster.bodies) == 2


def test_who_changed_the_requirements_since_they_were_read_is_not_overruled(
    realizer: RescaleApiRealizer, cluster: Cluster
) -> None:
    found = {SOURCE: (1, 2), SINK: (1, 2)}
    cluster.requirements.update({SOURCE: (1, 3), SINK: (1, 2)})

    overruling = realizer.realize_overrides(cluster.context(), {SOURCE: 4}, terms=RealizationTerms(found=found))
    agreeing = realizer.realize_overrides(
        cluster.context(), {SOURCE: 4}, terms=RealizationTerms(found={**found, SOURCE: (1, 3)})
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
