"""``init``: writes a commented configuration for clusters that it has looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

app = typer.Typer()

_STDOUT: Final = Path("-")


@cli.command(
    app,
    "flink-autoscaler init --url http://jobmanager:8081 --policy slo",
    "flink-autoscaler init --url http://east:8081 --url http://west:8081 --output clusters.yaml",
    "flink-autoscaler init --url https://flink.example --ca-file ca.pem --user scaler --password-env PASSWORD",
    codes="0 when the file is written, 1 when a cluster does not answer, 2 when the file exists.",
    short_help="Write a configuration for your clusters.",
)
def init(
    urls: cli.GivenUrls,
    output: Annotated[Path, cli.valued("--output -o", "FILE", "File to write; - is standard output.")] = Path(
        "autoscaler.yaml"
    ),
    policy: Annotated[
        str | None,
        cli.valued("--policy", "NAME", "Policy of all jobs: slo if you know which lag is acceptable, else capacity."),
    ] = None,
    force: Annotated[bool, cli.switch("--force", "Replace the file if it exists.")] = False,
) -> int:
    """Write a commented configuration for the given clusters, or for http://localhost:8081.

    Reads the version, scheduler and jobs of each cluster; writes nothing when one does not answer. Without --policy
    jobs are sized as by the Java autoscaler.
    """
    if output == _STDOUT:
        text = _configuration(urls, "autoscaler.yaml", policy)
        out.write_out(text or "")
        return 0 if text else 1
    with out.whole_file(output, replaces=force) as stream:
        text = _configuration(urls, str(output), policy)
        stream.write((text or "").encode())
        if not text:
            raise typer.Exit(1)
    out.write_error(f"{output} is written. Look first, without changing anything:\n")
    out.write_error(f"  flink-autoscaler once --config {output} --dry-run\n")
    return 0


def _configuration(urls: cli.GivenUrls, file: str, policy: str | None) -> str | None:
    """Return the text of the file; None when a cluster did not answer, which has been told.

    Raises:
        ConfigError: There is no such policy.
    """
    from flink_autoscaler.core.options.policies import OPTIONS_OF
    from flink_autoscaler.standalone.readiness.configuration import configuration_text
    from flink_autoscaler.standalone.readiness.given import DEFAULT_URL, given_clusters, settings_of
    from flink_autoscaler.standalone.readiness.looking import look_at
    from flink_autoscaler.standalone.readiness.report import error_lines

    if policy is not None and policy not in OPTIONS_OF:
        raise ConfigError(f"--policy: there is no policy '{policy}'; known: {', '.join(OPTIONS_OF)}")
    clusters = given_clusters(urls.url or [DEFAULT_URL], urls.access())
    looks = look_at(settings_of(clusters).effective_clusters(), with_metrics=False)
    if any(look.error is not None for look in looks):
        for line in error_lines(looks):
            out.print_error(line)
        out.print_error("nothing was written, because the file would not have been checked against this cluster")
        return None
    return configuration_text(file, clusters, looks, policy)
