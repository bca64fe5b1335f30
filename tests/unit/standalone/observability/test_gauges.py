from __future__ import annotations

import math
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.errors import EvaluationError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, ScalingMetric, avg, of
from flink_autoscaler.core.model.state import ScalingSummary
from flink_autoscaler.core.model.topology import IoMetrics, JobTopology, Vertex
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassObservation, PassOutcome
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.job_series import NAME_LIMIT

V1, V2 = "a" * 32, "b" * 32
HOLD = Hold.because("TEST", "nothing to do")
RESCALE = Rescale({V1: ScalingSummary(1, 2, {})}, ())
JOB = {"cluster": "c", "job_key": "c/orders"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_topology(**names: str) -> JobTopology:
    return JobTopology({key: Vertex(key, name, 2, 128, {}, {}, IoMetrics()) for key, name in names.items()})


def an_outcome(topology: JobTopology | None = None, **recommended: int) -> PassOutcome:
    outcome = PassOutcome("c/orders", PassPhase.EXECUTED, HOLD, observation=PassObservation(topology=topology))
    if topology is None:
        return outcome
    vertices = {key: {ScalingMetric.RECOMMENDED_PARALLELISM: of(value)} for key, value in recommended.items()}
    return replace(outcome, metrics=EvaluatedMetrics(vertices, {}))


def record(gauges: Gauges, outcome: PassOutcome, *errors: EvaluationError | NotReadyError) -> None:
    gauges.record_job("c", JobPassReport("c/orders", outcome, None, errors))


def value(gauges: Gauges, name: str, **labels: str) -> float | None:
    return gauges.registry.get_sample_value(f"flink_autoscaler_{name}", labels)


def test_vertices_have_current_and_recommended_parallelism() -> None:
    gauges = Gauges()

    record(gauges, an_outcome(a_topology(**{V1: "source"}), **{V1: 5}))

    vertex = {**JOB, "vertex_id": V1, "vertex_name": "source"}
    assert value(gauges, "vertex_parallelism", **vertex) == 2
    assert value(gauges, "vertex_recommended_parallelism", **vertex) == 5


def test_vertices_that_left_the_graph_have_no_series() -> None:
    gauges = Gauges()
    record(gauges, an_outcome(a_topology(**{V1: "source", V2: "sink"})))

    record(gauges, an_outcome(a_topology(**{V2: "sink"})))

    assert V1 not in b"".join(gauges.texts()).decode()
    assert V2 in b"".join(gauges.texts()).decode()


def test_long_vertex_names_are_cut() -> None:
    gauges = Gauges()

    record(gauges, an_outcome(a_topology(**{V1: "n" * 500})))

    assert "n" * NAME_LIMIT in b"".join(gauges.texts()).decode()
    assert "n" * (NAME_LIMIT + 1) not in b"".join(gauges.texts()).decode()


@pytest.mark.parametrize(
    ("outcome", "scalings", "balanced"),
    [
        pytest.param(an_outcome(), 0, 1, id="executed and held"),
        pytest.param(replace(an_outcome(), decision=RESCALE), 1, 0, id="executed and rescaled"),
        pytest.param(replace(an_outcome(), phase=PassPhase.WINDOW_FILLING), 0, 0, id="not executed"),
    ],
)
def test_decisions_are_counted(outcome: PassOutcome, scalings: int, balanced: int) -> None:
    gauges = Gauges()

    record(gauges, outcome)

    assert value(gauges, "job_scalings_total", **JOB) == scalings
    assert value(gauges, "job_balanced_total", **JOB) == balanced


def test_errors_are_counted_and_waiting_is_none() -> None:
    gauges = Gauges()

    record(gauges, an_outcome(), EvaluationError("x"), NotReadyError("wait"))

    assert value(gauges, "job_errors_total", **JOB) == 1


def test_evaluation_grows_old() -> None:
    clock = Clock()
    gauges = Gauges(clock=clock)
    record(gauges, an_outcome(a_topology(**{V1: "source"})))

    clock.now += 30
    record(gauges, replace(an_outcome(), phase=PassPhase.NOT_READY))

    assert value(gauges, "job_last_evaluation_age_seconds", **JOB) == 30


def test_forgotten_job_has_no_series() -> None:
    gauges = Gauges()
    gauges.record_identity(a_context())
    record(gauges, an_outcome(a_topology(**{V1: "source"}), **{V1: 5}))
    gauges.record_job("c", JobPassReport("c/other", an_outcome()))

    gauges.forget_job("c", "c/orders")

    assert "c/orders" not in b"".join(gauges.texts()).decode()
    assert "c/other" in b"".join(gauges.texts()).decode()


def test_passes_are_counted_by_result() -> None:
    gauges = Gauges()

    gauges.record_pass("c", 0.5, succeeded=True, engine="spark")
    gauges.record_pass("c", 0.5, succeeded=False)
    gauges.record_pass("quick", 0.5, succeeded=True)
    record(gauges, replace(an_outcome(), seconds={"collect": 0.02}))
    gauges.record_list("c", listed=3, unreadable=1, stuck=0)
    gauges.record_overrun("c")
    gauges.record_fallback()

    assert value(gauges, "passes_total", cluster="c", result="succeeded", engine="spark") == 1
    assert value(gauges, "passes_total", cluster="c", result="failed", engine="none") == 1
    assert value(gauges, "pass_seconds_count", cluster="c") == 2
    assert value(gauges, "cluster_up", cluster="c") == 0
    assert value(gauges, "jobs", cluster="c", kind="listed") == 3
    assert value(gauges, "pass_overruns_total", cluster="c") == 1
    assert value(gauges, "pass_overruns_total", cluster="quick") == 0
    assert value(gauges, "stage_seconds_sum", cluster="c", stage="collect") == 0.02
    assert value(gauges, "spark_fallbacks_total") == 1


def a_context(name: str = "orders", *, cluster: str = "c", job_id: str = "1", **labels: str) -> JobAutoScalerContext:
    endpoint = Endpoint("http://127.0.0.1:1")
    key = f"{cluster}/{name}"
    return JobAutoScalerContext(key, job_id, JobStatus.RUNNING, {}, endpoint, name, cluster, labels=labels)


def info(gauges: Gauges) -> list[dict[str, str]]:
    (family,) = [family for family in gauges.registry.collect() if family.name == "flink_autoscaler_job_info"]
    return [sample.labels for sample in family.samples]


NO_YARN = {"yarn_application_id": "", "yarn_queue": "", "yarn_user": ""}
ON_YARN = {"yarn_application_id": "application_1_2", "yarn_queue": "root.a", "yarn_user": "ann"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, NO_YARN, id="standalone"),
        pytest.param(ON_YARN, ON_YARN, id="YARN"),
        pytest.param({**ON_YARN, "rack": "7"}, ON_YARN, id="others are left out: the labels of a series are fixed"),
    ],
)
def test_job_info_says_who_a_job_is(labels: dict[str, str], expected: dict[str, str]) -> None:
    gauges = Gauges()

    gauges.record_identity(a_context(**labels))

    assert info(gauges) == [{**JOB, "job_id": "1", **expected}]


