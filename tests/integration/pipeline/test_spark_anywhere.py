"""An embedded Spark starts on hosts and for users that have less than a usual one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="spark")]

STARTING = """
from flink_autoscaler.pipeline.spark.driver import DriverSession
from flink_autoscaler.pipeline.spark.settings import SparkSettings

session = DriverSession(SparkSettings(master="local[1]"))
print("counted", session.spark.sparkContext.parallelize(range(7), 1).map(lambda each: each + 1).count())
session.close()
"""

NO_NAME = ("unshare", "--user", "--map-user=54321")
OWN_HOST_NAME = ("unshare", "--user", "--map-root-user", "--uts")


def require(*command: str) -> None:
    if (
        shutil.which(command[0]) is None
        or subprocess.run([*command, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip(f"this machine does not let a process have namespaces of its own: {shlex.join(command)}")


def started(script: Path, command: tuple[str, ...], *, without: tuple[str, ...] = ()) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [*command, sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def script(tmp_path: Path) -> Path:
    script = tmp_path / "start.py"
    script.write_text(STARTING)
    return script


def test_spark_starts_for_a_user_without_an_entry_in_passwd(script: Path) -> None:
    require(*NO_NAME)

    assert "counted 7" in started(script, NO_NAME, without=("HOME", "USER", "LOGNAME"))


def test_spark_starts_on_a_host_whose_own_name_does_not_resolve(script: Path) -> None:
    require(*OWN_HOST_NAME)
    renamed = (*OWN_HOST_NAME, "sh", "-c", 'hostname has-no-address.invalid && exec "$0" "$@"')

    assert "counted 7" in started(script, renamed)
