"""A cluster that lies for long and then tells the truth: back to normal within a window, and nothing learned stays."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.hostile_flink.cluster import HostileCluster
from testkit.scenarios.hostile_flink.daemon import RunningDaemon, settings_of
from testkit.scenarios.hostile_flink.judging import Verdict
from testkit.scenarios.hostile_flink.lies import Scope, catalogue, chosen
from testkit.scenarios.hostile_flink.server import Servers

INTERVAL = 0.25
WINDOW = 6
"""Passes of a metric window."""

LIES = 60


def options(slower: int) -> dict[str, str]:
    interval = round(slower * INTERVAL * 1000)
    return {
        "job.autoscaler.metrics.window": f"{interval * WINDOW} ms",
        "autoscaler.standalone.control-loop.interval": f"{interval} ms",
        "job.autoscaler.flink.rest-client.timeout": f"{round(0.8 * interval)} ms",
    }


def test_a_cluster_that_lied_for_long_is_back_within_a_window(tmp_path: Path) -> None:
    """On a machine that is too busy to read a cluster in a quarter of a second: at a slower pace."""
    for slower in (1, 8):
        verdicts, tracebacks = told_lies(tmp_path / str(slower), options(slower))
        missed = [verdict.lie for verdict in verdicts if verdict.wrong or verdict.missed]
        if not (missed or verdicts[-1].faults):
            break

    assert (tracebacks, missed) == ([], [])
    assert verdicts[-1].faults == {}
    assert 0 < verdicts[-1].back_after <= WINDOW + 4


def told_lies(folder: Path, options: Mapping[str, str]) -> tuple[list[Verdict], list[str]]:
    """Tell a daemon all lies and then the truth; it may have learned nothing from them.

    Returns:
        What became of each lie, and tracebacks.
    """
    folder.mkdir()
    verdicts: list[Verdict] = []
    tracebacks: list[str] = []
    done = threading.Event()
    kinds = (Scope.JOB, Scope.ENTRY, Scope.CLUSTER)
    drawn = chosen(LIES, 7, [lie for lie in catalogue() if lie.scope in kinds])
    lies = deque(replace(lie, passes=1) for lie in drawn)
    last = str(lies[-1])

    def take(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if verdict.lie == last:
            done.set()

    cluster = HostileCluster("main", [lies], limit=60.0, on_verdict=take, steps_every=10**9, without_pause=True)
    with Servers() as servers:
        settings = settings_of({"main": {"url": servers.serve(cluster.respond)}}, folder, options)
        with RunningDaemon(
            settings, on_report=cluster.after_pass, on_traceback=lambda *told: tracebacks.append(" ".join(told))
        ):
            wait_until("the end of all lies", done.is_set, 300)
    sick, healthy = cluster.sick_jobs()[0], cluster.healthy

    states = {job.name: learned(folder, f"main/{job.name}") for job in (sick, healthy)}
    assert states[sick.name] == states[healthy.name]
    return verdicts, tracebacks


def learned(folder: Path, job_key: str) -> dict[str, object]:
    """Return what the daemon keeps about a job beyond its window."""
    database = Database(DatabaseSettings(f"jdbc:sqlite:{folder / 'autoscaler.db'}"))
    store = SqlStateStore(database)
    state = store.load(job_key)
    store.close()
    database.close()
    supervision = state.supervision
    return {
        "history": state.history,
        "tracking": state.tracking,
        "overrides": state.overrides,
        "delayed": state.delayed,
        "policies": state.policies,
        "forecast": state.forecast,
        "past": supervision.past,
        "current": supervision.current,
        "quarantine": supervision.quarantine,
        "pause": supervision.pause,
        "initial": supervision.initial,
        "last stable": supervision.last_stable,
    }
