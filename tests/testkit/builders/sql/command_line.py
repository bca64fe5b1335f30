"""The command line as users run it, with a database."""

from __future__ import annotations

import os
import subprocess
import sys

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.builders.forked_command import run_command

PREFIX = "autoscaler.standalone.jdbc"


def environment(settings: DatabaseSettings) -> dict[str, str]:
    """Return the variables of a process that may use a database; time zone and password among them."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))}
    extra = {"TZ": "UTC", "JDBC_PWD": settings.password or ""}
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **extra}


def command(settings: DatabaseSettings, *arguments: str) -> list[str]:
    """Return the command line for a command and its options."""
    given = ["--set", f"{PREFIX}.url={settings.url}"]
    if settings.username:
        given += ["--set", f"{PREFIX}.username={settings.username}"]
    return [sys.executable, "-m", "flink_autoscaler.standalone", *arguments, *given]


def call(settings: DatabaseSettings, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return run_command(command(settings, *arguments)[3:], environment(settings))
