"""The jobs of clusters: who they are, what they have, what is wanted of them, and for what they are suspended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import AutoscalerError, FlinkRestError
from flink_autoscaler.core.model.job import JobKey, JobStatus
from flink_autoscaler.core.model.supervision import Vector
from flink_autoscaler.core.model.topology import VertexDetails
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.fetchers.listing import JobLister, select_clusters
from flink_autoscaler.standalone.operator_commands.service import open_service_if_any, suspensions_document
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.views.base import Value, View

Document = dict[str, Any]

_LABELS: Final = {"yarn_application_id": "APPLICATION", "yarn_queue": "QUEUE", "yarn_user": "USER"}


class ListedVertexView(View):
    """A vertex, what it has and what is wanted of it."""

    vertex_id: str
    name: str
    parallelism: int
    wanted: int | None


class ListedJobView(View):
    """A job as its cluster has it now; for what it is suspended is not there where that is not known."""

    cluster: str
    job_key: str
    job_id: str | None
    status: str
    labels: dict[str, str]
    enabled: bool | None
    parallelism: int | None
    vertices: list[ListedVertexView]
    suspensions: list[Value] = Field(default_factory=list)


def jobs_with_orders(
    settings: Settings, cluster: str | None, load_settings_with_state: Callable[[], Settings]
) -> tuple[list[Document], list[str]]:
    """Return the jobs of all clusters, or of one, and what could not be found out.

    Args:
        settings: How to reach the clusters.
        cluster: Its name; None means all.
        load_settings_with_state: Gives the settings of the database with orders; may raise :class:`AutoscalerError`.

    Raises:
        ConfigError: There is no such cluster.
    """
    found: list[tuple[str, JobAutoScalerContext, tuple[VertexDetails, ...]]] = []
    problems: list[str] = []
    with JobLister(settings) as listing:
        for listed, jobs in listing.jobs(select_clusters(settings, cluster)):
            found += [(listed.name, *each) for each in _with_vertices(listing, jobs.jobs)]
            problems += [f"{subject}: {problem}" for subject, problem in {**jobs.problems, **jobs.unreadable}.items()]
    wanted: dict[JobKey, Vector] = {}
    suspensions: dict[JobKey, list[Document]] | None = None
    try:
        with open_service_if_any(load_settings_with_state()) as service:
            standing = [] if service is None else service.active_commands(None)
            wanted = (
                {}
                if service is None
                else service.desired_parallelism([job.job_key for _, job, vertices in found if vertices])
            )
        suspensions = {each.job_key: suspensions_document(each.suspensions) for each in standing}
    except AutoscalerError as error:
        problems.append(f"suspensions and requested parallelism of jobs are not known: {error}")
    views = [_job_view(*each, wanted.get(each[1].job_key, {}), suspensions) for each in found]
    return [view.model_dump(exclude_unset=True) for view in views], problems


def _job_view(
    cluster: str,
    job: JobAutoScalerContext,
    vertices: Sequence[VertexDetails],
    wanted: Vector,
    suspensions: Mapping[JobKey, list[Document]] | None,
) -> ListedJobView:
    return ListedJobView.model_validate(
        {
            "cluster": cluster,
            "job_key": job.job_key,
            "job_id": job.job_id,
            "status": job.status.value,
            "labels": job.labels,
            "enabled": job.is_enabled,
            "parallelism": max((vertex.parallelism for vertex in vertices), default=None),
            "vertices": [
                ListedVertexView(
                    vertex_id=each.vertex_id,
                    name=each.name,
                    parallelism=each.parallelism,
                    wanted=wanted.get(each.vertex_id),
                )
                for each in vertices
            ],
            **({} if suspensions is None else {"suspensions": suspensions.get(job.job_key, [])}),
        }
    )


def listing_table(jobs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[Document]]:
    """Return the columns of a list of jobs, as ``output.show`` takes them, and one row per job.

    Columns of YARN, of what is wanted and of orders are there where a job has them. The jobs are those of
    :func:`jobs_with_orders`, or documents of a daemon.
    """
    enabled = {True: "yes", False: "no", None: "invalid"}
    rows = [
        {
            **job["labels"],
            **job,
            "enabled": enabled[job["enabled"]],
            "changes": _changes(job),
            "alone": "; ".join(map(_suspension_text, job.get("suspensions", ()))),
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
    optional = {"WANTED": "changes", **{title: name for name, title in _LABELS.items()}, "SUSPENDED": "alone"}
    return columns | {title: name for title, name in optional.items() if any(row.get(name) for row in rows)}, rows


def _suspension_text(reason: Mapping[str, Any]) -> str:
    if "text" in reason:  # as the daemon tells it
        return str(reason["text"])
    return f"{reason['what']} until {reason['ends']}" if reason["ends"] else str(reason["what"])


def _changes(job: Mapping[str, Any]) -> str:
    """Return the vertices of which something else is wanted than they have, such as ``work 1 → 4``."""
    if "wanted" in job:  # as the daemon tells it
        return ", ".join(f"{name} → {number}" for name, number in job["wanted"].items())
    vertices = (each for each in job.get("vertices", ()) if each["wanted"] not in (None, each["parallelism"]))
    return ", ".join(f"{each['name']} {each['parallelism']} → {each['wanted']}" for each in vertices)


def _with_vertices(
    listing: JobLister, jobs: Sequence[JobAutoScalerContext]
) -> Iterable[tuple[JobAutoScalerContext, tuple[VertexDetails, ...]]]:
    clients = {endpoint: listing.clients(endpoint) for endpoint in {job.endpoint for job in jobs}}

    async def all_vertices() -> list[tuple[VertexDetails, ...]]:
        return await asyncio.gather(*(_read_vertices(clients[job.endpoint], job) for job in jobs))

    return zip(jobs, listing.loop.run(all_vertices()), strict=True)


async def _read_vertices(client: FlinkRestClient, context: JobAutoScalerContext) -> tuple[VertexDetails, ...]:
    """Return the vertices of a job; none when the job does not run or cannot be read."""
    if context.job_id is None or context.status is not JobStatus.RUNNING:
        return ()
    try:
        details = await client.job_details(context.job_id)
    except FlinkRestError:
        return ()
    return tuple(details.vertices)
