"""What was to be expected at the beginning of the period: the profiles that the history before it gives."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.model.policy_values import ProfileResult
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.job import profiles_of
from flink_autoscaler.pipeline.profiles.tables import results
from flink_autoscaler.pipeline.reports.period import Period
from flink_autoscaler.pipeline.reports.report import ForecastLine, Series

NOTHING_BEFORE = "the history before the period has nothing about this job"


def forecasts(
    samples: DataFrame, settings: ProfileSettings, period: Period, job_keys: Collection[str]
) -> Mapping[str, ForecastLine]:
    """Make profiles of what came before the period, and return what they expect of it.

    Args:
        samples: Rows of the table ``samples`` since ``settings.begin``.
        settings: How profiles are made; ``asof`` is the beginning of the period.
        period: What is to be forecast.
        job_keys: Which jobs.

    Returns:
        The jobs that have any result. A job with a source without a profile has the problem of that.
    """
    of_jobs = samples.where(f.col("job_key").isin(sorted(job_keys)))
    with profiles_of(of_jobs.withColumn("is_running", f.col("arrival_rate").isNotNull()), settings) as tables:
        found = list(results(tables))
    by_job: dict[str, list[ProfileResult]] = {}
    for result in found:
        by_job.setdefault(result.job_key, []).append(result)
    return {job_key: _line(each, period) for job_key, each in by_job.items()}


def _line(sources: Sequence[ProfileResult], period: Period) -> ForecastLine:
    profiles = [source.profile for source in sources if source.profile is not None]
    if len(profiles) < len(sources):
        problem = next(source.problem for source in sources if source.profile is None)
        return ForecastLine(problem=problem or "there is no profile")
    instants = [period.start_of(bucket) + period.width / 2 for bucket in range(period.count)]
    return ForecastLine(
        median=[_sum([_expected(profile, profile.q50, at) for profile in profiles]) for at in instants],
        upper=[_sum([_expected(profile, profile.q90, at) for profile in profiles]) for at in instants],
    )


def _expected(profile: LoadProfile, shares: Sequence[float | None], at: float) -> float | None:
    share = shares[profile.slot(at)]
    return None if share is None else profile.base(at) * share


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None


def compared(line: ForecastLine, actual: Series) -> ForecastLine:
    """Return a forecast with how far it was from what arrived, over the buckets that know both."""
    both = [
        (rate, middle, upper)
        for rate, middle, upper in zip(actual, line.median, line.upper, strict=False)
        if rate is not None and middle is not None and upper is not None
    ]
    total = math.fsum(rate for rate, _, _ in both)
    if not total:
        return line
    wape = math.fsum(abs(rate - middle) for rate, middle, _ in both) / total
    return replace(line, wape=wape, exceeded=sum(rate > upper for rate, _, upper in both) / len(both))
