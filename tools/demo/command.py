"""The command: environment in, exit status out."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from demo.daemon import DEFAULT_ENGINE
from demo.plan import DEFAULT_SECONDS, SLO, SLO_SECONDS, DemoPlan, PlanError, parse_policy, parse_seconds, plan_for
from demo.screen import print_summary
from demo.show import Show
from demo.stop_signals import StoppedError, StopSignals
from demo.story import Story
from testkit.clusters.flink.errors import HarnessError

_PLAIN_WIDTH = 140
# Of Flink's directory: large, and of no use to a reader.
_BULKY = ("flink/checkpoints", "flink/savepoints", "flink/tmp", "flink/upload", "spark")


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Run the demo as the environment says; return the exit status.

    ``POLICY`` is the one that decides, ``DEMO_SECONDS`` its length, ``DEMO_KEEP=1`` keeps Flink and
    the daemon's page alive at the end, and the logs of a success too,
    ``DEMO_ENGINE=inline`` does without Spark.

    Returns:
        0 when the job was scaled up and down, the lag drained and the passes ran where they should, 1 when not, 2 for
        an unusable request, 130 after Ctrl-C, 143 after SIGTERM.
    """
    try:
        plan = _plan(environ)
        engine = _engine(environ)
    except PlanError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    directory = Path(tempfile.mkdtemp(prefix="flink-autoscaler-demo-"))
    is_kept = environ.get("DEMO_KEEP") == "1"
    show = Show(plan, directory, _console(), engine, is_kept=is_kept)
    try:
        status = _run(show)
    except BaseException:
        _clean_up(show, is_kept=True)
        raise
    _clean_up(show, is_kept=status != 0 or is_kept)
    return status


def _plan(environ: Mapping[str, str]) -> DemoPlan:
    policy = parse_policy(environ.get("POLICY", ""))
    default = SLO_SECONDS if policy == SLO else DEFAULT_SECONDS
    return plan_for(parse_seconds(environ.get("DEMO_SECONDS", ""), default), policy)


def _engine(environ: Mapping[str, str]) -> str:
    engine = environ.get("DEMO_ENGINE") or DEFAULT_ENGINE
    if engine not in (DEFAULT_ENGINE, "inline"):
        raise PlanError(f"DEMO_ENGINE is {engine!r}; it must be {DEFAULT_ENGINE} or inline")
    return engine


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)


def _run(show: Show) -> int:
    with StopSignals() as signals:
        try:
            missing = show.run(signals)
            line, status = verdict(show.story, missing), int(bool(missing))
        except StoppedError as stop:
            line, status = f"STOPPED by {stop}", stop.code
        except HarnessError as error:
            line, status = f"FAILED: {error}", 1
        signals.tidy_up()
        if show.story.looks:
            print_summary(show.console, show.story, show.start, show.totals)
        style = "bold red" if status else "bold green"
        show.console.print(line, markup=False, highlight=False, soft_wrap=True, style=style)
    return status


def _clean_up(show: Show, *, is_kept: bool) -> None:
    for part in (show.directory / name for name in _BULKY) if is_kept else (show.directory,):
        shutil.rmtree(part, ignore_errors=True)
    if is_kept:
        show.console.print(f"logs of the daemon and of Flink: {show.directory}", markup=False, soft_wrap=True)


def verdict(story: Story, missing: list[str]) -> str:
    """Return the one line that says whether it worked."""
    if missing:
        return f"FAILED: {'; '.join(missing)}"
    ups = sum(rescale.is_up for rescale in story.rescales)
    counts = [(ups, "scale-up"), (len(story.rescales) - ups, "scale-down")]
    told = " and ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"PASSED: Flink confirmed {told}, and the lag drained"
