"""Reports of histories, aggregated by a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.reports.build import ReportRequest, build_report, select_jobs_to_show
from flink_autoscaler.pipeline.reports.pages import fleet_page
from flink_autoscaler.pipeline.reports.report import AttentionReason, Report, ReportMetrics
from flink_autoscaler.pipeline.tables.files import HistoryError, MissingHistoryError, files_at
from flink_autoscaler.pipeline.tables.rows import NamedRow
from flink_autoscaler.pipeline.tables.schema import DECISIONS, SAMPLES, VERTICES
from testkit.builders.history import a_storage, part_files, write
from testkit.builders.reports import DAY, NOON, MadeJob, write_history
from testkit.clusters.spark.fixtures import SharedSpark

pytestmark = pytest.mark.spark

# 400 records/s all the time: 5 subtasks of 100 at 80 %, which would take 500.
FLAT = MadeJob(key="main/flat", swing=0.0)


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> SparkSession:
    # Interpreting expressions over a few rows takes a third of the time of compiling them.
    return shared_spark({"spark.sql.codegen.factoryMode": "NO_CODEGEN"})


def after_a_restart(job: MadeJob) -> Iterator[NamedRow]:
    """Have a job restart: 62 s of records wait at its first sample, which has no rates yet, and 37 s at the next."""
    waiting = {NOON - 7200: {"lag": 24_800.0, "arrival_rate": None, "consumption_rate": None}}
    waiting[NOON - 6600] = {"lag": 14_800.0}
    for table, row in job.rows():
        changes = waiting.get(row["ts"] // 1_000_000, {}) if table == SAMPLES.name else {}
        yield table, {**row, **changes}


def built(spark: SparkSession, root: Path, **wanted: Any) -> Report:
    asked = {"since": float(NOON - DAY), "until": None, "now": float(NOON), **wanted}
    return build_report(spark, files_at(str(root), spark), ReportRequest(**asked))


def the(report: Report, key: str) -> ReportMetrics:
    return next(job for job in report.jobs if job.job_key == key)


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of three jobs, a day of which was written twice."""
    root = tmp_path_factory.mktemp("history")
    wavy = MadeJob(key="yarn/wavy", lag=60_000.0)
    refused = FLAT.bad_rescale(NOON - 3600, stage="refused", reason="too few slots", reached=[])
    write_history(root, FLAT, extra=(refused,))
    write_history(root, FLAT, wavy, MadeJob(key="main/three", days=0.02))
    write(a_storage(root), list(after_a_restart(MadeJob(key="main/restarted", swing=0.0))))
    again = MadeJob(key="main/again", swing=0.0)
    superseded = [
        again.bad_rescale(NOON - hour * 3600, stage="superseded", reason="the job was submitted again", reached=[])
        for hour in (1, 2)
    ]
    write_history(root, again, extra=tuple(superseded))
    gap = MadeJob(key="yarn/gap", swing=0.0)
    write(
        a_storage(root), [row for row in gap.rows() if not NOON - 12 * 3600 <= row[1]["ts"] / 1_000_000 < NOON - 3600]
    )
    return built(spark, root)


def test_slot_hours_count_rows_once_that_were_written_twice(fleet: Report) -> None:
    job = the(fleet, "main/flat")

    assert job.slot_hours == pytest.approx(5 * 24)
    assert job.static_hours == pytest.approx(5 * 24)
    assert (job.peak, job.passes) == (5, 144)


def test_a_job_that_follows_its_load_saves_slots(fleet: Report) -> None:
    job = the(fleet, "yarn/wavy")

    # Up to 600 records/s, 8 subtasks; 400 on average, with 5.5.
    assert job.peak == 8
    assert job.load == pytest.approx(400, rel=0.01)
    assert job.saved_share == pytest.approx(1 - 5.5 / 8, abs=0.02)


def test_capacity_is_what_may_arrive_until_the_first_vertex_is_always_busy(fleet: Report) -> None:
    section = next(each for each in fleet.sections if each.figures.job_key == "main/flat")

    assert {value for value in section.series["load"] if value is not None} == {400.0}
    assert {value for value in section.series["capacity"] if value is not None} == {500.0}


def test_minutes_too_late_are_those_with_more_lag_than_allowed(fleet: Report) -> None:
    # 60,000 records wait for the hour after noon, when 400 arrive: 150 s.
    assert the(fleet, "yarn/wavy").late_minutes == pytest.approx(60)
    assert the(fleet, "yarn/wavy").lag_seconds == pytest.approx(150, rel=0.2)
    assert the(fleet, "main/flat").late_minutes == 0


def test_the_greatest_lag_is_that_of_the_first_sample_after_a_restart(fleet: Report) -> None:
    job = the(fleet, "main/restarted")

    assert job.lag_seconds == pytest.approx(62)
    assert job.late_minutes == pytest.approx(10)


def test_rescales_are_told_with_their_outcome(fleet: Report) -> None:
    section = next(each for each in fleet.sections if each.figures.job_key == "main/flat")

    (line,) = section.rescales
    assert (line["changes"], line["stage"], line["reason"]) == (["map 4 → 6"], "refused", "too few slots")
    assert section.figures.concerns[0].kind == "failed"


def test_rescales_that_ended_because_the_job_was_submitted_again_have_not_failed(fleet: Report) -> None:
    job = the(fleet, "main/again")

    assert (job.rescales, job.failed, job.concerns) == (2, 0, ())


def test_vertices_have_lines_from_the_widest_on(fleet: Report) -> None:
    section = next(each for each in fleet.sections if each.figures.job_key == "main/flat")

    assert [(name, max(filter(None, series))) for name, series in section.vertices] == [
        ("map", 5),
        ("source", 1),
    ]


