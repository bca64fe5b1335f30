"""Ctrl-C while ``backtest`` or ``tune`` runs: what is finished is shown, and whatever was started is ended."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.builders.backtests import a_history, job_rows
from testkit.clusters.flink.waiting import wait_until

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
