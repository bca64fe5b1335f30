"""Plug-in points inside a pass: metric evaluators, scaling executors, alignment modes, resource checks, policies.

A plug-in is chosen per job by its ``class`` option, which is compared with the plug-in's identity: the
``module.Class`` name of the object that its entry point leads to; checks and policies by the name of their entry
point. Plug-ins are pure like everything in a pass: they may run in a Spark task, and the same inputs have to give the
same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    EvaluatedMetrics,
    EvaluatedVertex,
    MetricSample,
    ScalingMetric,
    VertexId,
)
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.rescale_facts import JobException, RescaleFacts
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.model.supervision import RescaleRecord
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.option import LEGACY_PREFIX, PREFIX

EVALUATOR = "metrics.custom-evaluator."
EXECUTOR = "scaling.custom-executor."
ALIGNMENT = "scaling.parallelism-alignment.mode."


@dataclass(frozen=True, slots=True)
class EvaluatorContext:
    """What a metric evaluator may look at.

    Attributes:
        job: The job; its configuration has the evaluator's own options, without their prefix, on top.
        topology: The job graph of this pass.
        samples: The metric window, oldest first.
        evaluated: Vertices evaluated so far, in topological order.
        restart_time: Seconds a restart is assumed to take.
        has_backlog: Whether the job is processing a backlog.
    """

    job: JobAutoScalerContext
    topology: JobTopology
    samples: tuple[MetricSample, ...]
    evaluated: Mapping[VertexId, EvaluatedVertex]
    restart_time: int
    has_backlog: bool


class MetricEvaluator(Protocol):
    """Changes or adds evaluated metrics of a vertex."""

    def evaluate_vertex_metrics(
        self, vertex_id: VertexId, metrics: EvaluatedVertex, context: EvaluatorContext
    ) -> Mapping[ScalingMetric, EvaluatedMetric] | None:
        """Return metrics to merge over the given ones: each field that is not NaN replaces; None changes nothing.

        An exception is reported and changes nothing for this vertex.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """What a scaling executor may look at; as for evaluators, with the executor's own options.

    Attributes:
        job: The job; its configuration has the executor's own options, without their prefix, on top.
        topology: The job graph of this pass.
        metrics: Evaluated metrics of every vertex, and of the job as a whole.
    """

    job: JobAutoScalerContext
    topology: JobTopology
    metrics: EvaluatedMetrics


class ScalingExecutor(Protocol):
    """Has the last word on the vertices that change."""

    @property
    def priority(self) -> int:
        """Executors with a lower number come first."""
        ...

    def apply(self, context: ExecutorContext, summaries: ScalingSummaries) -> ScalingSummaries | None:
        """Return what is to be executed; an empty result or None is a veto. An exception fails the pass.

        Args:
            context: The job and its metrics.
            summaries: The vertices that change, with their metrics and both parallelisms; what earlier executors left.
        """
        ...


@value
class AlignmentRequest:
    """A target parallelism to align.

    Attributes:
        vertex_id: The vertex.
        current: Parallelism now.
        target: Wanted parallelism, within all limits, different from ``current``.
        partitions: Source partitions; 0 when unknown.
        max_parallelism: Key groups of the vertex: Flink's own limit.
        lower: Least parallelism.
        upper: Greatest parallelism that the user allows.
        strategies: Ship strategies of the inputs.
    """

    vertex_id: VertexId
    current: int
    target: int
    partitions: int
    max_parallelism: int
    lower: int
    upper: int
    strategies: frozenset[ShipStrategy]

    @property
    def groups(self) -> int:
        """Key groups or partitions that are spread over the subtasks."""
        return self.partitions if self.partitions > 0 else self.max_parallelism

    @property
    def bound(self) -> int:
        """Greatest parallelism that makes sense."""
        return min(self.groups, self.max_parallelism, self.upper)

    @property
    def is_scale_up(self) -> bool:
        """Whether the target is above the current parallelism."""
        return self.target > self.current

    @property
    def is_applicable(self) -> bool:
        """Whether anything is spread by key groups or partitions at all."""
        return self.partitions > 0 or ShipStrategy.HASH in self.strategies


