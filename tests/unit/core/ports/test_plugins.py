import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric, VertexId, avg
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import ScalingSummaries, ScalingSummary
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import (
    EvaluatorContext,
    ExecutorContext,
    Plugins,
    ResourceRequest,
    plugin_class,
    plugin_options,
)
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    full_window,
    single_source,
)

INSTANCE = "scaling.custom-executor."


def test_options_of_an_instance_lose_their_prefix_and_the_present_prefix_wins() -> None:
    configuration = {
        "kubernetes.operator.job.autoscaler.scaling.custom-executor.mine.limit": "1",
        "kubernetes.operator.job.autoscaler.scaling.custom-executor.mine.old": "2",
        "job.autoscaler.scaling.custom-executor.mine.limit": "3",
        "job.autoscaler.scaling.custom-executor.mine2.limit": "4",
    }

    assert plugin_options(configuration, INSTANCE, "mine") == {"limit": "3", "old": "2"}


@pytest.mark.parametrize(("text", "expected"), [("a.B", "a.B"), (" ", None)], ids=["set", "blank"])
def test_the_class_of_an_instance_must_not_be_blank(text: str, expected: str | None) -> None:
    configuration = {"job.autoscaler.scaling.custom-executor.mine.class": text}

    assert plugin_class(configuration, INSTANCE, "mine") == expected


@dataclass
class Executor:
    """Sets the parallelism of the source, or vetoes with None, or fails; writes down what it was given."""

    result: int | None = None
    priority: int = 0
    error: Exception | None = None
    seen: list[tuple[int, str | None]] = field(default_factory=list)

    def apply(self, context: ExecutorContext, summaries: ScalingSummaries) -> ScalingSummaries | None:
        summary = summaries[SINGLE_SOURCE]
        self.seen.append((summary.new, context.job.configuration.get("limit")))
        if self.error is not None:
            raise self.error
        if self.result is None:
            return None
        return {SINGLE_SOURCE: ScalingSummary(summary.current, self.result, summary.metrics)}


def executed(names: str, options: Mapping[str, str], executors: Mapping[str, Executor]) -> PassOutcome:
    """Run a job that wants to go from 4 to 8 with some executors; class names are the keys of ``executors``."""
    instances = {f"scaling.custom-executor.{key}": value for key, value in options.items()}
    once = {"sample-check.enabled": "false"}
    context = a_context({**SINGLE_SOURCE_OPTIONS, **once, "scaling.custom-executors": names, **instances})
    driver = JobDriver(context, plugins=Plugins(executors=executors))
    return full_window(driver, rate=200.0, busy_ms=1000.0)


def test_an_executor_has_the_last_word_and_its_own_options() -> None:
    executor = Executor(result=5)

    outcome = executed("mine", {"mine.class": "x.Executor", "mine.limit": "7"}, {"x.Executor": executor})

    assert outcome.target.parallelism == {SINGLE_SOURCE: 5}
    assert executor.seen == [(8, "7")]


def test_executors_are_called_in_the_order_of_their_priority() -> None:
    late, early = Executor(result=7, priority=9), Executor(result=6, priority=-1)

    outcome = executed("a;b", {"a.class": "late", "b.class": "early"}, {"late": late, "early": early})

    assert (early.seen, late.seen) == ([(8, None)], [(6, None)])
    assert outcome.target.parallelism == {SINGLE_SOURCE: 7}


def test_executors_of_equal_priority_keep_the_configured_order_and_count_once() -> None:
    first, second = Executor(result=6), Executor(result=7)

    executed("a;b;a", {"a.class": "first", "b.class": "second"}, {"second": second, "first": first})

    assert (first.seen, second.seen) == ([(8, None)], [(6, None)])


def test_a_veto_is_told_and_nothing_is_executed() -> None:
    after = Executor(result=7, priority=1)

    outcome = executed("a;b", {"a.class": "veto", "b.class": "after"}, {"veto": Executor(), "after": after})

    assert isinstance(outcome.decision, Hold)
    assert "VETOED" in [reason.code for reason in outcome.decision.reasons]
    (event,) = outcome.events
    assert (event.type, event.reason, event.key) == (EventType.WARNING, "ScalingVetoed", "ScalingVetoed:a")
    assert (after.seen, outcome.target.parallelism, outcome.report) == ([], {}, None)


def test_an_executor_that_fails_fails_the_pass() -> None:
    outcome = executed("a", {"a.class": "bad"}, {"bad": Executor(error=RuntimeError("boom"))})

    assert outcome.phase is PassPhase.ERROR
    assert str(outcome.error) == "scaling executor 'a' failed: RuntimeError: boom"
    assert outcome.state.overrides == {}


@pytest.mark.parametrize(
    "options", [{}, {"a.class": "unknown"}, {"a.class": ""}], ids=["no class", "unknown class", "blank class"]
)
def test_an_executor_that_is_not_there_is_ignored(options: Mapping[str, str]) -> None:
    outcome = executed("a", options, {"known": Executor()})

    assert outcome.target.parallelism == {SINGLE_SOURCE: 8}


