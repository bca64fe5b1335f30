"""Checks of clusters, jobs and their vertices: what they need before they can be scaled, and what limits scaling."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from flink_autoscaler.clients.flink.freshness import FETCH_INTERVAL, gathering_interval
from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.job import Capacity, JobStatus
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import JobReading, VertexAggregates
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.observe.plausibility import active_partitions
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.ports.task_managers import REACTIVE


class Weight(StrEnum):
    """Severity of a finding for scaling, the gravest first.

    ``needed``: the job is not scaled before it is done. ``limit``: the job is scaled, but only so far, or at a price.
    ``note``: good to know.
    """

    NEEDED = "needed"
    LIMIT = "limit"
    NOTE = "note"


class Place(StrEnum):
    """Configuration that a line belongs to."""

    FLINK = "Flink's config.yaml"
    DAEMON = "autoscaler.yaml"
    JOB = "the job's pipeline.global-job-parameters"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a cluster or a job; JSON has its fields in this order.

    Attributes:
        code: Stable upper-snake-case word for programs.
        weight: What it means for scaling.
        text: One sentence for people, without a full stop.
        place: Where to write the line that changes it; None where no line of configuration does.
        line: That line, such as ``jobmanager.scheduler: adaptive``.
        vertex_id: The vertex it is about; None for the whole job or cluster.
    """

    code: str
    weight: Weight
    text: str
    place: Place | None = None
    line: str | None = None
    vertex_id: str | None = None


ENABLING_LINE: Final = f"{AutoscalerOptions.enabled.key}: true"
NEEDED, LIMIT, NOTE = Weight.NEEDED, Weight.LIMIT, Weight.NOTE
YOUNG: Final = 60.0
"""Seconds after its start for which a job may still be without metrics."""

_UNSETTLED: Final = 20.0
"""Seconds after its start for which rates of a job do not mean much."""

_FEW_DIVISORS: Final = 5
"""A parallelism that divides the key groups spreads them evenly: a maximum of 127 has two such, 120 has sixteen."""

_MOST_KEY_GROUPS: Final = 1 << 15
"""Flink's own upper limit of a max parallelism (``KeyGroupRangeAssignment``)."""

_FIRST_WITH_API: Final = (1, 18)
"""FLIP-291: ``/jobs/:jobid/resource-requirements``."""

_VERSION: Final = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_ADAPTIVE: Final = "adaptive"
_FLINK_NAMES: Final = {
    FlinkMetric.BUSY_TIME: "busyTimeMsPerSecond",
    FlinkMetric.BACKPRESSURE_TIME: "backPressuredTimeMsPerSecond",
    FlinkMetric.SOURCE_RECORDS_IN_RATE: "numRecordsInPerSecond of the source",
    FlinkMetric.SOURCE_RECORDS_IN: "numRecordsIn of the source",
}


