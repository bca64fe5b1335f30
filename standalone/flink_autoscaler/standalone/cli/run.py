"""``run`` and ``once``: passes over all clusters, again and again or a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.core.options.context import JobAutoScalerContext
    from flink_autoscaler.standalone.daemon.pass_report import PassReport
    from flink_autoscaler.standalone.readiness.checks import Finding
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = typer.Typer()


@cli.command(
    app,
    "flink-autoscaler run --config /etc/flink-autoscaler/autoscaler.yaml",
    "flink-autoscaler run --set autoscaler.engine.kind=inline --dry-run",
    short_help="Run the daemon.",
)
def run(given: cli.GivenSettings, dry_run: cli.DryRunOption = False) -> int:
    """Run the daemon until SIGTERM or Ctrl-C. SIGHUP reloads the configuration."""
    from flink_autoscaler.standalone.service.signals import hold_reloads

    hold_reloads()
    from flink_autoscaler.standalone.service.serve import serve

    loader = given.loader(is_dry_run=dry_run)
    return serve(
        loader.read_for_daemon(),
        lambda: loader.read_for_daemon(is_running=True),
        configuration=loader.configuration,
        greet=out.write_out,
    )


@cli.command(
    app,
    "flink-autoscaler once --url http://jobmanager:8081",
    "flink-autoscaler once --config autoscaler.yaml --dry-run",
    "flink-autoscaler once --config autoscaler.yaml --cluster main --job 'orders*' --json",
    "flink-autoscaler once --config autoscaler.yaml --dry-run --spark",
    codes="0 when everything was read, 1 when a cluster or job failed.",
    short_help="Run one pass and show what each job needs.",
)
def once(
    given: cli.GivenSettings,
    urls: cli.GivenUrls,
    dry_run: cli.DryRunOption = False,
    cluster: cli.ClusterOption = None,
    job: Annotated[
        str | None, cli.valued("--job", "PATTERN", "Only jobs with this key, name or id; * and ? match.")
    ] = None,
    as_json: cli.JsonOption = False,
    spark: Annotated[bool, cli.switch("--spark", "Evaluate on Spark, which takes some seconds to start.")] = False,
) -> int:
    """Run one pass over all clusters, in this process, and show the result.

    Decisions are carried out, unless --dry-run is given. --url needs no configuration, changes nothing, and reports
    what each job needs before it can be scaled. Whatever autoscaler.engine.kind is, only --spark starts Spark.
    """
    if urls.url:
        return _look(given, urls, cluster=cluster, job=job, as_json=as_json)
    if urls.access():
        raise ConfigError("--ca-file, --user, --token-file and the like go with --url; a file says it per cluster")
    from concurrent.futures import ThreadPoolExecutor

    from flink_autoscaler.standalone.daemon.wiring import WHY_NOT_SPARK, Wiring
    from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
    from flink_autoscaler.standalone.settings.schema.clusters import EngineKind

    prepared = given.prepare(is_dry_run=dry_run)
    engine = EngineKind.SPARK if spark else EngineKind.INLINE
    with Wiring(prepared, engine=engine, inline_reason=WHY_NOT_SPARK) as wiring:
        passes = [wiring.cluster_pass(each, selects=_selection(job)) for each in chosen_clusters(prepared, cluster)]
        wiring.storage.start()
        wiring.storage.require_up()
        with ThreadPoolExecutor(len(passes)) as pool:
            reports = list(pool.map(lambda each: each.run(), passes))
    if not all(report.is_acting for report in reports):
        out.write_error("another daemon leads: this pass only looked on, and nothing of it was carried out\n")
    from flink_autoscaler.standalone.views.passes import PASS_COLUMNS, pass_document, pass_rows

    needs = _needs(reports, prepared)
    if as_json:
        out.print_document(pass_document(reports, needs))
    else:
        from flink_autoscaler.standalone.readiness.report import shared_lines

        out.show("jobs", list(pass_rows(reports)), PASS_COLUMNS, if_empty="no jobs")
        out.write_out("".join(f"{line}\n" for line in shared_lines(needs)))
        for use in dict.fromkeys(report.engine for report in reports if report.engine is not None):
            out.write_error(f"evaluated on: {use.engine} ({use.reason})\n")
    return 0 if _is_complete(reports, job) else 1


def _look(given: cli.GivenSettings, urls: cli.GivenUrls, *, cluster: str | None, job: str | None, as_json: bool) -> int:
    """Look at clusters given by their URLs; see :mod:`flink_autoscaler.standalone.readiness`."""
    from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
    from flink_autoscaler.standalone.readiness.given import given_clusters, settings_of
    from flink_autoscaler.standalone.readiness.looking import look_at
    from flink_autoscaler.standalone.readiness.report import error_lines, look_document, look_lines

    if given.config is not None:
        raise ConfigError("--url needs no --config: give one of the two")
    settings = settings_of(given_clusters(urls.url or [], urls.access()), given.overrides or [])
    with out.told_once() as on_waiting:
        looks = look_at(chosen_clusters(settings, cluster), on_waiting=on_waiting)
    looks = [each.selected(_selection(job)) for each in looks]
    if as_json:
        out.print_document(look_document(looks))
    else:
        out.write_out("".join(f"{line}\n" for line in look_lines(looks)))
    for line in error_lines(looks):
        out.print_error(line)
    if job is not None and not any(look.jobs or look.failures for look in looks):
        out.print_error(f"no job matches '{job}'")
        return 1
    return 1 if error_lines(looks) else 0


def _needs(reports: Sequence[PassReport], settings: Settings) -> dict[str, tuple[Finding, ...]]:
    """Return what jobs of these passes need before they can be scaled, by job; ended jobs are left out."""
    from flink_autoscaler.standalone.daemon.providers import NONE
    from flink_autoscaler.standalone.readiness.checks import needs_of

    provided = {each.name for each in settings.effective_clusters() if each.settings.provider.type != NONE}
    return {
        context.job_key: needs_of(context, has_provider=report.cluster in provided)
        for report in reports
        for context in report.jobs
        if not context.status.is_terminal
    }


def _selection(pattern: str | None) -> Callable[[JobAutoScalerContext], bool]:
    if pattern is None:
        return lambda _: True
    return lambda context: any(
        fnmatchcase(text, pattern) for text in (context.job_key, context.job_name, context.job_id or "")
    )


def _is_complete(reports: Sequence[PassReport], job_pattern: str | None) -> bool:
    if job_pattern is not None and not any(report.jobs for report in reports):
        out.print_error(f"no job matches '{job_pattern}'")
        return False
    return all(report.is_clean for report in reports)
