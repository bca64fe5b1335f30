"""The result tables of the nightly job, and the core's values in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from flink_autoscaler.core.model.load_profile import BUCKETS_PER_WEEK, LoadProfile
from flink_autoscaler.core.model.policy_values import ProfileResult

KEYS: Final = ("job_key", "source_id")

PROFILE: Final = "job_key string, source_id string, slot int, q50 double, q90 double, weeks int"
"""``forecast_profile``: a row per source and quarter hour of the week that is known."""

META: Final = (
    "job_key string, source_id string, level double, growth double, weeks int, missing double, wape double, "
    "exceed double, asof double, timezone string, version int, problem string"
)
"""``forecast_meta``: a row per source; without a profile ``level`` is null and ``problem`` says why."""


@dataclass(frozen=True, slots=True)
class ForecastTables:
    """What the job made, of the schemas ``PROFILE`` and ``META``."""

    profile: DataFrame
    meta: DataFrame


def results(tables: ForecastTables) -> Iterator[ProfileResult]:
    """Compute the tables and return one result per source, in no order. Raises what Spark raises."""
    slots = F.sort_array(F.collect_list(F.struct("slot", "q50", "q90")))
    profiles = tables.profile.groupBy(*KEYS).agg(slots.alias("slots"))
    rows = tables.meta.join(profiles, on=list(KEYS), how="left")
    columns = (F.col(f"slots.{name}").alias(name) for name in ("slot", "q50", "q90"))
    for batch in rows.select(*tables.meta.columns, *columns).toArrow().to_batches():
        yield from map(_result, batch.to_pylist())


def _result(row: Mapping[str, Any]) -> ProfileResult:
    problem = row["problem"]
    profile = _profile(row) if problem is None else None
    return ProfileResult(row["job_key"], row["source_id"], row["asof"], profile, problem)


def _profile(row: Mapping[str, Any]) -> LoadProfile:
    q50: list[float | None] = [None] * BUCKETS_PER_WEEK
    q90 = list(q50)
    for slot, middle, upper in zip(row["slot"] or (), row["q50"] or (), row["q90"] or (), strict=True):
        q50[slot], q90[slot] = middle, upper
    names = ("weeks", "level", "growth", "asof", "timezone", "missing", "wape", "exceed")
    return LoadProfile(tuple(q50), tuple(q90), **{name: row[name] for name in names})