@dataclass(frozen=True)
class ClusterFacts:
    """Facts read of one cluster; what is not known is None.

    Attributes:
        version: Flink's, such as ``2.3.0``.
        configuration: Of the JobManager, flat.
        capacity: Its TaskManagers, in figures.
        has_provider: Whether somebody who starts TaskManagers is configured for the cluster.
    """

    version: str | None = None
    configuration: Mapping[str, str] | None = None
    capacity: Capacity | None = None
    has_provider: bool = False

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the cluster, the most important first; nothing about what is not known."""
        return tuple(finding for check in _CLUSTER_CHECKS for finding in check(self))


@dataclass(frozen=True)
class JobFacts:
    """Facts read of one job; what is not known is None.

    Attributes:
        context: Who it is, how it is, and its effective configuration.
        reported: What the JobManager reports as its configuration.
        own: Options of the autoscaler among its own global parameters.
        job_type: STREAMING or BATCH.
        scheduler: Which runs it, such as Adaptive; told since Flink 2.1.
        topology: Its vertices.
        reading: What a pass reads of a job that runs; its error is a metric that is missing.
        refusal: Why the cluster does not tell what was asked for the job, in Flink's words; empty when it tells.
        checkpoints: Whether and how often it makes some.
        age: Seconds since it switched to RUNNING.
    """

    context: JobAutoScalerContext
    reported: Mapping[str, str] | None = None
    own: Mapping[str, str] | None = None
    job_type: str | None = None
    scheduler: str | None = None
    topology: JobTopology | None = None
    reading: JobReading | None = None
    refusal: str | None = None
    checkpoints: CheckpointFacts | None = None
    age: float | None = None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings beyond those of its cluster, by weight; little more where its configuration is invalid."""
        problem = _problem(self)
        if problem is not None:
            text = f"the configuration of the job cannot be used: {problem}"
            enabling = () if self.context.is_enabled is None else _enabled(self)
            return (Finding("INVALID_CONFIG", NEEDED, text), *enabling)
        found = [finding for check in _JOB_CHECKS for finding in check(self)]
        vertices = () if self.topology is None else self.topology.vertices.values()
        alive = [vertex for vertex in vertices if not vertex.is_finished]
        found += [finding for check in _VERTEX_CHECKS for vertex in alive for finding in check(self, vertex)]
        found += _key_groups(alive)
        return tuple(sorted(found, key=lambda finding: list(Weight).index(finding.weight)))

    def values(self, vertex: Vertex) -> VertexAggregates:
        """Return what a vertex reports, by meaning; empty where that is not known."""
        return {} if self.reading is None else self.reading.aggregates.get(vertex.vertex_id, {})


def needs_of(context: JobAutoScalerContext, *, has_provider: bool = False) -> tuple[Finding, ...]:
    """Return what a job needs before it can be scaled, as far as its configuration and status tell.

    Args:
        context: The job.
        has_provider: Whether somebody who starts TaskManagers is configured for its cluster.
    """
    cluster = ClusterFacts(None, context.configuration, context.capacity, has_provider)
    found = (*cluster.findings, *JobFacts(context).findings)
    return tuple(finding for finding in found if finding.weight is NEEDED)


def is_ready(findings: Sequence[Finding]) -> bool:
    """Tell whether nothing is needed before the daemon scales the job."""
    return not any(finding.weight is NEEDED for finding in findings)


def is_old(version: str) -> bool | None:
    """Tell whether a version of Flink lacks the API for rescaling; None when it cannot be read."""
    match = _VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2])) < _FIRST_WITH_API


