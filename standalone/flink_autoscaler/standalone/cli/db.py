"""``db``: upgrades, checks and fills the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
    from flink_autoscaler.stores.sql.database.database import Database
    from flink_autoscaler.stores.sql.known_jobs import Adoption, AdoptionResult

app = cli.command_group(
    "flink-autoscaler db upgrade --config autoscaler.yaml",
    text="Maintain the database.",
    short_help="Maintain the database: upgrade, downgrade, status, check, import, set-aside.",
)

_INSTANT: Final = "at:%Y-%m-%d %H:%M:%S"
_UPGRADE_TIMEOUT: Final = 3600.0
"""Seconds that one statement of an upgrade may take: an index on many events is not made in a moment."""


@cli.command(app, "flink-autoscaler db upgrade --config autoscaler.yaml")
def upgrade(given: cli.GivenSettings) -> int:
    """Create or upgrade the schema.

    Keeps the Java process's tables and rows as they are. Several hosts may run it at once.
    """
    from flink_autoscaler.stores.sql import schema

    with given.database(query_timeout=_UPGRADE_TIMEOUT) as database:
        change = schema.upgrade(database)
    if change.before.is_current:
        out.write_out(f"{database.name}: the schema is current (revision {change.after.current})\n")
        return 0
    before = change.before.current or "nothing"
    out.write_out(f"{database.name}: upgraded from {before} to revision {change.after.current}\n")
    for missing in change.before.missing:
        out.write_out(f"  created {missing}\n")
    return 0


@cli.command(
    app,
    "flink-autoscaler db downgrade 0007 --config autoscaler.yaml",
    codes="0 when the older version can use it, 1 when the database failed, 2 when there is no way back.",
    short_help="Let an older version use the database again.",
)
def downgrade(
    revision: Annotated[str, cli.argument("REVISION", "The newest revision that the older version knows.")],
    given: cli.GivenSettings,
) -> int:
    """Let an older version use the database again; its error message names the revision.

    Deletes nothing: what newer versions have added counts again after the next db upgrade. With SQLite, stop the
    daemon first: a newer one upgrades again when it starts.
    """
    from flink_autoscaler.stores.sql import schema

    with given.database(query_timeout=_UPGRADE_TIMEOUT) as database:
        change = schema.downgrade(database, revision)
    before, after = change.before.current, change.after.current
    done = f"has revision {after} already" if before == after else f"went back from {before} to revision {after}"
    out.write_out(f"{database.name}: the schema {done}; versions that know it can work with it\n")
    return 0


@cli.command(
    app,
    "flink-autoscaler db status --config autoscaler.yaml",
    codes="0 when the daemon can use the schema, 1 when not.",
)
def status(given: cli.GivenSettings, as_json: cli.JsonOption = False) -> int:
    """Show the schema's revision and the one needed."""
    from flink_autoscaler.stores.sql import schema

    with given.database() as database:
        found = schema.status(database)
    if as_json:
        derived = {name: getattr(found, name) for name in ("is_current", "is_newer", "is_damaged", "problem")}
        out.print_document({"database": database.name, **asdict(found), **derived})
    else:
        remedy = "; run flink-autoscaler db upgrade" if found.can_be_upgraded else ""
        state = found.problem + remedy if found.problem else "current"
        lines = {"database": database.name, "revision": found.current or "none", "needed": found.head, "state": state}
        out.write_out("".join(f"{name:<10}{text}\n" for name, text in lines.items()))
    return 0 if found.is_current else 1


@cli.command(
    app,
    "flink-autoscaler db check --config autoscaler.yaml",
    codes="0 without errors, 1 with errors; warnings do not count.",
)
def check(given: cli.GivenSettings, as_json: cli.JsonOption = False) -> int:
    """Check connection, schema, clock, time zone and write permission; count what is stored.

    Changes nothing: test writes are rolled back.
    """
    from flink_autoscaler.stores.sql.database.diagnosis import Level, diagnose

    with given.database() as database:
        findings = list(diagnose(database))
    columns = {"CHECK": "check", "RESULT": "level", "FOUND": "text"}
    out.show("checks", list(map(asdict, findings)), columns, as_json=as_json)
    return 1 if any(finding.level is Level.ERROR for finding in findings) else 0


