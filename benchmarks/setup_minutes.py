"""What a newcomer waits: from `make demo` in a fresh clone to the end of the set-up and to the first rescale.

Run: python benchmarks/setup_minutes.py [--commit HEAD] [--ways fresh,second,busy] [--seconds 300] [--keep DIRECTORY]
Needs git, make, a JDK and the package index; not part of `make bench`, since it downloads about 1 GB per way. `fresh`
has empty caches (a home of its own), `second` is another clone beside the caches of `fresh`, `busy` is `fresh` while a
loop occupies every core. The set-up ends where Flink is started: all is installed, downloaded and compiled by then. The
first rescale is the one that Flink has confirmed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TIMEOUT = 1800.0
"""Seconds after which nothing is expected any more."""
_OWN_VARIABLES = ("FLINK_AUTOSCALER_CACHE", "PIP_CACHE_DIR", "UV_CACHE_DIR", "XDG_CACHE_HOME", "VIRTUAL_ENV")
_BURN = "while True: pass"


@dataclass(frozen=True)
class Waits:
    """Seconds from the command on; None where it did not come so far."""

    setup: float | None
    rescale: float | None
    load: float


def main() -> None:
    wanted = _parse()
    with ExitStack() as stack:
        root = Path(wanted.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="setup-minutes-")))
        print(f"{'way':8} {'set-up':>12} {'first rescale':>14} {'load before':>12}", flush=True)
        for way in wanted.ways.split(","):
            home = root / ("home-busy" if way == "busy" else "home")
            if way != "second":
                shutil.rmtree(home, ignore_errors=True)
            waits = measure(way, wanted.commit, root / f"clone-{way}", home, wanted.seconds)
            print(f"{way:8} {_text(waits.setup):>12} {_text(waits.rescale):>14} {waits.load:>12.1f}", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the first set-up and the way to the first rescale.")
    parser.add_argument("--commit", default="HEAD", help="what is cloned")
    parser.add_argument("--ways", default="fresh,second,busy", help="in this order; second needs a fresh before it")
    parser.add_argument("--seconds", type=int, default=300, help="length of the demo, DEMO_SECONDS")
    parser.add_argument("--keep", help="directory for clones, caches and output.log; removed afterwards without")
    return parser.parse_args()


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def measure(way: str, commit: str, clone: Path, home: Path, seconds: int) -> Waits:
    """Clone, run ``make demo`` until Flink has confirmed a rescale, and stop it as Ctrl-C does."""
    shutil.rmtree(clone, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
    subprocess.run(["git", "checkout", "--quiet", _resolved(commit)], cwd=clone, check=True)
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        if way == "busy":
            stack.enter_context(busy_cores())
        return Waits(*_run(clone, home, seconds), load)


def _resolved(commit: str) -> str:
    done = subprocess.run(["git", "rev-parse", commit], cwd=PROJECT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(clone: Path, home: Path, seconds: int) -> tuple[float | None, float | None]:
    kept = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    environ = {**kept, "HOME": str(home), "PYTHONUNBUFFERED": "1", "DEMO_SECONDS": str(seconds)}
    started = time.monotonic()
    make = subprocess.Popen(
        ["make", "demo"],
        cwd=clone,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return _follow(make, started, clone.with_suffix(".log"))
    finally:
        os.killpg(make.pid, signal.SIGINT)
        make.wait(60)


def _follow(make: subprocess.Popen[str], started: float, log: Path) -> tuple[float | None, float | None]:
    setup: float | None = None
    with log.open("w") as kept:
        for line in make.stdout or ():
            passed = time.monotonic() - started
            kept.write(f"{passed:7.1f} {line}")
            if setup is None and line.startswith("starting Flink "):
                setup = passed
            if re.search(r"confirmed: .* runs with", line):
                return setup, passed
            if passed > TIMEOUT:
                break
    return setup, None


@contextmanager
def busy_cores() -> Iterator[None]:
    """Occupy every core with a loop."""
    loops = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    main()
