"""Recorded loads: what is read of a file, and that those which come with the benchmarks can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.simulator.workloads import DAY, read_trace

TRACES = Path(__file__).parents[4] / "benchmarks" / "traces"

ROWS = """timestamp,value
2024-02-28 23:55:00,10
2024-02-29 00:00:00,20
2024-02-29 00:05:00,0
"""


def written(folder: Path, text: str, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["load.csv", "load.csv.gz"])
def test_minutes_lie_on_lines_between_counts_of_five_minutes(tmp_path: Path, name: str) -> None:
    workload = read_trace(written(tmp_path, ROWS, name), "mine")

    values = [row[0] for row in workload.rows]
    assert (workload.name, workload.step) == ("mine", 60.0)
    assert values == pytest.approx([n / 300 for n in (10, 12, 14, 16, 18, 20, 16, 12, 8, 4, 0)])


def test_holes_become_slopes_and_rows_may_be_in_any_order_and_twice(tmp_path: Path) -> None:
    rows = "timestamp,value\n2024-01-01 00:10:00,2\n2024-01-01 00:00:00,5\n2024-01-01 00:00:00,5\n"

    values = [row[0] for row in read_trace(written(tmp_path, rows), "mine").rows]

    assert values == pytest.approx([(10 - 0.8 * minute) / 300 for minute in range(11)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("at,count\n1,2\n", "has to be timestamp,value", id="other columns"),
        pytest.param("", "has to be timestamp,value", id="empty"),
        pytest.param("timestamp,value\n2024-01-01 00:00:00,2\n", "needs two counts", id="one count"),
        pytest.param("timestamp,value\n2024-01-01 00:00:00,2\nnow,2\n", "line 3: .*'now'", id="no instant"),
        pytest.param("timestamp,value\n2024-01-01 00:00:00,much\n", "line 2: .*'much'", id="no count"),
        pytest.param("timestamp,value\n2024-01-01 00:00:00\n", "line 2: ", id="a column less"),
        pytest.param(ROWS.replace("20\n", "-20\n"), "none negative", id="negative"),
        pytest.param(ROWS.replace("20\n", "nan\n"), "none negative, infinite or unknown", id="not a number"),
    ],
)
def test_file_that_is_no_recorded_load_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_trace(written(tmp_path, text), "mine")


@pytest.mark.parametrize(
    ("file", "days", "peak"),
    [
        ("Twitter_volume_AAPL", 55.2, 13479),
        ("Twitter_volume_AMZN", 55.0, 1673),
        ("Twitter_volume_FB", 55.0, 1258),
        ("Twitter_volume_GOOG", 55.0, 465),
        ("Twitter_volume_KO", 55.0, 2241),
        ("elb_request_count_8c0756", 14.0, 656),
    ],
)
def test_traces_of_the_benchmarks_are_read(file: str, days: float, peak: int) -> None:
    workload = read_trace(TRACES / f"{file}.csv.gz", file)

    values = [row[0] for row in workload.rows]
    assert max(values) * 300 < peak + 0.1
    assert workload.duration / DAY == pytest.approx(days, abs=0.1)
    assert max(values) * 300 > 0.8 * peak


def test_traces_come_with_their_licence() -> None:
    notice = (TRACES.parents[1] / "NOTICE").read_text()

    assert "Numenta" in (TRACES / "LICENSE").read_text()
    assert "Numenta" in notice
    assert "benchmarks/traces" in notice
