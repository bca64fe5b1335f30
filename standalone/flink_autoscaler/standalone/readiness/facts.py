"""What was read of a cluster and of a job; what is not known is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flink_autoscaler.core.model.job import Capacity
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.options.context import JobAutoScalerContext


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster.

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


@dataclass(frozen=True, slots=True)
class MetricFacts:
    """The metrics of a job at one moment.

    Attributes:
        offered: Metric ids of every vertex that has not finished; empty where none is known yet.
        values: What the vertices report, by meaning; empty where one of the values is not there yet.
    """

    offered: Mapping[VertexId, tuple[str, ...]]
    values: Mapping[VertexId, Mapping[FlinkMetric, Aggregate]]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job.

    Attributes:
        context: Who it is, how it is, and its effective configuration.
        cluster: Where it runs.
        reported: What the JobManager reports as its configuration.
        own: Options of the autoscaler among its own global parameters.
        job_type: STREAMING or BATCH.
        scheduler: Which runs it, such as Adaptive; told since Flink 2.1.
        topology: Its vertices.
        metrics: Of the vertices.
        refusal: Why the cluster does not tell what was asked for the job, in Flink's words; empty when it tells.
        checkpoints: Whether and how often it makes some.
        age: Seconds since it switched to RUNNING.
    """

    context: JobAutoScalerContext
    cluster: ClusterFacts = ClusterFacts()
    reported: Mapping[str, str] | None = None
    own: Mapping[str, str] | None = None
    job_type: str | None = None
    scheduler: str | None = None
    topology: JobTopology | None = None
    metrics: MetricFacts | None = None
    refusal: str | None = None
    checkpoints: CheckpointFacts | None = None
    age: float | None = None