@cli.command(
    app,
    "flink-autoscaler db import --from-job-keys --config autoscaler.yaml --dry-run",
    codes="0 when all state was adopted, 1 when some was refused or unreadable.",
    short_help="Adopt another process's state.",
    name="import",
)
def import_state(
    given: cli.GivenSettings,
    from_job_keys: Annotated[
        bool, cli.switch("--from-job-keys", "Adopt state under job ids, where the Java process stores it.")
    ] = False,
    cluster: cli.ClusterOption = None,
    dry_run: Annotated[bool, cli.switch("--dry-run", "Only show the result.")] = False,
) -> int:
    """Give stored state this daemon's keys, for the jobs that the clusters list now.

    State under a job id gets the key <cluster>/<job name>, and never overwrites other state. Stop the daemon first.
    May be repeated.
    """
    if not from_job_keys:
        raise typer.BadParameter("say what to import: --from-job-keys")
    from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
    from flink_autoscaler.standalone.ha.databases import open_database
    from flink_autoscaler.standalone.settings.schema.settings import JobKeyMode
    from flink_autoscaler.stores.sql.known_jobs import AdoptionResult, adopt
    from flink_autoscaler.stores.sql.schema import require_current

    prepared = given.prepare_stored()
    if prepared.job_key is JobKeyMode.JOB_ID:
        raise ConfigError("autoscaler.job-key is job-id, so the daemon uses state under job ids as it is")
    clusters = chosen_clusters(prepared, cluster)
    with closing(open_database(prepared)) as database:
        require_current(database, upgrades_at_start=False)
        if not dry_run:
            _require_no_leader(database, prepared.ha.name, "import")
        candidates, is_complete = _candidates(prepared, clusters)
        results = [(each, adopt(database, each, is_dry_run=dry_run)) for each in candidates]
    _print_adoptions(results, is_dry_run=dry_run)
    is_refused = any(result is AdoptionResult.REFUSED for _, result in results)
    return 0 if is_complete and not is_refused else 1


@cli.command(
    app,
    "flink-autoscaler db set-aside --config autoscaler.yaml",
    "flink-autoscaler db set-aside --job main/orders --json",
    short_help="List stored values that are unreadable.",
    name="set-aside",
)
def set_aside(
    given: cli.GivenSettings,
    job: Annotated[str | None, cli.valued("--job", "JOB", "Only the job with this key.")] = None,
    as_json: cli.JsonOption = False,
) -> int:
    """List unreadable stored values.

    A job goes on without such a value. The table fa_set_aside keeps it.
    """
    from flink_autoscaler.stores.sql.schema import require_current
    from flink_autoscaler.stores.sql.state.rows import values_set_aside

    with given.database() as database:
        require_current(database, upgrades_at_start=False)
        found = values_set_aside(database, job)
    columns = {
        "ID": "id",
        "JOB": "job_key",
        "STATE": "state_type",
        "SINCE": "at:%Y-%m-%d %H:%M:%S",
        "PROBLEM": "problem",
    }
    out.show("set_aside", list(map(asdict, found)), columns, as_json=as_json, if_empty="nothing is set aside")
    return 0


def _require_no_leader(database: Database, name: str, action: str) -> None:
    """Refuse to change what a running daemon holds in memory and would write again."""
    from flink_autoscaler.core.errors import StoreError
    from flink_autoscaler.stores.sql.known_jobs import leading_daemon

    if owner := leading_daemon(database, name):
        raise StoreError(f"the daemon {owner} works with this database: stop it, then {action}")


def _candidates(settings: Settings, clusters: Sequence[Cluster]) -> tuple[list[Adoption], bool]:
    """Return the jobs of all clusters with both keys, and whether these are all jobs.

    Job ids that several clusters use, as application clusters with high availability do, are left out.
    """
    from flink_autoscaler.standalone.fetchers.listing import Listing
    from flink_autoscaler.stores.sql.known_jobs import Adoption

    listed: list[Adoption] = []
    problems: dict[str, object] = {}
    with Listing(settings) as listing:
        for cluster, jobs in listing.jobs(clusters):
            listed += [
                Adoption(job.job_id, job.job_key, cluster.name, settings.ha.name)
                for job in jobs.jobs
                if job.job_id is not None and job.job_id != job.job_key
            ]
            problems |= {**jobs.problems, **jobs.unreadable}
    counts = Counter(each.job_id for each in listed)
    problems |= {
        each.job_key: f"several clusters have the job id {each.job_id}; say with --cluster whose state it is"
        for each in listed
        if counts[each.job_id] > 1
    }
    for subject, problem in problems.items():
        out.print_error(f"{subject}: {problem}")
    return [each for each in listed if counts[each.job_id] == 1], not problems


def _print_adoptions(results: Sequence[tuple[Adoption, AdoptionResult]], *, is_dry_run: bool) -> None:
    from flink_autoscaler.stores.sql.known_jobs import AdoptionResult

    outcomes = {
        AdoptionResult.ADOPTED: "adopted",
        AdoptionResult.REFUSED: "refused: there is state under the new key already",
    }
    rows = [(each.job_id, each.job_key, outcomes[result]) for each, result in results if result in outcomes]
    if rows:
        out.print_table(("JOB ID", "JOB", "RESULT"), rows)
    counts = Counter(result for _, result in results)
    out.write_out(
        f"{'dry run, nothing changed: ' if is_dry_run else ''}{counts[AdoptionResult.ADOPTED]} adopted,"
        f" {counts[AdoptionResult.REFUSED]} refused,"
        f" {counts[AdoptionResult.NOTHING]} without state under their job id\n"
    )
