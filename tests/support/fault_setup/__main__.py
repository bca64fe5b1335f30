"""The process of a :class:`BusyCluster`: serves until its standard input is closed."""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fake_flink import Canned, FakeFlink, FakeJob, FakeRequest, Fault

from fault_setup.driving import drive, up_and_down

_TICK = 0.01


class _Address(FakeFlink):
    """One address of the cluster, which writes down PUTs before they have an effect."""

    def __init__(self, number: int, log: Path) -> None:
        super().__init__()
        self._number = number
        self._file = log.open("a", buffering=1)

    def _respond(self, request: FakeRequest) -> tuple[Fault | Canned, Canned]:
        if request.method == "PUT":
            assert isinstance(request.body, Mapping)
            wanted = {vertex: bounds["parallelism"]["upperBound"] for vertex, bounds in request.body.items()}
            job = self.jobs[request.path.split("/")[2]].name
            line = {"at": time.time(), "address": self._number, "wanted": wanted, "job": job}
            self._file.write(json.dumps(line) + "\n")
        return super()._respond(request)


def _serve(log: Path, addresses: int, period: float, named: Mapping[str, Mapping[str, str]]) -> None:
    with ExitStack() as parts:
        fakes = [parts.enter_context(_Address(number, log)) for number in range(addresses)]
        jobs = [fakes[0].add_job(name, obeys=True, user_config=dict(values)) for name, values in named.items()]
        for fake in fakes[1:]:
            fake.jobs = fakes[0].jobs
        sys.stdout.write(json.dumps([fake.url for fake in fakes]) + "\n")
        sys.stdout.flush()
        _drive_until_closed(jobs, period)


def _drive_until_closed(jobs: Sequence[FakeJob], period: float) -> None:
    started = time.monotonic()
    while not select.select([sys.stdin], [], [], _TICK)[0]:
        for job in jobs:
            drive(job, up_and_down(time.monotonic() - started, period), _TICK)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4]))
