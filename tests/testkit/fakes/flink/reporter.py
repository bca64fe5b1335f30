"""What Flink's PrometheusReporter exports, as Flink 1.20 and 2.3 name it, of all jobs on one TaskManager."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from testkit.fakes.flink.job import FakeJob, FakeVertex, MetricValue

_SOURCE = re.compile(r"Source__[^.]+\.(.+)")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_:]")
_NOT_A_VALUE = re.compile(r"[^A-Za-z0-9:_]")
Sample = tuple[str, dict[str, str], float | str]


class HasMetrics(Protocol):
    """What a cluster says about itself."""

    jobmanager_metrics: dict[str, str]
    taskmanager_metrics: dict[str, MetricValue]


def reporter_text(jobs: Sequence[FakeJob], cluster: HasMetrics) -> str:
    """Return the page that is scraped."""
    samples = [*_managers(cluster), *(each for job in jobs if job.state == "RUNNING" for each in _job(job))]
    return "".join(f"{name}{{{_text(labels)}}} {value}\n" for name, labels, value in samples)


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_NOT_A_VALUE.sub("_", value)}"' for name, value in labels.items())


def _managers(cluster: HasMetrics) -> Iterator[Sample]:
    for name, text in cluster.jobmanager_metrics.items():
        yield f"flink_jobmanager_{name}", {"host": "fake"}, text
    for name, value in cluster.taskmanager_metrics.items():
        metric = f"flink_taskmanager_{_NOT_A_NAME.sub('_', name)}"
        yield metric, {"host": "fake", "tm_id": "tm-1"}, value if isinstance(value, float) else "NaN"


def _job(job: FakeJob) -> Iterator[Sample]:
    for vertex in job.vertices:
        if vertex.status == "RUNNING":
            for subtask in range(vertex.parallelism):
                yield from _subtask(job, vertex, subtask)


def _subtask(job: FakeJob, vertex: FakeVertex, subtask: int) -> Iterator[Sample]:
    labels = {
        "job_id": job.job_id,
        "job_name": job.name,
        "task_id": vertex.vertex_id,
        "task_name": vertex.name,
        "task_attempt_num": "0",
        "subtask_index": str(subtask),
        "tm_id": "tm-1",
        "host": "fake",
    }
    counters = {
        "numRecordsIn": vertex.records_in,
        "numRecordsOut": vertex.records_out,
        "accumulateBusyTimeMs": vertex.busy_ms,
        "accumulateIdleTimeMs": vertex.waited_ms,
        "accumulateBackPressuredTimeMs": None if vertex.waited_ms is None else 0.0,
    }
    for name, total in counters.items():
        if total is not None:
            each = total if isinstance(total, str) else total / vertex.parallelism
            yield f"flink_taskmanager_job_task_{name}", labels, each
    for name, metric in vertex.metrics.items():
        operator = _SOURCE.fullmatch(name)
        shown = metric if isinstance(metric, float | str) else "NaN"
        if operator is None:
            yield f"flink_taskmanager_job_task_{name}", labels, shown
        else:
            operators = {**labels, "operator_id": vertex.vertex_id, "operator_name": vertex.name}
            yield f"flink_taskmanager_job_task_operator_{operator[1]}", operators, shown
    if not vertex.inputs:
        for topic, number in vertex.topic_partitions() if subtask == 0 else ():
            partition = {**labels, "operator_name": vertex.name, "topic": topic, "partition": number}
            yield "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset", partition, 1.0
