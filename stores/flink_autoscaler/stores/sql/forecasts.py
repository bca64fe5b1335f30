"""Load profiles in the database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, String, and_, bindparam, delete, insert, select

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.load_profile import BUCKETS_PER_WEEK, VERSION, LoadProfile, ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.ports.forecast_store import revision_of
from flink_autoscaler.stores.sql.database.database import Database, same_key
from flink_autoscaler.stores.sql.tables import FORECAST_META, FORECAST_PROFILE

_META: Final = FORECAST_META.c
_PROFILE: Final = FORECAST_PROFILE.c
_FACTS: Final = ("level", "growth", "weeks", "missing", "wape", "exceed", "timezone")
"""What a profile and its row call by the same name."""


class SqlForecastStore:
    """Keeps results in ``fa_forecast_meta`` and ``fa_forecast_profile`` (``ForecastStore``).

    Writing needs no lease: a profile tells what was measured, whoever leads. One transaction per source.

    Args:
        database: Where the tables are; not closed with the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, results: Iterable[ProfileResult]) -> None:
        """Replace what is kept about the sources of the results."""
        for result in results:
            self._database.run(partial(_replace, result))

    def load(self, job_key: JobKey) -> Mapping[VertexId, ProfileResult]:
        """Return the results of a job by source."""
        rows: dict[VertexId, list[Row[Any]]] = {}
        with self._database.transaction(read_only=True) as connection:
            # One statement: two might see the results of two nights.
            for row in connection.execute(_select_result(connection, job_key)):
                rows.setdefault(row.source_id, []).append(row)
        return {source_id: _result(job_key, found) for source_id, found in rows.items()}

    def revisions(self) -> Mapping[JobKey, str]:
        """Return the revision of every job that has results."""
        jobs: dict[JobKey, dict[VertexId, str]] = {}
        with self._database.transaction(read_only=True) as connection:
            for row in connection.execute(select(_META.job_key, _META.source_id, _META.revision, _META.asof_ms)):
                # What was saved by a version without revisions changes with its asof alone.
                jobs.setdefault(row.job_key, {})[row.source_id] = row.revision or str(row.asof_ms)
        return {job_key: revision_of(sources) for job_key, sources in jobs.items()}

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the results of some jobs."""
        if job_keys:
            self._database.run(partial(_forget, job_keys))


def _replace(result: ProfileResult, connection: Connection) -> None:
    for found in (FORECAST_PROFILE, FORECAST_META):
        is_job = same_key(connection, found.c.job_key, result.job_key)
        connection.execute(delete(found).where(is_job, same_key(connection, found.c.source_id, result.source_id)))
    connection.execute(insert(FORECAST_META).values(_meta_row(result)))
    if result.profile is not None and (rows := _profile_rows(result, result.profile)):
        connection.execute(insert(FORECAST_PROFILE), rows)


def _meta_row(result: ProfileResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "job_key": result.job_key,
        "source_id": result.source_id,
        "asof_ms": round(result.asof * 1000),
        "version": VERSION,
        "problem": result.problem,
        "revision": result.revision,
    }
    return row if result.profile is None else row | {name: getattr(result.profile, name) for name in _FACTS}


def _profile_rows(result: ProfileResult, profile: LoadProfile) -> list[dict[str, Any]]:
    keys = {"job_key": result.job_key, "source_id": result.source_id, "weeks": profile.weeks}
    shares = enumerate(zip(profile.q50, profile.q90, strict=True))
    return [
        {**keys, "slot": slot, "q50": q50, "q90": q90}
        for slot, (q50, q90) in shares
        if q50 is not None and q90 is not None
    ]


def _select_result(connection: Connection, job_key: JobKey) -> Any:
    same_source: ColumnElement[bool] = and_(
        same_key(connection, _PROFILE.job_key, job_key), same_key(connection, _PROFILE.source_id, _META.source_id)
    )
    joined = FORECAST_META.outerjoin(FORECAST_PROFILE, same_source)
    columns = (column for column in _META if column is not _META.job_key)
    wanted = select(*columns, _PROFILE.slot, _PROFILE.q50, _PROFILE.q90).select_from(joined)
    return wanted.where(same_key(connection, _META.job_key, job_key))


def _result(job_key: JobKey, rows: Sequence[Row[Any]]) -> ProfileResult:
    """Make the result of the rows of one source; there is at least one."""
    meta = rows[0]
    asof = meta.asof_ms / 1000
    profile = _profile(meta, rows) if meta.version == VERSION and meta.level is not None else None
    if damage := _result_problem(meta, profile):
        return ProfileResult(job_key, meta.source_id, asof, problem=f"{damage}; build it again", is_readable=False)
    return ProfileResult(job_key, meta.source_id, asof, profile, meta.problem)


def _result_problem(meta: Row[Any], profile: LoadProfile | None) -> str | None:
    """Say why a result cannot be used; None where it can."""
    if meta.version != VERSION:
        return f"the profile was made by another version ({meta.version}, not {VERSION})"
    if profile is not None:
        damage = profile.damage()
    else:
        damage = "it has neither a level nor a problem" if meta.problem is None else None
    return f"the profile in the database is damaged: {damage}" if damage else None


def _profile(meta: Row[Any], rows: Sequence[Row[Any]]) -> LoadProfile:
    known = {row.slot: row for row in rows if row.slot is not None}
    q50, q90 = (
        tuple(getattr(known[slot], name) if slot in known else None for slot in range(BUCKETS_PER_WEEK))
        for name in ("q50", "q90")
    )
    return LoadProfile(q50, q90, asof=meta.asof_ms / 1000, **{name: getattr(meta, name) for name in _FACTS})


def _forget(job_keys: Collection[JobKey], connection: Connection) -> None:
    for found in (FORECAST_PROFILE, FORECAST_META):
        is_key = same_key(connection, found.c.job_key, bindparam("key", type_=String()))
        connection.execute(delete(found).where(is_key), [{"key": job_key} for job_key in job_keys])
