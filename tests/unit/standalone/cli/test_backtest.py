"""``backtest`` and ``tune``, as users run them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flink_autoscaler.standalone.cli.backtest import app
from testkit.builders.backtests import a_history, arrival_rows, job_rows
from testkit.builders.commands import Call, Said, command_fixture
from testkit.builders.history import NOON_MS, part_files
from testkit.clusters.flink.waiting import wait_until

INLINE = ("--master", "none")


SHORT = ("--workload", "week-sine", "--days", "0.05", *INLINE)


call = command_fixture(app)


def a_file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Return a history of two jobs that can be simulated, and one that cannot."""
    return a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"), job_rows("main/new", minutes=3))


def rows_of(stdout: str) -> list[list[str]]:
    return [line.split() for line in stdout.splitlines()]


def test_backtest_of_a_workload_compares_configurations(call: Call, tmp_path: Path) -> None:
    usual = a_file(tmp_path, "usual.yaml", "job.autoscaler.enabled: true")
    full = a_file(tmp_path, "full.yaml", "job.autoscaler.utilization.target: 0.9\njob.autoscaler.utilization.max: 1")

    answer = call("backtest", *SHORT, "--config", usual, "--config", full)

    rows = rows_of(answer.stdout)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [row[0] for row in rows[1:3]] == ["usual.yaml", "full.yaml"]
    assert float(rows[2][2]) < float(rows[1][2])
    assert "the work itself" in answer.stdout


def test_policies_are_compared_on_a_load_from_anybodys_monitoring(call: Call, tmp_path: Path) -> None:
    rows = (f"{1_772_366_400 + 60 * n},{60_000 if n % 60 < 30 else 30_000}\n" for n in range(120))
    load = a_file(tmp_path, "load.csv", "timestamp,value\n" + "".join(rows))
    grid = ("--grid", "policy=capacity,varga")

    answer = call("backtest", "--load", load, "--peak-slots", 12, *INLINE, "--json")
    tuned = call("tune", "--load", load, "--capacity-per-subtask", 5000, *grid, *INLINE, "--json")

    assert (answer.returncode, tuned.returncode, answer.stderr, tuned.stderr) == (0, 0, "", "")
    found = json.loads(answer.stdout)
    assert found["bounds"]["static"] == pytest.approx(12 * 2, rel=0.1)  # two hours in just the slots for the peak
    assert len(json.loads(tuned.stdout)["configurations"]) == 3


def test_options_of_set_go_before_those_of_files(call: Call, tmp_path: Path) -> None:
    option = "job.autoscaler.utilization.target"
    files = [a_file(tmp_path, f"{target}.yaml", f"{option}: {target}") for target in (0.5, 0.6)]
    configs = [word for file in files for word in ("--config", file)]

    answer = call("backtest", *SHORT, *configs, "--set", f"{option}=0.7", "--json")

    first, second = json.loads(answer.stdout)["configurations"]
    assert first["slot_hours"] == second["slot_hours"]


def test_backtest_of_a_history_says_what_it_left_out_and_fails(call: Call, history: Path) -> None:
    answer = call("backtest", "--history", history, *INLINE)

    assert answer.returncode == 1
    assert answer.stderr == ("error: main/new was left out: 3 minutes are recorded, and a backtest needs 60: 57 more\n")
    assert answer.stdout.splitlines()[1].split()[:2] == ["defaults", "2"]
    assert "main/clicks: No rescale was recorded: each is taken to last 60 s." in answer.stdout


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the machine without Java, so that nothing can start Spark."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("command", ["backtest", "tune"])
def test_too_short_a_history_is_told_before_spark_is_started(call: Call, tmp_path: Path, command: str) -> None:
    history = a_history(tmp_path / "young", job_rows(minutes=25), job_rows("main/new", minutes=3))

    answer = call(command, "--history", history)

    assert answer.returncode == 1
    assert answer.stderr == (
        "error: main/new was left out: 3 minutes are recorded, and a backtest needs 60: 57 more\n"
        "error: main/orders was left out: 25 minutes are recorded, and a backtest needs 60: 35 more\n"
    )


@pytest.mark.usefixtures("no_java")
def test_spark_is_started_where_there_is_a_job_to_simulate(call: Call, history: Path) -> None:
    answer = call("backtest", "--history", history)

    assert answer.returncode == 2
    assert "Java" in answer.stderr


