"""``history info``, ``compact`` and ``export``, as users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flink_autoscaler.standalone.cli.history import app
from testkit.builders.commands import Call, command_fixture
from testkit.builders.history import NOON_MS, a_storage, files_of, part_files, sample_rows, write

FOLDER = "samples/version=1/date=2026-01-31/cluster=main"
PROGRAM = "from flink_autoscaler.standalone.cli.history import app; app()"


call = command_fixture(app)


def run_process(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a history of three small files."""
    history = tmp_path / "history"
    write(a_storage(history), sample_rows(2), sample_rows(3), sample_rows(4))
    return history


def test_info_shows_tables(call: Call, root: Path) -> None:
    answer = call("info", "--path", root)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[0] == str(root)
    row = next(line.split() for line in answer.stdout.splitlines() if line.startswith("samples"))
    assert (row[1], row[2], row[5:]) == ("9", "3", ["2026-01-31", "2026-01-31", "main", "1"])


def test_info_as_json_tells_damaged_files_and_fails(call: Call, root: Path) -> None:
    part_files(root)[0].write_bytes(b"PAR1")

    answer = call("info", "--path", root, "--json")

    samples = json.loads(answer.stdout)["tables"][0]
    assert (answer.returncode, samples["files"], len(samples["damaged"])) == (1, 3, 1)
    assert answer.stderr.startswith("error: 1 files cannot be read:\nerror: ")


def test_info_of_an_empty_history_says_so_and_fails(call: Call, tmp_path: Path) -> None:
    answer = call("info", "--path", tmp_path)

    assert (answer.returncode, answer.stderr) == (1, f"error: {tmp_path}: the history is empty\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("info",), "which history? Give --path, or set autoscaler.history.path", id="no path"),
        pytest.param(("info", "--path", "/no/such"), "--path: /no/such: there is no such folder", id="no folder"),
        pytest.param(
            ("compact", "--path", "/no/such"), "--path: /no/such: there is no such folder", id="nothing there"
        ),
        pytest.param(("info", "--path", "/", "--since", "soon"), "--since 'soon': expected an age", id="no instant"),
        pytest.param(
            ("info", "--path", "/", "--since", "1 h", "--until", "2 h"),
            "--since '1 h' is not before --until '2 h'",
            id="nothing between",
        ),
        pytest.param(("export", "sample", "--path", "/"), "there is no table 'sample'; known: samples", id="no table"),
        pytest.param(("export", "samples", "--format", "xml"), "'xml': expected csv, json, parquet", id="no format"),
        pytest.param(("compact", "--path", "/", "--retention", "x"), "'x': expected a duration", id="no time"),
    ],
)
def test_what_is_asked_wrongly_is_explained_in_one_line(call: Call, arguments: tuple[str, ...], message: str) -> None:
    answer = call(*arguments)

    assert (answer.returncode, answer.stdout) == (2, "")
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr


def test_compact_makes_one_file_and_removes_what_is_too_old(call: Call, root: Path) -> None:
    write(a_storage(root), sample_rows(1, at_ms=NOON_MS - 400 * 86_400_000))
    planned = call("compact", "--path", root, "--dry-run", "--retention", "36500 d")

    answer = call("compact", "--path", root, "--retention", "36500 d")

    assert planned.stdout.splitlines()[0] == "3 small files would be replaced by 1"
    assert (answer.returncode, answer.stdout.splitlines()) == (
        0,
        [
            "3 small files replaced by 1",
            "5 rows dropped that had been written twice",
            "0 days of tables removed",
            "0 files of interrupted processes removed",
        ],
    )
    assert files_of(root)[FOLDER] == 1


def test_compact_keeps_everything_of_a_path_unless_told_otherwise(call: Call, root: Path) -> None:
    kept, removed = call("compact", "--path", root), call("compact", "--path", root, "--retention", "1 d")

    assert "0 days of tables removed" in kept.stdout
    assert "1 days of tables removed" in removed.stdout


def test_compact_fails_where_files_are_damaged(call: Call, root: Path) -> None:
    part_files(root)[0].write_bytes(b"")

    answer = call("compact", "--path", root)

    assert (answer.returncode, answer.stdout.splitlines()[0]) == (1, "2 small files replaced by 1")
    assert "1 files cannot be read and stay as they are" in answer.stderr


def test_export_writes_a_whole_file_and_replaces_none(call: Call, root: Path, tmp_path: Path) -> None:
    target = tmp_path / "samples.parquet"

    first = call("export", "samples", "--path", root, "--output", target)
    second = call("export", "samples", "--path", root, "--output", target)

    assert (first.returncode, first.stdout, first.stderr) == (0, "", f"9 rows to {target}\n")
    assert len(pq.read_table(target)) == 9
    assert second.returncode == 2
    assert "exists already; --force replaces it" in second.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history", "samples.parquet"]


def test_export_goes_to_standard_output(root: Path) -> None:
    answer = run_process(PROGRAM, "export", "samples", "--path", str(root), "--format", "parquet", "--job", "*/orders")

    assert answer.returncode == 0
    assert answer.stderr == b"9 rows\n"
    assert answer.stdout.startswith(b"PAR1")


def test_export_of_nothing_fails_and_leaves_no_file(call: Call, root: Path, tmp_path: Path) -> None:
    answer = call("export", "decisions", "--path", root, "--output", tmp_path / "d.csv")

    assert (answer.returncode, answer.stderr) == (
        1,
        "error: no rows of decisions were found; history info shows what there is\n",
    )
    assert not (tmp_path / "d.csv").exists()


def test_export_to_a_folder_that_is_missing_is_explained(call: Call, root: Path, tmp_path: Path) -> None:
    answer = call("export", "samples", "--path", root, "--output", tmp_path / "no" / "x.csv")

    assert (answer.returncode, "No such file or directory" in answer.stderr) == (2, True)


@pytest.mark.spark
def test_commands_reach_other_paths_with_spark_and_say_when_they_do_not(call: Call) -> None:
    answer = call("info", "--path", "nonsense://host/history")

    assert answer.returncode == 1
    assert 'No FileSystem for scheme "nonsense"' in answer.stderr
