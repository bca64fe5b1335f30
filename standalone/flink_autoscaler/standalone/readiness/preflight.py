"""Tries out what ``run`` does at its start, as far as that changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.pipeline.spark.environment import require_environment
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.fetchers.listing import list_jobs
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.settings.loading import with_existing_state_file
from flink_autoscaler.standalone.settings.schema.clusters import EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Settings, needs_database
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.settings.spark import live_spark_settings
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.diagnosis import FindingLevel, diagnose

_QUERY_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """One part that was tried out.

    Attributes:
        part: ``database``, or ``cluster`` and its name.
        is_fine: Whether it can be worked with.
        text: What was found.
    """

    part: str
    is_fine: bool
    text: str


def start_problems(settings: Settings) -> list[str]:
    """Return what keeps a daemon with these settings from starting. Asks no cluster and no database server."""
    return [str(mask_secrets(line)) for problem in _problems(settings) for line in problem.splitlines()]


def _problems(settings: Settings) -> Iterator[str]:
    history = settings.history
    if history.enabled and history.path is None:
        yield "autoscaler.history.path is not set, but autoscaler.history.enabled is true"
    # A history that is opened takes over what a killed daemon left, which is not ours here.
    plain = settings.model_copy(update={"history": history.model_copy(update={"enabled": False})})
    try:
        with Wiring(plain, engine=EngineKind.INLINE) as wiring:
            yield from _cluster_problems(plain, wiring)
            yield from _file_problems(wiring)
            yield from _engine_problems(plain)
    except AutoscalerError as error:
        yield str(error)


def _cluster_problems(settings: Settings, wiring: Wiring) -> Iterator[str]:
    for cluster in settings.effective_clusters():
        try:
            wiring.cluster_pass(cluster)
        except AutoscalerError as error:
            text = str(error)
            yield text if cluster.name in text else f"cluster '{cluster.name}': {text}"


def _engine_problems(settings: Settings) -> Iterator[str]:
    """Yield why jobs cannot be evaluated on Spark, where they have to be; Java is asked for its version."""
    if any(cluster.engine is EngineKind.SPARK for cluster in settings.effective_clusters()):
        try:
            require_environment(live_spark_settings(settings))
        except ConfigError as error:
            yield str(error)


def _file_problems(wiring: Wiring) -> Iterator[str]:
    """Yield why the file of the database cannot be written, by its folder and permissions."""
    database = wiring.storage.plugin_arguments().get("database")
    file: Path | None = getattr(database, "file", None)
    if file is None:
        return
    if not file.parent.is_dir():
        yield f"SQLite {file}: the folder {file.parent} does not exist; make it, or name another file"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        yield f"SQLite {file}: it cannot be written by this user; check its permissions and those of its folder"


def check_connections(settings: Settings) -> list[PreflightResult]:
    """Return what came of asking the database, where one is set, and every cluster for its jobs. Changes nothing."""
    settings = with_existing_state_file(settings)
    tried = list(_check_database(settings)) if needs_database(settings) else []
    with Wiring(settings, engine=EngineKind.INLINE) as wiring:
        for cluster, jobs in list_jobs(settings.effective_clusters(), wiring.fetcher):
            subject = f"cluster {cluster.name}"
            problems = [mask_secrets(str(error)) for error in (*jobs.problems.values(), *jobs.unreadable.values())]
            tried.append(PreflightResult(subject, not problems, "; ".join(problems) or _job_count_text(len(jobs.jobs))))
    return tried


def _job_count_text(jobs: int) -> str:
    return "it answers, with 1 job" if jobs == 1 else f"it answers, with {jobs} jobs"


def _check_database(settings: Settings) -> Iterator[PreflightResult]:
    try:
        with closing(open_database(settings, query_timeout=_QUERY_TIMEOUT)) as database:
            yield from _diagnose(database)
    except ConfigError as error:
        yield PreflightResult("database", is_fine=False, text=str(mask_secrets(str(error))))


def _diagnose(database: Database) -> Iterator[PreflightResult]:
    file = database.file
    if file is not None and not file.exists():
        yield PreflightResult("database", file.parent.is_dir(), f"{file} is not there yet; run makes it")
        return
    for finding in diagnose(database):
        yield PreflightResult(
            f"database, {finding.check}", finding.level is not FindingLevel.ERROR, str(mask_secrets(finding.text))
        )
