"""How a job went and goes on, over the API and on its page: from memory, from the history, and from forecasts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flink_autoscaler.core.model.load_profile import BUCKETS_PER_WEEK, LoadProfile, ProfileResult
from flink_autoscaler.pipeline.tables.rows import NamedRow
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.history import NOON_MS
from testkit.builders.web import WebSite

HOUR_MS = 3_600_000
FORECAST = {
    "job.autoscaler.forecast.enabled": "true",
}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def recorded(folder: Path, hours: int) -> Path:
    """Write a history of the job that ends an hour ago, with a rescale in its middle and a job that is none of it."""
    first = (now_ms() - NOON_MS) // 60_000 - 60 * (hours + 1)
    decided = (NOON_MS + (first + 30 * hours) * 60_000) * 1000
    rescale = {
        "cluster": "main",
        "job_key": "main/orders",
        "ts": decided,
        "decided_at": decided,
        "origin": "autoscaler",
        "stage": "reached",
        "outage": 12.5,
        "target": [{"vertex_id": "b" * 32, "parallelism": 4}],
    }
    rows: list[NamedRow] = job_rows(minutes=60 * hours, first=first, rate=lambda _: 300.0, change=_with_lag)
    other = job_rows("main/other", minutes=60, first=first)
    return a_history(folder, rows, other, [("rescales", rescale)])


def _with_lag(table: str, row: dict[str, object]) -> dict[str, object]:
    return {**row, "lag": 600.0} if table == "samples" else {**row, "true_rate": 400.0, "target_rate": 300.0}


def test_the_last_hours_come_from_memory() -> None:
    with WebSite() as web:
        web.add("orders")
        web.run(3)
        found = web.get("/series", job="main/orders")

    assert (found["source"], found["forecast"], found["damaged"]) == ("memory", None, [])
    assert found["points"][-1]["load"] > 0
    assert found["points"][-1]["slots"] == 1
    assert [each["name"] for each in found["vertices"]] == ["Source: source 0", "work"]
    assert found["vertices"][1]["sizes"][0]["parallelism"] == 1


def test_what_is_further_back_comes_from_the_history_in_steps(tmp_path: Path) -> None:
    path = recorded(tmp_path / "history", 10)
    with WebSite({"autoscaler.history.path": str(path)}) as web:
        web.add("orders")
        web.run()
        found = web.get("/series", job="main/orders", from_ms=now_ms() - 24 * HOUR_MS, points=48)

    middle = found["points"][len(found["points"]) // 2]
    assert (found["source"], found["step_ms"]) == ("history", HOUR_MS // 2)
    assert 20 <= len(found["points"]) <= 24
    assert middle["load"] == pytest.approx(300.0)
    assert middle["capacity"] == pytest.approx(400.0)
    assert (middle["lag"], middle["lag_seconds"], middle["slots"]) == (600.0, 2.0, 4)
    assert [(each["name"], each["sizes"][-1]["parallelism"]) for each in found["vertices"]] == [
        ("Source: orders", 1),
        ("work", 4),
    ]
    (rescale,) = found["rescales"]
    assert (rescale["stage"], rescale["outage_ms"], rescale["target"]) == ("reached", 12_500, {"b" * 32: 4})


def test_what_was_read_is_not_read_again_while_it_says_the_same(tmp_path: Path) -> None:
    path = recorded(tmp_path / "history", 5)
    until_ms = now_ms() - HOUR_MS
    asked = {"job": "main/orders", "from_ms": until_ms - 20 * HOUR_MS, "to_ms": until_ms, "points": 2}
    with WebSite({"autoscaler.history.path": str(path)}) as web:
        web.add("orders")
        web.run()
        first = web.get("/series", **asked)
        for file in path.rglob("*.parquet"):
            file.unlink()
        again = web.get("/series", **asked)

    assert len(first["points"]) >= 1
    assert again["points"] == first["points"]


def test_a_damaged_file_is_left_out_and_told(tmp_path: Path) -> None:
    path = recorded(tmp_path / "history", 5)
    damaged = next(iter(sorted(path.glob("samples/**/*.parquet"))))
    damaged.write_bytes(b"PAR1 no more")
    with WebSite({"autoscaler.history.path": str(path)}) as web:
        web.add("orders")
        web.run()
        found = web.get("/series", job="main/orders", from_ms=now_ms() - 24 * HOUR_MS)

    assert damaged.name in found["damaged"][0]


@pytest.mark.parametrize(
    ("parameters", "status", "text"),
    [
        pytest.param({"from_ms": 1}, 400, "31 days at most", id="too long"),
        pytest.param({"from_ms": 2000, "to_ms": 1000}, 400, "ends before it begins", id="backwards"),
        pytest.param({"points": 501}, 400, "points:", id="too many points"),
        pytest.param({"job": "main/nope"}, 404, "no cluster has a job", id="no such job"),
    ],
)
def test_a_time_that_cannot_be_shown_is_told(parameters: dict[str, int | str], status: int, text: str) -> None:
    with WebSite() as web:
        web.add("orders")
        web.run()
        asked: dict[str, int | str] = {"job": "main/orders", **parameters}
        answer = web.client.get("/api/v1/series", params=asked)

    assert (answer.status_code, text in answer.json()["error"]) == (status, True), answer.text


def test_without_a_history_it_is_said_what_to_configure_and_the_page_shows_the_rest() -> None:
    with WebSite() as web:
        web.add("orders")
        web.run()
        refused = web.client.get("/api/v1/series", params={"job": "main/orders", "from_ms": now_ms() - 24 * HOUR_MS})
        page = web.client.get("/job", params={"job": "main/orders", "range": "week"})

    assert (refused.status_code, "set autoscaler.history.enabled: true" in refused.json()["error"]) == (409, True)
    assert (page.status_code, "<h2>Rescales</h2>" in page.text) == (200, True)


def profile(job_key: str, source: str, level: float = 200.0) -> ProfileResult:
    """Make a profile of a load that is always the same, and half as much again at most."""
    shares = tuple([1.0] * BUCKETS_PER_WEEK)
    upper = tuple([1.5] * BUCKETS_PER_WEEK)
    asof = time.time() - 3600
    return ProfileResult(job_key, source, asof, LoadProfile(shares, upper, weeks=4, level=level, growth=1.0, asof=asof))


def test_the_forecast_with_its_band_is_what_the_pass_had() -> None:
    with WebSite(FORECAST) as web:
        job = web.add("orders")
        web.wiring.storage.forecasts.save([profile("main/orders", job.vertices[0].vertex_id)])
        web.run(3)
        found = web.get("/series", job="main/orders", ahead=24)["forecast"]

    assert [found["points"][0][name] for name in ("median", "upper")] == pytest.approx([200.0, 300.0])
    assert found["points"][-1]["at_ms"] - found["points"][0]["at_ms"] == pytest.approx(24 * HOUR_MS, abs=HOUR_MS / 4)


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="forecasts are off"), pytest.param(FORECAST, id="there is no profile")],
)
def test_there_is_no_forecast_where_nothing_is_expected(options: dict[str, str]) -> None:
    with WebSite(options) as web:
        web.add("orders")
        web.run(3)
        found = web.get("/series", job="main/orders")

    assert found["forecast"] is None
