"""Commands in processes of their own that load nothing: they are forked from one process that has.

Loading takes most of the time of a short command, and of the start of a daemon. Tests of how commands load, or of their
standard input, start the program itself.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, TextIO, cast

PRELOADED: Final = (
    "flink_autoscaler.standalone.cli.main",
    "flink_autoscaler.standalone.cli.run",
    "flink_autoscaler.standalone.service.serve",
    "flink_autoscaler.standalone.fetchers.flink",
    "flink_autoscaler.standalone.observability.http",
    "flink_autoscaler.standalone.settings.checks.daemon",
    "flink_autoscaler.standalone.web.serving",
    "flink_autoscaler.stores.sql.schema",
    "flink_autoscaler.stores.sql.events.handler",
    "flink_autoscaler.stores.sql.lease",
    "flink_autoscaler.stores.sql.state.store",
    "alembic.command",
    "httpcore",
    "httpx",
    "psycopg",
    "pymysql",
    "rich.table",
    "rich.tree",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.off",
    "uvicorn.main",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
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
        process = start_command(arguments, environment, files)
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout)
        stdout, stderr = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    assert process.exitcode is not None
    return subprocess.CompletedProcess(list(arguments), process.exitcode, stdout, stderr)


def start_command(arguments: Sequence[str], environment: Mapping[str, str], files: tuple[Path, Path]) -> BaseProcess:
    """Start ``flink-autoscaler``.

    Args:
        arguments: What follows the name of the program.
        environment: All variables that it has.
        files: What its standard output and standard error are added to.
    """
    process = _FORKING.Process(target=_command, args=(list(arguments), dict(environment), files))
    process.start()
    return process


def _command(arguments: list[str], environment: dict[str, str], files: tuple[Path, Path]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.stdout = _redirected(1, files[0])
    sys.stderr = _redirected(2, files[1], buffering=1, errors="backslashreplace")
    sys.argv = ["flink-autoscaler", *arguments]
    # As the program does: loading it says what Ctrl-C means.
    importlib.import_module("flink_autoscaler.standalone.__main__").main()


def _redirected(descriptor: int, file: Path, **how: Any) -> TextIO:
    """Let a standard stream lead to the end of a file."""
    with file.open("ab") as opened:
        os.dup2(opened.fileno(), descriptor)
    return cast("TextIO", open(descriptor, "w", encoding="utf-8", closefd=False, **how))
