"""Time and memory of the nightly job that makes load profiles, on a history that Spark makes up.

Run: PYTHONPATH=tests:. python benchmarks/bench_profiles.py [--jobs 1000] [--weeks 4] [--memory 1g]
A sample per minute and job with one source; 1,000 jobs and 4 weeks are 40 million samples. Needs Java.
"""

from __future__ import annotations

import argparse
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.measuring import Peak, quiet_logs
from flink_autoscaler.core.model.load_profile import WEEK
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.run import build_profiles
from flink_autoscaler.pipeline.spark.settings import SparkSettings

ASOF = 1_793_577_600
RATE = "1000 * (1 + 0.5 * sin(2 * pi() * (at + job * 600) / 86400)) * (0.9 + 0.2 * rand(1))"


def history(spark: SparkSession, jobs: int, weeks: int) -> DataFrame:
    """Return a sample per minute and job."""
    minutes = weeks * round(WEEK) // 60
    numbered = spark.range(jobs * minutes).selectExpr(
        f"id div {minutes} as job", f"{ASOF} - 60 * (1 + id % {minutes}) as at"
    )
    return numbered.select(
        F.format_string("main/job-%05d", "job").alias("job_key"),
        F.lit("cbc357ccb763df2852fee8c4fc7d55f2").alias("source_id"),
        F.timestamp_seconds("at").alias("ts"),
        F.expr(RATE).alias("arrival_rate"),
        F.lit(True).alias("is_running"),
        F.lit(60.0).alias("span"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--weeks", type=int, default=4)
    parser.add_argument("--memory", default="1g", help="heap of the driver")
    options = parser.parse_args()
    quiet_logs()
    settings = ProfileSettings(asof=ASOF)
    spark = SparkSettings(driver_memory=options.memory)
    started = time.perf_counter()
    with Peak() as peak:
        found = list(build_profiles(spark, lambda session: history(session, options.jobs, options.weeks), settings))
    seconds = time.perf_counter() - started
    profiles = [result.profile for result in found if result.profile is not None]
    assert len(profiles) == options.jobs, found[0].problem
    error = sum(profile.wape or 0.0 for profile in profiles) / len(profiles)
    print(f"{options.jobs} jobs x {options.weeks} weeks, session included: {seconds:.1f} s wall, {peak.cpu:.1f} s cpu")
    print(f"{peak.resident:.0f} MB resident at most, all processes; mean error {error:.1%}")


if __name__ == "__main__":
    main()
