"""Backtests on Spark come to what they come to in this process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, InlineRunner
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate
from flink_autoscaler.pipeline.backtest.runner import Runner, open_runner
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.files import MissingHistoryError
from flink_autoscaler.pipeline.tables.store import HistoryFilter, jobs_like
from testkit.builders.backtests import LATER, SOURCE, a_history, job_rows, rescale_row
from testkit.builders.history import NOON_MS, part_files

pytestmark = pytest.mark.spark

CHOICE = BacktestFilter(HistoryFilter(since_ms=NOON_MS, until_ms=NOON_MS + 100 * 60_000, jobs=jobs_like("o*")))
AHEAD = {"job.autoscaler.forecast.enabled": "true"}


@pytest.fixture(scope="module")
def spark() -> Iterator[Runner]:
    with open_runner(SparkSettings(master="local[2]")) as runner:
        yield runner


@pytest.fixture
def history(tmp_path: Path) -> str:
    rows = [*job_rows(), rescale_row(20.0), rescale_row(40.0, decided=1)]
    odd = job_rows("main/odd", change=lambda _, row: {**row, "busy": -0.5, "span": math.nan, "parallelism": -1})
    root = a_history(
        tmp_path / "history", rows, job_rows("main/old", minutes=3), odd, job_rows("main/clicks"), job_rows()
    )
    part_files(root)[0].write_bytes(b"PAR1")
    return str(root)


def test_spark_comes_to_the_same_as_this_process(spark: Runner, history: str) -> None:
    inline = InlineRunner()
    later = replace(CHOICE.selection, since_ms=NOON_MS + 20 * 60_000)
    choice = replace(CHOICE, selection=later, past=20 * 60.0)
    here, there = (runner.fleet(history, choice, LATER) for runner in (inline, spark))
    broken = {"job.autoscaler.utilization.target": "much"}
    plan = BacktestPlan(here.subjects, [Candidate("a", {}), Candidate("b", broken), Candidate("c", AHEAD)])

    outcomes = list(spark.outcomes(plan))

    assert (there.subjects, there.left_out) == (here.subjects, here.left_out)
    assert [subject.job_key for subject in there.subjects] == ["main/orders"]
    assert [each.job_key for each in there.left_out] == ["main/odd", "main/old"]
    assert (len(there.damaged), len(here.damaged)) == (1, 1)
    assert [each.past.keys() for each in here.subjects] == [{SOURCE}]
    assert here.subjects[0].past[SOURCE].index[0] == NOON_MS // 900_000
    assert sorted(map(repr, outcomes)) == sorted(map(repr, inline.outcomes(plan)))


def test_missing_history_is_said_as_such(spark: Runner) -> None:
    with pytest.raises(MissingHistoryError, match="/no/such: there is no such folder"):
        spark.fleet("/no/such", BacktestFilter(), LATER)
