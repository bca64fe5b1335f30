"""Loads of benchmarks: noise, walks, counts and bursts as they say, and recorded ones that can be read."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from statistics import mean, pstdev

import pytest

from benchmarks.loads import MADE, counts, flat, launch, made, read_trace, sparse, walk
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, MINUTE, Workload

TRACES = Path(__file__).parents[3] / "benchmarks" / "traces"

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


SEEDS = (0, 1, 2)


def rates(workload: Workload) -> list[float]:
    return [row[0] for row in workload.rows]


def around(workload: Workload, instant: float, minutes: int = 30) -> float:
    """Return the mean rate around an instant, in which noise cancels out."""
    return mean(sum(workload.at(instant + minute * MINUTE)) for minute in range(-minutes, minutes + 1))


def correlation(values: Sequence[float], steps: int) -> float:
    """Return how much values resemble those so many steps before, -1 to 1."""
    middle = mean(values)
    pairs = zip(values, values[steps:], strict=False)
    return sum((a - middle) * (b - middle) for a, b in pairs) / sum((a - middle) ** 2 for a in values)


@pytest.mark.parametrize("name", MADE)
def test_longer_load_begins_as_the_shorter_one(name: str) -> None:
    short, long = made(name, 3, 1.5 * DAY), made(name, 3, 4 * DAY)

    assert (short.name, short.duration, long.duration) == (name, 1.5 * DAY, 4 * DAY)
    assert long.rows[: len(short.rows)] == short.rows


def test_launch_rises_within_two_hours_to_seven_times_as_much() -> None:
    workload = launch(seed=1)

    assert [around(workload, hour * HOUR, 5) for hour in (5, 11, 13)] == pytest.approx([20e3, 80e3, 140e3], rel=0.02)
    assert around(workload, 6 * DAY) == pytest.approx(140e3, rel=0.02)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("deviation", [0.1, 0.2])
@pytest.mark.parametrize("is_correlated", [False, True])
def test_flat_load_has_the_noise_that_it_says(seed: int, deviation: float, *, is_correlated: bool) -> None:
    values = rates(flat(seed=seed, deviation=deviation, is_correlated=is_correlated))

    memory = 0.9 if is_correlated else 0.0
    assert mean(values) == pytest.approx(100e3, rel=0.02)
    assert pstdev(values) / mean(values) == pytest.approx(deviation, rel=0.1)
    assert [correlation(values, steps) for steps in (1, 10)] == pytest.approx([memory, memory**10], abs=0.09)


@pytest.mark.parametrize("seed", SEEDS)
def test_walk_keeps_to_its_bounds_and_goes_far_by_small_steps(seed: int) -> None:
    values = rates(walk(seed=seed))

    changes = [math.log(b / a) for a, b in pairwise(values)]
    assert 30e3 <= min(values) < 55e3
    assert 2 * min(values) < max(values) <= 150e3
    assert pstdev(changes) == pytest.approx(0.01, rel=0.05)
    assert abs(correlation(changes, 1)) < 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_jump_and_return_and_end_at_their_peak(seed: int) -> None:
    values = rates(counts(seed=seed))

    points = [math.log(rate) for rate in values[::5]]
    jumps = [b - a for a, b in pairwise(points)]
    assert 0.3 <= min(map(abs, jumps)) < 0.4
    assert 1.3 < max(map(abs, jumps)) <= 1.4
    assert 100e3 < max(values) <= 125e3 * (1 + 1e-9)
    assert max(abs(correlation(points, steps)) for steps in (12, 72, 288)) < 0.15
    assert values[:11] == pytest.approx([*line(values[0], values[5]), *line(values[5], values[10]), values[10]])


def line(first: float, last: float) -> list[float]:
    """Return five values from one to the other, which is left out."""
    return [first + (last - first) * number / 5 for number in range(5)]


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_load_is_mostly_nothing_with_peaks_of_many_times_its_mean(seed: int) -> None:
    values = rates(sparse(seed=seed))

    assert max(values) == 125e3
    assert mean(values) == pytest.approx(1.1 * 5000, rel=0.15)
    assert sum(rate < 100 for rate in values) / len(values) == pytest.approx(0.84, abs=0.03)
    bursts_of = [len(list(run)) for is_high, run in groupby(rate > 1000 for rate in values) if is_high]
    assert len(bursts_of) == pytest.approx(430, rel=0.15)