@pytest.mark.parametrize("pattern", ["main/orders", "orders", "ord*", "?rders"])
def test_jobs_are_chosen_by_key_or_name(call: Call, history: Path, pattern: str) -> None:
    answer = call("backtest", "--history", history, "--jobs", pattern, "--json", *INLINE)

    assert answer.returncode == 0
    assert [job["job_key"] for job in json.loads(answer.stdout)["jobs"]] == ["main/orders"]


def test_options_of_a_cluster_count_for_its_jobs(call: Call, history: Path, tmp_path: Path) -> None:
    config = a_file(
        tmp_path,
        "two.yaml",
        """
        autoscaler:
          clusters:
            - name: main
              url: http://main:8081
              options: {job.autoscaler.enabled: false}
        """,
    )

    answer = call("backtest", "--history", history, "--jobs", "orders", "--config", config, "--json", *INLINE)

    assert list(json.loads(answer.stdout)["jobs"][0]["runs"][0]["holds"]) == ["DISABLED"]


def test_history_of_the_configuration_is_taken(call: Call, history: Path) -> None:
    answer = call("backtest", "--set", f"autoscaler.history.path={history}", "--jobs", "orders", "--json", *INLINE)

    assert answer.returncode == 0


def test_damaged_files_are_left_out_with_a_word(call: Call, history: Path) -> None:
    part_files(history)[0].write_bytes(b"PAR1")

    answer = call("backtest", "--history", history, *INLINE)

    assert answer.returncode == 1
    assert "error: a damaged file was left out: " in answer.stderr


def test_report_is_one_file_and_replaces_none(call: Call, tmp_path: Path) -> None:
    report = tmp_path / "report.html"

    first, second = (call("backtest", *SHORT, "--output", report) for _ in range(2))
    third = call("tune", *SHORT, "--grid", "utilization.target=0.6,0.8", "--output", report, "--force")

    assert (first.returncode, second.returncode, third.returncode) == (0, 2, 0)
    assert "exists already; --force replaces it" in second.stderr
    assert "<h1>Tuning</h1>" in report.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_tune_recommends_a_change_with_what_it_is_expected_to_do(call: Call) -> None:
    present = "job.autoscaler.utilization.target=0.3"

    answer = call("tune", *SHORT, "--set", present, "--grid", "utilization.target=0.3,0.7", "--json")

    (found,) = json.loads(answer.stdout)["recommendations"]
    assert (answer.returncode, found["changes"]) == (0, {"job.autoscaler.utilization.target": "0.7"})
    assert found["difference"]["slot_hours"] < 0
    assert (found["is_judged_on_unseen_days"], found["chosen_on_days"]) == (False, found["judged_on_days"])
    assert found["difference"]["slot_hours"] == found["expected"]["slot_hours"] - found["present"]["slot_hours"]


def test_tune_tells_how_little_room_is_left_when_a_vertex_is_scaled_up(call: Call) -> None:
    grid = ("--grid", "utilization.target=0.6,0.7")

    usual = call("tune", *SHORT, *grid)
    wide = call("tune", *SHORT, *grid, "--set", "job.autoscaler.utilization.max=0.8")

    told = "1 job: a vertex whose lag does not grow is scaled up with 0% headroom left; --grid utilization.max="
    assert told in usual.stdout
    assert "head-room" not in wide.stdout


def test_tune_prints_a_table(call: Call, history: Path) -> None:
    answer = call("tune", "--history", history, "--jobs", "orders", "--grid", "utilization.target=0.7,0.2", *INLINE)

    assert answer.returncode == 0
    assert answer.stdout.splitlines()[1].split()[:2] == ["main/orders", "none"]
    assert "1 job: chosen and judged on the same 0.1 days, which flatters the choice" in answer.stdout


def test_forecasts_of_a_workload_have_the_weeks_before_it(call: Call) -> None:
    forecasts = ("--set", "job.autoscaler.forecast.enabled=true")

    usual, ahead = (call("backtest", *SHORT, *options, "--json") for options in ((), forecasts))

    [before], [now] = (json.loads(answer.stdout)["jobs"] for answer in (usual, ahead))
    assert before["notes"] == []
    assert now["notes"] == ["Forecasts of source: 1 nightly profile, made of 28.0 days of arrivals."]
    assert now["bounds"] == before["bounds"]


