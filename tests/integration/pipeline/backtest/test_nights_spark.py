"""The profiles of a backtest are those that the nightly job makes of the same samples."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.backtest.case import BacktestCase
from flink_autoscaler.pipeline.backtest.fitting import FitParams, fit_case
from flink_autoscaler.pipeline.backtest.nightly_profiles import nightly_profiles_of
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.job import profiles_of, results
from flink_autoscaler.pipeline.tables.rows import NamedRow
from testkit.builders.backtests import LATER, NOON, SOURCE, arrival_rows, job_rows, records
from testkit.clusters.spark.fixtures import SharedSpark

pytestmark = pytest.mark.spark

DAY_MINUTES = 1440
CONFIGURATION = {
    "job.autoscaler.forecast.enabled": "true",
    "job.autoscaler.forecast.timezone": "Europe/Berlin",
    "job.autoscaler.forecast.exclude": "2026-01-28",
}


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> SparkSession:
    return shared_spark()


def rate(minute: int) -> float:
    return 400.0 + (minute // 60 % 24) * 30 + minute % 7


def a_past(span: int) -> list[NamedRow]:
    """Make 16 days of samples, one per span in minutes, without those of a night."""
    minutes = range(-16 * DAY_MINUTES, 0)
    rows = [(name, {**row, "span": span * 60.0}) for name, row in arrival_rows(minutes, rate)[4::span]]
    return [row for number, row in enumerate(rows) if not 600 // span < number < 900 // span]


def frame(spark: SparkSession, rows: list[NamedRow]) -> DataFrame:
    columns = ("job_key", "source_id", "ts", "arrival_rate", "span")
    table = pa.table({name: [row[name] for table, row in rows if table == "samples"] for name in columns})
    instants = table.column("ts").cast(pa.timestamp("us", "UTC"))
    found = spark.createDataFrame(table.set_column(2, "ts", instants))
    return found.selectExpr("*", "true as is_running")


def profile_of(result: ProfileResult) -> LoadProfile:
    assert result.profile is not None, result.problem
    return result.profile


@pytest.mark.parametrize("span", [1, 10])
def test_profiles_are_those_of_the_nightly_job(spark: SparkSession, span: int) -> None:
    rows = [*a_past(span), *job_rows(minutes=90, rate=rate)]
    subject = fit_case(records(rows), FitParams(LATER, NOON, with_past=True))
    assert isinstance(subject, BacktestCase), subject

    (night,) = nightly_profiles_of(subject, CONFIGURATION)
    (wanted,) = results(profiles_of(frame(spark, rows), ProfileSettings.of(AutoscalerOptions(CONFIGURATION), NOON)))

    here, there = profile_of(night.result), profile_of(wanted)
    assert (night.result.source_id, night.result.asof) == (SOURCE, wanted.asof)
    assert (here.weeks, here.timezone) == (there.weeks, there.timezone)
    numbers = ("level", "growth", "missing", "wape", "exceed", "q50", "q90")
    assert [getattr(here, name) for name in numbers] == [pytest.approx(getattr(there, name)) for name in numbers]
