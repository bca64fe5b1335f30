"""The process of a ``BusyCluster`` of ``testkit.scenarios.faults``: serves until its standard input is closed."""

from __future__ import annotations

import json
import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from testkit.fakes.flink import Canned, FakeFlink, FakeRequest, Fault
from testkit.fakes.flink.driving import drive, up_and_down

_TICK = 0.01
_PATIENCE = 40
"""Periods that a load lasts while nothing is made of it."""


class _Address(FakeFlink):
    """One address of the cluster, which writes down PUTs before they have an effect."""

    def __init__(self, number: int, log: Path, puts: Counter[str]) -> None:
        super().__init__()
        self._number = number
        self._puts = puts
        self._file = log.open("a", buffering=1)

    def _respond(self, request: FakeRequest) -> tuple[Fault | Canned, Canned]:
        if request.method == "PUT":
            assert isinstance(request.body, Mapping)
            wanted = {vertex: bounds["parallelism"]["upperBound"] for vertex, bounds in request.body.items()}
            job = self.jobs[request.path.split("/")[2]].name
            line = {"at": time.time(), "address": self._number, "wanted": wanted, "job": job}
            self._file.write(json.dumps(line) + "\n")
            self._puts[job] += 1
        return super()._respond(request)


def _serve(log: Path, addresses: int, period: float, named: Mapping[str, Mapping[str, str]]) -> None:
    puts: Counter[str] = Counter()
    with ExitStack() as parts:
        fakes = [parts.enter_context(_Address(number, log, puts)) for number in range(addresses)]
        jobs = [fakes[0].add_job(name, obeys=True, user_config=dict(values)) for name, values in named.items()]
        for job in jobs:
            job.hide_age()
        for fake in fakes[1:]:
            fake.jobs = fakes[0].jobs
        sys.stdout.write(json.dumps([fake.url for fake in fakes]) + "\n")
        sys.stdout.flush()
        loads = [(job, _loads(job.name, puts, period)) for job in jobs]
        while not select.select([sys.stdin], [], [], _TICK)[0]:
            for job, load in loads:
                drive(job, next(load), _TICK)


def _loads(job: str, puts: Counter[str], period: float) -> Iterator[float]:
    """Yield the records/s of every tick: the next amount when a period is over and a rescale was asked for in it.

    A daemon whose pass takes longer than a period would otherwise see the mean of the amounts, and change nothing.
    """
    step = 0
    while True:
        began, before = time.monotonic(), puts[job]
        while (lasted := time.monotonic() - began) < period or (puts[job] == before and lasted < _PATIENCE * period):
            yield up_and_down(step, 1)
        step += 1


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
