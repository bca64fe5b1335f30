"""The demo for real: it shows what it promises, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.clusters.flink.waiting import wait_until

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).parents[2]
SOURCES = os.pathsep.join([str(PROJECT / "tools"), str(PROJECT / "tests")])


@contextmanager
def running_demo(directory: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start the demo with its temporary files in a directory; give the process and the file it prints to."""
    output = directory / "output"
    env = {**os.environ, "PYTHONPATH": SOURCES, "TMPDIR": str(directory), **environ}
    with output.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "demo"], env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    try:
        yield demo, output
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.wait()


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of processes that inherited the directory for temporary files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile, or somebody else's
        if f"TMPDIR={directory}\0".encode() in environ and command:
            found.append(command.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


@pytest.mark.spark
def test_demo_scales_a_real_job_up_and_down_and_leaves_nothing(tmp_path: Path) -> None:
    with running_demo(tmp_path, DEMO_SECONDS="240") as (demo, output):
        status = demo.wait(timeout=600)

    told = output.read_text()
    assert status == 0, told
    assert "PASSED: Flink confirmed" in told
    passes = re.search(r"(\d+) passes, (\d+) on Spark, (\d+) fell back", told)
    assert passes is not None, told
    assert int(passes[2]) > int(passes[1]) / 3
    wait_until(
        "all processes have ended", lambda: not processes_of(tmp_path), context=lambda: str(processes_of(tmp_path))
    )
    assert list(tmp_path.glob("flink-autoscaler-demo-*")) == []


@pytest.mark.spark
@pytest.mark.suite(name="long")
@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
    ],
)
def test_demo_that_is_stopped_tells_so_far_and_leaves_no_process(tmp_path: Path, number: int, status: int) -> None:
    with running_demo(tmp_path) as (demo, output):
        wait_until("the job runs", lambda: "parallelism: Source" in output.read_text(), 300, context=output.read_text)

        demo.send_signal(number)

        assert demo.wait(timeout=300) == status

    told = output.read_text()
    assert "peak lag" in told
    assert f"STOPPED by {signal.Signals(number).name}" in told
    (logs,) = tmp_path.glob("flink-autoscaler-demo-*")
    assert f"logs of the daemon and of Flink: {logs}" in told
    wait_until(
        "all processes have ended", lambda: not processes_of(tmp_path), context=lambda: str(processes_of(tmp_path))
    )
