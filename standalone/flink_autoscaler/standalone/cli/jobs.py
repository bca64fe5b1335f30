"""``jobs``: the jobs of all clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from flink_autoscaler.standalone.cli.command import ClusterOption, GivenSettings, JsonOption, UrlOption, command
from flink_autoscaler.standalone.cli.output import Rows, print_document, print_error, print_table

if TYPE_CHECKING:
    from flink_autoscaler.clients.flink.rest import FlinkRestClient
    from flink_autoscaler.core.model.topology import VertexDetails
    from flink_autoscaler.core.options.context import JobAutoScalerContext
    from flink_autoscaler.standalone.fetchers.listing import Listing

app = typer.Typer()

_LABELS = {"yarn_application_id": "APPLICATION", "yarn_queue": "QUEUE", "yarn_user": "USER"}


@command(
    app,
    "flink-autoscaler jobs --config autoscaler.yaml",
    "flink-autoscaler jobs --set autoscaler.standalone.fetcher.flink-cluster.host=flink --json",
    "flink-autoscaler jobs --url http://127.0.0.1:8484",
)
def jobs(
    given: GivenSettings, cluster: ClusterOption = None, as_json: JsonOption = False, url: UrlOption = None
) -> int:
    """List the jobs of all clusters: as they are now, or with --url as the daemon found them in its last passes."""
    if url is not None:
        from flink_autoscaler.standalone.web.client import jobs_of

        found = jobs_of(url, cluster=cluster)
        _print(found, [_as_listed(job) for job in found], as_json=as_json)
        return 0
    from flink_autoscaler.standalone.fetchers.listing import Listing, chosen_clusters

    prepared = given.prepare(is_dry_run=True)
    documents: list[dict[str, Any]] = []
    is_complete = True
    with Listing(prepared) as listing:
        for listed, job_list in listing.jobs(chosen_clusters(prepared, cluster)):
            documents += _job_documents(listing, listed.name, job_list.jobs)
            for subject, problem in {**job_list.problems, **job_list.unreadable}.items():
                print_error(f"{subject}: {problem}")
                is_complete = False
    is_complete &= _add_orders(given, documents)
    _print(documents, documents, as_json=as_json)
    return 0 if is_complete else 1


def _print(found: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_document({"jobs": found})
    else:
        print_table(*job_table(listed), if_empty="no jobs")


def _as_listed(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job, as the daemon tells of it, as one of the table."""
    return {**job, "left_alone": [{"what": each["text"], "ends": ""} for each in job["left_alone"]]}


def job_table(jobs: Sequence[Mapping[str, Any]]) -> Rows:
    """Return one row per job of a list of jobs; columns of YARN only where a job is there."""
    labels = {name: title for name, title in _LABELS.items() if any(name in job["labels"] for job in jobs)}
    is_any_alone = any(job.get("left_alone") for job in jobs)
    is_any_other = any(_changes(job) for job in jobs)
    rows = [
        (
            job["job_key"],
            job["job_id"] or "-",
            job["status"],
            {True: "yes", False: "no", None: "invalid"}[job["enabled"]],
            "-" if job["parallelism"] is None else str(job["parallelism"]),
            *([_changes(job) or "-"] if is_any_other else []),
            *(job["labels"].get(name, "-") for name in labels),
            *([_left_alone_text(job)] if is_any_alone else []),
        )
        for job in jobs
    ]
    wanted, more = ["WANTED"] if is_any_other else [], ["LEFT ALONE"] if is_any_alone else []
    return ("JOB", "JOB ID", "STATUS", "ENABLED", "PARALLELISM", *wanted, *labels.values(), *more), rows


def _changes(job: Mapping[str, Any]) -> str:
    """Return the vertices of which something else is wanted than they have, such as ``work 1 → 4``."""
    if "wanted" in job:  # as the daemon tells it
        return ", ".join(f"{name} → {number}" for name, number in job["wanted"].items())
    vertices = (each for each in job.get("vertices", ()) if each["wanted"] not in (None, each["parallelism"]))
    return ", ".join(f"{each['name']} {each['parallelism']} → {each['wanted']}" for each in vertices)


def _left_alone_text(job: Mapping[str, Any]) -> str:
    reasons = job.get("left_alone", ())
    return (
        "; ".join(f"{each['what']} until {each['ends']}" if each["ends"] else each["what"] for each in reasons) or "-"
    )


def _add_orders(given: GivenSettings, documents: Sequence[dict[str, Any]]) -> bool:
    """Add for what each job is left alone, and what is wanted of each vertex; say so and return False where unknown."""
    from flink_autoscaler.core.errors import AutoscalerError
    from flink_autoscaler.standalone.cli.orders.service import service_if_any
    from flink_autoscaler.standalone.cli.orders.view import left_alone_document

    try:
        with service_if_any(given) as service:
            standing = [] if service is None else service.in_force(None)
            running = [document["job_key"] for document in documents if document["vertices"]]
            wanted = {} if service is None else service.wanted(running)
    except AutoscalerError as error:
        print_error(f"what jobs are left alone for, and what is wanted of them, is not known: {error}")
        return False
    reasons = {each.job_key: each.left_alone for each in standing}
    for document in documents:
        document["left_alone"] = left_alone_document(reasons.get(document["job_key"], ()))
        for vertex in document["vertices"]:
            vertex["wanted"] = wanted.get(document["job_key"], {}).get(vertex["vertex_id"])
    return True


def job_document(context: JobAutoScalerContext) -> dict[str, Any]:
    """Return who a job is."""
    return {
        "job_key": context.job_key,
        "job_id": context.job_id,
        "status": context.status.value,
        "labels": dict(context.labels),
    }


def _job_documents(
    listing: Listing, cluster: str, contexts: Sequence[JobAutoScalerContext]
) -> Iterable[dict[str, Any]]:
    import asyncio

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
    from flink_autoscaler.core.errors import FlinkRestError
    from flink_autoscaler.core.model.job import JobStatus

    if context.job_id is None or context.status is not JobStatus.RUNNING:
        return ()
    try:
        details = await client.job_details(context.job_id)
    except FlinkRestError:
        return ()
    return tuple(details.vertices)