@dataclass(frozen=True, slots=True)
class AlignmentContext:
    """What an alignment mode may look at; as for evaluators, with the mode's own options.

    Attributes:
        job: The job; its configuration has the mode's own options, without their prefix, on top.
        request: The parallelism to align.
        metrics: Evaluated metrics of the vertex.
    """

    job: JobAutoScalerContext
    request: AlignmentRequest
    metrics: EvaluatedVertex


class CustomAlignmentMode(Protocol):
    """Chooses the parallelism near a target."""

    def is_applicable(self, context: AlignmentContext) -> bool:
        """Tell whether the mode wants to align this vertex; the target is kept when not."""
        ...

    def align(self, context: AlignmentContext) -> int:
        """Return the parallelism, at least 1; it is used as it is. The current one means no change.

        Called only where :meth:`is_applicable` said so. An exception fails the pass over the job.
        """
        ...


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A change of the number of TaskManagers that a plan implies.

    Attributes:
        current: TaskManagers now.
        new: TaskManagers after the plan.
        cpu: CPUs per TaskManager.
        memory: Bytes per TaskManager.
        slots_used: Slots in use in the cluster now.
        slots_needed: Estimated slots in use after the plan.
        more_slots: Slots that the job itself takes more than now; negative when fewer.
    """

    current: int
    new: int
    cpu: float
    memory: int
    slots_used: int
    slots_needed: int
    more_slots: int


class ResourceCheck(Protocol):
    """Says whether the cluster can hold a plan."""

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        """Return False to hold the plan back; an exception fails the pass over the job.

        Args:
            request: What the plan takes.
            cluster: What the cluster said about itself in this pass; its numbers are None where it did not say.
        """
        ...


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What a checker may look at.

    Attributes:
        context: The job.
        rescale: The rescale on probation.
        facts: What the cluster says now.
        pressure: ``gc`` (share of time) and ``heap`` (share used) of the fullest TaskManager, where known.
        baseline: The same, ``restarts``, ``lag`` in records, and by vertex id what those could do that the rescale
            raises, records/s, before the rescale, where known.
        now_ms: Epoch milliseconds by the clock of the daemon.
    """

    context: JobAutoScalerContext
    rescale: RescaleRecord
    facts: RescaleFacts
    now_ms: int
    pressure: Mapping[str, float] = field(default_factory=dict)
    baseline: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_unhealthy(self) -> bool:
        """Whether the job does not run with all its tasks."""
        return not self.facts.all_running

    def exceptions(self) -> Iterator[JobException]:
        """Yield the exceptions since the rescale; older ones stay in Flink's history and say nothing about it."""
        return (each for each in self.facts.exceptions or () if each.at_ms > self.rescale.since_ms)


class UnrecoverableErrorChecker(Protocol):
    """Finds out whether a job does not survive its rescale. Pure; runs in every pass of the probation."""

    @property
    def is_gradual(self) -> bool:
        """Whether only ``rollback.consecutive-hits`` passes in a row count."""
        ...

    def check(self, given: CheckInput) -> str | None:
        """Return the evidence, for people; None when there is none. An exception is reported and counts as none."""
        ...


