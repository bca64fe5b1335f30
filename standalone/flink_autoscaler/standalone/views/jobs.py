"""The jobs of clusters: who they are, what they have, what is wanted of them, and for what they are left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.topology import VertexDetails
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.fetchers.listing import Listing, chosen_clusters
from flink_autoscaler.standalone.orders.service import left_alone_document, service_if_any
from flink_autoscaler.standalone.settings.schema.settings import Settings

Document = dict[str, Any]

_LABELS: Final = {"yarn_application_id": "APPLICATION", "yarn_queue": "QUEUE", "yarn_user": "USER"}


def list_jobs(settings: Settings, cluster: str | None) -> tuple[list[Document], dict[str, object]]:
    """Return the jobs of all clusters, or of one, and what could not be listed, with the problem.

    Raises:
        ConfigError: There is no such cluster.
    """
    documents: list[Document] = []
    problems: dict[str, object] = {}
    with Listing(settings) as listing:
        for listed, found in listing.jobs(chosen_clusters(settings, cluster)):
            documents += _job_documents(listing, listed.name, found.jobs)
            problems |= {**found.problems, **found.unreadable}
    return documents, problems


def add_orders(settings: Settings, documents: Sequence[Document]) -> None:
    """Add for what each job is left alone, and what is wanted of each vertex.

    Raises:
        AutoscalerError: That is not known.
    """
    with service_if_any(settings) as service:
        standing = [] if service is None else service.in_force(None)
        running = [document["job_key"] for document in documents if document["vertices"]]
        wanted = {} if service is None else service.wanted(running)
    reasons = {each.job_key: each.left_alone for each in standing}
    for document in documents:
        document["left_alone"] = left_alone_document(reasons.get(document["job_key"], ()))
        for vertex in document["vertices"]:
            vertex["wanted"] = wanted.get(document["job_key"], {}).get(vertex["vertex_id"])


def job_table(jobs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[Document]]:
    """Return the columns of a list of jobs, as ``output.show`` takes them, and one row per job.

    Columns of YARN, of what is wanted and of orders are there where a job has them. The jobs are those of
    :func:`list_jobs`, or documents of a daemon.
    """
    enabled = {True: "yes", False: "no", None: "invalid"}
    rows = [
        {
            **job["labels"],
            **job,
            "enabled": enabled[job["enabled"]],
            "changes": _changes(job),
            "alone": "; ".join(map(_left_alone_text, job.get("left_alone", ()))),
        }
        for job in jobs
    ]
    columns = {
        "JOB": "job_key",
        "JOB ID": "job_id",
        "STATUS": "status",
        "ENABLED": "enabled",
        "PARALLELISM": "parallelism",
    }
    optional = {"WANTED": "changes", **{title: name for name, title in _LABELS.items()}, "LEFT ALONE": "alone"}
    return columns | {title: name for title, name in optional.items() if any(row.get(name) for row in rows)}, rows


def _left_alone_text(reason: Mapping[str, Any]) -> str:
    if "text" in reason:  # as the daemon tells it
        return str(reason["text"])
    return f"{reason['what']} until {reason['ends']}" if reason["ends"] else str(reason["what"])


def _changes(job: Mapping[str, Any]) -> str:
    """Return the vertices of which something else is wanted than they have, such as ``work 1 → 4``."""
    if "wanted" in job:  # as the daemon tells it
        return ", ".join(f"{name} → {number}" for name, number in job["wanted"].items())
    vertices = (each for each in job.get("vertices", ()) if each["wanted"] not in (None, each["parallelism"]))
    return ", ".join(f"{each['name']} {each['parallelism']} → {each['wanted']}" for each in vertices)


def job_document(context: JobAutoScalerContext) -> dict[str, Any]:
    """Return who a job is."""
    return {
        "job_key": context.job_key,
        "job_id": context.job_id,
        "status": context.status.value,
        "labels": dict(context.labels),
    }


def _job_documents(listing: Listing, cluster: str, contexts: Sequence[JobAutoScalerContext]) -> Iterable[Document]:
    clients = {endpoint: listing.clients(endpoint) for endpoint in {context.endpoint for context in contexts}}

    async def all_vertices() -> list[tuple[VertexDetails, ...]]:
        return await asyncio.gather(*(_vertices(clients[context.endpoint], context) for context in contexts))

    for context, vertices in zip(contexts, listing.loop.run(all_vertices()), strict=True):
        yield {
            "cluster": cluster,
            **job_document(context),
            "enabled": context.is_enabled,
            "parallelism": max((vertex.parallelism for vertex in vertices), default=None),
            "vertices": [
                {"vertex_id": each.vertex_id, "name": each.name, "parallelism": each.parallelism, "wanted": None}
                for each in vertices
            ],
        }


async def _vertices(client: FlinkRestClient, context: JobAutoScalerContext) -> tuple[VertexDetails, ...]:
    """Return the vertices of a job; none when the job does not run or cannot be read."""
    if context.job_id is None or context.status is not JobStatus.RUNNING:
        return ()
    try:
        details = await client.job_details(context.job_id)
    except FlinkRestError:
        return ()
    return tuple(details.vertices)
