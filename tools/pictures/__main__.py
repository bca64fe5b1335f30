"""``python -m pictures``: run the demo, and keep its live view and the report about it in ``docs/pictures/``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from demo.plan import DemoPlan, parse_seconds, plan_for
from demo.show import Show
from demo.stop_signals import StoppedError, StopSignals
from rich.console import Console

from pictures.browser import report_picture
from pictures.live_view import RecordingScreen
from testkit.clusters.flink.errors import HarnessError

PROJECT = Path(__file__).parents[2]
PICTURES = PROJECT / "docs" / "pictures"
BUILD = PROJECT / "build" / "pictures"
_PLAIN_WIDTH = 140
_REPORT_WIDTH = 1100
_SECONDS = "890"
"""A point of a report's chart stands for a minute at least."""


def main() -> int:
    """Make all pictures; return the exit status, 1 when the demo did not show what it promises."""
    with tempfile.TemporaryDirectory(prefix="flink-autoscaler-pictures-") as name, StopSignals() as signals:
        try:
            _make(Path(name), signals)
        except (HarnessError, subprocess.CalledProcessError) as error:
            print(f"pictures: {error}", file=sys.stderr)
            return 1
        except StoppedError as stop:
            return stop.code
    return 0


def _make(directory: Path, signals: StopSignals) -> None:
    console = Console(width=_PLAIN_WIDTH)
    screen = RecordingScreen(console)
    history = directory / "history"
    show = Show(_with_history(history), directory, console, screen=screen)
    if missing := show.run(signals):
        raise HarnessError(f"the demo did not show what it promises: {'; '.join(missing)}")
    if not screen.svg:
        raise HarnessError("no scale-up had settled when the demo ended: there is no picture of one")
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "live-view.svg").write_text(screen.svg, encoding="utf-8")
    report_picture(_report(history, since=show.start), PICTURES / "report.png", width=_REPORT_WIDTH)
    for picture in sorted(PICTURES.iterdir()):
        print(f"pictures: {picture} has {picture.stat().st_size / 1000:.0f} kB")


def _with_history(history: Path) -> DemoPlan:
    """Plan a demo of which the daemon keeps what it measured and decided."""
    plan = plan_for(parse_seconds(os.environ.get("DEMO_SECONDS", _SECONDS)))
    kept = {
        "autoscaler.history.enabled": "true",
        "autoscaler.history.path": str(history),
        "autoscaler.history.interval": "9 s",
    }
    return replace(plan, options={**plan.options, **kept})


def _report(history: Path, since: float) -> Path:
    """Write the report about the history since an instant, epoch seconds; return its file."""
    instant = datetime.fromtimestamp(since, UTC).isoformat(timespec="minutes")
    command = [str(Path(sys.executable).with_name("flink-autoscaler")), "report", "--no-forecast"]
    BUILD.mkdir(parents=True, exist_ok=True)
    page = BUILD / "report.html"
    subprocess.run([*command, "--path", str(history), "--since", instant, "--output", str(page), "--force"], check=True)
    return page


if __name__ == "__main__":
    sys.exit(main())
