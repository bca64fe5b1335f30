"""Loads from anybody's monitoring: what a file may look like, and the job that is made for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.case import BacktestCase
from flink_autoscaler.pipeline.backtest.load import LoadParams, load_fleet

BEGIN = 1_772_366_400
RATES = [100.0 + minute for minute in range(120)]
SLOTS = LoadParams(peak_slots=8)


def csv_of(rows: Sequence[tuple[object, object]]) -> str:
    return "timestamp,value\n" + "".join(f"{at},{value}\n" for at, value in rows)


def every(seconds: int, rates: Sequence[object] = RATES) -> list[tuple[int, object]]:
    return [(BEGIN + seconds * number, rate) for number, rate in enumerate(rates)]


def prometheus(*series: Sequence[tuple[int, object]]) -> str:
    return json.dumps({"data": {"result": [{"values": [[at, str(rate)] for at, rate in each]} for each in series]}})


def load(folder: Path, text: str, terms: LoadParams = SLOTS) -> BacktestCase:
    (folder / "load").write_text(text)
    fleet = load_fleet(folder / "load", terms)
    assert fleet.left_out == ()
    return fleet.subjects[0]


def rates_of(subject: BacktestCase) -> list[float]:
    return [rate for (rate,) in subject.workload.rows]


def iso(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(csv_of(every(60)), id="epoch seconds"),
        pytest.param(csv_of([(f"{at}000", rate) for at, rate in every(60)]), id="epoch milliseconds"),
        pytest.param(csv_of([(iso(at), rate) for at, rate in every(60)]), id="ISO 8601"),
        pytest.param(csv_of(every(60)[::-1]), id="newest first"),
        pytest.param(
            "host,value,timestamp\n" + "".join(f"a,{rate},{at}\n" for at, rate in every(60)), id="other columns"
        ),
        pytest.param(csv_of([row for row in every(60) for _ in range(2)]), id="every row twice"),
        pytest.param(csv_of([(BEGIN + n, RATES[-(-n // 60)]) for n in range(7_141)]), id="every second"),
        pytest.param(prometheus(every(60)), id="Prometheus"),
        pytest.param(
            prometheus([(at, float(str(rate)) - 40) for at, rate in every(60)], [(at, 40) for at, _ in every(60)]),
            id="two series of Prometheus",
        ),
    ],
)
def test_one_load_in_many_forms(tmp_path: Path, text: str) -> None:
    subject = load(tmp_path, text)

    assert rates_of(subject) == pytest.approx(RATES, abs=0.5)
    assert subject.start_ms // 60_000 == BEGIN // 60 - 1  # a rate is that of the time before its instant


def test_rates_of_five_minutes_hold_for_five_minutes(tmp_path: Path) -> None:
    assert rates_of(load(tmp_path, csv_of(every(300)))) == [rate for rate in RATES for _ in range(5)]


def test_the_rate_before_a_hole_holds_on_and_is_told(tmp_path: Path) -> None:
    holes: list[object] = [*RATES[:50], "", "NaN", -1, "inf", *RATES[54:]]

    subject = load(tmp_path, csv_of(every(60, holes)))

    assert rates_of(subject) == [*RATES[:50], *[RATES[49]] * 4, *RATES[54:]]
    assert subject.notes == (
        "4 of 120 rows have no instant, or no rate of 0 or more.",
        "4 of 120 minutes are not recorded: the rate before holds on.",
    )


def test_the_job_just_copes_with_the_peak_in_so_many_slots(tmp_path: Path) -> None:
    by_slots, by_rate = (load(tmp_path, csv_of(every(60)), terms) for terms in (SLOTS, LoadParams(capacity=25.0)))

    assert min(vertex.rate for vertex in by_slots.model.vertices) == max(RATES) / 8
    assert min(vertex.rate for vertex in by_rate.model.vertices) == 25.0


def test_what_was_before_since_is_known_to_forecasts_alone(tmp_path: Path) -> None:
    terms = LoadParams(8, since_ms=(BEGIN + 3600) * 1000, until_ms=(BEGIN + 9000) * 1000, with_past=True)

    subject = load(tmp_path, csv_of(every(60, [*RATES, *RATES])), terms)

    assert rates_of(subject) == [*RATES[61:], *RATES[:31]]
    (past,) = subject.past.values()
    assert past.index[0] == BEGIN // 900
    assert len(past.index) == 10


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("Time,rate\n1,2\n", "expected columns timestamp and value", id="other columns"),
        pytest.param("timestamp,value\n1,much\n", "no CSV file with timestamp and value", id="text"),
        pytest.param("timestamp,value\nnoon,1\n", "expected epoch seconds, epoch milliseconds or ISO", id="instants"),
        pytest.param("", "no CSV file", id="empty"),
        pytest.param('{"data": {"result": [{"value": [1, "2"]}]}}', "the JSON of a range query", id="instant query"),
        pytest.param("[" * 100_000, "the JSON of a range query", id="deep"),
    ],
)
def test_a_file_that_is_something_else_says_what_is_expected(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "load").write_text(text)

    with pytest.raises(ConfigError, match=told):
        load_fleet(tmp_path / "load", SLOTS)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param([], "there are no samples", id="nothing"),
        pytest.param(every(60)[:59], "59 minutes are recorded", id="too short"),
        pytest.param(every(86_400)[:30], "24 h apart", id="one sample a day"),
        pytest.param(every(60, [0] * 120), "nothing ever arrives", id="zeros"),
    ],
)
def test_a_load_that_says_too_little_is_left_out(
    tmp_path: Path, rows: list[tuple[object, object]], reason: str
) -> None:
    (tmp_path / "load").write_text(csv_of(rows))

    fleet = load_fleet(tmp_path / "load", SLOTS)

    assert fleet.subjects == ()
    assert reason in fleet.left_out[0].reason


def test_a_peak_beyond_all_subtasks_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "load").write_text(csv_of(every(60)))

    assert "takes more than 720 subtasks" in load_fleet(tmp_path / "load", LoadParams(capacity=0.1)).left_out[0].reason
