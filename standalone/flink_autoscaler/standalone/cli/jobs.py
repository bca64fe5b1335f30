"""``jobs``: the jobs of all clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from flink_autoscaler.standalone.cli.command import ClusterOption, GivenSettings, JsonOption, command
from flink_autoscaler.standalone.cli.output import Rows, print_document, print_error, print_table

if TYPE_CHECKING:
    from flink_autoscaler.clients.flink.rest import FlinkRestClient
    from flink_autoscaler.core.options.context import JobAutoScalerContext
    from flink_autoscaler.standalone.daemon.wiring import Wiring

app = typer.Typer()

_LABELS = {"yarn_application_id": "APPLICATION", "yarn_queue": "QUEUE", "yarn_user": "USER"}


@command(
    app,
    "flink-autoscaler jobs --config autoscaler.yaml",
    "flink-autoscaler jobs --set autoscaler.standalone.fetcher.flink-cluster.host=flink --json",
)
def jobs(given: GivenSettings, cluster: ClusterOption = None, as_json: JsonOption = False) -> int:
    """List the jobs of all clusters."""
    from flink_autoscaler.standalone.daemon.wiring import Wiring, chosen_clusters, list_jobs
    from flink_autoscaler.standalone.settings.schema.clusters import EngineKind

    prepared = given.prepare(is_dry_run=True)
    documents: list[dict[str, Any]] = []
    is_complete = True
    with Wiring(prepared, engine=EngineKind.INLINE) as wiring:
        for listed, job_list in list_jobs(chosen_clusters(prepared, cluster), wiring.fetcher):
            documents += _job_documents(wiring, listed.name, job_list.jobs)
            for subject, problem in {**job_list.problems, **job_list.unreadable}.items():
                print_error(f"{subject}: {problem}")
                is_complete = False
    if as_json:
        print_document({"jobs": documents})
    else:
        print_table(*job_table(documents), if_empty="no jobs")
    return 0 if is_complete else 1


def job_table(jobs: Sequence[Mapping[str, Any]]) -> Rows:
    """Return one row per job of a list of jobs; columns of YARN only where a job is there."""
    labels = {name: title for name, title in _LABELS.items() if any(name in job["labels"] for job in jobs)}
    rows = [
        (
            job["job_key"],
            job["job_id"] or "-",
            job["status"],
            {True: "yes", False: "no", None: "invalid"}[job["enabled"]],
            "-" if job["parallelism"] is None else str(job["parallelism"]),
            *(job["labels"].get(name, "-") for name in labels),
        )
        for job in jobs
    ]
    return ("JOB", "JOB ID", "STATUS", "ENABLED", "PARALLELISM", *labels.values()), rows


def job_document(context: JobAutoScalerContext) -> dict[str, Any]:
    """Return who a job is."""
    return {
        "job_key": context.job_key,
        "job_id": context.job_id,
        "status": context.status.value,
        "labels": dict(context.labels),
    }


def is_enabled(context: JobAutoScalerContext) -> bool | None:
    """Tell whether a job is looked after; None when its configuration does not say true or false."""
    from flink_autoscaler.core.options.option import ValueParseError

    try:
        return context.options.enabled
    except ValueParseError:
        return None


def _job_documents(wiring: Wiring, cluster: str, contexts: Sequence[JobAutoScalerContext]) -> Iterable[dict[str, Any]]:
    import asyncio

    clients = {endpoint: wiring.clients(endpoint) for endpoint in {context.endpoint for context in contexts}}

    async def parallelisms() -> list[int | None]:
        return await asyncio.gather(*(_parallelism(clients[context.endpoint], context) for context in contexts))

    for context, parallelism in zip(contexts, wiring.loop.run(parallelisms()), strict=True):
        facts = {"enabled": is_enabled(context), "parallelism": parallelism}
        yield {"cluster": cluster, **job_document(context), **facts}


async def _parallelism(client: FlinkRestClient, context: JobAutoScalerContext) -> int | None:
    """Return the largest parallelism of a job's vertices; None when the job does not run or cannot be read."""
    from flink_autoscaler.core.errors import FlinkRestError
    from flink_autoscaler.core.model.job import JobStatus

    if context.job_id is None or context.status is not JobStatus.RUNNING:
        return None
    try:
        details = await client.job_details(context.job_id)
    except FlinkRestError:
        return None
    return max((vertex.parallelism for vertex in details.vertices), default=None)
