"""Starting Spark's own processes from the ``pyspark`` package."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.process import FlinkProcess
from testkit.clusters.flink.waiting import wait_until


def spark_home() -> Path:
    """Return the folder of the ``pyspark`` package, which is a complete Spark."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def spark_class(
    name: str, arguments: Iterable[str], folder: Path, guard: Guard, variables: Mapping[str, str]
) -> FlinkProcess:
    """Start a main class of Spark; nothing of the Python of this process reaches it."""
    kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "HOME", "LANG") if key in os.environ}
    given = {**kept, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    environment = ["env", "-i", *(f"{key}={value}" for key, value in given.items())]
    command = [*environment, str(spark_home() / "bin" / "spark-class"), *arguments]
    return FlinkProcess(name, command, folder / f"{name}.log", guard)


def wait_for_port(process: FlinkProcess, port: int, seconds: float = 120.0) -> None:
    """Wait until a process listens on a loopback port."""

    def listens() -> bool:
        process.require_running()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    wait_until(f"{process.name} listens on {port}", listens, seconds, context=process.log_tail)


def free_port() -> int:
    """Return a loopback port that is free right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
