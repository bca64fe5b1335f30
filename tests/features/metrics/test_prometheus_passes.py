"""Passes over jobs whose metrics come from a Prometheus that may be wrong: unknown, never a scale-down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.inline import InlineEngine
from testkit.fakes.flink import Canned, FakeFlink, FakeJob, Fault, chain
from testkit.fakes.prometheus import FakePrometheus

PASS_MS = 30_000
CONFIGURATION = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0 s",
    "job.autoscaler.metrics.window": "60 s",
    "job.autoscaler.scale-down.interval": "0 s",
}
Lie = Callable[[str, str, str, float], float | str | None]


@dataclass
class Fleet:
    """Jobs whose passes are made one after the other, by a clock of its own that begins now."""

    flink: FakeFlink
    prometheus: FakePrometheus
    clients: ClientCache
    loop: EventLoopThread
    endpoint: Endpoint
    now_ms: int
    requests: dict[str, PassRequest]

    def add(self, name: str, **values: object) -> FakeJob:
        start_ms = self.now_ms - 3_600_000
        graph = chain(sources=1, vertices=3, parallelism=4)
        job = self.flink.add_job(name, graph, start_ms=start_ms, **values)
        for vertex in job.vertices:
            vertex.busy_ms, vertex.waited_ms = 4e6, 8e6
            vertex.metrics["busyTimeMsPerSecond"] = 100.0
        context = JobAutoScalerContext(
            f"main/{name}",
            job.job_id,
            JobStatus.RUNNING,
            CONFIGURATION,
            self.endpoint,
            task_count=12,
            modified_ms=start_ms,
        )
        self.requests[name] = PassRequest(context, EMPTY_STATE, self.now_ms)
        return job

    def one_pass(self) -> dict[str, PassOutcome]:
        requests = list(self.requests.values())
        found = InlineEngine(loop=self.loop, clients=self.clients, job_deadline=5.0).evaluate(requests)
        outcomes = dict(zip(self.requests, found, strict=True))
        self.now_ms += PASS_MS
        for name, outcome in outcomes.items():
            request = replace(self.requests[name], state=outcome.state, memory=outcome.memory, now_ms=self.now_ms)
            self.requests[name] = request
        for job in self.flink.jobs.values():
            for vertex in job.vertices:
                vertex.records_in += 3000
                vertex.records_out += 3000
                vertex.busy_ms = float(vertex.busy_ms or 0) + 4 * 0.1 * PASS_MS
                vertex.waited_ms = (vertex.waited_ms or 0) + 4 * 0.9 * PASS_MS
        return outcomes

    def passes(self, count: int) -> dict[str, PassOutcome]:
        """Make passes; return the first one in which a job was rescaled, else the last one, for each job."""
        found: dict[str, PassOutcome] = {}
        for _ in range(count):
            for name, outcome in self.one_pass().items():
                if name not in found or not isinstance(found[name].decision, Rescale):
                    found[name] = outcome
        return found


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    loop = EventLoopThread()
    with FakeFlink() as flink, FakePrometheus(flink) as prometheus:
        clients = ClientCache(loop)
        endpoint = flink.endpoint(prometheus=prometheus.source())
        # A day ago: no instant is taken for a pass that waited.
        yield Fleet(flink, prometheus, clients, loop, endpoint, time.time_ns() // 1_000_000 - 86_400_000, {})
        clients.close()
    loop.close()


def reason(outcome: PassOutcome) -> str:
    return " ".join(f"{each.code} {each.text}" for each in outcome.decision.reasons) + f" {outcome.error or ''}"


def test_a_job_that_has_too_much_is_scaled_down_by_what_prometheus_says(fleet: Fleet) -> None:
    job = fleet.add("orders")

    outcome = fleet.passes(6)["orders"]

    assert isinstance(outcome.decision, Rescale), reason(outcome)
    assert outcome.observation.sample is not None
    assert outcome.observation.sample.vertices[job.vertices[0].vertex_id][ScalingMetric.LOAD] == 0.1


def test_the_instant_of_a_sample_is_that_of_the_scrape_whatever_the_clock_of_the_server(fleet: Fleet) -> None:
    fleet.prometheus.age, fleet.prometheus.clock = 17.0, -400.0
    fleet.add("orders")
    now_ms = fleet.now_ms

    outcome = fleet.one_pass()["orders"]

    assert outcome.observation.sample is not None
    assert outcome.observation.sample.at_ms == pytest.approx(now_ms - 17_000, abs=700)


def test_a_warm_pass_asks_flink_for_nothing_and_prometheus_for_a_handful(fleet: Fleet) -> None:
    for number in range(50):
        fleet.add(f"job {number}")
    fleet.passes(1)
    fleet.flink.requests.clear()
    fleet.prometheus.queries.clear()

    outcomes = fleet.one_pass()

    assert {reason(outcome) for outcome in outcomes.values() if outcome.observation.sample is None} == set()
    assert fleet.flink.paths() == []
    assert len(fleet.prometheus.queries) <= 5


def test_details_are_read_again_when_the_list_shows_a_later_change(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.passes(2)
    fleet.flink.requests.clear()
    request = fleet.requests["orders"]
    later = (request.context.modified_ms or 0) + 1
    fleet.requests["orders"] = replace(request, context=replace(request.context, modified_ms=later))

    fleet.one_pass()

    assert len(fleet.flink.paths()) == 1


def lies() -> list[object]:
    def only(figure: str, value: float | str | None) -> Lie:
        return lambda name, _job, _vertex, truth: value if name == figure else truth

    cases: dict[str, Lie] = {
        "NaN instead of every figure": lambda name, _j, _v, truth: truth if name in ("at", "subtasks") else "NaN",
        "a text instead of the counters": only("records_in", "many"),
        "negative counters": only("records_in", -1.0),
        "infinite counters": only("records_out", "+Inf"),
        "a subtask is missing": only("subtasks", 3.0),
        "the series of another cluster are there, too": only("subtasks", 8.0),
        "no counters": only("records_in", None),
        "no busy time": only("busy_avg", None),
        "busy time is not a number": only("busy_avg", "NaN"),
        "no series at all": lambda *_: None,
        "minutes behind": lambda name, _j, _v, truth: truth - 400 if name == "at" else truth,
        "from before the job began": lambda name, _j, _v, truth: truth - 7200 if name == "at" else truth,
        "an instant that is none": only("at", "NaN"),
    }
    return [pytest.param(lie, id=name) for name, lie in cases.items()]


@pytest.mark.parametrize("lie", lies())
def test_what_cannot_be_is_never_a_reason_to_scale_and_concerns_no_other_job(fleet: Fleet, lie: Lie) -> None:
    wrong, right = fleet.add("wrong"), fleet.add("right")
    fleet.prometheus.lie = lambda name, job, vertex, truth: (
        lie(name, job, vertex, truth) if job == wrong.job_id else truth
    )

    outcomes = fleet.passes(6)

    assert isinstance(outcomes["wrong"].decision, Hold)
    assert not outcomes["wrong"].target.parallelism
    is_text_in_answer = fleet.requests["right"].state.samples == ()  # tells that the answer may not be whole
    assert isinstance(outcomes["right"].decision, Rescale) or is_text_in_answer, reason(outcomes["right"])
    assert right.job_id != wrong.job_id


@pytest.mark.parametrize(
    "behaviour",
    [
        Fault.HTML,
        Fault.TRUNCATED_JSON,
        Fault.RESET,
        Fault.EMPTY,
        Canned(b'{"status":"error","errorType":"timeout","error":"query timed out"}', status=503),
        Canned(b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
    ],
    ids=str,
)
def test_a_prometheus_that_does_not_answer_holds_its_jobs_and_says_why(fleet: Fleet, behaviour: Fault | Canned) -> None:
    fleet.add("orders")
    fleet.passes(2)
    fleet.prometheus.fault("/", behaviour)

    outcome = fleet.one_pass()["orders"]

    assert not outcome.target.parallelism
    assert fleet.prometheus.url in reason(outcome)


def test_the_message_of_prometheus_is_told(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.prometheus.fault(
        "/",
        Canned(
            b'{"status":"error","errorType":"execution","error":"query processing would load too many samples"}', 422
        ),
    )

    assert "too many samples" in reason(fleet.one_pass()["orders"])


def test_a_partial_answer_is_no_sample(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.prometheus.warnings = ["store gateway 3 did not answer"]

    outcome = fleet.passes(6)["orders"]

    assert outcome.phase is PassPhase.NOT_READY
    assert "store gateway 3" in reason(outcome)
    assert not outcome.state.samples


def test_a_job_goes_on_when_prometheus_is_back(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.passes(2)
    fleet.prometheus.fault("/", Fault.RESET)
    fleet.one_pass()
    fleet.prometheus.clear_faults()

    outcome = fleet.one_pass()["orders"]

    assert outcome.error is None
    assert outcome.observation.sample is not None


def test_a_prometheus_that_falls_behind_gives_no_older_sample(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.one_pass()
    fleet.prometheus.age += 60

    outcome = fleet.one_pass()["orders"]

    assert "from before those of the pass before" in reason(outcome)
    assert len(outcome.state.samples) == 1


def test_a_vertex_without_all_its_subtasks_is_left_alone_and_the_others_are_measured(fleet: Fleet) -> None:
    job = fleet.add("orders")
    missing = job.vertices[1].vertex_id
    fleet.prometheus.lie = lambda name, _job, vertex, truth: 3.0 if name == "subtasks" and vertex == missing else truth

    outcome = fleet.one_pass()["orders"]

    assert outcome.observation.sample is not None
    assert missing in outcome.observation.excluded
    assert missing in outcome.observation.sample.incomplete
    assert outcome.observation.sample.vertices[job.vertices[0].vertex_id][ScalingMetric.LOAD] == 0.1


def test_several_jobmanagers_in_one_prometheus_need_a_selector(fleet: Fleet) -> None:
    fleet.add("orders")
    fleet.prometheus.lie = lambda name, _job, _vertex, truth: 2.0 if name == "clusters" else truth

    outcome = fleet.passes(6)["orders"]

    assert "set a selector" in reason(outcome)
