"""The command: what is wanted in, exit status out."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

from downloads.pip_settings import read_settings

from installing.ahead import Ahead
from installing.environment import Environment
from installing.failures import AGAIN, SetupError, StoppedError, explain
from installing.work import Aside, Work, warn

EXTRAS = ("demo", "test", "dev")
"""Each one has what those before it have."""
_TIDY_TIMEOUT = 5.0


def main(arguments: list[str]) -> int:
    """Install; return 0, 1 when something is missing, 130 after Ctrl-C or 143 after SIGTERM.

    The stamps ``.setup-<extra>`` in the environment tell the Makefile what is installed.
    """
    wanted = _parse(arguments)
    asides: list[Aside] = []
    status = 0
    started = time.monotonic()
    try:
        with Work(Path("build/setup.log").absolute()) as work:
            _set_up(wanted, work, asides)
    except StoppedError as stop:
        warn(f"stopped; {AGAIN.removeprefix('then ')}")
        status = stop.code
    except SetupError as error:
        warn(str(error))
        status = 1
    except OSError as error:
        warn(explain(str(error)) or str(error))
        status = 1
    for aside in asides:
        aside.let_end(_TIDY_TIMEOUT if status else 0.0)
    if status:
        sys.stdout.flush()
        os._exit(status)  # a thread may wait for an answer that never comes
    print(f"setup: done after {time.monotonic() - started:.0f} s", flush=True)
    return status


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="installing", description="Set up .venv for one of the Makefile's targets.")
    parser.add_argument("extra", choices=EXTRAS)
    parser.add_argument("--flink", action="append", default=[], metavar="VERSION", help="make its jars ready, too")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    return parser.parse_args(arguments)


def _set_up(wanted: argparse.Namespace, work: Work, asides: list[Aside]) -> None:
    environment = Environment(wanted.venv.absolute(), work)
    environment.make(wanted.python)
    settings = read_settings(environment.python)
    ahead = Ahead(work, environment, settings)
    is_known, with_uv = threading.Event(), False

    def wait_for_uv() -> bool:
        while not is_known.wait(0.2):
            work.require_going_on()
        return with_uv

    spark = Aside(lambda: ahead.spark(Path(), wait_for_uv))
    flink = Aside(lambda: ahead.flink(wanted.flink))
    asides += [spark, flink]
    with_uv = environment.add_uv()
    is_known.set()
    spark.wait()
    environment.install(wanted.extra, settings, ahead.wheels, with_uv=with_uv)
    flink.wait()
    for extra in EXTRAS[: EXTRAS.index(wanted.extra) + 1]:
        (wanted.venv / f".setup-{extra}").touch()