def test_forecasts_of_a_history_have_what_came_before_the_time_that_is_simulated(call: Call, tmp_path: Path) -> None:
    before = arrival_rows(range(-4 * 1440, 0), lambda _: 400.0)
    history = a_history(tmp_path / "history", before, job_rows(minutes=90))
    since = datetime.fromtimestamp(NOON_MS / 1000, UTC).isoformat()
    forecasts = ("--set", "job.autoscaler.forecast.enabled=true")

    answer = call("backtest", "--history", history, "--since", since, *forecasts, "--json", *INLINE)

    (job,) = json.loads(answer.stdout)["jobs"]
    assert "Forecasts of Source: orders: 1 nightly profile, made of 4.0 days of arrivals." in job["notes"]
    assert job["runs"][0]["figures"]["duration"] == 90 * 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("backtest",), "which jobs? Give --history, --load or --workload", id="nothing to simulate"),
        pytest.param(
            ("backtest", "--history", "/no/such"), "--history: /no/such: there is no such folder", id="no path"
        ),
        pytest.param(("backtest", "--workload", "weeksine"), "did you mean 'week-sine'?", id="no workload"),
        pytest.param(
            ("backtest", "--workload", "office", "--history", "/", "--since", "1 d"),
            "--history and --since cannot be given with --workload",
            id="two sources",
        ),
        pytest.param(
            ("backtest", "--load", "/no/such.csv", "--days", "3", "--workload", "sine"),
            "--workload and --days cannot be given with --load",
            id="two loads",
        ),
        pytest.param(("backtest", "--load", "a.csv"), "Give one of --peak-slots and --capacity-per-subtask", id="size"),
        pytest.param(
            ("tune", "--load", "/no/such.csv", "--peak-slots", "3"), "--load /no/such.csv: No such file", id="no load"
        ),
        pytest.param(("tune", *SHORT, "--peak-slots", "3"), "are about a --load", id="size of a workload"),
        pytest.param(("backtest", "--history", "/", "--days", "3"), "--days is the length of a --workload", id="days"),
        pytest.param(("backtest", "--history", "/", "--since", "soon"), "--since 'soon': expected an", id="no time"),
        pytest.param(
            ("backtest", "--history", "/", "--since", "1 h", "--until", "2 h"),
            "--since '1 h' is not before --until '2 h'",
            id="nothing between",
        ),
        pytest.param(
            ("backtest", *SHORT, "--output", "/no/such/report.html"),
            "--output /no/such/report.html: No such file or directory",
            id="no folder for the report",
        ),
        pytest.param(("backtest", *SHORT, "--config", "/no/such.yaml"), "/no/such.yaml: No such file", id="no file"),
        pytest.param(
            ("backtest", *SHORT, "--set", "job.autoscaler.utilisation.target=1"),
            "did you mean 'job.autoscaler.utilization.target'?",
            id="no such option",
        ),
        pytest.param(("tune", *SHORT, "--grid", "utilization.target"), "an option and its values", id="no grid"),
        pytest.param(("tune", *SHORT, "--grid", "utilization.targt=1,2"), "did you mean", id="no option of the grid"),
        pytest.param(("tune", *SHORT, "--grid", "utilization.target=low"), "not parse value 'low'", id="no value"),
        pytest.param(("tune", *SHORT, "--grid", "utilization.target=0.5"), "1 combinations; 2 to 200", id="one value"),
    ],
)
def test_what_is_asked_wrongly_is_explained_at_once(call: Call, arguments: tuple[str, ...], message: str) -> None:
    answer = call(*arguments, *(() if "none" in arguments else INLINE))

    assert (answer.returncode, answer.stdout) == (2, "")
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr


def test_configuration_twice_is_refused_and_equal_names_become_paths(call: Call, tmp_path: Path) -> None:
    one, two = (a_file(tmp_path / folder, "a.yaml", "job.autoscaler.enabled: true") for folder in ("one", "two"))

    twice = call("backtest", *SHORT, "--config", one, "--config", one)
    apart = call("backtest", *SHORT, "--config", one, "--config", two, "--json")

    assert (twice.returncode, "can be given once" in twice.stderr) == (2, True)
    assert [each["name"] for each in json.loads(apart.stdout)["configurations"]] == [str(one), str(two)]


