"""Profiles of loads that are known: the nightly job finds what they were made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from structlog.testing import capture_logs

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import BUCKET, WEEK, LoadProfile, ProfileResult, slot_of, zone_named
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import LoadSeries, SourceHistory
from flink_autoscaler.pipeline.profiles.job import profiles_of, quarter_hours, results
from flink_autoscaler.pipeline.profiles.run import samples_at
from flink_autoscaler.pipeline.profiles.source import RESULT
from flink_autoscaler.pipeline.tables.files import new_id
from flink_autoscaler.pipeline.tables.schema import SAMPLES
from flink_autoscaler.pipeline.tables.store import WriteBatch, append
from flink_autoscaler.standalone.cli.forecast import profile_builder, show_profiles
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from testkit.builders.history import DAY_MS, a_storage, conformed, part_files, sample_rows, write
from testkit.clusters.spark.fixtures import SharedSpark

pytestmark = pytest.mark.spark

MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
SETTINGS = ProfileSettings(asof=MONDAY)
BERLIN = replace(SETTINGS, timezone="Europe/Berlin", excluded=(date(2026, 10, 28),))
GROWTH = 1.04

# A day from 0.5 to 1.5, three quarters of that at weekends.
SHAPE = "(1 + 0.5 * sin(2 * pi() * at / 86400)) * if(weekday(ts) >= 5, 0.75, 1)"
GROWING = f"1000 * {SHAPE} * pow({GROWTH}, (at - {MONDAY}) / {WEEK})"
NOISE = f"(0.9 + 0.2 * pmod(xxhash64(at div {BUCKET}), 1000000) / 1e6)"
"""Evenly from 0.9 to 1.1 by quarter hour: 5 % off on average."""
LOCAL = "from_utc_timestamp(ts, 'Europe/Berlin')"
OFFICE = f"if(to_date({LOCAL}) = date'2026-10-28', 9000, if(hour({LOCAL}) between 9 and 16, 300, 100))"
ALWAYS = "true"
ENOUGH = "minute(ts) % 15 < 10"
"""Minutes of a quarter hour that count as all of it."""


@dataclass(frozen=True)
class Load:
    """Rate, whether the job runs, and which minutes there are, all of ``at``, epoch seconds, and ``ts``; since when.

    The last one is the seconds that a rate covers.
    """

    rate: str
    runs: str = ALWAYS
    has: str = ENOUGH
    weeks: float = 2.0
    span: str = "null"


LOADS: Mapping[str, Load] = {
    "growing": Load(GROWING, weeks=5),
    "noisy": Load(f"1000 * {SHAPE} * {NOISE}", weeks=5),
    "two weeks": Load(f"{GROWING} * {NOISE}"),
    "four days": Load(f"{GROWING} * {NOISE}", weeks=4 / 7),
    "three samples": Load("5", has=ALWAYS, weeks=180 / WEEK),
    "idle": Load("0", weeks=4 / 7),
    "stopped": Load("5", runs="false", weeks=4 / 7),
    "at night away": Load(GROWING, runs="hour(ts) <> 2"),
    "now away": Load("700", runs=f"at < {MONDAY - 2 * 86_400}", weeks=3),
    "with gaps": Load("700", has="minute(ts) % 15 < 10 and not (hour(ts) = 5 and minute(ts) % 15 = 3)"),
    "unknown": Load("if(hour(ts) = 7, null, if(hour(ts) = 8, double('NaN'), 700))"),
    "office": Load(OFFICE),
    "every 5 min": Load(GROWING, has="minute(ts) % 5 = 2", weeks=4, span="299.6"),
    "every 15 min": Load(GROWING, has="minute(ts) % 15 = 7", weeks=4, span="900"),
    "a step": Load("if(hour(ts) = 7 and minute(ts) = 5, 100, 700)", has="minute(ts) % 15 in (5, 14)", span="540"),
    "restarted": Load("700", has="minute(ts) % 15 = 14", span="if(hour(ts) = 7, 500, 600)"),
}


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> SparkSession:
    return shared_spark()


@pytest.fixture(scope="module")
def samples(spark: SparkSession) -> DataFrame:
    """Every load, a sample per minute in the minutes that it has."""
    minutes = spark.range(MONDAY - 5 * round(WEEK), MONDAY, 60).selectExpr("id as at", "timestamp_seconds(id) as ts")
    rows = ", ".join(
        f"struct('main/{name}' as job_key, double({load.rate}) as arrival_rate, {load.runs} as is_running, "
        f"double({load.span}) as span, {load.has} and at >= {MONDAY - round(load.weeks * WEEK)} as is_there)"
        for name, load in LOADS.items()
    )
    every = minutes.selectExpr("'source' as source_id", "ts", f"inline(array({rows}))").where("is_there")
    return every.drop("is_there").persist()


@dataclass(frozen=True)
class Built:
    """Columns with their types, and results by name of the load."""

    schema: Sequence[tuple[str, str]]
    results: Mapping[str, ProfileResult]


def built(samples: DataFrame, settings: ProfileSettings) -> Built:
    profiles = profiles_of(samples, settings)
    return Built(profiles.dtypes, {result.job_key.removeprefix("main/"): result for result in results(profiles)})


@pytest.fixture(scope="module")
def every_load(samples: DataFrame) -> Built:
    return built(samples, SETTINGS)


@pytest.fixture(scope="module")
def found(every_load: Built) -> Mapping[str, ProfileResult]:
    return every_load.results


@pytest.fixture(scope="module")
def found_in_berlin(samples: DataFrame) -> Mapping[str, ProfileResult]:
    return built(samples.where("job_key = 'main/office'"), BERLIN).results


def profile_of(found: Mapping[str, ProfileResult], name: str) -> LoadProfile:
    profile = found[name].profile
    assert profile is not None, found[name].problem
    return profile


def relative(values: tuple[float | None, ...]) -> list[float]:
    """Return a profile relative to its own mean."""
    known = [value for value in values if value is not None]
    assert len(known) == 672
    return [value / (sum(known) / 672) for value in known]


def test_profiles_have_their_schema(every_load: Built) -> None:
    assert every_load.schema == [tuple(column.split()) for column in RESULT.split(", ")]


def test_every_source_has_a_result(found: Mapping[str, ProfileResult]) -> None:
    assert set(found) == set(LOADS)
    assert all((result.profile is None) == (result.problem is not None) for result in found.values())
    assert {result.asof for result in found.values()} == {MONDAY}


def in_the_middle(spark: SparkSession, begin: float, formula: str) -> list[float]:
    """Return what a formula gives in the middle of the quarter hours of a week."""
    middles = spark.range(672).selectExpr(f"{begin} + id * {BUCKET} + {BUCKET // 2} as at")
    rows = middles.withColumn("ts", F.timestamp_seconds("at")).selectExpr(f"double({formula})").collect()
    return [row[0] for row in rows]


def test_growth_and_level_are_found(found: Mapping[str, ProfileResult], spark: SparkSession) -> None:
    profile = profile_of(found, "growing")

    assert profile.weeks == 5
    assert profile.growth == pytest.approx(GROWTH, abs=1e-6)
    assert profile.missing == 0.0
    assert profile.level == pytest.approx(median(in_the_middle(spark, MONDAY - WEEK, GROWING)), rel=1e-3)
    assert profile.base(MONDAY - WEEK / 2) == pytest.approx(profile.level)
    assert profile.base(MONDAY + WEEK / 2) == pytest.approx(profile.level * GROWTH)


def test_shape_of_the_week_is_found(found: Mapping[str, ProfileResult], spark: SparkSession) -> None:
    profile = profile_of(found, "growing")
    shape = in_the_middle(spark, MONDAY, SHAPE)

    mean = sum(shape) / 672
    errors = [abs(got - want / mean) for got, want in zip(relative(profile.q50), shape, strict=True)]
    # A quarter hour is blended with its neighbours, over Fridays' ends, too.
    assert sorted(errors)[660] < 0.02


def test_error_of_the_backtest_is_that_of_the_noise(found: Mapping[str, ProfileResult]) -> None:
    clean, noisy = profile_of(found, "growing"), profile_of(found, "noisy")

    assert clean.wape is not None
    assert noisy.wape is not None
    assert noisy.exceed is not None
    # Without noise what is left is that a quarter hour is blended with its neighbours.
    assert clean.wape < 0.02
    assert 0.04 < noisy.wape < 0.075
    assert noisy.growth == pytest.approx(1.0, abs=0.01)
    assert 0.03 < noisy.exceed < 0.2


def test_two_weeks_blend_week_and_day(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "two weeks")

    assert (profile.weeks, profile.growth) == (2, 1.0)
    noon, saturday = 48, 5 * 96 + 48
    # Of Saturday's 0.75 only half is seen.
    ratio = (profile.q50[saturday] or 0) / (profile.q50[noon] or 1)
    assert 0.8 < ratio < 0.97


def test_four_days_make_all_days_alike(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "four days")

    assert profile.weeks == 0
    assert profile.q50[:96] == profile.q50[96:192] == profile.q50[576:]
    assert profile.missing == 0.0
    assert profile.wape is not None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("three samples", "too little history: 0 of the 288 quarter hours"),
        ("stopped", "too little history: 0 of the 288 quarter hours"),
        ("idle", "in most quarter hours nothing arrived"),
    ],
)
def test_source_without_a_profile_says_why(found: Mapping[str, ProfileResult], name: str, problem: str) -> None:
    assert found[name].profile is None
    assert (found[name].problem or "").startswith(problem)


def test_quarter_hours_that_are_never_there_stay_unknown(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "at night away")

    # 02:00 to 03:00 but for its edges, which have a neighbour.
    unknown = [slot for slot, share in enumerate(profile.q50) if share is None]
    assert unknown == [day * 96 + quarter for day in range(7) for quarter in (9, 10)]
    assert profile.missing == pytest.approx(1 / 24)


def test_last_week_that_is_not_usable_counts_as_missing(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "now away")

    assert profile.missing == pytest.approx(2 / 7)
    assert profile.weeks == 2
    assert profile.level == pytest.approx(700)


def test_ten_minutes_make_a_quarter_hour_and_nine_do_not(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "with gaps")

    assert profile.missing == pytest.approx(1 / 24)


@pytest.mark.parametrize("name", ["every 5 min", "every 15 min"])
def test_passes_that_are_kept_less_often_make_the_same_profile(found: Mapping[str, ProfileResult], name: str) -> None:
    profile, closest = profile_of(found, name), profile_of(found, "growing")

    assert profile.weeks == 4
    assert profile.missing == pytest.approx(0.0, abs=1 / 96)
    assert profile.growth == pytest.approx(GROWTH, abs=1e-3)
    assert profile.level == pytest.approx(closest.level, rel=0.01)
    errors = [abs(got - want) for got, want in zip(relative(profile.q50), relative(closest.q50), strict=True)]
    # Where a weekend begins or ends, a quarter hour has a part of its neighbour's load.
    assert sorted(errors)[660] < 0.05


def test_quarter_hour_of_which_ten_minutes_are_covered_counts(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "restarted")

    assert profile.missing == pytest.approx(1 / 24)


def test_rate_that_is_not_known_is_not_nothing(found: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found, "unknown")

    assert profile.missing == pytest.approx(2 / 24)
    assert {share for share in profile.q50 if share is not None} == {1.0}


COMPARED = ("growing", "noisy", "two weeks", "four days")


@pytest.fixture(scope="module")
def learned(samples: DataFrame) -> Mapping[str, LoadSeries]:
    """The quarter hours of some loads, as the backtest gets them."""
    wanted = samples.where(F.col("job_key").isin([f"main/{name}" for name in COMPARED]))
    rows = quarter_hours(wanted, SETTINGS).where("is_kept").orderBy("index").toArrow().to_pylist()
    by_name = {name: [row for row in rows if row["job_key"] == f"main/{name}"] for name in COMPARED}
    return {
        name: LoadSeries(*([row[column] for row in found] for column in ("index", "slot", "rate")))
        for name, found in by_name.items()
    }


@pytest.mark.parametrize("name", COMPARED)
def test_backtest_fits_what_the_job_fits(
    learned: Mapping[str, LoadSeries], found: Mapping[str, ProfileResult], name: str
) -> None:
    history = SourceHistory(learned[name], SETTINGS)

    fit = history.fit(MONDAY // BUCKET)

    profile = profile_of(found, name)
    assert fit is not None
    quantiles = [history.quantiles(fit, slot) for slot in range(672)]
    assert [each and each.q50 for each in quantiles] == pytest.approx(list(profile.q50))
    assert [each and each.q90 for each in quantiles] == pytest.approx(list(profile.q90))


def test_clocks_that_are_changed_do_not_shift_the_day(found_in_berlin: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found_in_berlin, "office")
    nights = [0, 8 * 4 + 2, 17 * 4 + 1]
    days = [9 * 4, 13 * 4, 16 * 4 + 3]

    assert {profile.q50[day * 96 + quarter] for day in range(7) for quarter in days} == {3.0}
    assert {profile.q50[day * 96 + quarter] for day in range(7) for quarter in nights} == {1.0}


def test_excluded_day_is_neither_learned_from_nor_missing(found_in_berlin: Mapping[str, ProfileResult]) -> None:
    profile = profile_of(found_in_berlin, "office")

    assert max(share for share in profile.q90 if share is not None) == 3.0
    assert profile.missing == 0.0


def test_job_and_daemon_count_the_same_quarter_hours(spark: SparkSession) -> None:
    instants = range(MONDAY - 240 * 86_400, MONDAY, 3 * BUCKET)
    table = pa.table({"ts": pa.array([at * 10**6 for at in instants], pa.timestamp("us", "UTC"))})
    samples = spark.createDataFrame(table).selectExpr(
        "'job' as job_key", "'source' as source_id", "ts", "1d as arrival_rate", "true as is_running", "60d as span"
    )
    for name in ("Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"):
        rows = quarter_hours(samples, replace(SETTINGS, timezone=name, weeks=52)).select("index", "slot").toArrow()

        slots = {row["index"] * BUCKET: row["slot"] for row in rows.to_pylist()}
        assert slots == {at: slot_of(at, zone_named(name)) for at in instants}


def test_rate_is_the_mean_of_the_minutes_that_samples_cover(spark: SparkSession, samples: DataFrame) -> None:
    seven = "job_key = 'main/a step' and ts between '2026-10-28 06:00:00' and '2026-10-28 08:00:00'"
    quarters = quarter_hours(samples.where(seven), SETTINGS).orderBy("index").collect()

    # 07:05 is about 06:57 to 07:05, at 100 instead of 700: three minutes of one quarter hour and six of the next.
    rates = {datetime.fromtimestamp(row["index"] * BUCKET, UTC).strftime("%H:%M"): row.rate for row in quarters}
    assert rates["06:45"] == pytest.approx((6 * 700 + 9 * 700 + 3 * 100) / 18)
    assert rates["07:00"] == pytest.approx((6 * 100 + 9 * 700 + 3 * 700) / 18)
    assert rates["07:15"] == 700.0


def samples_read(spark: SparkSession, path: Path) -> list[tuple[str, float, bool]]:
    rows = samples_at(str(path), SETTINGS)(spark).orderBy("job_key", "ts").collect()
    return [(row.job_key, row.arrival_rate, row.is_running) for row in rows]


def write_damaged(root: Path) -> None:
    """Write a file of which the end is missing."""
    write(a_storage(root), sample_rows(2, at_ms=MONDAY * 1000 - DAY_MS, cluster="damaged"))
    [damaged] = [file for file in part_files(root) if "cluster=damaged" in str(file)]
    damaged.write_bytes(damaged.read_bytes()[:-1])


def test_metric_history_is_read_without_its_damaged_files(spark: SparkSession, tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(2, at_ms=MONDAY * 1000 - DAY_MS))
    too_old, too_new = sample_rows(1, at_ms=SETTINGS.begin * 1000 - 60_000), sample_rows(1, at_ms=MONDAY * 1000)
    write(a_storage(tmp_path), too_old, too_new)
    write_damaged(tmp_path)

    with capture_logs() as logs:
        found = samples_read(spark, tmp_path)

    assert found == [("main/orders", 0.0, True), ("main/orders", 1.0, True)]
    assert [(line["event"], line["log_level"], line["files"]) for line in logs] == [
        ("history_files_damaged", "warning", 1)
    ]


class Lent:
    """A session that the tests go on with (a ``PassSession`` as far as it is needed here)."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def close(self) -> None:
        """Leave it open."""


