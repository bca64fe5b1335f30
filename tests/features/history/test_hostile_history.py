"""The history of jobs whose names, figures and instants cannot be: others' rows are whole, and it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.fetchers.listing import select_clusters
from testkit.builders.history import part_files
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.wired import settings_of

PASSES = 3
LARGEST = 2**63 - 1
NAMES = {
    "half a character": "half \ud800",
    "a path": "../../../../tmp/x",
    "a partition": "date=2026-01-01/cluster=x",
    "separators": "a/b\\c%2Fd?e#f",
    "control characters": "a\0b\nc\rd\x1b[31m",
    "right to left": "\u202eabc\u2066",
    "emoji": "\U0001f680" * 50,
    "long": "x" * 100_000,
    "nothing": "",
    "quotes": "'; DROP TABLE fa_job; --\"",
    "the default partition": "__HIVE_DEFAULT_PARTITION__",
    "a star": "*",
}
FIGURES = ["NaN", "Infinity", "-Infinity", 1e308, -1e308, 5e-324, -1.0, float(LARGEST), 1e19]
INSTANTS = [0, -1, -84_600_000_000_000, LARGEST, -LARGEST, 10**15, 10**17]


def figured(job: FakeJob, figure: float | str) -> None:
    for vertex in job.vertices:
        vertex.metrics = dict.fromkeys(vertex.metrics, figure)
        vertex.busy_ms = figure
        if isinstance(figure, float):
            vertex.records_in = vertex.records_out = int(figure)


def dated(job: FakeJob, at_ms: int) -> None:
    job.start_ms = job.running_at_ms = at_ms


def named(job: FakeJob, name: str) -> None:
    job.name = name
    for vertex in job.vertices:
        vertex.name = name


def cases() -> Iterator[tuple[str, Callable[[FakeJob], None]]]:
    for what, name in NAMES.items():
        yield f"named {what}", lambda job, name=name: named(job, name)  # type: ignore[misc]
    for figure in FIGURES:
        yield f"measured {figure}", lambda job, figure=figure: figured(job, figure)  # type: ignore[misc]
    for at_ms in INSTANTS:
        yield f"started {at_ms}", lambda job, at_ms=at_ms: dated(job, at_ms)  # type: ignore[misc]


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("healthy")
        yield fake


def kept_history(flink: FakeFlink, folder: Path) -> list[dict[str, object]]:
    """Run some passes with a history below a folder; return the log."""
    values = {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": "120 ms",
        "autoscaler.standalone.control-loop.interval": "100 ms",
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.history.enabled": "true",
        "autoscaler.history.path": str(folder),
        "autoscaler.history.interval": "0 s",
    }
    settings = settings_of(values)
    with LogLines() as lines, Wiring(settings) as wiring:
        with closing(wiring.cluster_pass(select_clusters(settings, None)[0])) as passes:
            wiring.storage.start()
            for _ in range(PASSES):
                passes.run()
        wiring.close()
        return lines.all()


def test_history_of_hostile_jobs_leaves_that_of_others_whole(flink: FakeFlink, tmp_path: Path) -> None:
    for what, spoil in cases():
        spoil(flink.add_job(what))

    lines = kept_history(flink, tmp_path / "history")

    assert list(judged(tmp_path / "history", lines)) == []


def judged(folder: Path, lines: list[dict[str, object]]) -> Iterator[str]:
    rows = [row for file in part_files(folder) for row in pq.read_table(file, partitioning=None).to_pylist()]
    decisions = [row for row in rows if row["job_key"] == "main/healthy" and "decision" in row]
    if len(decisions) != PASSES:
        yield f"{len(decisions)} decisions of the healthy job"
    outside = [path for path in folder.parent.iterdir() if path != folder]
    if outside:
        yield f"written elsewhere: {outside}"
    for line in lines:
        is_broken = "exception" in line or line["level"] in ("error", "critical")
        is_of_history = str(line["event"]).startswith("history_") and line["level"] == "warning"
        if is_broken or (is_of_history and line.get("job_key", "main/healthy") == "main/healthy"):
            yield f"log: {line}"