@pytest.mark.parametrize(
    ("options", "asked"),
    [pytest.param((), "", id="empty"), pytest.param(("--jobs", "nobody"), " that was asked for", id="no such job")],
)
def test_history_without_a_job_says_so_and_fails(
    call: Call, tmp_path: Path, options: tuple[str, ...], asked: str
) -> None:
    answer = call("backtest", "--history", tmp_path, *options, *INLINE)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"there is no job{asked} in the history; history info shows what there is" in answer.stderr


def test_other_paths_need_spark(call: Call) -> None:
    answer = call("backtest", "--history", "hdfs://nowhere/history", *INLINE)

    assert (answer.returncode, "only Spark reaches this path" in answer.stderr) == (1, True)


def test_time_range_is_kept(call: Call, history: Path) -> None:
    until = datetime.fromtimestamp(NOON_MS / 1000 + 90 * 60, UTC).isoformat()

    answer = call("backtest", "--history", history, "--jobs", "orders", "--until", until, "--json", *INLINE)

    assert json.loads(answer.stdout)["jobs"][0]["runs"][0]["figures"]["duration"] == 89 * 60


COMMANDS = {"backtest": ("backtest",), "tune": ("tune", "--grid", "utilization.target=0.6,0.8")}


@pytest.fixture(params=COMMANDS)
def look(request: pytest.FixtureRequest, call: Call) -> Callable[[Path], Said]:
    """Return what looks at a history with one of the commands."""
    return lambda weeks: call(*COMMANDS[request.param], "--history", weeks, "--json", "--master", "none")


@pytest.fixture
def weeks(tmp_path: Path) -> Path:
    """Return a history of two jobs, each written at once."""
    return a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"))


def files_of(weeks: Path, table: str, job_key: str = "main/orders") -> list[Path]:
    """Return the files of a table that hold a job."""
    files = (path for path in part_files(weeks) if path.relative_to(weeks).parts[0] == table)
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
def test_damaged_file_costs_its_job_and_no_other(look: Callable[[Path], Said], weeks: Path, damage: str) -> None:
    (path,) = files_of(weeks, "vertices")
    DAMAGE[damage](path)

    answer = look(weeks)

    assert (answer.returncode, done(answer)) == (1, ["main/clicks"])
    assert "main/orders was left out: its vertices were never recorded" in answer.stderr
    assert f"a damaged file was left out: {path}: " in answer.stderr


def test_file_that_cannot_be_read_is_named(look: Callable[[Path], Said], weeks: Path) -> None:
    (path,) = files_of(weeks, "samples")
    path.unlink()
    path.symlink_to("/proc/self/mem")

    answer = look(weeks)

    assert (answer.returncode, done(answer)) == (1, ["main/clicks"])
    assert f"a damaged file was left out: {path}: " in answer.stderr


def in_quarters(job_key: str = "main/orders") -> list[list[tuple[str, dict[str, object]]]]:
    return [job_rows(job_key, minutes=30, first=30 * number) for number in range(8)]


def test_half_of_the_files_missing_is_a_remark_or_a_job_less(look: Callable[[Path], Said], tmp_path: Path) -> None:
    weeks = a_history(tmp_path / "history", *in_quarters(), *in_quarters("main/clicks"))
    orders = files_of(weeks, "samples")
    clicks = files_of(weeks, "samples", "main/clicks")
    for path in (*orders[1::4], *clicks[1:]):
        path.unlink()

    answer = look(weeks)

    assert (len(orders), answer.returncode, done(answer)) == (8, 1, ["main/orders"])
    assert "main/clicks was left out: 30 minutes are recorded, and a backtest needs 60" in answer.stderr
    (job,) = json.loads(answer.stdout)["jobs"]
    assert any(note.endswith("minutes are not recorded: the rate before holds on.") for note in job["notes"])


def test_missing_table_leaves_nothing_to_do_and_that_is_said(look: Callable[[Path], Said], weeks: Path) -> None:
    shutil.rmtree(weeks / "samples")

    answer = look(weeks)

    assert (answer.returncode, done(answer)) == (1, [])
    assert answer.stderr.count("was left out: there are no samples of what arrived at its sources") == 2


