"""Plans acted out: against what can be done in the head, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.oracles import OracleCache, Played, PlayTerms, play, played_oracle
from flink_autoscaler.pipeline.simulator.bounds import OracleParams
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams
from flink_autoscaler.pipeline.simulator.workloads import HOUR, Workload, from_rates, make_workload

JOB = JobModel.chain([VertexModel("a" * 32, "only", 100.0)])
DIP = from_rates("dip", [1000.0, *[500.0] * 10, 1000.0], step=300.0)
TERMS = PlayTerms(OracleParams(late_weight=150.0), RescaleParams(60.0, replay=5.0))


def test_plan_holds_its_slots_and_is_away_when_it_changes() -> None:
    # Ten slots, then five for two buckets; the outage has the slots of the new size.
    trace = play(JOB, from_rates("mine", [450.0] * 3, step=300.0), [10, 5, 5], 300.0, RescaleParams(60.0))

    assert trace.slot_seconds == 10 * 300 + 5 * 600
    assert max(trace.lags) == pytest.approx(60.0)
    # 27,000 records wait, and 50 a second are made up for: nine minutes, in which the lag falls by a ninth of a second.
    assert trace.lags[-1] == pytest.approx(0.0, abs=1e-6)
    assert trace.late_seconds(30.0) == pytest.approx(30 + 270, abs=5)


def test_cheapest_plan_is_acted_out_with_the_outages_of_policies() -> None:
    found = played_oracle(JOB, DIP, replace(TERMS, plan=OracleParams()))

    # Ten slots, seven through the dip, and ten from the bucket before the end of it on; twice away for a minute.
    assert found.rescales == 2
    assert found.slot_seconds == pytest.approx(10 * 300 + 7 * 2700 + 10 * 600)
    assert 0 < found.late_seconds < 60
    assert found.lag_p99 == pytest.approx(65.0, abs=6.0)
    assert found.cost > found.slot_seconds


def test_lateness_that_counts_makes_a_plan_later_less_often() -> None:
    workload = make_workload("week-sine", 0, 24 * HOUR)
    job = JobModel.chain([VertexModel("a" * 32, "only", 5000.0)])

    careless, careful = (
        played_oracle(job, workload, replace(TERMS, plan=OracleParams(late_weight=w))) for w in (0, 150)
    )

    assert careful.late_seconds < careless.late_seconds
    assert careful.slot_seconds > careless.slot_seconds


def test_plan_is_worked_out_once(tmp_path: Path) -> None:
    cache = OracleCache(tmp_path / "not" / "there")

    first, again = cache.played(JOB, DIP, TERMS), cache.played(JOB, DIP, TERMS)

    assert first == (played_oracle(JOB, DIP, TERMS), False)
    assert again == (first[0], True)


@pytest.mark.parametrize(
    ("job", "workload", "terms"),
    [
        pytest.param(JobModel.chain([VertexModel("a" * 32, "only", 101.0)]), DIP, TERMS, id="job"),
        pytest.param(JOB, DIP.scaled(1.001), TERMS, id="arrivals"),
        pytest.param(JOB, from_rates("dip", [row[0] for row in DIP.rows], step=299.0), TERMS, id="step"),
        pytest.param(JOB, DIP, replace(TERMS, rescale=RescaleParams(61.0)), id="outage"),
        pytest.param(JOB, DIP, replace(TERMS, plan=OracleParams(late_weight=149.0)), id="weight"),
        pytest.param(JOB, DIP, replace(TERMS, slo_lag=59.0), id="limit"),
    ],
)
def test_whatever_differs_is_worked_out_anew(
    tmp_path: Path, job: JobModel, workload: Workload, terms: PlayTerms
) -> None:
    cache = OracleCache(tmp_path)
    cache.played(JOB, DIP, TERMS)

    assert cache.played(job, workload, terms) == (played_oracle(job, workload, terms), False)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"cost": 1}', '{"other": 1}'])
def test_damaged_file_is_written_anew(tmp_path: Path, text: str) -> None:
    cache = OracleCache(tmp_path)
    cache.played(JOB, DIP, TERMS)
    (path,) = tmp_path.iterdir()
    path.write_text(text)

    assert cache.played(JOB, DIP, TERMS)[1] is False
    assert cache.played(JOB, DIP, TERMS)[1] is True
    assert isinstance(cache.played(JOB, DIP, TERMS)[0], Played)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
