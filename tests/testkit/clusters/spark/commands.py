"""Commands of ours in processes of their own, as users run them: each has a Spark driver or client of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from flink_autoscaler.pipeline.spark.settings import SparkSettings

TIMEOUT: Final = 300.0
"""Seconds for a command that takes fifteen on an idle machine."""

Process = subprocess.Popen[str]
Ended = subprocess.CompletedProcess[str]


def start(*arguments: str | Path, variables: Mapping[str, str] | None = None) -> Process:
    """Start a command; nothing of this process's configuration reaches it.

    Args:
        arguments: Of the command line.
        variables: Environment variables on top of the usual ones.
    """
    dropped = ("AUTOSCALER", "FLINK", "HADOOP", "YARN", "PYSPARK", "SPARK")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    environment = {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(variables or {})}
    command = [sys.executable, "-m", "flink_autoscaler.standalone", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def await_command(process: Process, seconds: float = TIMEOUT) -> Ended:
    """Wait for the end of a command; one that takes longer is ended, and that is an error."""
    with process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(*arguments: str | Path, variables: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    return await_command(start(*arguments, variables=variables))


def document(command: Ended) -> dict[str, Any]:
    """Return what a command printed as JSON; it has to have ended well."""
    assert command.returncode == 0, f"{command.returncode}: {command.stderr}"
    found: dict[str, Any] = json.loads(command.stdout)
    return found


def engine_options(settings: SparkSettings) -> list[str]:
    """Return the options that say how Spark is run."""
    engine = {
        "spark-master": settings.master,
        **{f"spark-config.{key}": value for key, value in settings.conf.items()},
        **({"python-files": ";".join(settings.python_files)} if settings.python_files else {}),
    }
    return [word for key, value in engine.items() for word in ("--set", f"autoscaler.engine.{key}={value}")]