def test_job_info_is_replaced_when_something_changes() -> None:
    gauges = Gauges()
    gauges.record_identity(a_context(**ON_YARN))
    gauges.record_identity(a_context(**ON_YARN))

    gauges.record_identity(a_context(job_id="2", **{**ON_YARN, "yarn_application_id": "application_1_3"}))

    (labels,) = info(gauges)
    assert (labels["job_id"], labels["yarn_application_id"]) == ("2", "application_1_3")


def test_forgotten_cluster_has_no_series() -> None:
    gauges = Gauges(clock=Clock())
    for cluster in ("c", "d"):
        outcome = replace(an_outcome(a_topology(**{V1: "source"}), **{V1: 5}), seconds={"collect": 0.1})
        gauges.record_pass(cluster, 0.5, succeeded=True)
        gauges.record_list(cluster, listed=3, unreadable=0, stuck=0)
        gauges.record_overrun(cluster)
        gauges.record_identity(a_context(cluster=cluster))
        gauges.record_job(cluster, JobPassReport(f"{cluster}/orders", outcome))
    before = b"".join(gauges.texts()).decode()

    gauges.forget_cluster("c")

    after = b"".join(gauges.texts()).decode()
    assert 'cluster="c"' not in after
    assert [line for line in after.splitlines() if 'cluster="d"' in line] == [
        line for line in before.splitlines() if 'cluster="d"' in line
    ]


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        pytest.param({}, 60, id="default"),
        pytest.param({"job.autoscaler.slo.lag": "2 min"}, 120, id="set"),
        pytest.param({"job.autoscaler.slo.lag": "soon"}, None, id="cannot be read"),
    ],
)
def test_acceptable_lag_of_a_job_is_shown(configuration: dict[str, str], expected: float | None) -> None:
    gauges = Gauges()
    gauges.record_identity(a_context())

    gauges.record_identity(replace(a_context(), configuration=configuration))

    assert value(gauges, "job_lag_limit_seconds", **JOB) == expected


def test_jobs_of_a_cluster_are_forgotten_and_the_cluster_is_not() -> None:
    gauges = Gauges()
    gauges.record_pass("c", 0.5, succeeded=True)
    gauges.record_identity(a_context())
    record(gauges, replace(an_outcome(), phase=PassPhase.NOT_RUNNING))

    gauges.forget_jobs("c")

    assert "c/orders" not in b"".join(gauges.texts()).decode()
    assert value(gauges, "cluster_up", cluster="c") == 1


def test_group_of_daemons_is_shown_where_there_is_one() -> None:
    gauges = Gauges()
    assert "flink_autoscaler_ha_info" not in b"".join(gauges.texts()).decode()

    gauges.set_ha_group("production")

    assert value(gauges, "ha_info", ha_group="production") == 1


def test_the_process_is_shown() -> None:
    assert value(Gauges(), "process_start_time_seconds") is not None


def test_the_page_has_what_the_library_would_write() -> None:
    gauges = Gauges()
    gauges.record_pass("c", 0.5, succeeded=True)
    gauges.record_identity(a_context())
    topology = a_topology(**{V1: 'Source: "a" \\ b\nc', V2: "sink"})
    values = {ScalingMetric.LAG: of(2e9), ScalingMetric.LOAD: avg(0.25), ScalingMetric.TARGET_DATA_RATE: avg(math.inf)}
    vertices = {V1: values, V2: {ScalingMetric.RECOMMENDED_PARALLELISM: of(3)}}
    record(gauges, replace(an_outcome(topology), metrics=EvaluatedMetrics(vertices, {})))

    page, library = b"".join(gauges.texts()).decode(), generate_latest(gauges.registry).decode()

    unlike = ("flink_autoscaler_process_", "flink_autoscaler_job_last_evaluation", "flink_autoscaler_job_rescale_under")
    shown, expected = (
        sorted(line for line in text.splitlines() if not line.startswith(unlike)) for text in (page, library)
    )
    assert shown == expected
