"""Commands called as nobody should: broken configurations and files, closed streams, Ctrl-C at any instant."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flink_autoscaler.standalone.cli.main import app
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.commands import Call, command_fixture
from testkit.builders.forked_command import run_command
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, Fault

ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK", "JOB__"))},
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
}
PROGRAM = [sys.executable, "-m", "flink_autoscaler.standalone"]
INTERRUPTED = (130, -signal.SIGINT)
"""What Ctrl-C ends with; a shell shows both as 130."""

SECRET = "hunter2"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(arguments, ENVIRONMENT, timeout=300)


run = command_fixture(app)


BROKEN = [
    pytest.param("a: [1", "line 2 column 1", id="syntax"),
    pytest.param('autoscaler.realizer: "\\UFFFFFFFF"', "line 1 column", id="no such character"),
    pytest.param('autoscaler.realizer: "\\ud800"', "line 1 column", id="half a character"),
    pytest.param('autoscaler.standalone.jdbc.password-file: "/x\\0"', "jdbc.password-file (", id="NUL"),
    pytest.param(f"job.autoscaler.excluded.periods: 0 0 {'1' * 5000} ? * *", "job.autoscaler.excluded", id="cron"),
    pytest.param(f"autoscaler.forecast.build-schedule: {'1' * 5000} * * * *", "forecast.build-schedule", id="schedule"),
    pytest.param("autoscaler.clusters: [{name: a, url: 'http://u:hunter2 x@h'}]", "******@h", id="URL with a blank"),
    pytest.param("autoscaler.clusters: [{name: a, url: 'http://u:12/hunter2@h'}]", "******@h", id="URL with a slash"),
    pytest.param(
        "autoscaler.standalone: {state-store.type: JDBC, jdbc.url: 'jdbc:postgresql://u:p/hunter2@h/d'}",
        "jdbc.url has credentials before the host",
        id="database with a slash",
    ),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_run_ends_with_a_line_about_a_broken_configuration(tmp_path: Path, text: str, expected: str, run: Call) -> None:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(text)

    done = run("run", "--config", file)

    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    assert len(done.stderr) < 5_000


@pytest.mark.parametrize("text", ["u:pa/hunter2@h", "u:hunter2 x@h", "u:12/hunter2@h"])
def test_check_config_masks_passwords_that_no_url_may_have(text: str, run: Call) -> None:
    done = run("check-config", "--json", "--set", f"autoscaler.standalone.jdbc.url=jdbc:postgresql://{text}/db")

    assert done.returncode == 0, done.stderr
    values = {entry["key"]: entry["value"] for entry in json.loads(done.stdout)["values"]}
    assert values["autoscaler.standalone.jdbc.url"] == "jdbc:postgresql://******@h/db"
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("explain", "\x1b[2J\u202eorders", "--daemon-url", "http://127.0.0.1:1"), id="of a command"),
        pytest.param(("check-config", "--set", "autoscaler.realizer=\x1b[2J\u202ekey"), id="of the configuration"),
        pytest.param(("\x1b[2J\u202enone",), id="of the command line"),
    ],
)
def test_an_error_moves_no_cursor(arguments: tuple[str, ...]) -> None:
    said = call(*arguments)

    assert said.returncode != 0
    assert said.stderr
    assert not {"\x1b", "\u202e"} & {*said.stdout, *said.stderr}


def test_a_named_pipe_as_configuration_is_refused_at_once(tmp_path: Path, run: Call) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    done = run("run", "--config", pipe)

    assert (done.returncode, done.stderr) == (2, f"error: {pipe}: a named pipe, expected a file\n")


@pytest.mark.parametrize("given", ["<(echo autoscaler.http.port: 1234)", "/dev/stdin <<< 'autoscaler.http.port: 1234'"])
def test_what_a_shell_pipes_in_is_a_configuration(given: str) -> None:
    command = f"{' '.join(PROGRAM)} check-config --json --config {given}"

    done = subprocess.run(
        ["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    values = {entry["key"]: entry["value"] for entry in json.loads(done.stdout)["values"]}
    assert values["autoscaler.http.port"] == "1234"


@pytest.mark.parametrize("arguments", [["jobs"], ["--help"]])
def test_a_closed_standard_output_is_told(arguments: list[str]) -> None:
    with FakeFlink() as flink:
        flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
        flink.add_job("orders")
        host, port = flink.url.removeprefix("http://").split(":")
        prefix = "autoscaler.standalone.fetcher.flink-cluster"
        sets = [] if arguments[0].startswith("-") else [f"{prefix}.host={host}", f"{prefix}.port={port}"]
        more = " ".join(f"--set {each}" for each in sets)

        done = subprocess.run(
            ["sh", "-c", f"{' '.join(PROGRAM)} {' '.join(arguments)} {more} >&-"],
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )

    assert (done.returncode, done.stderr) == (1, "error: standard output is closed\n")


def test_a_closed_standard_error_keeps_no_command_from_its_work(tmp_path: Path) -> None:
    command = f"{' '.join(PROGRAM)} check-config --json 2>&- ; echo $? > {tmp_path / 'code'}"

    subprocess.run(["sh", "-c", command], env=ENVIRONMENT, capture_output=True, timeout=300, check=True)

    assert (tmp_path / "code").read_text().strip() == "0"


def test_a_daemon_runs_with_all_streams_closed(tmp_path: Path) -> None:
    with FakeFlink() as flink:
        flink.add_job("orders")
        host, port = flink.url.removeprefix("http://").split(":")
        prefix = "autoscaler.standalone.fetcher.flink-cluster"
        sets = [f"{prefix}.host={host}", f"{prefix}.port={port}", "autoscaler.engine.kind=inline"]
        sets += ["autoscaler.http.port=0", "autoscaler.standalone.control-loop.interval=100ms"]
        more = " ".join(f"--set {each}" for each in sets)
        environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path)}
        process = subprocess.Popen(["sh", "-c", f"exec {' '.join(PROGRAM)} run {more} <&- >&- 2>&-"], env=environment)
        try:
            wait_until("three passes", lambda: flink.paths("GET").count("/jobs/overview") >= 3, 300)
            process.send_signal(signal.SIGTERM)

            assert process.wait(300) == 0
        finally:
            process.kill()
            process.wait(300)


@contextmanager
def running(*arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process group of its own, as a shell starts it."""
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(folder / "state")}
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_caught(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Tell whether the interpreter still has its own handler: a traceback, until our first line is reached."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    ignored, caught = (int(line.split()[1], 16) for line in status if line.startswith(("SigIgn:", "SigCgt:")))
    # The interpreter ignores SIGPIPE before it catches SIGINT.
    return not ignored >> (signal.SIGPIPE - 1) & 1 or bool(caught >> (number - 1) & 1)


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    if "KeyboardInterrupt" in stderr and "flink_autoscaler/" not in stderr:
        return stdout, ""  # the interpreter itself was just beginning: no file of ours is in the traceback
    assert process.returncode in INTERRUPTED, stderr
    assert "Traceback" not in stderr
    return stdout, stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["init", "--jobmanager-url", "{url}", "--output", "new.yaml"], id="init"),
        pytest.param(["once", "--dry-run", "{sets}"], id="once"),
    ],
)
def test_ctrl_c_while_a_cluster_does_not_answer_leaves_nothing(tmp_path: Path, arguments: list[str]) -> None:
    with FakeFlink() as flink:
        flink.fault("/", Fault.HANG)
        port = flink.url.rpartition(":")[2]
        prefix = "autoscaler.standalone.fetcher.flink-cluster"
        sets = ["--set", f"{prefix}.host=127.0.0.1", "--set", f"{prefix}.port={port}"]
        given = [part for each in arguments for part in (sets if each == "{sets}" else [each.format(url=flink.url)])]
        with running(*given, folder=tmp_path) as process:
            wait_until("a request", lambda: flink.requests, 300)

            interrupted(process)

    left = [path.name for path in tmp_path.iterdir() if path.name != "state"]
    assert left == []


