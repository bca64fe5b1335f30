"""What a pass came to is carried out: together where recording is all there is to do, else job by job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler, JobPassReport
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges, JobState, ScalingSummary
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms, RealizeResult
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest, RescaleTarget
from flink_autoscaler.standalone.daemon.completion import Completion
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobTracker
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.cluster_passes import a_listed_job

VERTEX = "ab" * 16
HOLD = Hold.because("NO_CHANGE", "nothing to do")
PLAN = Rescale({VERTEX: ScalingSummary(1, 2, {})}, ())
EVENT = Event(EventType.NORMAL, "Told", "something", "key")
DEADLINE = 5.0


class Site:
    """Notes what is done, in order; a store, an event handler and a realizer in one."""

    def __init__(self) -> None:
        self.done: list[tuple[str, object]] = []
        self.refused: frozenset[JobKey] = frozenset()
        self.wait: Callable[[], object] = lambda: None
        self._states = HeapStateStore()
        self.load, self.delete, self.job_keys = self._states.load, self._states.delete, self._states.job_keys

    def save(self, job_key: JobKey, state: JobState) -> None:
        self.done.append(("save", job_key))
        self._states.save(job_key, state)

    def save_all(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        self.wait()
        taken = {job_key: state for job_key, state in states.items() if job_key not in self.refused}
        self.done.append(("save_all", tuple(states)))
        return self._states.save_all(taken)

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self.done.append(("event", context.job_key))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        self.done.append(("report", context.job_key))

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        self.done.append(("realize", context.job_key))
        return Realization(RealizeResult.REQUESTED, overrides)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        raise AssertionError

    def close(self) -> None:
        pass


class Work:
    """A completion with what it needs."""

    def __init__(self, site: Site, deadline: float, parts: ExitStack) -> None:
        autoscaler = JobAutoScaler(store=site, realizer=site, event_handler=site)
        self.site, self.roster, self.failures = site, JobTracker(), dict[JobKey, AutoscalerError]()
        self._completion = Completion(
            "c",
            autoscaler=autoscaler,
            leadership=Leadership(),
            recorder=None,
            parallelism=2,
            deadline=deadline,
            best_effort=lambda _, work: work(),
        )
        parts.callback(self._completion.close)

    def __call__(self, *outcomes: PassOutcome) -> dict[JobKey, JobPassReport]:
        requests = [PassRequest(a_listed_job(each.job_key), JobState(), 1_000) for each in outcomes]
        return self._completion.complete(requests, outcomes, self.failures, 0, self.roster)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def parts() -> Iterator[ExitStack]:
    with ExitStack() as parts:
        yield parts


@pytest.fixture
def work(site: Site, parts: ExitStack) -> Work:
    return Work(site, DEADLINE, parts)


def an_outcome(job_key: JobKey, decision: Hold | Rescale = HOLD, **more: object) -> PassOutcome:
    return PassOutcome(job_key, PassPhase.EXECUTED, decision, JobState(job_id=job_key), **more)  # type: ignore[arg-type]


def test_jobs_with_nothing_but_a_state_are_recorded_together(site: Site, work: Work) -> None:
    reports = work(*(an_outcome(f"c/{number}") for number in range(50)))

    assert site.done == [("save_all", tuple(f"c/{number}" for number in range(50)))]
    assert [*reports] == [f"c/{number}" for number in range(50)]
    assert site.load("c/7") == JobState(job_id="c/7")
    assert work.failures == {}


def test_what_is_wanted_and_told_follows_what_is_recorded(site: Site, work: Work) -> None:
    work(an_outcome("c/a"), an_outcome("c/b", target=RescaleTarget({VERTEX: 2})), an_outcome("c/d", events=(EVENT,)))

    assert site.done[0] == ("save_all", ("c/a", "c/b", "c/d"))
    assert sorted(site.done[1:]) == [("event", "c/d"), ("realize", "c/b")]


def test_a_job_with_a_plan_is_recorded_by_itself_before_it_is_realized(site: Site, work: Work) -> None:
    reports = work(an_outcome("c/a"), an_outcome("c/b"), an_outcome("c/plan", PLAN, target=RescaleTarget({VERTEX: 2})))

    mine = [step for step in site.done if step[1] == "c/plan"]
    assert mine == [("save", "c/plan"), ("realize", "c/plan")]
    assert ("save_all", ("c/a", "c/b")) in site.done
    assert reports["c/plan"].realization == Realization(RealizeResult.REQUESTED, {VERTEX: 2})


def test_jobs_that_were_not_recorded_with_the_others_are_recorded_by_themselves(site: Site, work: Work) -> None:
    site.refused = frozenset({"c/b"})

    reports = work(an_outcome("c/a"), an_outcome("c/b", target=RescaleTarget({VERTEX: 2})), an_outcome("c/d"))

    assert site.done[1:] == [("save", "c/b"), ("realize", "c/b")]
    assert reports.keys() == {"c/a", "c/b", "c/d"}


def test_nothing_is_realized_while_the_store_hangs_and_its_jobs_count_as_under_way(
    site: Site, parts: ExitStack
) -> None:
    go_on = threading.Event()
    parts.callback(go_on.set)
    work = Work(site, 0.2, parts)
    site.wait = lambda: go_on.wait(300)

    reports = work(an_outcome("c/a", target=RescaleTarget({VERTEX: 2})), an_outcome("c/b"))

    assert reports == {}
    assert {type(error) for error in work.failures.values()} == {NotReadyError}
    assert work.roster.is_under_way("c/a")
    assert ("realize", "c/a") not in site.done


def test_a_single_job_is_recorded_by_itself(site: Site, work: Work) -> None:
    assert work(an_outcome("c/a")).keys() == {"c/a"}
    assert site.done == [("save", "c/a")]
