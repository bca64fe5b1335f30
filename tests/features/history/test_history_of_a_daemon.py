"""The history of a daemon in a process of its own: what is told, and that passes go on whatever becomes of it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.builders.history import NOON_MS, a_storage, part_files, sample_rows, write
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.runner.process import DaemonProcess

HISTORY = {
    "autoscaler__history__enabled": "true",
    "autoscaler__history__interval": "0 s",
    "autoscaler__history__flush-interval": "1 s",
}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        fake.add_job("orders")
        yield fake


def start(daemon: DaemonProcess, flink: FakeFlink, path: Path, **options: str) -> None:
    daemon.configure({"main": flink.url}, autoscaler__history__path=str(path), **(HISTORY | options))
    daemon.start()


def passes(daemon: DaemonProcess) -> int:
    found = re.search(r'flink_autoscaler_passes_total\{.*result="succeeded"\} (\d+)', daemon.page("/metrics"))
    return int(found[1]) if found else 0


def assert_passes_go_on(daemon: DaemonProcess) -> None:
    before = passes(daemon)
    daemon.wait_for("passes", lambda: passes(daemon) >= before + 3)


def series(daemon: DaemonProcess, name: str) -> float | None:
    found = re.search(rf"^flink_autoscaler_history_{name} (\S+)$", daemon.page("/metrics"), re.MULTILINE)
    return float(found[1]) if found else None


def test_metrics_page_shows_what_is_written(daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path) -> None:
    start(daemon, flink, tmp_path / "history")

    daemon.wait_for("rows", lambda: series(daemon, "rows_written_total"))

    assert part_files(tmp_path / "history")
    assert series(daemon, "up") == 1.0
    assert series(daemon, "last_write_age_seconds") is not None


def test_compaction_and_what_it_came_to_are_told(daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path) -> None:
    day = 86_400_000
    write(a_storage(tmp_path / "history"), sample_rows(2), sample_rows(2, at_ms=NOON_MS + day))
    write(a_storage(tmp_path / "history"), sample_rows(2), sample_rows(2, at_ms=NOON_MS + day))
    often = {"autoscaler__history__compaction-interval": "1 s", "autoscaler__history__retention": "0 s"}

    start(daemon, flink, tmp_path / "history", **often)

    daemon.wait_for("a compaction", lambda: daemon.lines("history_compacted"))
    daemon.wait_for("its instant", lambda: series(daemon, "last_compaction_timestamp_seconds"))
    events = [line for line in daemon.lines("autoscaler_event") if line["reason"] == "HistoryCompacted"]
    assert events[0]["text"].startswith("4 files became 2, 0 days removed")
    assert series(daemon, "compaction_failures_total") == 0.0
    assert series(daemon, "last_compaction_seconds") is not None


def test_compaction_that_fails_is_told(daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    (folder / "_staging").write_text("in the way")
    often = {"autoscaler__history__compaction-interval": "1 s", "autoscaler__history__flush-interval": "1 h"}
    start(daemon, flink, folder, **often)

    daemon.wait_for("a failure", lambda: (series(daemon, "compaction_failures_total") or 0) > 0)

    events = [line for line in daemon.lines("autoscaler_event") if line["reason"] == "HistoryCompactionFailed"]
    assert str(folder) in events[0]["text"]
    assert_passes_go_on(daemon)


def test_options_of_the_history_that_wait_for_a_restart_are_told_once(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path
) -> None:
    start(daemon, flink, tmp_path / "history")

    daemon.configure(
        {"main": flink.url},
        **(HISTORY | {"autoscaler__history__interval": "5 min"}),
        autoscaler__history__path=str(tmp_path / "elsewhere"),
    )
    daemon.reload()
    assert_passes_go_on(daemon)
    daemon.wait_for("rows", lambda: part_files(tmp_path / "history"))

    (line,) = daemon.lines("restart_needed")
    assert line["keys"] == ["autoscaler.history.path", "autoscaler.history.interval"]
    assert not (tmp_path / "elsewhere").exists()


def test_path_that_cannot_be_written_is_told_once_and_passes_go_on(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    start(daemon, flink, tmp_path / "file" / "history")

    daemon.wait_for("the warning", lambda: daemon.lines("history_unavailable"))
    assert_passes_go_on(daemon)

    assert len(daemon.lines("history_unavailable")) == 1
    assert len(daemon.lines("history_not_spilled")) == 1
    assert series(daemon, "up") == 0.0
    assert daemon.stop() == 0


def test_daemon_without_pyarrow_says_so_once_and_passes_go_on(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken" / "pyarrow").mkdir(parents=True)
    (tmp_path / "broken" / "pyarrow" / "__init__.py").write_text("raise ImportError('libarrow.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path / "broken")
    with DaemonProcess(tmp_path, "crippled") as crippled:
        start(crippled, flink, tmp_path / "history", job__autoscaler__policy="capacity")
        assert_passes_go_on(crippled)
        crippled.configure({"main": flink.url, "other": flink.url}, **HISTORY)
        crippled.reload()

        (line,) = crippled.lines("history_disabled")
        code = crippled.stop()

    assert "libarrow.so: cannot open" in line["error"]
    assert code == 0


def test_daemon_that_is_killed_leaves_rows_to_the_next(daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path) -> None:
    start(daemon, flink, tmp_path / "history", **{"autoscaler__history__flush-interval": "1 h"})
    daemon.wait_for("rows", lambda: (series(daemon, "rows_waiting") or 0) > 10)
    daemon.send(signal.SIGKILL)
    daemon.exit_code()

    with DaemonProcess(tmp_path, "heir") as heir:
        start(heir, flink, tmp_path / "history")
        heir.wait_for("the rows", lambda: heir.lines("history_rows_recovered"))
        heir.wait_for("files", lambda: part_files(tmp_path / "history"))
        code = heir.stop()

    assert code == 0
    assert not list((tmp_path / "history" / "_pending").iterdir())
