"""Who knows numbers about a job beside Flink: brokers, databases of metrics, services, plug-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from flink_autoscaler.core.model.source_lag import ExternalMetricKind, TopicLag


@dataclass(frozen=True, slots=True)
class LagQuery:
    """What is asked about the vertices of a job that a pattern fits.

    Attributes:
        job_key: The job.
        job_name: Name given by its user, any characters.
        cluster: Name of its cluster in the configuration.
        pattern: Of the vertices.
        group: Consumer group; empty where none is configured.
        topics: That the vertices read; empty where they are not configured.
        parameters: Words and what they stand for, of the job's own configuration: whoever wrote the job chose them.
        kind: What is asked for.
    """

    job_key: str
    job_name: str
    cluster: str
    pattern: str = "*"
    group: str = ""
    topics: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    kind: ExternalMetricKind = ExternalMetricKind.LAG


class LagSource(Protocol):
    """Answers how many records wait, and where it can, how many arrive or how many subtasks there must be.

    Declared in the configuration of the daemon, with its address and credentials; jobs refer to it by name. Called
    from threads of the daemon's own process, several at a time, never from an event loop and never on Spark. A call
    that takes longer than the pass waits is not interrupted: it has to end by itself, by a timeout of its own.
    """

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        """Return the records that wait, by partition, or under one name where there are none.

        Of another ``query.kind`` it is one number under any name: records/s that arrive, or the least parallelism.
        Idempotent; changes nothing where it asks.

        Raises:
            AutoscalerError: They are unknown; the message says why and what to do, without secrets.
        """
        ...

    def close(self) -> None:
        """Release connections. May be called more than once."""
        ...


@runtime_checkable
class TopicLagSource(LagSource, Protocol):
    """A ``LagSource`` that tells topics apart, so that each source of a job gets the lag of those that it reads."""

    def lags_by_topic(self, query: LagQuery) -> Sequence[TopicLag]:
        """Return the lag of ``query.topics``, or of all that are known; of each what is known of it.

        Raises:
            AutoscalerError: Nothing is known of any topic.
        """
        ...
