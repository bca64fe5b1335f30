"""The guard that ends what a crashed process has left."""

import subprocess
import sys
from pathlib import Path

from testkit.clusters.flink.guard import Guard


def a_sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_guard_kills_what_is_registered_when_the_pipe_closes(tmp_path: Path) -> None:
    left, forgotten = a_sleeper(), a_sleeper()
    guard = Guard(remove=tmp_path / "gone")
    (tmp_path / "gone").mkdir()
    guard.add(left.pid)
    guard.add(forgotten.pid)
    guard.forget(forgotten.pid)

    guard.close()

    assert left.wait(timeout=300) == -9
    assert forgotten.poll() is None
    assert not (tmp_path / "gone").exists()
    forgotten.kill()
    forgotten.wait()
