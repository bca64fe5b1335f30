from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from installing.failures import SetupError, StoppedError
from installing.work import Aside, Work


def test_a_program_that_fails_for_a_usual_reason_is_told_in_a_sentence(tmp_path: Path) -> None:
    with Work(tmp_path / "setup.log") as work, pytest.raises(SetupError, match="the disk is full"):
        work.run([sys.executable, "-c", "raise SystemExit('No space left on device')"])


def test_a_program_that_fails_for_another_reason_is_told_with_the_end_of_its_output(tmp_path: Path) -> None:
    with Work(tmp_path / "setup.log") as work, pytest.raises(SetupError, match="a reason of its own") as caught:
        work.run([sys.executable, "-c", "raise SystemExit('a reason of its own')"])

    assert "setup.log" in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_programs_that_run_aside(tmp_path: Path, number: signal.Signals) -> None:
    mark = tmp_path / "pid"
    program = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(300)"
    with pytest.raises(StoppedError) as caught:
        _run_until_signalled(tmp_path / "setup.log", program, mark, number)

    assert caught.value.code == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def _run_until_signalled(log: Path, program: str, mark: Path, number: int) -> None:
    with Work(log) as work:
        aside = Aside(lambda: work.run([sys.executable, "-c", program]))
        threading.Thread(target=_signal_when_written, args=(mark, number)).start()
        aside.wait()


def _signal_when_written(path: Path, number: int) -> None:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(os.getpid(), number)
