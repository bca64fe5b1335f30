"""From recorded jobs to models of them: the numbers that the records were made with come out again."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.backtest.case import BacktestCase, SkippedJob
from flink_autoscaler.pipeline.backtest.fitting import FitParams, fit_case
from flink_autoscaler.pipeline.spark.codec import decode, encode
from flink_autoscaler.pipeline.tables.rows import NamedRow
from testkit.builders.backtests import (
    LATER,
    NOON,
    RATES,
    SELECTIVITY,
    SIZES,
    SOURCE,
    WORK,
    job_rows,
    records,
    rescale_row,
)

Row = dict[str, Any]


def fitted(rows: list[NamedRow], now: float = LATER) -> BacktestCase:
    subject = fit_case(records(rows), FitParams(now))
    assert isinstance(subject, BacktestCase), subject
    return subject


def refused(rows: list[NamedRow], now: float = LATER) -> str:
    answer = fit_case(records(rows), FitParams(now))
    assert isinstance(answer, SkippedJob), answer
    return answer.reason


def test_fit_finds_what_the_job_was_made_of() -> None:
    subject = fitted([*job_rows(), rescale_row(20.0), rescale_row(40.0, decided=1), rescale_row(30.0, decided=2)])

    source, work = subject.model.vertices
    assert (source.rate, work.rate) == pytest.approx((RATES[SOURCE], RATES[WORK]))
    assert subject.model.edges == {(SOURCE, WORK): SELECTIVITY}
    assert (source.partitions, work.ship, work.max_parallelism) == (6, ShipStrategy.REBALANCE, 64)
    assert subject.workload.rows == ((400.0,),) * 60 + ((600.0,),) * 60
    assert (subject.start_ms, subject.initial, subject.cluster) == (NOON * 1000, SIZES, "main")
    assert (subject.outage, subject.notes) == (30.0, ())


def test_fit_does_not_mind_order_and_repetition() -> None:
    rows = [*job_rows(), *job_rows()]
    random.Random(1).shuffle(rows)

    assert fitted(rows) == fitted(job_rows())


def test_subject_travels() -> None:
    subject = fitted(job_rows())

    assert decode(encode(subject), BacktestCase) == subject


def test_capacity_comes_from_windows_that_are_busy_enough() -> None:
    def idle_windows_mislead(name: str, row: Row) -> Row:
        is_quiet = name == "vertices" and row["records_in_rate"] < 100
        return {**row, "busy": row["busy"] * 3} if is_quiet else row

    subject = fitted(job_rows(rate=lambda minute: 10.0 if minute % 3 else 600.0, change=idle_windows_mislead))

    assert [vertex.rate for vertex in subject.model.vertices] == pytest.approx([RATES[SOURCE], RATES[WORK]])


def test_capacity_of_a_vertex_that_never_was_busy_is_a_guess_that_says_so() -> None:
    subject = fitted(job_rows(rate=lambda _: 100.0))

    assert subject.model.vertices[1].rate == pytest.approx(RATES[WORK])
    assert "work was hardly ever busy for a fifth of its time: its capacity is a rough guess." in subject.notes


def test_true_rate_stands_in_where_busy_time_is_not_reported() -> None:
    subject = fitted(
        job_rows(change=lambda name, row: {**row, "busy": None, "true_rate": 500.0} if name == "vertices" else row)
    )

    assert [vertex.rate for vertex in subject.model.vertices] == [500.0, 125.0]


def test_vertex_that_nothing_reaches_needs_no_capacity() -> None:
    def nothing_comes_out(name: str, row: Row) -> Row:
        if row.get("vertex_id") != WORK:
            return row
        return {**row, "records_in_rate": 0.0, "busy": 0.0, "inputs": [{**row["inputs"][0], "selectivity": 0.0}]}

    subject = fitted(job_rows(change=nothing_comes_out))

    assert subject.model.demand((600.0,)) == {SOURCE: 600.0, WORK: 0.0}


def test_what_was_read_stands_for_arrivals_where_lag_is_not_reported() -> None:
    subject = fitted(job_rows(change=lambda _, row: {**row, "arrival_rate": None} if "arrival_rate" in row else row))

    assert subject.workload.rows[0] == (400.0,)
    assert any("reports no lag" in note for note in subject.notes)


def test_gap_has_the_rate_before_it() -> None:
    def minute(row: Row) -> int:
        return int(row["ts"] / 6e7 - NOON / 60)

    subject = fitted(job_rows(minutes=180, change=lambda _, row: None if 50 < minute(row) <= 80 else row))

    assert len(subject.workload.rows) == 180
    assert subject.workload.rows[79] == (400.0,)
    assert subject.workload.rows[80] == (600.0,)
    assert "30 of 180 minutes are not recorded: the rate before holds on." in subject.notes


def test_sample_counts_for_all_the_time_that_it_covers() -> None:
    def every_tenth(_: str, row: Row) -> Row | None:
        minute = row["ts"] / 6e7 - NOON / 60
        return {**row, "span": 600.0} if minute % 10 == 0 else None

    subject = fitted(job_rows(change=every_tenth))

    assert subject.workload.rows == ((400.0,),) * 60 + ((600.0,),) * 60


def test_samples_from_the_future_are_left_out() -> None:
    def hasty(_: str, row: Row) -> Row:
        is_late = row["ts"] / 6e7 - NOON / 60 > 100
        return {**row, "ts": row["ts"] + 10 * 365 * 86_400 * 1_000_000} if is_late else row

    subject = fitted(job_rows(change=hasty))

    assert len(subject.workload.rows) == 100
    assert "20 samples later than now or before 1970 were left out: a clock is wrong." in subject.notes


def test_only_the_longest_stretch_counts() -> None:
    early = job_rows(minutes=3, change=lambda _, row: {**row, "ts": row["ts"] - 86_400 * 1_000_000})

    subject = fitted([*early, *job_rows()])

    assert len(subject.workload.rows) == 120
    assert "There are 1 gaps of more than 6 h: only the longest stretch counts." in subject.notes


def every_other(name: str, **values: Any) -> list[NamedRow]:
    """Make rows of a job in which every other row of a table has some values, and the last has not."""

    def change(table: str, row: Row) -> Row:
        is_odd = row["ts"] // 60_000_000 % 2 == 1
        return {**row, **values} if table == name and is_odd else row

    return job_rows(change=change)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(every_other("vertices", busy=math.nan, records_in_rate=-5.0), id="no number"),
        pytest.param(every_other("vertices", records_in_rate=math.inf), id="infinite rate"),
        pytest.param(every_other("vertices", busy=-0.5), id="busy for less than nothing"),
        pytest.param(every_other("vertices", parallelism=-3, max_parallelism=-1), id="negative parallelism"),
        pytest.param(every_other("vertices", vertex_id=None), id="no vertex"),
        pytest.param(every_other("samples", span=math.nan), id="no span"),
        pytest.param(every_other("samples", span=-60.0), id="negative span"),
    ],
)
def test_numbers_that_cannot_be_are_not_known(rows: list[NamedRow]) -> None:
    usual, subject = fitted(job_rows()), fitted(rows)

    rates, wanted = ([vertex.rate for vertex in each.model.vertices] for each in (subject, usual))
    assert rates == pytest.approx(wanted)
    assert (subject.model.edges, subject.workload, subject.initial) == (usual.model.edges, usual.workload, SIZES)


def test_clock_that_was_set_back_has_minutes_twice_whose_mean_counts() -> None:
    def set_back(_: str, row: Row) -> Row:
        minute = row["ts"] // 60_000_000 - NOON // 60
        return {**row, "ts": row["ts"] - 45 * 60_000_000} if minute > 75 else row

    subject = fitted(job_rows(change=set_back))

    # Minutes 30 to 60 at 400 and 600, those to 75 at 600 and 600.
    assert [row[0] for row in subject.workload.rows] == [400.0] * 30 + [500.0] * 30 + [600.0] * 15
    assert subject.start_ms == NOON * 1000


def test_clock_that_was_a_year_off_leaves_the_longer_stretch() -> None:
    def a_year_off(_: str, row: Row) -> Row:
        minute = row["ts"] // 60_000_000 - NOON // 60
        return {**row, "ts": row["ts"] - 365 * 86_400 * 1_000_000} if minute <= 50 else row

    subject = fitted(job_rows(change=a_year_off))

    assert (subject.start_ms, len(subject.workload.rows)) == ((NOON + 50 * 60) * 1000, 70)


def without(column: str) -> list[NamedRow]:
    return job_rows(change=lambda _, row: {**row, column: None} if column in row else row)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param([], "its vertices were never recorded", id="nothing"),
        pytest.param(
            job_rows(minutes=3), "3 minutes are recorded, and a backtest needs 60: 57 more", id="three samples"
        ),
        pytest.param(
            [row for row in job_rows() if row[0] != "samples"],
            "there are no samples of what arrived at its sources",
            id="no arrivals",
        ),
        pytest.param(
            [row for row in job_rows() if row[0] != "vertices"], "its vertices were never recorded", id="no vertices"
        ),
        pytest.param(
            job_rows(change=lambda _, row: {**row, "inputs": [{"vertex_id": None}]} if row.get("inputs") else row),
            "the latest pass lacks vertex without an id: its rows are incomplete",
            id="edge from nowhere",
        ),
        pytest.param(
            job_rows(change=lambda _, row: {**row, "ts": -row["ts"]} if "arrival_rate" in row else row),
            "120 samples are later than now or before 1970: the clock of the daemon or of this machine is wrong",
            id="before 1970",
        ),
        pytest.param(
            without("records_in_rate"),
            "no busy time or no record rate of Source: orders was ever recorded, so its capacity is not known",
            id="no capacity",
        ),
        pytest.param(
            job_rows(change=lambda _, row: None if row.get("vertex_id") == SOURCE else row),
            f"the latest pass lacks vertex {SOURCE}: its rows are incomplete",
            id="half a pass",
        ),
        pytest.param(
            job_rows(
                change=lambda _, row: (
                    {**row, "inputs": [{"vertex_id": WORK, "ship_strategy": None, "selectivity": 1.0}]}
                    if row.get("vertex_id") == WORK
                    else row
                )
            ),
            "its vertices feed each other in a circle, which no model here can do",
            id="circle",
        ),
        pytest.param(
            job_rows(
                change=lambda _, row: (
                    {**row, "inputs": [{**row["inputs"][0], "selectivity": None}]}
                    if row.get("vertex_id") == WORK
                    else row
                )
            ),
            f"how many records go from {SOURCE} to {WORK} was never recorded",
            id="no selectivity",
        ),
        pytest.param(
            job_rows(
                change=lambda _, row: (
                    {**row, "arrival_rate": float("nan"), "consumption_rate": -1.0} if "arrival_rate" in row else row
                )
            ),
            f"no rate of source {SOURCE} was ever recorded",
            id="rates that are none",
        ),
        pytest.param(
            job_rows(minutes=240, change=lambda _, row: None if (row["ts"] // 60_000_000) % 3 else row),
            "only 34% of the time is recorded, and a backtest needs 50%",
            id="mostly gaps",
        ),
    ],
)
def test_job_that_cannot_be_fitted_is_told_why(rows: list[NamedRow], reason: str) -> None:
    assert refused(rows) == reason


def test_history_of_the_future_blames_the_clock() -> None:
    reason = refused(job_rows(), now=NOON - 86_400)

    assert reason == "all of it is later than now: the clock of the daemon or of this machine is wrong"
