"""A program that is told to end while Spark starts leaves no JVM behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from testkit.clusters.flink.waiting import wait_until

pytestmark = pytest.mark.spark

PROGRAM = """
from flink_autoscaler.pipeline.tables.files import own_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings

with own_session(SparkSettings(master="local[1]")):
    print("started", flush=True)
"""
SECONDS = 300.0
"""For a JVM to start or to end on a busy machine."""


def jvms_with(mark: str) -> list[int]:
    """Return the ids of Java processes that have a text in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_java = (process / "comm").read_text().strip() == "java"
            if is_java and mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it ended meanwhile
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.suite(name="spark"))])
def test_no_jvm_stays_when_its_program_is_told_to_end_while_it_starts(number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    program = PROGRAM if number is signal.SIGINT else f"import signal, sys\nsignal.signal(15, sys.exit)\n{PROGRAM}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TEST_MARK": mark}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        wait_until("a JVM starts", lambda: jvms_with(mark), SECONDS, interval=0.02)
        process.send_signal(number)
        told, _ = process.communicate(timeout=SECONDS)
        wait_until("the JVM has ended", lambda: not jvms_with(mark), SECONDS)
    finally:
        for left in jvms_with(mark):
            os.kill(left, signal.SIGKILL)
        process.kill()
        process.wait()

    assert told == b""
    assert process.returncode != 0
