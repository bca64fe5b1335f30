"""The process in which a daemon is lied to: takes lies from a file, and tells on standard output what became of them.

One JSON object per line: ``{"verdict": ...}`` for every lie, ``{"beat": ...}`` every half second, ``{"end": ...}``.
A daemon that hangs takes this process with it; whoever started it notices that no line comes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TextIO

from testkit.scenarios.hostile_flink.cluster import HostileCluster, Queue
from testkit.scenarios.hostile_flink.daemon import LIMIT, RunningDaemon, settings_of
from testkit.scenarios.hostile_flink.judging import Verdict
from testkit.scenarios.hostile_flink.lies import Lie, Scope
from testkit.scenarios.hostile_flink.server import Servers
from testkit.scenarios.hostile_flink.tricks import prepare

MOST_GROWTH: Final = 150.0
"""MB by which one answer may make the process grow for a moment: the longest answer that is read has 8 MB."""

_BEAT: Final = 0.5
_SHARED: Final = frozenset({Scope.LIST, Scope.CLUSTER})


class Teller:
    """Writes lines, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def tell(self, **line: Any) -> None:
        """Write a line at once."""
        with self._lock:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


def clusters_for(lies: Sequence[Lie], plan: Mapping[str, Any], tell: Teller) -> list[HostileCluster]:
    """Return clusters with so many jobs to lie about, and one more that is never lied about."""
    shared: Queue = deque(lie for lie in lies if lie.scope in _SHARED)
    others: Queue = deque(lie for lie in lies if lie.scope not in _SHARED)
    slots, together = plan["slots"], plan["jobs_per_cluster"]
    alone = max(1, round(slots * 0.2)) if shared else 0
    groups = -(-max(1, slots - alone) // together) if others else 0
    queues: list[list[Queue]] = [[], *[[shared] for _ in range(alone)], *[[others] * together] * groups]
    return [
        HostileCluster(
            f"cluster-{number}",
            each,
            limit=max(LIMIT, plan["interval"] + 2.0),
            on_verdict=lambda verdict: tell.tell(verdict=verdict.document()),
            steps_every=plan["steps_every"],
            interval=plan["interval"],
            engine=plan["engine"],
        )
        for number, each in enumerate(queues)
    ]


def run(plan: Mapping[str, Any], tell: Teller, folder: Path) -> None:
    """Tell all lies of a plan, whose fields are those of :class:`testkit.scenarios.hostile_flink.running.Plan`."""
    lies = [Lie.of(text) for text in plan["lies"]]
    if any("bomb" in lie.what for lie in lies):
        prepare()
    interval = float(plan["interval"])
    clusters = clusters_for(lies, plan, tell)
    by_name = {cluster.name: cluster for cluster in clusters}

    def saw(cluster: str, job_key: str, text: str) -> None:
        if cluster in by_name:
            by_name[cluster].saw_traceback(job_key, text)
        else:
            told = [lie for each in clusters for lie in each.active()]
            tell.tell(verdict=Verdict("", tracebacks=[f"{text} while {told[:10]}"]).document())

    with ExitStack() as parts:
        servers = parts.enter_context(Servers())
        entries = {cluster.name: {"url": servers.serve(cluster.respond)} for cluster in clusters}
        options = {"autoscaler.standalone.control-loop.interval": f"{interval:g} s", **plan["options"]}
        settings = settings_of(entries, folder, options)
        parts.enter_context(
            RunningDaemon(
                settings, on_report=lambda report: by_name[report.cluster].after_pass(report), on_traceback=saw
            )
        )
        deadline = time.monotonic() + plan["seconds"]
        least = plan["passes"]
        while time.monotonic() < deadline and not _is_done(clusters, least):
            tell.tell(beat=_beat(clusters))
            _watch_memory(clusters)
            time.sleep(_BEAT)
        tell.tell(end=_beat(clusters))
        # The passes that run may hang on a lie: nobody waits for them.
        os._exit(0)


def _is_done(clusters: Sequence[HostileCluster], least: int) -> bool:
    return all(cluster.is_done() and cluster.passes >= least for cluster in clusters)


def _beat(clusters: Sequence[HostileCluster]) -> dict[str, Any]:
    return {
        "passes": sum(cluster.passes for cluster in clusters),
        "evaluated": sum(cluster.evaluated for cluster in clusters),
        "sent": sum(cluster.sent for cluster in clusters),
        "engines": dict(sum((cluster.engines for cluster in clusters), Counter())),
        "active": [lie for cluster in clusters for lie in cluster.active()],
        "peak": max(_PEAK[0], _memory("VmHWM")),
        "unknown": sorted(set().union(*(cluster.unknown for cluster in clusters))),
        "resident": _memory("VmRSS"),
    }


def _watch_memory(clusters: Sequence[HostileCluster]) -> None:
    """Tell the clusters when the process has been far larger, since the last time, than it is now."""
    grown = _memory("VmHWM") - _memory("VmRSS")
    if grown > MOST_GROWTH:
        for cluster in clusters:
            cluster.saw_memory(grown)
    _PEAK[0] = max(_PEAK[0], _memory("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")


_PEAK: Final = [0.0]
"""MB resident at most, as far as it was seen: the kernel is told to forget it again and again."""


def _memory(name: str) -> float:
    lines: Iterator[str] = (line for line in Path("/proc/self/status").read_text().splitlines() if name in line)
    return int(next(lines).split()[1]) / 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as name:
        run(json.loads(Path(sys.argv[1]).read_text()), Teller(sys.stdout), Path(name))