@pytest.mark.parametrize(
    ("arguments", "instant"),
    [
        pytest.param(
            ["history", "export", "samples", "--path", "{history}", "--output", "samples.csv"], 0.001, id="export"
        ),
        pytest.param(["replay", "--vectors", "{vectors}", "--output", "out.json"], 0.6, id="replay"),
    ],
)
def test_ctrl_c_at_any_instant_leaves_nothing_half_written(
    tmp_path: Path, arguments: list[str], instant: float
) -> None:
    places = {
        "history": a_history(tmp_path / "history", *(job_rows(f"main/job-{n:03}") for n in range(3))),
        "vectors": Path(__file__).parents[2] / "fixtures" / "vectors" / "scenarios_00.json.gz",
    }
    work = tmp_path / "work"
    work.mkdir()
    with running(*(each.format(**places) for each in arguments), folder=work) as process:
        wait_until("the first line of ours", lambda: not is_caught(process, signal.SIGINT), 300, interval=0.001)
        try:
            process.wait(instant)
        except subprocess.TimeoutExpired:
            interrupted(process)

    assert not [path.name for path in work.iterdir() if path.name.endswith(".partial")]
    for path in (path for path in work.iterdir() if path.suffix == ".json"):
        assert json.loads(path.read_text())


VECTORS = {"format": "autoscaler-behaviour-vectors/1"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.json", b"", id="empty"),
        pytest.param("a.json", b"\xff\xfe", id="not UTF-8"),
        pytest.param("a.json", b"[" * 200_000, id="nested"),
        pytest.param("a.json", b"[]", id="a list"),
        pytest.param("a.json", json.dumps({"format": 5}).encode(), id="another format"),
        pytest.param("a.json", json.dumps(VECTORS).encode(), id="no kind"),
        pytest.param("a.json", json.dumps({**VECTORS, "kind": "functions", "cases": 5}).encode(), id="no cases"),
        pytest.param("a.json", json.dumps({**VECTORS, "kind": "functions", "cases": [{}]}).encode(), id="empty case"),
        pytest.param(
            "a.json", json.dumps({**VECTORS, "kind": "x", "cases": [{"id": "1", "ticks": [5]}]}).encode(), id="odd tick"
        ),
        pytest.param("a.json.gz", b"no gzip", id="no gzip"),
        pytest.param("a.json.gz", gzip.compress(json.dumps(VECTORS).encode())[:-9], id="cut off"),
    ],
)
def test_replay_of_a_broken_file_says_so(tmp_path: Path, name: str, content: bytes, run: Call) -> None:
    (tmp_path / name).write_bytes(content)

    for option in ("--vectors", "--record"):
        more = ("--output", str(tmp_path / "out.json")) if option == "--vectors" else ()
        done = run("replay", option, str(tmp_path / name), *more)

        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"error: {option}")
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_replay_of_a_named_pipe_does_not_wait(tmp_path: Path, run: Call) -> None:
    os.mkfifo(tmp_path / "pipe")

    done = run("replay", "--record", tmp_path / "pipe")

    assert (done.returncode, done.stderr) == (
        2,
        f"error: --record {tmp_path / 'pipe'}: a named pipe, expected a file\n",
    )
