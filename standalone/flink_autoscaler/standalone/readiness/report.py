"""What was found about clusters and jobs as lines for a terminal, and as a document for JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from flink_autoscaler.core.model.job import Capacity
from flink_autoscaler.core.model.metrics import FlinkMetric, VertexId
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.readiness.advice import with_advice
from flink_autoscaler.standalone.readiness.facts import ClusterFacts, JobFacts
from flink_autoscaler.standalone.readiness.findings import Finding, Weight
from flink_autoscaler.standalone.readiness.job_checks import enabled_or_none, is_ready
from flink_autoscaler.standalone.readiness.looking import ClusterLook, JobLook

_TITLES: Final = ("VERTEX", "PARALLELISM", "MAX", "BUSY", "BACKPRESSURED", "RECORDS/S", "LAG")
_LEFT: Final = 1
"""Columns that are aligned on the left; the others are numbers."""

_UNKNOWN: Final = "-"
_SHOWN_JOBS: Final = 3
_LABEL: Final = 8
_WIDTH: Final = 118
"""Characters of a line."""


def look_lines(looks: Iterable[ClusterLook]) -> Iterator[str]:
    """Yield the lines about all clusters that answered, if any: each with its jobs, and what it needs under it."""
    answered = [look for look in looks if look.error is None]
    if answered:
        yield "Only looking: --url never changes anything on a cluster (dry run)."
    for look in answered:
        yield ""
        yield from _cluster_lines(look)


def error_lines(looks: Iterable[ClusterLook]) -> list[str]:
    """Return a line for everything that could not be looked at, with what to do about it."""
    lines = []
    for look in looks:
        url = look.cluster.shown_url
        if look.error is not None:
            lines.append(f"cluster {look.cluster.name}: {with_advice(look.error, url)}")
        lines += [f"{job_key}: {with_advice(error, url)}" for job_key, error in look.failures.items()]
    return [_clean(line) for line in lines]


def cluster_sentence(facts: ClusterFacts) -> str:
    """Return what a cluster is, such as ``Flink 2.3.0, scheduler adaptive, 2 TaskManagers, 16 slots, 8 free``."""
    version = "a Flink of unknown version" if facts.version is None else f"Flink {facts.version}"
    scheduler = (facts.configuration or {}).get("jobmanager.scheduler", "") or "not set"
    known = "" if facts.configuration is None else f", scheduler {scheduler}"
    return _clean(f"{version}{known}{_slots(facts.capacity)}")


def _slots(capacity: Capacity | None) -> str:
    if capacity is None:
        return ""
    plural = "" if capacity.taskmanagers == 1 else "s"
    return f", {capacity.taskmanagers} TaskManager{plural}, {capacity.slots} slots, {capacity.free_slots} free"


def finding_lines(findings: Iterable[Finding], *, indent: str = "  ") -> Iterator[str]:
    """Yield the lines of every finding; what is to be written stands on a line of its own, however long."""
    below = indent + " " * _LABEL
    for finding in findings:
        label = f"{indent}{finding.weight.value + ':':<{_LABEL}}"
        yield from wrap(
            _clean(finding.text),
            _WIDTH,
            initial_indent=label,
            subsequent_indent=below,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.fix is not None:
            yield f"{below}{_clean(finding.fix.text)}"


def shared_lines(needs: Mapping[str, tuple[Finding, ...]]) -> Iterator[str]:
    """Yield what jobs need, each need once with the jobs that have it.

    Args:
        needs: By job key.
    """
    jobs: dict[Finding, list[str]] = {}
    for job_key, findings in needs.items():
        for finding in findings:
            jobs.setdefault(finding, []).append(job_key)
    for finding, job_keys in jobs.items():
        yield _clean(f"{_named(job_keys)}:")
        yield from finding_lines([finding])


def _cluster_lines(look: ClusterLook) -> Iterator[str]:
    yield f"{look.cluster.name}  {look.cluster.shown_url}  {cluster_sentence(look.facts)}"
    yield from finding_lines(look.findings)
    shared = _shared(look.jobs)
    for job in look.jobs:
        yield ""
        yield from _job_lines(job, look, shared)
    if shared:
        yield ""
        keys = {each: [job.context.job_key for job in look.jobs if each in job.findings] for each in shared}
        for finding, job_keys in keys.items():
            yield _clean(f"  {'all jobs' if len(job_keys) == len(look.jobs) else _named(job_keys)}:")
            yield from finding_lines([finding], indent="    ")
    if look.ended:
        names = ", ".join(f"{each.job_name} ({each.status.value})" for each in look.ended)
        yield ""
        yield _clean(f"  Ended, and not looked after: {names}")
    if not look.jobs and not look.failures:
        yield "  No job runs here."


def _shared(jobs: Sequence[JobLook]) -> list[Finding]:
    """Return what several jobs have to be told that none of them needs: it is told once for all of them."""
    counts = Counter(each for job in jobs for each in job.findings if each.weight is not Weight.NEEDED)
    return [finding for finding, count in counts.items() if count > 1]


def _named(job_keys: Sequence[str]) -> str:
    more = f" and {len(job_keys) - _SHOWN_JOBS} more" if len(job_keys) > _SHOWN_JOBS else ""
    return f"{', '.join(job_keys[:_SHOWN_JOBS])}{more}"


def _job_lines(job: JobLook, look: ClusterLook, shared: Collection[Finding]) -> Iterator[str]:
    yield _clean(f"  {job.context.job_key}  {job.context.status.value}  {_verdict(job, look)}")
    yield from (f"    {line}" for line in _vertex_lines(job.facts))
    yield from finding_lines([each for each in job.findings if each not in shared], indent="    ")


def _verdict(job: JobLook, look: ClusterLook) -> str:
    count = sum(finding.weight is Weight.NEEDED for finding in (*look.findings, *job.findings))
    if count == 0:
        return "ready to be scaled"
    of_cluster = any(finding.weight is Weight.NEEDED for finding in look.findings)
    where = ", with what the cluster needs" if of_cluster else ""
    return f"needs {count} thing{'' if count == 1 else 's'} before it can be scaled{where}"


def _vertex_lines(facts: JobFacts) -> Iterator[str]:
    if facts.topology is None:
        return
    rows = [_TITLES, *(_vertex_row(facts, vertex) for vertex in facts.topology.vertices.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    for row in rows:
        cells = zip(row, widths, range(len(row)), strict=True)
        padded = (f"{cell:<{width}}" if at < _LEFT else f"{cell:>{width}}" for cell, width, at in cells)
        yield "  ".join(padded).rstrip()


def _vertex_row(facts: JobFacts, vertex: Vertex) -> tuple[str, ...]:
    busy, backpressured, rate, lag = _numbers(facts, vertex)
    return (
        _clean(vertex.name),
        str(vertex.parallelism),
        str(vertex.max_parallelism) if vertex.max_parallelism > 0 else _UNKNOWN,
        _UNKNOWN if busy is None else f"{busy:.0%}",
        _UNKNOWN if backpressured is None else f"{backpressured:.0%}",
        _UNKNOWN if rate is None else f"{rate:.0f}",
        ("?" if vertex.is_source else "") if lag is None else f"{lag:.0f}",
    )


def _numbers(facts: JobFacts, vertex: Vertex) -> tuple[float | None, float | None, float | None, float | None]:
    """Return busy and backpressured share of the mean subtask, records/s of all subtasks, and lag, where known."""
    values = {} if facts.metrics is None else facts.metrics.values.get(vertex.vertex_id, {})
    shares = [values.get(each) for each in (FlinkMetric.BUSY_TIME, FlinkMetric.BACKPRESSURE_TIME)]
    rate = values.get(FlinkMetric.SOURCE_RECORDS_IN_RATE if vertex.is_source else FlinkMetric.RECORDS_IN_RATE)
    lag = values.get(FlinkMetric.PENDING_RECORDS)
    busy, backpressured = (None if each is None else _finite(each.average) for each in shares)
    return (
        None if busy is None else busy / 1000,
        None if backpressured is None else backpressured / 1000,
        None if rate is None else _finite(rate.total),
        None if lag is None else _finite(lag.total),
    )


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def look_document(looks: Sequence[ClusterLook]) -> dict[str, Any]:
    """Return the same as a document for JSON; what is not known is null."""
    return {"dry_run": True, "clusters": [_cluster_document(look) for look in looks]}


def _cluster_document(look: ClusterLook) -> dict[str, Any]:
    url, capacity = look.cluster.shown_url, look.facts.capacity
    return {
        "cluster": look.cluster.name,
        "url": url,
        "error": None if look.error is None else _clean(with_advice(look.error, url)),
        "version": look.facts.version,
        "taskmanagers": None if capacity is None else capacity.taskmanagers,
        "slots": None if capacity is None else capacity.slots,
        "free_slots": None if capacity is None else capacity.free_slots,
        "findings": [_finding_document(finding) for finding in look.findings],
        "jobs": [_job_document(job, look) for job in look.jobs],
        "ended": [each.job_key for each in look.ended],
        "failures": {key: _clean(with_advice(error, url)) for key, error in look.failures.items()},
    }


def _job_document(job: JobLook, look: ClusterLook) -> dict[str, Any]:
    vertices = {} if job.facts.topology is None else job.facts.topology.vertices
    return {
        "job_key": job.context.job_key,
        "job_id": job.context.job_id,
        "status": job.context.status.value,
        "enabled": enabled_or_none(job.facts),
        "ready": is_ready((*look.findings, *job.findings)),
        "findings": [_finding_document(finding) for finding in job.findings],
        "vertices": [_vertex_document(job.facts, vertex_id, vertex) for vertex_id, vertex in vertices.items()],
    }


def _vertex_document(facts: JobFacts, vertex_id: VertexId, vertex: Vertex) -> dict[str, Any]:
    busy, backpressured, rate, lag = _numbers(facts, vertex)
    return {
        "vertex_id": vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism if vertex.max_parallelism > 0 else None,
        "busy": busy,
        "backpressured": backpressured,
        "records_per_second": rate,
        "lag": lag,
    }


def _finding_document(finding: Finding) -> dict[str, Any]:
    document: dict[str, Any] = masked(finding.document)
    return document


def _clean(text: str) -> str:
    return printable(str(masked(text)))
