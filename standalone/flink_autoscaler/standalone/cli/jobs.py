"""``jobs``: the jobs of all clusters."""

from __future__ import annotations

import typer

from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

app = typer.Typer()


@cli.command(
    app,
    "flink-autoscaler jobs --config autoscaler.yaml",
    "flink-autoscaler jobs --set autoscaler.standalone.fetcher.flink-cluster.host=flink --json",
    "flink-autoscaler jobs --url http://127.0.0.1:8484",
)
def jobs(
    given: cli.GivenSettings,
    cluster: cli.ClusterOption = None,
    as_json: cli.JsonOption = False,
    url: cli.UrlOption = None,
) -> int:
    """List the jobs of all clusters: as they are now, or with --url as of the daemon's last passes."""
    from flink_autoscaler.standalone.views.listing import jobs_with_orders, listing_table

    problems: list[str] = []
    if url is not None:
        from flink_autoscaler.standalone.cli.daemon_client import jobs_of

        found = jobs_of(url, cluster=cluster)
    else:
        found, problems = jobs_with_orders(given.prepare(is_dry_run=True), cluster, given.prepare_stored)
    for problem in problems:
        out.print_error(problem)
    if as_json:
        out.print_document({"jobs": found})
    else:
        columns, rows = listing_table(found)
        out.show("jobs", rows, columns, if_empty="no jobs")
    return cli.EXIT_FAILED if problems else 0
