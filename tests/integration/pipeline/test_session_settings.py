"""Settings of Spark reach its JVM as they are, and nobody else."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from flink_autoscaler.pipeline.spark.driver import DriverSession
from flink_autoscaler.pipeline.spark.settings import SparkSettings

pytestmark = pytest.mark.spark

SECRET: Final = "sesame: open=now #1! \\ schlüssel"
KEY: Final = "fs.s3a.secret.key"


@pytest.fixture(scope="module")
def session() -> Iterator[DriverSession]:
    conf = {f"spark.hadoop.{KEY}": SECRET, "spark.hadoop.a.folder": r"C:\temp\new"}
    session = DriverSession(SparkSettings(master="local[1]", driver_memory="500m", conf=conf))
    yield session
    session.close()


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def test_secret_reaches_the_jvm_and_is_on_no_command_line(session: DriverSession) -> None:
    context: Any = session.spark.sparkContext

    assert context._jsc.hadoopConfiguration().get(KEY) == SECRET
    assert context._jsc.hadoopConfiguration().get("a.folder") == r"C:\temp\new"
    assert not [word for word in command_line(session.pid) if "sesame" in word]


def test_settings_of_the_jvm_itself_still_count(session: DriverSession) -> None:
    words = command_line(session.pid)

    assert "-Xmx500m" in words
    assert {"-XX:+UseSerialGC", "-XX:-UsePerfData"} <= set(words)


def test_file_with_the_settings_is_read_by_its_owner_alone(session: DriverSession) -> None:
    [file] = session.scratch.glob("*.properties")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "sesame" in file.read_text()
    assert stat.S_IMODE(session.scratch.stat().st_mode) == 0o700
