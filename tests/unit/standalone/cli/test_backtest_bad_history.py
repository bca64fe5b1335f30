"""``backtest`` and ``tune`` with incomplete, damaged and strange histories: what can be done is done, and said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flink_autoscaler.standalone.cli.backtest import app
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.commands import Call, Said, command_fixture
from testkit.builders.history import part_files

COMMANDS = {"backtest": ("backtest",), "tune": ("tune", "--grid", "utilization.target=0.6,0.8")}


call = command_fixture(app)


@pytest.fixture(params=COMMANDS)
def look(request: pytest.FixtureRequest, call: Call) -> Callable[[Path], Said]:
    """Return what looks at a history with one of the commands."""
    return lambda history: call(*COMMANDS[request.param], "--history", history, "--json", "--master", "none")


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Return a history of two jobs, each written at once."""
    return a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"))


def files_of(history: Path, table: str, job_key: str = "main/orders") -> list[Path]:
    """Return the files of a table that hold a job."""
    files = (path for path in part_files(history) if path.relative_to(history).parts[0] == table)
    return [path for path in files if job_key in pq.ParquetFile(path).read(["job_key"]).column(0).to_pylist()]


def done(answer: Said) -> Sequence[str]:
    """Return the jobs that have results, and make sure that nothing but lines about errors was said beside them."""
    assert all(line.startswith("error: ") for line in answer.stderr.splitlines())
    jobs = json.loads(answer.stdout)["jobs"]
    return [job["job_key"] for job in jobs if all(run["figures"] for run in job["runs"])]


def retyped(path: Path, column: str, values: Sequence[object]) -> None:
    rows = pq.ParquetFile(path).read()
    place = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(place, column, pa.array(values)), path)


def damaged_inside(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20:200] = b"\xff" * 180
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "something else": lambda path: path.write_bytes(b"not Parquet at all" * 50),
    "damaged inside": damaged_inside,
    "text for numbers": lambda path: retyped(path, "records_in_rate", ["much"] * 240),
    "numbers for lists": lambda path: retyped(path, "inputs", [1] * 240),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_costs_its_job_and_no_other(look: Callable[[Path], Said], history: Path, damage: str) -> None:
    (path,) = files_of(history, "vertices")
    DAMAGE[damage](path)

    answer = look(history)

    assert (answer.returncode, done(answer)) == (1, ["main/clicks"])
    assert "main/orders was left out: its vertices were never recorded" in answer.stderr
    assert f"a damaged file was left out: {path}: " in answer.stderr


def test_file_that_cannot_be_read_is_named(look: Callable[[Path], Said], history: Path) -> None:
    (path,) = files_of(history, "samples")
    path.unlink()
    path.symlink_to("/proc/self/mem")

    answer = look(history)

    assert (answer.returncode, done(answer)) == (1, ["main/clicks"])
    assert f"a damaged file was left out: {path}: " in answer.stderr


def in_quarters(job_key: str = "main/orders") -> list[list[tuple[str, dict[str, object]]]]:
    return [job_rows(job_key, minutes=30, first=30 * number) for number in range(8)]


def test_half_of_the_files_missing_is_a_remark_or_a_job_less(look: Callable[[Path], Said], tmp_path: Path) -> None:
    history = a_history(tmp_path / "history", *in_quarters(), *in_quarters("main/clicks"))
    orders = files_of(history, "samples")
    clicks = files_of(history, "samples", "main/clicks")
    for path in (*orders[1::4], *clicks[1:]):
        path.unlink()

    answer = look(history)

    assert (len(orders), answer.returncode, done(answer)) == (8, 1, ["main/orders"])
    assert "main/clicks was left out: 30 minutes are recorded, and a backtest needs 60" in answer.stderr
    (job,) = json.loads(answer.stdout)["jobs"]
    assert any(note.endswith("minutes are not recorded: the rate before holds on.") for note in job["notes"])


def test_missing_table_leaves_nothing_to_do_and_that_is_said(look: Callable[[Path], Said], history: Path) -> None:
    shutil.rmtree(history / "samples")

    answer = look(history)

    assert (answer.returncode, done(answer)) == (1, [])
    assert answer.stderr.count("was left out: there are no samples of what arrived at its sources") == 2


def test_versions_are_read_together(look: Callable[[Path], Said], tmp_path: Path) -> None:
    history = a_history(tmp_path / "history", job_rows(minutes=60), job_rows(minutes=60, first=60))
    for table in ("samples", "vertices"):
        older, newer = files_of(history, table)
        rows = pq.ParquetFile(newer).read()
        target = Path(str(newer).replace("version=1", "version=2"))
        target.parent.mkdir(parents=True)
        pq.write_table(rows.append_column("of_tomorrow", pa.array(["x"] * len(rows))), target)
        newer.unlink()
    pq.write_table(pq.ParquetFile(older).read().drop_columns(["slot_sharing_group", "true_rate"]), older)

    answer = look(history)

    assert (answer.returncode, answer.stderr, done(answer)) == (0, "", ["main/orders"])
    (job,) = json.loads(answer.stdout)["jobs"]
    assert job["runs"][0]["figures"]["duration"] == 120 * 60


def test_job_of_numbers_that_cannot_be_costs_no_other(look: Callable[[Path], Said], tmp_path: Path) -> None:
    odd = job_rows(change=lambda _, row: {**row, "busy": -0.5, "parallelism": -1, "span": float("nan")})
    history = a_history(tmp_path / "history", odd, job_rows("main/clicks"))

    answer = look(history)

    assert (answer.returncode, done(answer)) == (1, ["main/clicks"])
    assert "main/orders was left out: no busy time or no record rate of Source: orders" in answer.stderr


def test_records_of_wrong_clocks_are_left_out_or_averaged_and_that_is_said(
    look: Callable[[Path], Said], tmp_path: Path
) -> None:
    century = 100 * 365 * 86_400 * 1_000_000
    future = job_rows("main/future", change=lambda _, row: {**row, "ts": row["ts"] + century})
    back = job_rows("main/back", minutes=90) + job_rows("main/back", minutes=60, first=45)
    twice = [*reversed(job_rows("main/twice")), *job_rows("main/twice")]

    answer = look(a_history(tmp_path / "history", future, back, twice))

    assert (answer.returncode, done(answer)) == (1, ["main/back", "main/twice"])
    assert "main/future was left out: all of it is later than now: the clock" in answer.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        pytest.param("/no/such/history", 2, "--history: /no/such/history: there is no such folder", id="missing"),
        pytest.param(__file__, 2, "there is no such folder", id="a file"),
        pytest.param("/" + "x" * 300, 1, "File name too long", id="not readable"),
    ],
)
def test_path_without_a_history_is_named(call: Call, command: str, path: str, code: int, message: str) -> None:
    answer = call(*COMMANDS[command], "--history", path, "--master", "none")

    assert (answer.returncode, answer.stdout) == (code, "")
    assert message in answer.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("output", "message"),
    [
        pytest.param("/no/such/report.html", "No such file or directory", id="no folder"),
        pytest.param("/proc/report.html", "No such file or directory", id="no place for files"),
        pytest.param("/", "exists already", id="a folder"),
    ],
)
def test_report_that_cannot_be_written_is_told_before_anything_is_simulated(
    call: Call, history: Path, command: str, output: str, message: str
) -> None:
    answer = call(*COMMANDS[command], "--history", history, "--output", output, "--master", "none")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"--output {output}: " in answer.stderr
    assert message in answer.stderr
