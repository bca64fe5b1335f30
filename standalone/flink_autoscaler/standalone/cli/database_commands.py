"""What the commands about the database do."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.ports.deployment import JobListFetcher
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.daemon.wiring import build_fetcher, chosen_clusters, list_jobs
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode, Settings
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.diagnosis import Level, diagnose
from flink_autoscaler.stores.sql.known_jobs import Adoption, AdoptionResult, adopt, leading_daemon
from flink_autoscaler.stores.sql.schema import SchemaStatus, require_current, status, upgrade

_UPGRADE_TIMEOUT = 3600.0
"""Seconds that one statement of an upgrade may take: an index on many events is not made in a moment."""
_OUTCOMES = {
    AdoptionResult.ADOPTED: "adopted",
    AdoptionResult.REFUSED: "refused: there is state under the new key already",
}


def upgrade_schema(file: Path | None, overrides: Sequence[str]) -> int:
    """Create or upgrade the schema; return the exit code."""
    with closing(open_database(prepare(file, overrides), query_timeout=_UPGRADE_TIMEOUT)) as database:
        change = upgrade(database)
        name = database.name
    if change.before.is_current:
        sys.stdout.write(f"{name}: the schema is current (revision {change.after.current})\n")
        return 0
    before = change.before.current or "nothing"
    sys.stdout.write(f"{name}: upgraded from {before} to revision {change.after.current}\n")
    for missing in change.before.missing:
        sys.stdout.write(f"  created {missing}\n")
    return 0


def show_status(file: Path | None, overrides: Sequence[str], *, as_json: bool) -> int:
    """Show the revision of the schema; return the exit code."""
    with closing(open_database(prepare(file, overrides))) as database:
        found = status(database)
        name = database.name
    if as_json:
        derived = {"is_current": found.is_current, "is_newer": found.is_newer, "problem": found.problem}
        report_view.print_document({"database": name, **dataclasses.asdict(found), **derived})
    else:
        _print_status(name, found)
    return 0 if found.is_current else 1


def check_database(file: Path | None, overrides: Sequence[str], *, as_json: bool) -> int:
    """Try out the database and show what was found; return the exit code."""
    with closing(open_database(prepare(file, overrides))) as database:
        findings = list(diagnose(database))
    if as_json:
        report_view.print_document({"checks": [dataclasses.asdict(finding) for finding in findings]})
    else:
        table = report_view.table_of("CHECK", "RESULT", "FOUND")
        for finding in findings:
            report_view.add_row(table, finding.check, finding.level.value, finding.text)
        report_view.print_table(table)
    return 1 if any(finding.level is Level.ERROR for finding in findings) else 0


def import_from_job_keys(
    file: Path | None, overrides: Sequence[str], *, cluster_name: str | None, is_dry_run: bool
) -> int:
    """Adopt state that is stored under plain job ids; return the exit code."""
    settings = prepare(file, overrides)
    if settings.job_key is JobKeyMode.JOB_ID:
        raise ConfigError("autoscaler.job-key is job-id, so the daemon uses state under job ids as it is")
    clusters = chosen_clusters(settings, cluster_name)
    with closing(open_database(settings)) as database:
        require_current(database, upgrades_at_start=False)
        if not is_dry_run:
            _require_no_leader(database, settings.ha.name)
        listed, is_complete = _listed_jobs(settings, clusters)
        candidates = list(_unambiguous(listed))
        results = [(each, adopt(database, each, is_dry_run=is_dry_run)) for each in candidates]
    _print_adoptions(results, is_dry_run=is_dry_run)
    is_refused = any(result is AdoptionResult.REFUSED for _, result in results)
    return 0 if is_complete and not is_refused and len(candidates) == len(listed) else 1


def _print_status(name: str, found: SchemaStatus) -> None:
    sys.stdout.write(f"database  {name}\nrevision  {found.current or 'none'}\nneeded    {found.head}\n")
    remedy = "" if found.is_newer else "; run flink-autoscaler db upgrade"
    sys.stdout.write(f"state     {found.problem + remedy if found.problem else 'current'}\n")


def _require_no_leader(database: Database, name: str) -> None:
    """Refuse to change what a running daemon holds in memory and would write again."""
    if owner := leading_daemon(database, name):
        raise StoreError(f"the daemon {owner} works with this database: stop it, then import")


def _listed_jobs(settings: Settings, clusters: Sequence[Cluster]) -> tuple[list[Adoption], bool]:
    """Return the jobs of all clusters with both keys, and whether all of them could be listed."""
    listed: list[Adoption] = []
    is_complete = True
    with ExitStack() as parts:
        for cluster, jobs in list_jobs(clusters, _fetchers(settings, parts)):
            listed += [
                Adoption(job.job_id, job.job_key, cluster.name, settings.ha.name)
                for job in jobs.jobs
                if job.job_id is not None and job.job_id != job.job_key
            ]
            for subject, problem in {**jobs.problems, **jobs.unreadable}.items():
                report_view.print_error(f"{subject}: {problem}")
                is_complete = False
    return listed, is_complete


def _fetchers(settings: Settings, parts: ExitStack) -> Callable[[Cluster], JobListFetcher]:
    loop = EventLoopThread()
    parts.callback(loop.close)
    clients = ClientCache(loop)
    parts.callback(clients.close)
    offered = {"settings": settings, "loop": loop, "clients": clients, "job_key": settings.job_key}
    return lambda cluster: build_fetcher(cluster, offered)


def _unambiguous(listed: Sequence[Adoption]) -> Iterator[Adoption]:
    """Leave out job ids that several clusters use, as application clusters with high availability do."""
    counts = Counter(each.job_id for each in listed)
    for each in listed:
        if counts[each.job_id] == 1:
            yield each
        else:
            report_view.print_error(
                f"{each.job_key}: several clusters have the job id {each.job_id}; say with --cluster whose state it is"
            )


def _print_adoptions(results: Sequence[tuple[Adoption, AdoptionResult]], *, is_dry_run: bool) -> None:
    counts = Counter(result for _, result in results)
    if counts[AdoptionResult.ADOPTED] or counts[AdoptionResult.REFUSED]:
        table = report_view.table_of("JOB ID", "JOB", "RESULT")
        for each, result in results:
            if result in _OUTCOMES:
                report_view.add_row(table, each.job_id, each.job_key, _OUTCOMES[result])
        report_view.print_table(table)
    sys.stdout.write(
        f"{'dry run, nothing changed: ' if is_dry_run else ''}{counts[AdoptionResult.ADOPTED]} adopted,"
        f" {counts[AdoptionResult.REFUSED]} refused,"
        f" {counts[AdoptionResult.NOTHING]} without state under their job id\n"
    )