class ScalingPolicy(Protocol):
    """Decides what it would do about a job.

    Called in every pass once the metric window is full, from any thread or process, Spark tasks included. Pure: the
    same input gives the same proposal. What it lacks makes it abstain with a reason; it never returns NaN or infinity,
    no target outside ``[min_parallelism, max_parallelism]``, and with a vector that it has proposed itself and the same
    load it proposes nothing new. An exception is reported and counts as abstaining.

    Before a rescale is asked for, the pass is decided again without single samples of the metric window. A policy that
    proposes a change only after several passes have called for it declares that with an attribute
    ``confirms_plans = True``; it is not asked again.

    A policy that goes by ``PolicyInput.samples`` and weighs itself what a rescale costs declares that with an attribute
    ``is_streaming = True``. Then

    - it is asked from the second sample of an execution on, whether the metric window is full or not;
    - it is also asked in passes that hold the job whatever it proposes: paused, in a dry run, under memory pressure,
      while a rescale is followed or on probation. What it remembers goes on; that its proposal was carried out it
      learns from ``history`` and the parallelism that it sees;
    - it is handed back what it remembers when the job graph has changed, and when its own rescale was refused;
    - its plans skip what exists for policies that go by a window: ``scale-down.interval``, ``scale-down.max-factor``,
      the guard of saturated vertices, economics, and the second look without single samples.
      Pauses, quarantine, budget, bounds, alignment, network memory, quota, headroom, slots, pins and the supervision of
      rescales hold for them as for all others.

    Beside policies that need a window, nothing goes down before these are asked, too.
    """

    @property
    def name(self) -> str:
        """The word it is chosen by."""
        ...

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid; the message names its key.
        """
        ...


@memoize_last
def confirms_plans(policy: object) -> bool:
    """Tell whether a policy declares that it proposes nothing that a single sample of the metric window calls for."""
    return _declares(policy, "confirms_plans") or is_streaming_policy(policy)


@memoize_last
def is_streaming_policy(policy: object) -> bool:
    """Tell whether a policy declares that it goes by single samples and weighs itself what a rescale costs."""
    return _declares(policy, "is_streaming")


def _declares(policy: object, name: str) -> bool:
    # It may be a property, which may raise; asked before a sample is taken, which must not be lost.
    return try_call(lambda: getattr(policy, name, False)) is True


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins of a process: those that are installed, whether a job chose them or not.

    Attributes:
        evaluators: Metric evaluators by identity.
        executors: Scaling executors by identity.
        alignment_modes: Alignment modes by identity.
        resource_checks: Resource checks by name.
        error_checkers: Checkers of failed rescales by name.
        policies: Policies by name.
    """

    evaluators: Mapping[str, MetricEvaluator] = field(default_factory=dict)
    executors: Mapping[str, ScalingExecutor] = field(default_factory=dict)
    alignment_modes: Mapping[str, CustomAlignmentMode] = field(default_factory=dict)
    resource_checks: Mapping[str, ResourceCheck] = field(default_factory=dict)
    error_checkers: Mapping[str, UnrecoverableErrorChecker] = field(default_factory=dict)
    policies: Mapping[str, ScalingPolicy] = field(default_factory=dict)


NO_PLUGINS = Plugins()
"""Only what the core has itself."""


def plugin_options(configuration: Mapping[str, str], family: str, name: str) -> dict[str, str]:
    """Return the options of one plug-in instance without their prefix; the present prefix beats the legacy one."""
    options: dict[str, str] = {}
    for prefix in (f"{LEGACY_PREFIX}{PREFIX}{family}{name}.", f"{PREFIX}{family}{name}."):
        options |= {key[len(prefix) :]: value for key, value in configuration.items() if key.startswith(prefix)}
    return options


def with_plugin_options(job: JobAutoScalerContext, family: str, name: str) -> JobAutoScalerContext:
    """Return the job with the options of one plug-in instance laid over its configuration."""
    configuration = {**job.configuration, **plugin_options(job.configuration, family, name)}
    return JobAutoScalerContext(
        job_key=job.job_key,
        job_id=job.job_id,
        status=job.status,
        configuration=configuration,
        endpoint=job.endpoint,
        job_name=job.job_name,
        cluster=job.cluster,
        labels=job.labels,
    )


def plugin_class(configuration: Mapping[str, str], family: str, name: str) -> str | None:
    """Return the identity that is configured for an instance, None when it is missing or blank."""
    return plugin_options(configuration, family, name).get("class", "").strip() or None