def test_build_shows_a_result_for_every_source_of_the_configured_history(
    spark: SparkSession,
    samples: DataFrame,
    found: Mapping[str, ProfileResult],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    names = ["four days", "three samples"]
    rows = samples.where(F.col("job_key").isin([f"main/{name}" for name in names])).toArrow()
    append(a_storage(tmp_path), WriteBatch(new_id(0), {SAMPLES.name: conformed(SAMPLES, rows)}))
    write_damaged(tmp_path)
    settings = SettingsLoader(None, [f"autoscaler.history.path={tmp_path}"]).read(sets_log=True)
    job = profile_builder(settings, None, "2026-11-02T00:00Z")

    code = show_profiles(settings, partial(job, lambda _: cast("Any", Lent(spark))), is_dry_run=True, as_json=True)

    said = capfd.readouterr()
    documents = json.loads(said.out)["forecasts"]
    profile = profile_of(found, "four days")
    assert code == 0
    assert [(each["job_key"], each["problem"]) for each in documents] == [
        (f"main/{name}", found[name].problem) for name in names
    ]
    assert documents[0] | {"asof": None} == documents[0] | {
        "asof": None, "level": profile.level, "growth": profile.growth, "weeks": profile.weeks,
        "wape": profile.wape, "exceed": profile.exceed, "missing": profile.missing,
    }  # fmt: skip
    assert documents[0]["asof"] == "2026-11-02T00:00:00+00:00"
    assert "history_files_damaged" in said.err


@pytest.mark.parametrize("name", ["some.parquet", "folder"])
def test_plain_parquet_is_read_with_and_without_saying_whether_the_job_ran(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    columns = {"job_key": ["a", "b"], "source_id": ["s", "s"], "ts": [datetime.now(UTC)] * 2, "arrival_rate": [1, 2]}
    (tmp_path / "folder").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "some.parquet")
    pq.write_table(pa.table({**columns, "is_running": [False, True]}), tmp_path / "folder" / "0.parquet")

    found = samples_read(spark, tmp_path / name)

    assert found == [("a", 1.0, name != "folder"), ("b", 2.0, True)]


def test_history_that_is_not_there_is_an_error_of_the_configuration(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere holds neither a metric history nor Parquet files"):
        samples_read(spark, tmp_path / "nowhere")


def test_parquet_that_lacks_a_column_is_an_error_of_the_configuration(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"job_key": ["a"], "source_id": ["b"], "is_running": [True]}), tmp_path / "some.parquet")

    with pytest.raises(ConfigError, match="has no column ts, arrival_rate"):
        samples_read(spark, tmp_path)
