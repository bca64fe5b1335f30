"""A load of one's own: what files may be like, and what is said of those that are no load."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.load_file import load_subject
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS

START = 1_700_000_040


def written(folder: Path, *lines: str, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def minutes(count: int, rate: float = 100.0, first: float = START) -> list[str]:
    return [f"{first + 60 * minute},{rate + minute}" for minute in range(count)]


def test_rows_become_minutes_of_a_job_that_the_peak_keeps_busy(tmp_path: Path) -> None:
    subject = load_subject(written(tmp_path, "timestamp,value", *minutes(120)), peak_slots=20)

    rates = [rate for (rate,) in subject.workload.rows]
    assert rates == [100.0 + minute for minute in range(120)]
    assert subject.job_key == "load.csv"
    assert subject.start_ms == (START - 60) * 1000
    assert subject.model.vertices[1].rate == pytest.approx(219.0 / 20)
    assert subject.notes == ()


def test_what_a_subtask_can_do_may_be_given_instead(tmp_path: Path) -> None:
    subject = load_subject(written(tmp_path, "timestamp,value", *minutes(120)), capacity=30.0)

    assert [vertex.rate for vertex in subject.model.vertices] == [75.0, 30.0, 60.0]


@pytest.mark.parametrize(
    "instant",
    [
        pytest.param(lambda at: str(at * 1000), id="milliseconds"),
        pytest.param(lambda at: datetime.fromtimestamp(at, UTC).isoformat(), id="ISO 8601"),
        pytest.param(lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}", id="ISO 8601 with Z"),
        pytest.param(lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}", id="without a zone: UTC"),
    ],
)
def test_instants_of_any_form(tmp_path: Path, instant: object) -> None:
    assert callable(instant)
    rows = [f"{instant(START + 60 * minute)},{minute}" for minute in range(90)]

    subject = load_subject(written(tmp_path, "timestamp,value", *rows), peak_slots=4)

    assert subject.start_ms == (START - 60) * 1000
    assert len(subject.workload.rows) == 90


def test_seconds_since_any_beginning_begin_on_a_monday(tmp_path: Path) -> None:
    subject = load_subject(written(tmp_path, "timestamp,value", *minutes(90, first=60)), peak_slots=4)

    assert subject.start_ms == MONDAY_MS


def test_other_columns_another_order_and_another_delimiter_do_no_harm(tmp_path: Path) -> None:
    rows = [f"{minute};x;{START + 60 * minute};y" for minute in range(90)]

    subject = load_subject(written(tmp_path, "\ufeffValue;a;Timestamp;b", *rows), peak_slots=4)

    assert [rate for (rate,) in subject.workload.rows][:3] == [0.0, 1.0, 2.0]


def test_hole_has_the_rate_before_it_and_is_told(tmp_path: Path) -> None:
    rows = minutes(120)

    subject = load_subject(written(tmp_path, "timestamp,value", *rows[:60], *rows[90:]), peak_slots=4)

    rates = [rate for (rate,) in subject.workload.rows]
    assert len(rates) == 120
    assert set(rates[60:90]) == {159.0}
    assert any("30 of 120 minutes" in note for note in subject.notes)


def test_duplicates_count_by_their_mean_in_any_order(tmp_path: Path) -> None:
    rows = [*minutes(90, 100.0), *reversed(minutes(90, 200.0))]

    subject = load_subject(written(tmp_path, "timestamp,value", *rows), peak_slots=4)

    assert [rate for (rate,) in subject.workload.rows] == [150.0 + minute for minute in range(90)]


def test_rows_without_a_rate_are_left_out_and_told(tmp_path: Path) -> None:
    bad = [f"{START + 9},-5", f"{START + 9},NaN", f"{START + 9},", "then,7", "7"]

    subject = load_subject(written(tmp_path, "timestamp,value", *minutes(90), *bad), peak_slots=4)

    assert subject.notes[0].startswith("5 of 95 rows")


def test_samples_of_five_minutes_stand_for_these(tmp_path: Path) -> None:
    rows = [f"{START + 300 * place},{place}" for place in range(24)]

    subject = load_subject(written(tmp_path, "timestamp,value", *rows), peak_slots=4)

    assert len(subject.workload.rows) == 120
    assert [rate for (rate,) in subject.workload.rows][:10] == [0.0] * 5 + [1.0] * 5


def test_many_rows_of_a_minute_are_its_mean(tmp_path: Path) -> None:
    rows = [f"{START + place / 20},{place % 2}" for place in range(200_000)]

    subject = load_subject(written(tmp_path, "timestamp,value", *rows), peak_slots=4)

    assert {round(rate, 2) for (rate,) in subject.workload.rows[1:-1]} == {0.5}


def test_series_of_prometheus_are_added(tmp_path: Path) -> None:
    series = [
        {
            "metric": {"partition": str(part)},
            "values": [[START + 60 * minute, str(minute + part)] for minute in range(90)],
        }
        for part in range(2)
    ]
    answer = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})

    subject = load_subject(written(tmp_path, answer, name="rates.json"), peak_slots=4)

    assert [rate for (rate,) in subject.workload.rows][:3] == [1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param(["time,value", "1,2"], "there is no column timestamp; it has time, value", id="other columns"),
        pytest.param([""], "there is no column timestamp and no column value", id="empty"),
        pytest.param(["timestamp,value"], "no row with an instant and a rate", id="no rows"),
        pytest.param(["timestamp,value", *minutes(10)], "10 minutes are recorded", id="too little"),
        pytest.param(["timestamp,value", *(f"{START + 60 * n},0" for n in range(90))], "nothing arrives", id="zeros"),
        pytest.param(
            ["timestamp,value", *(f"{START + 86400 * n},5" for n in range(90))],
            "a row every 24 h says nothing",
            id="one a day",
        ),
        pytest.param(['{"data": {"result": [{"value": [1, "2"]}]}}'], "no answer of Prometheus", id="instant query"),
        pytest.param(['{"data": '], "cannot be read", id="cut JSON"),
    ],
)
def test_what_is_no_load_is_refused_with_the_reason(tmp_path: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_subject(written(tmp_path, *lines), peak_slots=4)


@pytest.mark.parametrize("sizes", [{}, {"peak_slots": 3.0, "capacity": 5.0}])
def test_what_a_slot_can_do_is_said_once(tmp_path: Path, sizes: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="one of them"):
        load_subject(written(tmp_path, "timestamp,value", *minutes(90)), **sizes)  # type: ignore[arg-type]


def test_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_subject(tmp_path / "none.csv", peak_slots=4)
