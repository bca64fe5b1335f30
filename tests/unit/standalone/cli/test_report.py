"""``report``, as users run it."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.reports.pages import fleet_page
from flink_autoscaler.pipeline.tables.files import FileEntry
from flink_autoscaler.pipeline.tables.schema import SAMPLES
from flink_autoscaler.pipeline.tables.store import Folder, FolderListing
from flink_autoscaler.standalone.cli.history_access import SMALL, is_small
from flink_autoscaler.standalone.cli.report import app
from testkit.builders.commands import Call, command_fixture
from testkit.builders.history import part_files
from testkit.builders.reports import MadeJob, write_history
from testkit.builders.reports.values import a_report

NOW = int(time.time())
# Interpreting plans of a few rows takes a third of the time of compiling them.
FAST = [
    f"--set=autoscaler.engine.{each}"
    for each in (
        "spark-master=local[1]",
        "spark-config.spark.sql.codegen.wholeStage=false",
        "spark-config.spark.sql.codegen.factoryMode=NO_CODEGEN",
        "spark-config.spark.sql.shuffle.partitions=1",
        "spark-config.spark.sql.adaptive.enabled=false",
    )
]


call = command_fixture(app)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the history of a job over the last day."""
    return write_history(tmp_path / "history", MadeJob(end=NOW))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--path", "{tmp}/no"], "--path: {tmp}/no: there is no such folder", id="no such history"),
        pytest.param([], "which history? Give --path, or set autoscaler.history.path", id="no history named"),
        pytest.param(
            ["--path", "{tmp}", "--output", "{tmp}/no/report.html"],
            "--output {tmp}/no/report.html: No such file or directory",
            id="no such folder for the page",
        ),
        pytest.param(
            ["--path", "{tmp}", "--output", "/dev/null/report.html"],
            "--output /dev/null/report.html: Not a directory",
            id="not writable",
        ),
        pytest.param(["--path", "{tmp}", "--output", "{tmp}"], "--output {tmp}: is a folder", id="a folder"),
        pytest.param(
            ["--path", "{tmp}", "--output", "{tmp}/notes.txt"],
            "--output {tmp}/notes.txt: exists already",
            id="another file is there",
        ),
        pytest.param(
            ["--path", "{tmp}", "--since", "7 parsecs"], "--since '7 parsecs': expected an age", id="wrong age"
        ),
        pytest.param(
            ["--path", "{tmp}", "--since", "2999-01-01"], "--since '2999-01-01' is not in the past", id="future"
        ),
        pytest.param(
            ["--path", "{tmp}", "--since", "1h", "--until", "2h"],
            "--since '1h' is not before --until '2h'",
            id="the wrong way round",
        ),
        pytest.param(["--path", "{tmp}", "--slo-lag", "long"], "--slo-lag 'long': expected a duration", id="wrong lag"),
    ],
)
def test_wrong_options_are_told_at_once(call: Call, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    given = [each.format(tmp=tmp_path) for each in arguments]
    output = [] if "--output" in given else ["--output", str(tmp_path / "report.html")]

    said = call(*given, *output)

    assert said.returncode == 2
    assert f"error: {message.format(tmp=tmp_path)}" in said.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_history_is_an_error_without_a_page(call: Call, tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()

    said = call("--path", tmp_path / "history", "--output", tmp_path / "report.html", *FAST)

    assert said.returncode == 1
    assert "there are no rows in the period" in said.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["history"]


@pytest.mark.spark
def test_an_incomplete_page_is_written_over_an_older_one_and_that_is_told(
    call: Call, root: Path, tmp_path: Path
) -> None:
    write_history(root, MadeJob(key="main/three", end=NOW, days=0.02))
    for path in part_files(root)[:1]:
        path.write_bytes(b"")
    output = tmp_path / "report.html"
    output.write_text(fleet_page(a_report()))

    said = call("--path", root, "--since", "1d", "--output", output, "--no-forecast", *FAST)

    assert said.returncode == 1
    assert said.stdout.startswith(f"{output}: 2 jobs, ")
    assert "error: 1 file was damaged and left out" in said.stderr
    assert "note: main/three: only 3 passes" in said.stderr
    assert "1 file was damaged" in output.read_text()
    assert "hacked" not in output.read_text()


@pytest.mark.parametrize(("size", "expected"), [(SMALL // 2, True), (SMALL // 2 + 1, False)])
def test_a_history_is_small_by_all_of_its_files(size: int, expected: bool) -> None:
    folder = Folder(SAMPLES.name, date(2026, 1, 31))
    listings = [FolderListing(folder, (FileEntry(f"{folder.path}/{n}.parquet", size),)) for n in range(2)]

    assert is_small(listings) is expected