def test_a_job_with_three_samples_has_no_section_but_a_note(fleet: Report) -> None:
    assert the(fleet, "main/three").passes == 3
    assert "main/three" not in [each.figures.job_key for each in fleet.sections]
    assert fleet.notes == ("main/three: only 3 passes in the period, too few for charts",)


def test_the_fleet_is_the_sum_of_its_jobs(fleet: Report) -> None:
    assert fleet.fleet["slots"][0] == sum(section.series["slots"][0] or 0 for section in fleet.sections)
    assert sum(filter(None, fleet.fleet["rescales"])) == sum(job.rescales for job in fleet.jobs)
    assert {job.cluster for job in fleet.jobs} == {"main", "yarn"}


def test_forecasts_come_from_the_history_before_the_period(spark: SparkSession, tmp_path: Path) -> None:
    daily = MadeJob(key="main/daily", days=5, step=60, end=NOON)
    rows = [row for row in daily.rows() if row[0] == SAMPLES.name]
    write(a_storage(tmp_path), rows)

    report = built(spark, tmp_path, profiles=ProfileSettings(asof=NOON - DAY), jobs="main/d*")

    (section,) = report.sections
    assert section.forecast.problem is None
    assert section.forecast.wape == pytest.approx(0, abs=0.05)


def test_a_policy_in_shadow_mode_is_compared_with_what_the_job_held(spark: SparkSession, tmp_path: Path) -> None:
    wants, begin = (2, 6, 4, None), NOON - 3600
    beside: list[dict[str, Any]] = [
        {"slots_held": 4, "shadow_policy": "slo", "shadow_slots": slots, "shadow_direction": "none"} for slots in wants
    ]
    earlier: dict[str, Any] = {"slots_held": 4, "shadow_policy": "hpa", "shadow_slots": 40, "shadow_direction": "up"}
    rows = [
        (DECISIONS.name, {**FLAT.who(begin + 60 * minute + 7), "phase": "executed", "status": "RUNNING", **columns})
        for minute, columns in enumerate([earlier, *beside])
    ]
    write_history(tmp_path, FLAT, MadeJob(key="main/alone"), extra=tuple(rows))

    report = built(spark, tmp_path)

    shadow = the(report, FLAT.key).shadow
    assert shadow is not None
    names = ("policy", "passes", "held", "wanted", "up", "down", "silent")
    assert [shadow[name] for name in names] == ["slo", 3, 4.0, 4.0, 1, 1, 1]
    assert the(report, "main/alone").shadow is None
    assert "The policy slo, in shadow mode, wanted 4 slots on average where the job held 4" in fleet_page(report)


def test_gaps_do_not_count_as_slot_hours(fleet: Report) -> None:
    assert the(fleet, "yarn/gap").slot_hours == pytest.approx(5 * 13)


def test_jobs_that_need_a_person_are_chosen_before_large_ones() -> None:
    ill = ReportMetrics("main/z", "main", 10, slot_hours=1.0, concerns=(AttentionReason("paused", ""),))
    small, large = (ReportMetrics(f"main/{size}", "main", 10, slot_hours=float(size)) for size in (1, 9))

    assert list(select_jobs_to_show([small, large, ill], 2)) == [large, ill]


@pytest.fixture(scope="module")
def damaged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a history with all kinds of faults."""
    root = tmp_path_factory.mktemp("history")
    write_history(root, FLAT)
    (old,) = [path for path in part_files(root) if VERTICES.name in path.parts and "date=2026-01-31" in path.parts]
    _as_newer_version(old)
    write_history(root, MadeJob(key="main/cut"), MadeJob(key="main/ahead", end=NOON + 10 * DAY))
    _, cut, *_ = [path for path in part_files(root) if SAMPLES.name in path.parts]
    cut.write_bytes(cut.read_bytes()[:-100])
    (cut.parent / f"0{cut.name}").write_bytes(b"")
    return built(spark, root)


def _as_newer_version(old: Path) -> None:
    """Replace a file by one that lacks columns and has another one."""
    rows = pq.ParquetFile(old).read().drop_columns(["slot_sharing_group", "true_rate"])
    newer = Path(str(old).replace("version=1", "version=2"))
    newer.parent.mkdir(parents=True)
    pq.write_table(rows.append_column("colour", rows.column("vertex_name")), newer)
    old.unlink()


def test_damaged_files_are_left_out_and_told(damaged: Report) -> None:
    assert damaged.warnings[0].startswith("2 files were damaged and left out")


def test_files_of_other_versions_are_read(damaged: Report) -> None:
    assert the(damaged, "main/flat").slot_hours == pytest.approx(5 * 24)


def test_passes_that_claim_to_be_later_than_now_are_left_out(damaged: Report) -> None:
    assert len(damaged.warnings) == 1
    assert [job.job_key for job in damaged.jobs] == ["main/cut", "main/flat"]


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"jobs": "yarn/*"}, id="no such job"),
        pytest.param({"since": NOON + DAY * 9.0, "now": NOON + DAY * 10.0}, id="later"),
    ],
)
def test_nothing_to_report_is_an_error(spark: SparkSession, tmp_path: Path, wanted: dict[str, Any]) -> None:
    write_history(tmp_path, FLAT)

    with pytest.raises(HistoryError, match="there are no rows"):
        built(spark, tmp_path, **wanted)


def test_a_history_of_damaged_files_alone_is_an_error_that_says_so(spark: SparkSession, tmp_path: Path) -> None:
    write_history(tmp_path, FLAT)
    for path in part_files(tmp_path):
        path.write_bytes(b"PAR1")

    with pytest.raises(HistoryError, match=r"there are no rows .* files were damaged"):
        built(spark, tmp_path)


def test_a_folder_that_is_not_there_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(MissingHistoryError):
        built(spark, tmp_path / "nowhere")
