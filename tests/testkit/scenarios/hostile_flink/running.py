"""Runs lies in processes of their own, survives those that hang, and says which lie it was."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from testkit.scenarios.hostile_flink.judging import Figures, Verdict
from testkit.scenarios.hostile_flink.lies import Lie

SILENCE: Final = 12.0
"""Seconds without a word after which a daemon counts as hung."""

_MEMORY: Final = "/dev/shm"
"""Where databases are, if there is such a folder: a disk would be what most passes wait for."""

_START: Final = 60.0


@dataclass(frozen=True)
class Plan:
    """How to run.

    Attributes:
        slots: Jobs that are lied about at the same time, per process.
        processes: At the same time.
        options: Of the daemon, beyond those of the harness.
        interval: Seconds from one pass to the next.
        seconds: For one process at most.
        passes: Of every cluster at least.
        silence: Seconds without a word after which a process is killed.
        steps_every: Passes after which the healthy job of every cluster needs another parallelism.
        engine: Where jobs have to be evaluated before lies are told; empty where that does not matter.
        jobs_per_cluster: That are lied about at the same time, beside one healthy job.
    """

    slots: int = 40
    processes: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    interval: float = 1.0
    seconds: float = 1e9
    passes: int = 0
    silence: float = SILENCE
    steps_every: int = 30
    jobs_per_cluster: int = 4
    engine: str = ""


class Process:
    """One worker; its lines come through a queue."""

    def __init__(self, lies: Sequence[Lie], plan: Plan, folder: Path) -> None:
        document = {"lies": list(map(str, lies)), **asdict(plan)}
        file = folder / f"plan-{time.monotonic_ns()}.json"
        file.write_text(json.dumps(document))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testkit.scenarios.hostile_flink.worker", str(file), str(folder)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.has_begun = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def line(self, silence: float) -> dict[str, Any] | None:
        """Return the next line; None at the end. Raises TimeoutError when there is none for too long."""
        try:
            text = self._lines.get(timeout=silence if self.has_begun else max(_START, silence))
        except queue.Empty:
            raise TimeoutError(f"no word for {silence:g} s") from None
        self.has_begun = True
        return None if text is None else dict(json.loads(text))

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(30)


Progress = Callable[[Verdict | None, Figures], None]


def run_lies(lies: Sequence[Lie], plan: Plan, progress: Progress = lambda verdict, figures: None) -> Figures:
    """Tell lies to daemons and return what became of them."""
    started = time.monotonic()
    total = Figures()
    lock = threading.Lock()

    def told(verdict: Verdict | None, part: Figures) -> None:
        with lock:
            if verdict is not None:
                total.verdicts.append(verdict)
            total.seconds = time.monotonic() - started
            progress(verdict, total)

    parts = [lies[number :: plan.processes] for number in range(plan.processes)]
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=_MEMORY if Path(_MEMORY).is_dir() else None) as name:
        found: list[Figures] = []
        threads = [
            threading.Thread(target=lambda part=part: found.append(_run_part(part, plan, Path(name), told)))
            for part in parts
            if part or plan.passes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for figures in found:
        total.passes += figures.passes
        total.evaluated += figures.evaluated
        total.sent += figures.sent
        total.restarts += figures.restarts
        total.unknown |= figures.unknown
        total.engines += figures.engines
        total.peak = max(total.peak, figures.peak)
    total.seconds = time.monotonic() - started
    return total


def _run_part(lies: Sequence[Lie], plan: Plan, folder: Path, told: Progress) -> Figures:
    """Run lies until all are told; those that are under way when a process hangs are told alone."""
    figures = Figures()
    left = list(lies)
    suspects: list[Lie] = []
    while True:
        suspects = _run_once(left, plan, folder, figures, told)
        if not suspects:
            return figures
        figures.restarts += 1
        known = {verdict.lie for verdict in figures.verdicts}
        for lie in _likely_first(suspects):
            alone = Figures()
            if _run_once([lie], plan, folder, alone, told):
                verdict = Verdict(str(lie), told=1, hung=["killed"])
                figures.verdicts.append(verdict)
                told(verdict, figures)
                known.add(str(lie))
                break
            known |= {verdict.lie for verdict in alone.verdicts}
        left = [lie for lie in left if str(lie) not in known]
        if not left:
            return figures


def _likely_first(suspects: Sequence[Lie]) -> list[Lie]:
    """Order lies so that those come first that hang daemons more often."""
    return sorted(suspects, key=lambda lie: (lie.scope.value != "config", lie.what not in _HEAVY))


_HEAVY: Final = frozenset({"digits-x", "zeros", "long-list", "long-map", "quotes", "braces", "deep", "long-text"})


def _run_once(lies: Sequence[Lie], plan: Plan, folder: Path, figures: Figures, told: Progress) -> list[Lie]:
    """Run a process to its end; return what was being told when it hung, empty when it did not."""
    process = Process(lies, plan, folder)
    last: dict[str, Any] = {}
    try:
        for line in _lines(process, plan.silence):
            if "verdict" in line:
                verdict = Verdict.of(line["verdict"])
                figures.verdicts.append(verdict)
                told(verdict, figures)
            else:
                last = line.get("beat") or line["end"]
                figures.peak = max(figures.peak, last["peak"])
                figures.unknown |= set(last["unknown"])
                told(None, figures)
                if "end" in line:
                    return []
        raise TimeoutError("ended without a word")
    except TimeoutError:
        done = {verdict.lie for verdict in figures.verdicts}
        active = [Lie.of(text) for text in last.get("active", [])]
        return [lie for lie in active if str(lie) not in done] or [lie for lie in lies if str(lie) not in done][:60]
    finally:
        process.kill()
        for name in ("passes", "evaluated", "sent"):
            setattr(figures, name, getattr(figures, name) + last.get(name, 0))
        figures.engines += Counter(last.get("engines", {}))


def _lines(process: Process, silence: float) -> Iterator[dict[str, Any]]:
    while (line := process.line(silence)) is not None:
        yield line


def confirmed(figures: Figures, plan: Plan, progress: Progress = lambda verdict, figures: None) -> Figures:
    """Tell lies again whose only fault is one that a busy machine causes, too, or another lie of the same cluster.

    What does not come back is dropped.
    """
    doubtful = [v for v in figures.failed if v.lie and not v.faults.keys() - {"missed", "late", "not_back", "not_sent"}]
    if not doubtful:
        return figures
    again = run_lies([Lie.of(verdict.lie) for verdict in doubtful], replace(plan, jobs_per_cluster=1), progress)
    faults = {verdict.lie: verdict for verdict in again.verdicts}
    replaced = {verdict.lie: faults.get(verdict.lie, verdict) for verdict in doubtful}
    figures.verdicts = [replaced.get(verdict.lie, verdict) for verdict in figures.verdicts]
    figures.verdicts += [verdict for verdict in again.verdicts if not verdict.lie]
    return figures
