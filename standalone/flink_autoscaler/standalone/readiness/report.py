"""Findings about clusters and jobs as a document for JSON, and as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any, Final
from urllib.parse import urlsplit

from flink_autoscaler.core.errors import AutoscalerError, RefusedError, ResponseError
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.standalone.fetchers.job_keys import to_printable
from flink_autoscaler.standalone.readiness.checks import ClusterFacts, Finding, JobFacts, Severity, is_ready
from flink_autoscaler.standalone.readiness.inspection import ClusterInspection
from flink_autoscaler.standalone.settings.secrets import mask_secrets

_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_MAX_JOBS_LISTED: Final = 3
_LABEL: Final = 8
_WIDTH: Final = 118
"""Characters of a line."""

_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "VERTEX": ("name", str),
    "PARALLELISM": ("parallelism", str),
    "MAX": ("max_parallelism", str),
    "BUSY": ("busy", "{:.0%}".format),
    "BACKPRESSURED": ("backpressured", "{:.0%}".format),
    "RECORDS/S": ("records_per_second", "{:.0f}".format),
    "LAG": ("lag", "{:.0f}".format),
}
"""Title to the field of a vertex and how it is shown."""

_ADVICE: Final = {
    "connection refused": "nothing listens there: does the JobManager run, and is this its REST port (rest.port, 8081 "
    "unless set), on an address that others reach (rest.bind-address)?",
    "the host name is not known": "correct the host of the URL, or give its address",
    "no complete answer within": "is the JobManager reachable from this machine, or is a firewall or a wrong address "
    "in the way?",
    "the connection was": "is this the REST port of a JobManager, and not its RPC port (6123)?",
    "No route to host": "is the address right, and the machine on?",
    "Network is unreachable": "is there a network, and is the address right?",
    "the issuer of its certificate": "here --ca-file FILE names it",
    "certificate is self-signed": "here --ca-file FILE names it",
    "demands a client certificate": "here with --certificate-file and --key-file",
    "a user and a password": "here with --user NAME and --password-env or --password-file",
    "a token (": "here with --token-env or --token-file",
    "wants to know who asks": "here with --user and --password-env, or with --token-env",
}
"""By what errors of the connection say; "here" is the command line."""


def with_advice(error: AutoscalerError, url: str) -> str:
    """Return the text of an error on one line, with what to do about it where the text does not say so."""
    text = " ".join(str(error).split())
    advice = next((advice for words, advice in _ADVICE.items() if words in text), "")
    if isinstance(error, RefusedError) and error.status == _NOT_FOUND:
        advice = "is there something wrong with the path of the URL?"
    elif isinstance(error, ResponseError) and "expected JSON" not in text:
        advice = "is this the REST port of a JobManager?"
    # A server that expects TLS answers with bare 400, or not at all.
    is_like_tls = "the connection was" in text or (isinstance(error, RefusedError) and error.status == _BAD_REQUEST)
    may_want_tls = is_like_tls and urlsplit(url).scheme == "http"
    tls = "if the server wants https, the URL has to begin with https://" if may_want_tls else ""
    return "; ".join(filter(None, [text, advice, tls]))


def inspection_lines(looks: Iterable[ClusterInspection]) -> Iterator[str]:
    """Yield the lines about all clusters that answered, if any: each with its jobs, and what it needs under it."""
    answered = [look for look in looks if look.error is None]
    if answered:
        yield "Only looking: --jobmanager-url never changes anything on a cluster (dry run)."
    for look in answered:
        yield ""
        yield from _cluster_lines(look)


def error_lines(looks: Iterable[ClusterInspection]) -> list[str]:
    """Return a line for everything that could not be looked at, with what to do about it."""
    lines = []
    for look in looks:
        failures = {**({f"cluster {look.cluster.name}": look.error} if look.error else {}), **look.failures}
        lines += [f"{subject}: {with_advice(error, look.cluster.display_url)}" for subject, error in failures.items()]
    return [_one_line(line) for line in lines]


def cluster_sentence(facts: ClusterFacts) -> str:
    """Return what a cluster is, such as ``Flink 2.3.0, scheduler adaptive, 2 TaskManagers, 16 slots, 8 free``."""
    parts = ["a Flink of unknown version" if facts.version is None else f"Flink {facts.version}"]
    if facts.configuration is not None:
        parts.append(f"scheduler {facts.configuration.get('jobmanager.scheduler') or 'not set'}")
    if facts.capacity is not None:
        count = facts.capacity.taskmanagers
        parts.append(f"{count} TaskManager{'' if count == 1 else 's'}, {facts.capacity.slots} slots")
        parts.append(f"{facts.capacity.free_slots} free")
    return _one_line(", ".join(parts))


def finding_lines(findings: Iterable[Finding], *, indent: str = "  ") -> Iterator[str]:
    """Yield the lines of every finding; what is to be written stands on a line of its own, however long."""
    below = indent + " " * _LABEL
    for finding in findings:
        yield from wrap(
            _one_line(finding.text),
            _WIDTH,
            initial_indent=f"{indent}{finding.weight.value + ':':<{_LABEL}}",
            subsequent_indent=below,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.place is not None:
            yield f"{below}{_one_line(f'in {finding.place}: {finding.line}')}"


def shared_lines(needs: Mapping[str, Sequence[Finding]], *, indent: str = "", everybody: int = 0) -> Iterator[str]:
    """Yield what jobs need, each need once with the jobs that have it.

    Args:
        needs: By job key.
        indent: Of the lines.
        everybody: How many jobs are called *all jobs*; 0 for none.
    """
    jobs: dict[Finding, list[str]] = {}
    for job_key, findings in needs.items():
        for finding in findings:
            jobs.setdefault(finding, []).append(job_key)
    for finding, job_keys in jobs.items():
        more = f" and {len(job_keys) - _MAX_JOBS_LISTED} more" if len(job_keys) > _MAX_JOBS_LISTED else ""
        named = f"{', '.join(job_keys[:_MAX_JOBS_LISTED])}{more}"
        yield _one_line(f"{indent}{'all jobs' if len(job_keys) == everybody else named}:")
        yield from finding_lines([finding], indent=f"{indent}  ")


def _cluster_lines(look: ClusterInspection) -> Iterator[str]:
    yield f"{look.cluster.name}  {look.cluster.display_url}  {cluster_sentence(look.facts)}"
    yield from finding_lines(look.facts.findings)
    # What several jobs have to be told that none of them needs is told once for all of them.
    counts = Counter(each for job in look.jobs for each in job.findings if each.weight is not Severity.BLOCKER)
    shared = {finding for finding, count in counts.items() if count > 1}
    for job in look.jobs:
        yield ""
        yield from _job_lines(job, look.facts, shared)
    if shared:
        yield ""
        told = {job.context.job_key: [each for each in job.findings if each in shared] for job in look.jobs}
        yield from shared_lines(told, indent="  ", everybody=len(look.jobs))
    if look.ended:
        names = ", ".join(f"{each.job_name} ({each.status.value})" for each in look.ended)
        yield ""
        yield _one_line(f"  Ended, not managed: {names}")
    if not look.jobs and not look.failures:
        yield "  No job runs here."


def _job_lines(job: JobFacts, cluster: ClusterFacts, shared: Collection[Finding]) -> Iterator[str]:
    count = sum(finding.weight is Severity.BLOCKER for finding in (*cluster.findings, *job.findings))
    verdict = (
        f"needs {count} thing{'' if count == 1 else 's'} before it can be scaled" if count else "ready to be scaled"
    )
    where = "" if is_ready(cluster.findings) else ", with what the cluster needs"
    yield _one_line(f"  {job.context.job_key}  {job.context.status.value}  {verdict}{where}")
    rows = [tuple(_COLUMNS), *(_vertex_row(document) for document in _vertex_documents(job))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows if job.topology is not None else ():
        cells = (f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:], strict=True))
        yield f"    {'  '.join((f'{name:<{widths[0]}}', *cells))}".rstrip()
    yield from finding_lines([each for each in job.findings if each not in shared], indent="    ")


def _vertex_row(document: Mapping[str, Any]) -> tuple[str, ...]:
    # A source without lag may have some; another vertex has none.
    unknown = {"LAG": "?" if document["is_source"] else ""}
    return tuple(
        unknown.get(title, "-") if document[field] is None else _one_line(shown(document[field]))
        for title, (field, shown) in _COLUMNS.items()
    )


def inspection_document(looks: Sequence[ClusterInspection]) -> dict[str, Any]:
    """Return the same as a document for JSON; what is not known is null."""
    return {"dry_run": True, "clusters": [_cluster_document(look) for look in looks]}


def _cluster_document(look: ClusterInspection) -> dict[str, Any]:
    url, capacity = look.cluster.display_url, look.facts.capacity
    return {
        "cluster": look.cluster.name,
        "url": url,
        "error": None if look.error is None else _one_line(with_advice(look.error, url)),
        "version": look.facts.version,
        "taskmanagers": None if capacity is None else capacity.taskmanagers,
        "slots": None if capacity is None else capacity.slots,
        "free_slots": None if capacity is None else capacity.free_slots,
        "findings": [mask_secrets(asdict(finding)) for finding in look.facts.findings],
        "jobs": [_job_document(job, look.facts) for job in look.jobs],
        "ended": [each.job_key for each in look.ended],
        "failures": {key: _one_line(with_advice(error, url)) for key, error in look.failures.items()},
    }


def _job_document(job: JobFacts, cluster: ClusterFacts) -> dict[str, Any]:
    return {
        "job_key": job.context.job_key,
        "job_id": job.context.job_id,
        "status": job.context.status.value,
        "enabled": job.context.is_enabled,
        "ready": is_ready((*cluster.findings, *job.findings)),
        "findings": [mask_secrets(asdict(finding)) for finding in job.findings],
        "vertices": _vertex_documents(job),
    }


def _vertex_documents(job: JobFacts) -> list[dict[str, Any]]:
    return [_vertex_document(job, each) for each in (job.topology.vertices.values() if job.topology else ())]


def _vertex_document(job: JobFacts, vertex: Vertex) -> dict[str, Any]:
    """Return busy and backpressured share of the mean subtask, and records/s and lag of all subtasks, where known."""
    values = job.vertex_metrics(vertex)
    times = (values.get(each) for each in (FlinkMetric.BUSY_TIME, FlinkMetric.BACKPRESSURE_TIME))
    busy, backpressured = (None if each is None or each.average is None else each.average / 1000 for each in times)
    rate = values.get(FlinkMetric.SOURCE_RECORDS_IN_RATE if vertex.is_source else FlinkMetric.RECORDS_IN_RATE)
    lag = values.get(FlinkMetric.PENDING_RECORDS)
    return {
        "vertex_id": vertex.vertex_id,
        "name": vertex.name,
        "is_source": vertex.is_source,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism if vertex.max_parallelism > 0 else None,
        "busy": finite(busy),
        "backpressured": finite(backpressured),
        "records_per_second": finite(rate and rate.total),
        "lag": finite(lag and lag.total),
    }


def _one_line(text: str) -> str:
    return to_printable(str(mask_secrets(text)))