@dataclass
class Evaluator:
    """Returns fixed metrics for every vertex, or fails."""

    result: Mapping[ScalingMetric, EvaluatedMetric] | None = None
    error: Exception | None = None
    seen: list[EvaluatorContext] = field(default_factory=list)

    def evaluate_vertex_metrics(
        self, vertex_id: VertexId, metrics: EvaluatedVertex, context: EvaluatorContext
    ) -> Mapping[ScalingMetric, EvaluatedMetric] | None:
        self.seen.append(context)
        if self.error is not None:
            raise self.error
        return self.result


def evaluated_by(evaluator: Evaluator, options: Mapping[str, str] | None = None) -> PassOutcome:
    own = {
        "metrics.custom-evaluators": "mine",
        "metrics.custom-evaluator.mine.class": "x.Evaluator",
        "metrics.custom-evaluator.mine.limit": "7",
    }
    context = a_context({**SINGLE_SOURCE_OPTIONS, **own, **(options or {})})
    driver = JobDriver(context, plugins=Plugins(evaluators={"x.Evaluator": evaluator}))
    return full_window(driver, rate=100.0, busy_ms=500.0)


def source_metrics(outcome: PassOutcome) -> EvaluatedVertex:
    assert outcome.metrics is not None
    return outcome.metrics.vertices[SINGLE_SOURCE]


TENFOLD = {ScalingMetric.TARGET_DATA_RATE: avg(1000.0)}


@pytest.mark.parametrize(
    ("compat", "threshold"),
    [pytest.param("improved", 1429.0, id="improved"), pytest.param("reference", 143.0, id="reference")],
)
def test_thresholds_follow_an_evaluator_with_the_improvement(compat: str, threshold: float) -> None:
    metrics = source_metrics(evaluated_by(Evaluator(TENFOLD), {"compat": compat}))

    assert metrics[ScalingMetric.TARGET_DATA_RATE].average == 1000.0
    assert metrics[ScalingMetric.SCALE_UP_RATE_THRESHOLD].current == threshold


def test_an_evaluator_changes_the_decision() -> None:
    assert evaluated_by(Evaluator(TENFOLD)).target.parallelism == {SINGLE_SOURCE: 40}


def test_fields_that_an_evaluator_does_not_know_are_kept() -> None:
    half = {ScalingMetric.TRUE_PROCESSING_RATE: EvaluatedMetric(5.0, math.nan)}

    metrics = source_metrics(evaluated_by(Evaluator(half)))

    assert metrics[ScalingMetric.TRUE_PROCESSING_RATE] == EvaluatedMetric(5.0, 200.0)


@pytest.mark.parametrize(
    "evaluator",
    [Evaluator(None), Evaluator({}), Evaluator(TENFOLD, error=RuntimeError("boom"))],
    ids=["nothing", "empty", "failing"],
)
def test_an_evaluator_without_a_result_changes_nothing(evaluator: Evaluator) -> None:
    outcome = evaluated_by(evaluator)

    assert outcome.phase is PassPhase.EXECUTED
    assert source_metrics(outcome)[ScalingMetric.TARGET_DATA_RATE].average == 100.0


def test_an_evaluator_sees_the_window_and_its_own_options() -> None:
    evaluator = Evaluator()

    evaluated_by(evaluator)

    context = evaluator.seen[-1]
    assert context.job.configuration["limit"] == "7"
    assert [sample.at_ms for sample in context.samples] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    assert (context.restart_time, context.has_backlog, dict(context.evaluated)) == (300, False, {})


@dataclass
class Check:
    """A resource check with a fixed answer."""

    answer: bool
    seen: list[ResourceRequest] = field(default_factory=list)

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        self.seen.append(request)
        return self.answer


@pytest.mark.parametrize(("answer", "wanted"), [(True, {SINGLE_SOURCE: 8}), (False, {})], ids=["fits", "does not fit"])
def test_a_resource_check_may_hold_a_plan_back(answer: bool, wanted: dict[str, int]) -> None:
    check = Check(answer)
    flink = {"taskmanager.memory.process.size": "4g", "taskmanager.numberOfTaskSlots": "3"}
    options = {**SINGLE_SOURCE_OPTIONS, "resource-check": "mine", "sample-check.enabled": "false"}
    context = a_context(options, flink, taskmanager_cpu=2.0)
    driver = JobDriver(context, plugins=Plugins(resource_checks={"mine": check}))
    for minute in (1, 2, 3):
        reading = single_source(minute, rate=200.0, busy_ms=1000.0)
        outcome = driver.run(minute * MINUTE, reading, a_cluster(slots_used=4))

    assert outcome.target.parallelism == wanted
    (request,) = check.seen
    assert (request.current, request.new) == (2, 3)
    assert (request.cpu, request.memory) == (2.0, 4 << 30)
