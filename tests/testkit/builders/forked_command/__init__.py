"""Commands in processes of their own that load nothing: they are forked from one process that has.

Loading takes most of the time of a short command. Tests of how commands load, or of their standard input, start the
program itself.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from flink_autoscaler.standalone.cli.main import main

PRELOADED: Final = (
    "flink_autoscaler.standalone.cli.main",
    "flink_autoscaler.standalone.service.serve",
    "flink_autoscaler.stores.sql.schema",
    "flink_autoscaler.stores.sql.lease",
    "alembic.command",
    "httpx",
    "psycopg",
    "pymysql",
    "rich.table",
    "rich.tree",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
)
"""What commands load; what there is not is left out."""

_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(list(PRELOADED))


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], *, timeout: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """Run ``flink-autoscaler`` to its end.

    Args:
        arguments: What follows the name of the program.
        environment: All variables that it has.
        timeout: Seconds after which it is killed.

    Raises:
        subprocess.TimeoutExpired: It took too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "stdout"), Path(folder, "stderr")
        process = _FORKING.Process(target=_command, args=(list(arguments), dict(environment), files))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout)
        stdout, stderr = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    assert process.exitcode is not None
    return subprocess.CompletedProcess(list(arguments), process.exitcode, stdout, stderr)


def _command(arguments: list[str], environment: dict[str, str], files: tuple[Path, Path]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdout, sys.stderr = _redirected(1, files[0]), _redirected(2, files[1])
    sys.argv = ["flink-autoscaler", *arguments]
    main()


def _redirected(descriptor: int, file: Path) -> io.TextIOWrapper:
    """Let a standard stream lead into a file."""
    with file.open("wb") as opened:
        os.dup2(opened.fileno(), descriptor)
    return open(descriptor, "w", encoding="utf-8", closefd=False)