def test_versions_are_read_together(look: Callable[[Path], Said], tmp_path: Path) -> None:
    weeks = a_history(tmp_path / "history", job_rows(minutes=60), job_rows(minutes=60, first=60))
    for table in ("samples", "vertices"):
        older, newer = files_of(weeks, table)
        rows = pq.ParquetFile(newer).read()
        target = Path(str(newer).replace("version=1", "version=2"))
        target.parent.mkdir(parents=True)
        pq.write_table(rows.append_column("of_tomorrow", pa.array(["x"] * len(rows))), target)
        newer.unlink()
    pq.write_table(pq.ParquetFile(older).read().drop_columns(["slot_sharing_group", "true_rate"]), older)

    answer = look(weeks)

    assert (answer.returncode, answer.stderr, done(answer)) == (0, "", ["main/orders"])
    (job,) = json.loads(answer.stdout)["jobs"]
    assert job["runs"][0]["figures"]["duration"] == 120 * 60


def test_job_of_numbers_that_cannot_be_costs_no_other(look: Callable[[Path], Said], tmp_path: Path) -> None:
    odd = job_rows(change=lambda _, row: {**row, "busy": -0.5, "parallelism": -1, "span": float("nan")})
    weeks = a_history(tmp_path / "history", odd, job_rows("main/clicks"))

    answer = look(weeks)

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
    call: Call, weeks: Path, command: str, output: str, message: str
) -> None:
    answer = call(*COMMANDS[command], "--history", weeks, "--output", output, "--master", "none")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"--output {output}: " in answer.stderr
    assert message in answer.stderr


PROGRAM = (
    "import signal; from flink_autoscaler.standalone.cli.backtest import app;"
    "signal.signal(signal.SIGINT, signal.SIG_DFL); app()"
)


"""Ctrl-C ends it at once while it does not say otherwise, as in the command line as a whole."""


JOBS = 40


PIECES = 2


"""For every job: one configuration and the bounds."""


ON_SPARK = [pytest.mark.spark, pytest.mark.suite(name="cluster")]


MASTERS = [pytest.param("none", id="in this process"), pytest.param("local[2]", id="on Spark", marks=ON_SPARK)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "xterm"}


SOME_DONE = re.compile(r"simulating.*[^0-9/][1-9][0-9]*/[0-9]+")


"""The bar, once a run is finished."""


@dataclass
class Terminal:
    """A terminal that a process writes its errors to."""

    master: int
    text: str = ""

    def read(self) -> str:
        """Return everything that was written so far."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.text += os.read(self.master, 1 << 16).decode(errors="replace")
            except OSError:  # nobody has it open any more
                break
        return self.text


@dataclass
class Started:
    """A command in a process group of its own, as a shell starts it."""

    process: subprocess.Popen[str]
    terminal: Terminal

    def interrupt(self) -> tuple[int, str, str]:
        """Press Ctrl-C, which reaches all processes of the group; return exit code, output and errors."""
        os.killpg(self.process.pid, signal.SIGINT)
        stdout, _ = self.process.communicate(timeout=300)
        return self.process.returncode, stdout, self.terminal.read()

    def is_gone(self) -> bool:
        """Tell whether no process of the group is left."""
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


@contextmanager
def started(*arguments: str) -> Iterator[Started]:
    """Run a command with a terminal for errors; its process group is killed in the end if it is still there."""
    master, slave = pty.openpty()
    environment = {**ENVIRONMENT, "COLUMNS": "120"}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=slave, start_new_session=True
    )
    os.close(slave)
    found = Started(process, Terminal(master))
    try:
        yield found
    finally:
        if not found.is_gone():
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


@pytest.mark.parametrize("master", MASTERS)
def test_interrupt_shows_what_is_finished(tmp_path: Path, master: str) -> None:
    history = a_history(tmp_path / "history", *(job_rows(f"main/job-{number:03}") for number in range(JOBS)))
    report = tmp_path / "report.html"
    options = ("--history", str(history), "--output", str(report), "--json", "--master", master)

    with started("backtest", *options) as running:
        wait_until("a run is finished", lambda: SOME_DONE.search(running.terminal.read()), 300, interval=0.02)
        code, stdout, stderr = running.interrupt()
        wait_until("nothing is left", running.is_gone, interval=0.05)

    document = json.loads(stdout)
    assert code == 130, stderr
    assert not document["is_whole"]
    finished = sum(len(job["runs"]) + bool(job["bounds"]) for job in document["jobs"])
    assert finished > 0
    assert finished + document["pending"] == JOBS * PIECES
    assert "runs were not finished" in stderr
    assert "Traceback" not in stderr
    assert "runs were not finished" in report.read_text()