def _version(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.version is not None and is_old(facts.version):
        text = f"Flink {facts.version} cannot rescale a job that runs: its REST API has that since 1.18; upgrade Flink"
        yield Finding("FLINK_TOO_OLD", NEEDED, text)


def _mode(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.configuration is None:
        return
    flink = FlinkOptions(facts.configuration)
    scheduler = flink.scheduler.strip()
    if flink.scheduler_mode.strip().lower() == REACTIVE:
        if not facts.has_provider:
            text = (
                "the cluster runs in reactive mode, in which the parallelism follows the number of TaskManagers and "
                "cannot be requested; give the cluster a provider that starts and stops them, and set "
                "autoscaler.realizer to auto"
            )
            yield Finding("REACTIVE_MODE", NEEDED, text)
    elif scheduler.lower() != _ADAPTIVE:
        found = f"the scheduler is {scheduler}" if scheduler else "no scheduler is set, so it is the default"
        text = (
            f"{found}; only the adaptive scheduler changes the parallelism of a job that runs; restart Flink after it"
        )
        yield Finding("SCHEDULER_NOT_ADAPTIVE", NEEDED, text, Place.FLINK, "jobmanager.scheduler: adaptive")


def _rescales(facts: ClusterFacts) -> Iterator[Finding]:
    flink = FlinkOptions(facts.configuration or {})
    least, forced = flink.min_parallelism_increase, flink.forced_rescale
    if least > 1:
        late = f"smaller ones come true after {forced} only" if forced else "smaller ones never come true"
        key = FlinkOptions.min_parallelism_increase.key
        text = f"Flink scales a job up by {least} subtasks of a vertex or more, {late} ({key})"
        yield Finding("MIN_INCREASE", NOTE, text)


def _gathering(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.configuration is not None and gathering_interval(facts.configuration) <= 0:
        text = (
            "Flink is told to gather no metrics, and without them nothing is known about a job; restart Flink after it"
        )
        yield Finding("METRICS_OFF", NEEDED, text, Place.FLINK, f"{FETCH_INTERVAL}: 10000")


def _slots(facts: ClusterFacts) -> Iterator[Finding]:
    capacity = facts.capacity
    if capacity is None:
        return
    if not capacity.is_fixed:
        yield Finding("CLUSTER_GROWS", NOTE, "TaskManagers are added when jobs ask for more slots than there are")
    elif capacity.taskmanagers == 0:
        yield Finding("NO_TASKMANAGERS", NEEDED, "no TaskManager is registered, so no job can run; start some")
    elif capacity.free_slots == 0:
        text = f"all {capacity.slots} slots are taken: no job can grow before there are more TaskManagers, or more"
        line = f"taskmanager.numberOfTaskSlots: {2 * capacity.slots_per_taskmanager}"
        yield Finding("NO_FREE_SLOTS", LIMIT, f"{text} slots on each", Place.FLINK, line)
    else:
        free = "1 slot that is" if capacity.free_slots == 1 else f"{capacity.free_slots} slots that are"
        yield Finding("FREE_SLOTS", NOTE, f"its jobs together can grow by the {free} free; more TaskManagers give more")


def _problem(facts: JobFacts) -> str | None:
    """Return what is wrong with the options of the job, as it will be when the job is enabled."""
    try:
        _ = facts.context.options.enabled
    except ValueParseError as error:
        return str(error)
    return validate(AutoscalerOptions({**facts.context.configuration, AutoscalerOptions.enabled.key: "true"}))


def _enabled(facts: JobFacts) -> Iterator[Finding]:
    option = AutoscalerOptions.enabled
    if facts.context.is_enabled:
        return
    place, line = Place.DAEMON, ENABLING_LINE
    text = "the autoscaler is not enabled for the job"
    if facts.own and option.find(facts.own):
        text = "the job itself says that it is not to be scaled"
        place, line = Place.JOB, f"{option.key}:true"
    elif facts.reported and option.find(facts.reported):
        text = "the configuration of its Flink cluster says that it is not to be scaled, which wins over "
        text, place = f"{text}autoscaler.yaml", Place.FLINK
    yield Finding("NOT_ENABLED", NEEDED, text, place, line)


def _running(facts: JobFacts) -> Iterator[Finding]:
    status = facts.context.status
    if status is JobStatus.CREATED:
        text = "not all tasks of the job run, often for lack of slots; it is looked at when they do"
        yield Finding("NOT_RUNNING", NEEDED, text)
    elif status is not JobStatus.RUNNING:
        yield Finding("NOT_RUNNING", NEEDED, f"the job is {status.value}; only a job that is RUNNING is scaled")


def _scheduler(facts: JobFacts) -> Iterator[Finding]:
    """Tell what the cluster's configuration alone does not: a job may run with another scheduler than is set."""
    flink = facts.context.flink_options
    # Where the cluster is not set up for rescales, a refusal is no news.
    is_set_up = flink.scheduler.strip().lower() == _ADAPTIVE and not flink.scheduler_mode.strip()
    if facts.job_type == "BATCH":
        yield Finding("BATCH_JOB", NEEDED, "this is a batch job; only streaming jobs are scaled")
    elif facts.refusal and is_set_up:
        text = f"the cluster refuses to change the parallelism of this job: {facts.refusal}"
        if facts.scheduler and facts.scheduler.lower() != _ADAPTIVE:
            text = f"this job runs with the scheduler {facts.scheduler}, although the cluster's is adaptive; submit it"
            text += " again"
        yield Finding("RESCALE_REFUSED", NEEDED, text)


def _advice_only(facts: JobFacts) -> Iterator[Finding]:
    options = facts.context.options
    if not options.scaling_enabled:
        text = "decisions about the job are advice, because scaling is switched off for it"
        yield Finding("ADVICE_ONLY", NEEDED, text, Place.DAEMON, f"{AutoscalerOptions.scaling_enabled.key}: true")
    if options.excluded_periods:
        text = "decisions about the job are advice while an excluded period lasts: "
        yield Finding("EXCLUDED_PERIODS", NOTE, text + "; ".join(options.excluded_periods))


def _checkpoints(facts: JobFacts) -> Iterator[Finding]:
    if facts.checkpoints is not None and not facts.checkpoints.is_enabled:
        text = "the job makes no checkpoints, so every rescale starts it with empty state"
        yield Finding("NO_CHECKPOINTS", LIMIT, text, Place.FLINK, "execution.checkpointing.interval: 30s")


def _age(facts: JobFacts) -> Iterator[Finding]:
    if facts.age is not None and facts.age < _UNSETTLED and facts.reading is not None:
        text = f"the job has run for {facts.age:.0f} s only, so its numbers have not settled yet"
        yield Finding("JUST_STARTED", NOTE, text)


def _patience(facts: JobFacts) -> Iterator[Finding]:
    options = facts.context.options
    seconds = options.stabilization_interval.exact_seconds + options.metrics_window.exact_seconds
    text = f"the first decision comes when it has run and been watched for {Duration(round(seconds * 1e9))}"
    keys = f"{AutoscalerOptions.stabilization_interval.key} and {AutoscalerOptions.metrics_window.key}"
    yield Finding("FIRST_DECISION", NOTE, f"{text} ({keys})")


def _metrics(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    error = None if facts.reading is None else facts.reading.error
    if isinstance(error, MissingMetricError):
        if error.vertex_id == vertex.vertex_id:
            yield _about([vertex], "METRIC_MISSING", NEEDED, _missing(facts, error.metric))
    elif facts.reading is not None and not facts.values(vertex):
        text = "not all of its subtasks have reported their metrics yet; ask again in a minute"
        yield _about([vertex], "METRICS_NOT_YET", NEEDED, text)


def _missing(facts: JobFacts, metric: str) -> str:
    if facts.age is not None and facts.age < YOUNG:
        return f"no metrics yet, because the job has run for {facts.age:.0f} s only; ask again in a minute"
    text = f"Flink reports no {_FLINK_NAMES.get(FlinkMetric(metric), metric)}"
    if "source" in text:
        return f"{text}; sources of Flink's new Source API report it, old SourceFunctions do not"
    return f"{text}, as every vertex should; look at the logs of JobManager and TaskManagers for MetricFetcher"


def _lag(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    names = {} if facts.reading is None else facts.reading.memory.names.get(vertex.vertex_id, {})
    if vertex.is_source and names and FlinkMetric.PENDING_RECORDS not in names.values():
        text = (
            "the lag is not known, because its connector does not report pendingRecords; a backlog is invisible, and "
            "none is assumed (connectors for Kafka and Pulsar report it, Kafka's with the first record)"
        )
        yield _about([vertex], "LAG_UNKNOWN", LIMIT, text)


def _busy(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    busy = facts.values(vertex).get(FlinkMetric.BUSY_TIME)
    if busy is not None and (busy.average is None or not math.isfinite(busy.average)):
        text = "Flink reports NaN for its busyTimeMsPerSecond, so how busy it is is not known"
        if vertex.is_source:
            text += ", as of sources of the old SourceFunction; its capacity is measured only while it catches up"
        yield _about([vertex], "BUSY_UNKNOWN", LIMIT, text)


def _bounds(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    options = facts.context.options
    if vertex.vertex_id in options.vertex_exclude_ids:
        text = f"never scaled, because {AutoscalerOptions.vertex_exclude_ids.key} names it"
        yield _about([vertex], "VERTEX_EXCLUDED", NOTE, text)
    elif vertex.parallelism >= options.max_parallelism:
        text = f"has reached the upper limit that is set for it, {options.max_parallelism}"
        line = f"{AutoscalerOptions.max_parallelism.key}: {2 * vertex.parallelism}"
        yield _about([vertex], "UPPER_LIMIT_REACHED", LIMIT, text, Place.DAEMON, line)


def _partitions(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    counted = 0 if facts.reading is None else facts.reading.memory.partitions.get(vertex.vertex_id, 0)
    partitions = active_partitions(counted, facts.values(vertex), vertex.parallelism)
    if vertex.is_source and 0 < partitions <= vertex.parallelism:
        text = f"reads {partitions} partitions, and subtasks beyond that have nothing to read"
        yield _about([vertex], "PARTITIONS_REACHED", LIMIT, text)


def _key_groups(vertices: Sequence[Vertex]) -> Iterator[Finding]:
    """Tell about the numbers of key groups, each once with the vertices that have it."""
    sharing = defaultdict(list)
    for vertex in vertices:
        sharing[vertex.max_parallelism].append(vertex)
    for greatest, same in sorted(sharing.items()):
        if greatest <= 0:
            continue
        divisors = [each for each in range(1, greatest + 1) if greatest % each == 0]
        reached = [vertex for vertex in same if vertex.parallelism >= greatest]
        better = next((each for each in (60, 120, 240, 360, 720, 1260, 2520, 5040) if each > greatest), None)
        line = f"pipeline.max-parallelism: {better or _MOST_KEY_GROUPS}"
        if greatest == 1 and len(same) < len(vertices):
            text = "runs with parallelism 1 only (its max parallelism)"
            yield _about(same, "ALWAYS_ONE", NOTE, text)
        elif reached:
            text = f"has reached its max parallelism of {greatest}, which is fixed for the life of the job's state; to"
            text += " grow, start the job with a higher one and new state"
            yield _about(reached, "MAX_PARALLELISM_REACHED", LIMIT, text, Place.FLINK, line)
        elif len(divisors) <= _FEW_DIVISORS:
            text = (
                f"few parallelisms spread its {greatest} key groups evenly ({', '.join(map(str, divisors))}); a max "
                "parallelism with many divisors, set when the job is first started, leaves more to choose from"
            )
            yield _about(same, "FEW_DIVISORS", NOTE, text, Place.FLINK, line)


def _about(
    vertices: Sequence[Vertex],
    code: str,
    weight: Weight,
    text: str,
    place: Place | None = None,
    line: str | None = None,
) -> Finding:
    names = ", ".join(vertex.name for vertex in vertices)
    only = vertices[0].vertex_id if len(vertices) == 1 else None
    return Finding(code, weight, f"{names}: {text}", place, line, only)


_CLUSTER_CHECKS: Final[tuple[Callable[[ClusterFacts], Iterator[Finding]], ...]] = (
    _version,
    _mode,
    _rescales,
    _gathering,
    _slots,
)
_JOB_CHECKS: Final[tuple[Callable[[JobFacts], Iterator[Finding]], ...]] = (
    _enabled,
    _running,
    _scheduler,
    _advice_only,
    _checkpoints,
    _age,
    _patience,
)
_VERTEX_CHECKS: Final[tuple[Callable[[JobFacts, Vertex], Iterator[Finding]], ...]] = (
    _metrics,
    _busy,
    _lag,
    _bounds,
    _partitions,
)
