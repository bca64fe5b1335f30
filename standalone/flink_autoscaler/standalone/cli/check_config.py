"""``check-config``: the effective configuration with the origin of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.readiness.start_trial import Tried
    from flink_autoscaler.standalone.settings.schema.clusters import AccessSettings, YarnSettings
    from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
    from flink_autoscaler.standalone.settings.sources.configuration import Configuration, EffectiveValue

app = typer.Typer()


@cli.command(
    app,
    "flink-autoscaler check-config --config autoscaler.yaml",
    "FLINK_CONF_DIR=/opt/flink/conf flink-autoscaler check-config --json",
    "flink-autoscaler check-config --config autoscaler.yaml --connect",
    codes="0 when run would start, 2 when it would not, 1 when something does not answer to --connect.",
    short_help="Check the configuration and show it.",
)
def check_config(
    given: cli.GivenSettings,
    connect: Annotated[
        bool, cli.switch("--connect", "Also try the database and every cluster, without changes.")
    ] = False,
    as_json: cli.JsonOption = False,
    quiet: Annotated[bool, cli.switch("--quiet", "Show only problems.")] = False,
) -> int:
    """Check the configuration like run, and show every value with its origin.

    Without --connect there is no network access: plug-ins, database URL, the folder of a SQLite file, secrets and
    certificates are checked.
    """
    from flink_autoscaler.standalone.readiness.start_trial import connections, start_problems
    from flink_autoscaler.standalone.settings.logs import configure_logging

    settings, configuration = given.loader().load()
    configure_logging(log_format=settings.log.format, level="error")
    problems = start_problems(settings)
    tried = connections(settings) if connect and not problems else []
    if not quiet:
        out.write_out(render_effective(configuration, settings, as_json, problems=problems, tried=tried))
    for problem in problems:
        out.print_error(problem)
    return cli.EXIT_CONFIG if problems else 0 if all(each.is_fine for each in tried) else cli.EXIT_FAILED


def render_effective(
    configuration: Configuration,
    settings: Settings,
    as_json: bool,
    *,
    problems: Sequence[str] = (),
    tried: Sequence[Tried] = (),
) -> str:
    """Return the effective configuration and clusters as text for a terminal, or as one JSON document.

    Args:
        configuration: Where the values came from, with every warning.
        settings: What they came to.
        as_json: JSON with ``values`` (key, value, origin), ``clusters`` (name, type, url, interval and timeout in
            seconds, how it is reached, which jobs, ...), ``warnings``, ``problems`` and ``tried``, instead of tables.
        problems: Why ``run`` would not start; on a terminal they are told as errors.
        tried: What came of asking database and clusters.

    Returns:
        Text that ends with a line end. Secrets are masked.
    """
    lines = configuration.effective_values()
    clusters = [_cluster(each) for each in settings.effective_clusters()]
    if as_json:
        values = [asdict(line) for line in lines]
        found = {"problems": list(problems), "tried": [asdict(each) for each in tried]}
        document = {"values": values, "clusters": clusters, "warnings": list(configuration.warnings), **found}
        return out.json_text(document, indent=2) + "\n"
    return _as_tables(lines, clusters, configuration.warnings, tried)


def _cluster(cluster: Cluster) -> dict[str, Any]:
    """Return what holds for a cluster. Of secrets only where they come from is known here."""
    from flink_autoscaler.standalone.settings.secrets import shown

    settings = cluster.settings
    document = {
        "name": cluster.name,
        "type": settings.type,
        "url": cluster.shown_url,
        "interval": cluster.interval,
        "timeout": cluster.endpoint.timeout,
        "engine": cluster.engine.value,
        **_access(settings),
        **settings.model_dump(mode="json", include={"max_connections", "include", "exclude", "job_user_config"}),
        "options": {key: shown(key, text) for key, text in settings.options.items()},
    }
    return document | ({"yarn": _yarn(settings.yarn)} if settings.yarn.url else {})


def _access(settings: AccessSettings) -> dict[str, Any]:
    headers = (settings.headers, settings.headers_env, settings.headers_file)
    return {
        "auth": settings.auth.kind,
        "headers": sorted({name for group in headers for name in group}),
        "tls": settings.tls.model_dump(exclude_none=True),
    }


def _yarn(settings: YarnSettings) -> dict[str, Any]:
    shown = {"types", "queues", "users", "tags", "names", "access", "headroom"}
    return {**_access(settings), **settings.model_dump(mode="json", include=shown)}


def _as_tables(
    lines: list[EffectiveValue], clusters: list[dict[str, Any]], warnings: tuple[str, ...], tried: Sequence[Tried]
) -> str:
    values = [(line.key, "(unset)" if line.value is None else line.value, line.origin) for line in lines]
    titles = ("cluster", "type", "url", "auth", "jobs", "interval (s)", "timeout (s)", "engine")
    parts = (
        out.table_text(("key", "value", "origin"), values),
        out.table_text(titles, [tuple(_cells(cluster)) for cluster in clusters]),
        *(f"warning: {warning}\n" for warning in warnings),
        *(f"{each.part}: {'ok' if each.is_fine else 'FAILED'}: {each.text}\n" for each in tried),
    )
    return "\n".join(parts)


def _cells(cluster: Mapping[str, Any]) -> Iterator[str]:
    jobs = [*cluster["include"], *(f"not {pattern}" for pattern in cluster["exclude"])]
    auth = cluster["auth"] if "yarn" not in cluster else f"{cluster['auth']}, YARN: {cluster['yarn']['auth']}"
    yield from (cluster["name"], cluster["type"], cluster["url"], auth, ", ".join(jobs) or "all")
    yield from (f"{cluster['interval']:g}", f"{cluster['timeout']:g}", cluster["engine"])
