"""What the commands of the command line do."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext, JobStatus
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.cli.check_config import render_effective
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring, chosen_clusters, list_jobs
from flink_autoscaler.standalone.observability.logs import configure_logging
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.preparation import prepare, read_again
from flink_autoscaler.standalone.settings.schema.clusters import EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration


def run(file: Path | None, overrides: Sequence[str], *, is_dry_run: bool) -> int:
    """Run the daemon until it is told to stop; SIGHUP has it read its settings again. Return the exit code."""
    # Imported here: only the daemon needs scheduler, gauges and web server.
    from flink_autoscaler.standalone.daemon.service import serve  # noqa: PLC0415

    settings = prepare(file, overrides, is_dry_run=is_dry_run)
    return serve(settings, lambda: read_again(file, overrides, is_dry_run=is_dry_run))


def once(
    file: Path | None,
    overrides: Sequence[str],
    *,
    is_dry_run: bool,
    cluster_name: str | None,
    job_pattern: str | None,
    as_json: bool,
) -> int:
    """Do one pass over the chosen clusters side by side and show it; return the exit code."""
    settings = prepare(file, overrides, is_dry_run=is_dry_run)
    with Wiring(settings) as wiring:
        clusters = chosen_clusters(settings, cluster_name)
        passes = [wiring.cluster_pass(cluster, selects=_selection(job_pattern)) for cluster in clusters]
        wiring.storage.start()
        wiring.storage.require_up()
        with ThreadPoolExecutor(len(passes)) as pool:
            reports = list(pool.map(lambda each: each.run(), passes))
    if not all(report.is_acting for report in reports):
        sys.stderr.write("another daemon leads: this pass only looked on, and nothing of it was carried out\n")
    if as_json:
        report_view.print_document(report_view.pass_document(reports))
    else:
        _print_rows(report_view.pass_table(reports))
    return 0 if _is_complete(reports, job_pattern) else 1


def jobs(file: Path | None, overrides: Sequence[str], *, cluster_name: str | None, as_json: bool) -> int:
    """List the jobs of the chosen clusters; return the exit code."""
    settings = prepare(file, overrides, is_dry_run=True)
    documents: list[dict[str, Any]] = []
    is_complete = True
    with Wiring(settings, engine=EngineKind.INLINE) as wiring:
        clusters = chosen_clusters(settings, cluster_name)
        for cluster, job_list in list_jobs(clusters, wiring.fetcher):
            documents += _job_documents(wiring, cluster, job_list)
            for subject, problem in {**job_list.problems, **job_list.unreadable}.items():
                report_view.print_error(f"{subject}: {problem}")
                is_complete = False
    if as_json:
        report_view.print_document({"jobs": documents})
    else:
        _print_rows(report_view.job_table(documents))
    return 0 if is_complete else 1


def check_config(file: Path | None, overrides: Sequence[str], *, as_json: bool) -> int:
    """Show the effective configuration; return the exit code."""
    configuration = load_configuration(file=file, environment=os.environ, overrides=overrides)
    sys.stdout.write(render_effective(configuration, load_settings(configuration), as_json))
    return 0


def replay(vectors: Path, output: Path) -> int:
    """Replay behaviour vectors and write what happened; return the exit code."""
    # Imported here: only this command needs them.
    from rich.console import Console  # noqa: PLC0415
    from rich.status import Status  # noqa: PLC0415

    from flink_autoscaler.standalone.records.vector_replay import read_vectors, write_replay  # noqa: PLC0415

    configure_logging(log_format="auto", level="error")
    given = read_vectors(vectors)
    with Status("replaying", console=Console(stderr=True)) as status:
        count = write_replay(given, output, progress=lambda case: status.update(f"replaying {case}"))
    sys.stdout.write(f"{count} cases replayed, written to {output}\n")
    return 0


def _selection(pattern: str | None) -> Callable[[JobAutoScalerContext], bool]:
    if pattern is None:
        return lambda _: True
    return lambda context: any(
        fnmatchcase(text, pattern) for text in (context.job_key, context.job_name, context.job_id or "")
    )


def _is_complete(reports: Sequence[PassReport], job_pattern: str | None) -> bool:
    if job_pattern is not None and not any(report.jobs for report in reports):
        report_view.print_error(f"no job matches '{job_pattern}'")
        return False
    return all(report.is_clean for report in reports)


def _job_documents(wiring: Wiring, cluster: Cluster, job_list: JobList) -> list[dict[str, Any]]:
    clients = {endpoint: wiring.clients(endpoint) for endpoint in {context.endpoint for context in job_list.jobs}}
    found = wiring.loop.run(_parallelisms(clients, job_list.jobs))
    return [
        {
            "cluster": cluster.name,
            **report_view.job_document(context),
            "enabled": report_view.is_enabled(context),
            "parallelism": parallelism,
        }
        for context, parallelism in zip(job_list.jobs, found, strict=True)
    ]


async def _parallelisms(
    clients: Mapping[Endpoint, FlinkRestClient], contexts: Sequence[JobAutoScalerContext]
) -> list[int | None]:
    return await asyncio.gather(*(_parallelism(clients[context.endpoint], context) for context in contexts))


async def _parallelism(client: FlinkRestClient, context: JobAutoScalerContext) -> int | None:
    """Return the largest parallelism of a job's vertices; None when the job does not run or cannot be read."""
    if context.job_id is None or context.status is not JobStatus.RUNNING:
        return None
    try:
        details = await client.job_details(context.job_id)
    except FlinkRestError:
        return None
    return max((vertex.parallelism for vertex in details.vertices), default=None)


def _print_rows(table: Any) -> None:
    if table.row_count:
        report_view.print_table(table)
    else:
        sys.stderr.write("no jobs\n")
