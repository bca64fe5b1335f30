"""``backtest`` and ``tune``, as users run them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flink_autoscaler.standalone.cli.backtest import app
from testkit.builders.backtests import a_history, arrival_rows, job_rows
from testkit.builders.commands import Call, command_fixture
from testkit.builders.history import NOON_MS, part_files

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

    told = "1 job: a vertex whose lag does not grow is scaled up with 0% head-room left; --grid utilization.max="
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
