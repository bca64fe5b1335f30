"""How true the first rate is after nobody has asked Flink for metrics for a while, and how old samples are.

Run: ``PYTHONPATH=tests:. python benchmarks/bench_freshness.py [--flink 2.3] [--quiet 1 --quiet 10]``.

Each version of Flink has two clusters, whose daemons take samples under ``compat: improved`` and ``compat:
reference``. A job reads 300 records/s from its first second on, so that its counter tells when it was gathered. Minutes
of quiet follow one another, each with a daemon that has just been started; the clusters do so at the same time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.waiting import wait_until

RATE = 300.0
INTERVAL = 10.0
PASSES = 8
HEADINGS = ("Flink", "fresh samples", "quiet, min", "first rate", "error", "first age, s", "later ages, s", "none")


@dataclass(frozen=True)
class Row:
    """What a daemon saw that began after a quiet time.

    Attributes:
        first_rate: Records/s between its first two samples; None where it had fewer.
        ages: Of its samples, seconds: from the gathering to the instant that the sample has.
        without: Passes without a sample.
    """

    flink: str
    is_fresh: bool
    quiet: float
    first_rate: float | None
    ages: tuple[float, ...]
    without: int


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flink", action="append", help="version; may be repeated (default: 1.20 and 2.3)")
    parser.add_argument("--quiet", action="append", type=float, help="minutes; may be repeated (default: 1, 10 and 60)")
    given = parser.parse_args()
    versions, quiet = given.flink or ["1.20", "2.3"], given.quiet or [1.0, 10.0, 60.0]
    with ThreadPoolExecutor(2 * len(versions)) as pool:
        found = [pool.submit(measured, each, is_fresh, quiet) for each in versions for is_fresh in (False, True)]
        rows = [row for each in found for row in each.result()]
    Console(width=120).print(table(rows))


def measured(version: str, is_fresh: bool, quiet: Sequence[float]) -> list[Row]:
    """Run a cluster and let it be quiet for so many minutes, time and again."""
    with FlinkCluster(version, slots=4) as cluster:
        start_ms = time.time_ns() // 1_000_000 + 10_000
        job.submit(cluster, job.ScalingJob(name="even", curve=f"-5:{RATE:g}", cost_micros=100, start_ms=start_ms))
        return [row_after(cluster, start_ms - 5000, minutes, is_fresh=is_fresh) for minutes in quiet]


def row_after(cluster: FlinkCluster, start_ms: int, minutes: float, *, is_fresh: bool) -> Row:
    """Wait, and let a daemon do its first passes."""
    begun = time.monotonic()
    wait_until("a quiet time", lambda: time.monotonic() - begun >= 60 * minutes, 60 * minutes + 60, interval=1.0)
    settings = settings_of(cluster, is_fresh=is_fresh)
    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(settings.effective_clusters()[0])
        samples = [sample_of(passes) for _ in range(PASSES)]
    known = [each for each in samples if each is not None]
    rates = [rate for earlier, later in pairwise(known[:2]) if (rate := rate_between(earlier, later)) is not None]
    ages = tuple((each.at_ms - start_ms) / 1000 - counter(each) / RATE for each in known)
    return Row(cluster.version, is_fresh, minutes, rates[0] if rates else None, ages, samples.count(None))


def settings_of(cluster: FlinkCluster, *, is_fresh: bool) -> Settings:
    """Return those of a daemon that watches a cluster, with a pass every ten seconds."""
    values = {
        "autoscaler.clusters.0.name": "quiet",
        "autoscaler.clusters.0.url": cluster.rest_url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.event-handler.type": "logging",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.scaling.enabled": "false",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.compat": "improved" if is_fresh else "reference",
    }
    overrides = [f"{key}={value}" for key, value in values.items()]
    return SettingsLoader(overrides=overrides, environment={}).read()


def sample_of(passes: ClusterPass) -> MetricSample | None:
    """Do a pass and wait for the next one's instant; return the sample, None where none was taken."""
    begun = time.monotonic()
    (report,) = passes.run().reports.values()
    wait_until("the next pass", lambda: time.monotonic() - begun >= INTERVAL, 2 * INTERVAL, interval=0.05)
    return report.outcome.observation.sample


def counter(sample: MetricSample) -> float:
    """Return the records that the source had read."""
    (source,) = (each for each in sample.vertices.values() if ScalingMetric.LAG in each)
    return source[ScalingMetric.NUM_RECORDS_IN]


def rate_between(earlier: MetricSample, later: MetricSample) -> float | None:
    """Return records/s; None for samples of one instant."""
    seconds = (later.at_ms - earlier.at_ms) / 1000
    return (counter(later) - counter(earlier)) / seconds if seconds > 0 else None


def table(rows: Sequence[Row]) -> Table:
    """Return what is printed."""
    made = Table(title=f"{RATE:g} records/s arrive; a pass every {INTERVAL:g} s")
    for heading in (
        "Flink",
        "fresh samples",
        "quiet, min",
        "first rate",
        "error",
        "first age, s",
        "later ages, s",
        "none",
    ):
        made.add_column(heading, justify="right")
    for row in rows:
        rate, error = "-", "-"
        if row.first_rate is not None:
            rate, error = f"{row.first_rate:.0f}", f"{100 * (row.first_rate / RATE - 1):+.0f} %"
        first = f"{row.ages[0]:.1f}" if row.ages else "-"
        later = f"{min(row.ages[1:]):.1f} to {max(row.ages[1:]):.1f}" if row.ages[1:] else "-"
        is_fresh = "yes" if row.is_fresh else "no"
        made.add_row(row.flink, is_fresh, f"{row.quiet:g}", rate, error, first, later, str(row.without))
    return made


if __name__ == "__main__":
    main()
