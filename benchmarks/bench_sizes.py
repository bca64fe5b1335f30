"""What a whole daemon takes by the number of jobs: ``PYTHONPATH=tests:. python benchmarks/bench_sizes.py``.

Starts ``flink-autoscaler run`` as a user does, with its default store, events, records and page, against a cluster of
so many equal jobs of ten vertices, and measures warm passes with full windows of 16 samples: processor time of the
daemon's process tree, the length of a pass as the daemon tells it, memory, requests, and the size of its page for
Prometheus.
The two servers are fakes in a process of their own, whose time is not the daemon's. The windows are there already when
it starts: one real sample of one job, taken back along its counters and written into the database for all jobs.

``--source rest`` asks for every vertex; the fake answers slowly then, so that wall times are the fake's as well.
``--engine cluster`` starts a Spark cluster of two workers with a core each, whose executors have nothing of ours; their
processor time is told apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from sqlalchemy import delete, insert, select

from benchmarks.measuring import TICKS
from flink_autoscaler.clients.prometheus.queries import CLOCK
from flink_autoscaler.core.model.metrics import MetricSample, NonBusyTime, ScalingMetric
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import STATE_FILE, SettingsLoader
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import JOBS, STATE
from testkit.clusters.spark import SparkCluster, equipped_python, make_pyfiles
from testkit.fakes.flink import Canned, FakeFlink, FakeRequest, Fault, chain
from testkit.fakes.prometheus import FakePrometheus
from testkit.servers.databases import create_tables

WINDOW: Final = 16
STEP_MS: Final = 120_000
"""Between two samples: all of them are in the window still when the last pass is measured."""
AGE_MS: Final = 7_200_000
CLUSTER: Final = "cluster"
COLD: Final = 2
"""Passes that are not measured: the first reads what is kept afterwards."""

GROWING: Final = (
    ScalingMetric.ACCUMULATED_BUSY_TIME,
    ScalingMetric.NUM_RECORDS_IN,
    ScalingMetric.NUM_RECORDS_OUT,
)
MARK: Final = b"JOB-ID"
_FIGURE = re.compile(r'"figure", "([^"]+)"')
_JOBS = re.compile(r'=~"([0-9a-f|]{32,})"')


class Alike(FakePrometheus):
    """Answers about jobs that are all alike: what one of them has is written once and copied for the others."""

    def _respond(self, request: FakeRequest) -> tuple[Canned | Fault, Canned]:
        assert isinstance(request.body, dict)
        expression = request.body["query"]
        asked = _JOBS.search(expression)
        if asked is None or expression == CLOCK:
            return super()._respond(request)
        self.queries.append(expression)
        scraped_at = float(int(time.time()))
        self.age = 0.0
        first = next(iter(self.flink.jobs.values()))
        ran = scraped_at - first.start_ms / 1000
        for vertex in first.vertices:
            vertex.records_in = vertex.records_out = round(100 * ran) * vertex.parallelism
            vertex.busy_ms, vertex.waited_ms = 500.0 * ran * vertex.parallelism, 500.0 * ran * vertex.parallelism
            for name in vertex.metrics:
                if name.endswith((".numRecordsIn", ".numRecordsOut")):
                    vertex.metrics[name] = 100.0 * ran
        series = json.dumps(
            list(self._job(first, set(_FIGURE.findall(expression)), scraped_at)), separators=(",", ":"), sort_keys=True
        )[1:-1].encode()
        one = series.replace(first.job_id.encode(), MARK)
        text = b",".join(one.replace(MARK, job.encode()) for job in asked[1].split("|"))
        body = b'{"status":"success","data":{"resultType":"vector","result":[' + text + b"]}}"
        right = Canned(body, content_type="application/json")
        return right, right


def job_id_of(number: int) -> str:
    """Return the id of a job."""
    return f"{number:032x}"


def serve(jobs: int, vertices: int, pipe: Connection) -> None:
    """Serve until told to end; tells when lists of jobs were asked for, and how many requests came since."""
    start_ms = time.time_ns() // 1_000_000 - AGE_MS
    with FakeFlink() as flink, Alike(flink) as prometheus:
        flink.jobmanager_metrics |= {"taskSlotsTotal": str(5 * jobs), "taskSlotsAvailable": str(jobs)}
        for number in range(jobs):
            graph = chain(sources=2, vertices=vertices, parallelism=4)
            for vertex in graph:
                vertex.has_task_counters = True
            flink.add_job(f"job {number}", graph, start_ms=start_ms, job_id=job_id_of(number))
        pipe.send((flink.url, prometheus.url))
        lists = seen = 0
        while pipe.recv():
            new = flink.requests[seen:]
            lists, seen = lists + sum(request.path.endswith("/jobs/overview") for request in new), seen + len(new)
            pipe.send((lists, seen, len(prometheus.queries)))


@contextmanager
def servers(jobs: int, vertices: int) -> Iterator[tuple[str, str, Connection]]:
    """Give the URLs of both servers, and what asks them for their counts."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(jobs, vertices, theirs))
    process.start()
    flink, prometheus = ours.recv()
    try:
        yield flink, prometheus, ours
    finally:
        ours.send(False)
        process.join(10)


@dataclass(frozen=True)
class Tree:
    """Processor time, seconds, and resident memory, MB, of the daemon itself and of all that it has started."""

    own_cpu: float
    cpu: float
    own_resident: float
    resident: float


def tree(root: int) -> Tree:
    """Look at a process and its descendants."""
    found: dict[int, tuple[int, float, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pages = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS, pages
    members, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        members.append(pid)
        waiting += [child for child, (parent, _, _) in found.items() if parent == pid]
    known = [found[pid] for pid in members if pid in found]
    own = found[root]
    return Tree(own[1], sum(each[1] for each in known), own[2], sum(each[2] for each in known))


class Daemon:
    """The daemon as a process, in a folder of its own."""

    def __init__(self, folder: Path, options: Mapping[str, str], program: str, log: Path) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("AUTOSCALER", "FLINK"))}
        environment["STATE_DIRECTORY"] = str(folder)
        overrides = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*program.split(), "run", *overrides], env=environment, stdout=out, stderr=out, cwd=folder
            )
        self.pid = self._process.pid

    def end(self) -> None:
        """End it in order."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None


def page(port: int) -> tuple[str, float]:
    """Return the page for Prometheus, and the seconds that it took."""
    started = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    return text, time.perf_counter() - started


def total(text: str, name: str) -> float:
    """Return the sum of the series of a name."""
    return sum(map(float, re.findall(rf"^flink_autoscaler_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


def free_port() -> int:
    """Return a port that nobody listens on."""
    import socket  # noqa: PLC0415

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def options_of(flink: str, prometheus: str, port: int, given: argparse.Namespace) -> dict[str, str]:
    """Return what the daemon is told: where the cluster is, an interval, and a window of 16 passes."""
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink,
        "autoscaler.clusters.0.timeout": "60 s",
        "autoscaler.clusters.0.max-response-bytes": "64m",
        **({} if given.engine == CLUSTER else {"autoscaler.engine.kind": given.engine}),
        "autoscaler.http.port": str(port),
        "autoscaler.standalone.control-loop.interval": f"{given.interval:g} s",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": f"{STEP_MS * (WINDOW - 1)} ms",
    }
    if given.source == "prometheus":
        section = "autoscaler.clusters.0.metrics."
        values |= {f"{section}source": "prometheus", f"{section}prometheus.url": prometheus}
        values |= {f"{section}prometheus.timeout": "60 s"}
    return values | dict(pair.split("=", 1) for pair in given.set)


@dataclass
class Counts:
    """What the servers have counted so far."""

    lists: int
    flink: int
    prometheus: int


def counted(pipe: Connection) -> Counts:
    """Ask the servers."""
    pipe.send(True)
    return Counts(*pipe.recv())


def sampled(given: argparse.Namespace) -> JobState:
    """Return the state of one job after its first pass."""
    with servers(1, given.vertices) as (flink, prometheus, _):
        options = options_of(flink, prometheus, 0, given) | {"autoscaler.engine.kind": "inline"}
        options |= {"autoscaler.standalone.state-store.type": "MEMORY", "autoscaler.records.enabled": "false"}
        overrides = [f"{key}={value}" for key, value in options.items()]
        settings = SettingsLoader(overrides=overrides, environment={}).read()
        with Wiring(settings) as wiring:
            report = wiring.cluster_pass(settings.effective_clusters()[0]).run()
    state = report.reports["main/job 0"].outcome.state
    assert len(state.samples) == 1, report
    return state


def earlier(sample: MetricSample, back_ms: int) -> MetricSample:
    """Return a sample as it was earlier: counters have grown evenly since the job was started."""
    age_ms = sample.at_ms - (time.time_ns() // 1_000_000 - AGE_MS)
    share = 1 - back_ms / age_ms
    vertices = {
        v: {metric: value * share if metric in GROWING else value for metric, value in values.items()}
        for v, values in sample.vertices.items()
    }
    waited = {v: NonBusyTime(share * each.idle_ms, share * each.backpressured_ms) for v, each in sample.waited.items()}
    return replace(sample, at_ms=sample.at_ms - back_ms, vertices=vertices, waited=waited)


def fill(folder: Path, jobs: int, state: JobState) -> None:
    """Write the windows of all jobs into the database that the daemon will open."""
    window = tuple(earlier(state.samples[0], STEP_MS * number) for number in range(WINDOW - 1, -1, -1))
    state = replace(state, samples=window, job_id="")
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{folder / STATE_FILE}"))) as database:
        create_tables(database)
        SqlStateStore(database, writer="flink-autoscaler").save("main/model", state)
        with database.transaction() as connection:
            for table in (STATE, JOBS):
                for row in connection.execute(select(table).where(table.c.job_key == "main/model")).mappings().all():
                    copies = [
                        {**{k: v for k, v in row.items() if k != "id"}, "job_key": f"main/job {number}"}
                        | ({"job_id": job_id_of(number)} if "job_id" in row else {})
                        for number in range(jobs)
                    ]
                    connection.execute(insert(table), copies)
                connection.execute(delete(table).where(table.c.job_key == "main/model"))


def on_cluster(cluster: SparkCluster, folder: Path) -> dict[str, str]:
    """Return the options of a daemon whose executors are on a cluster."""
    (folder / "files").mkdir()
    python, files = equipped_python(folder / "bare"), make_pyfiles(folder / "files")
    return {"autoscaler.engine.kind": "spark", **cluster.options(python, files)}


def measured(jobs: int, given: argparse.Namespace) -> dict[str, object]:
    """Run a daemon until its windows are full, and so many passes more."""
    with ExitStack() as running:
        folder, port = Path(running.enter_context(tempfile.TemporaryDirectory())), free_port()
        flink, prometheus, pipe = running.enter_context(servers(jobs, given.vertices))
        options, workers = options_of(flink, prometheus, port, given), list[int]()
        if given.engine == CLUSTER:
            cluster = running.enter_context(SparkCluster(workers=2))
            options, workers = on_cluster(cluster, folder) | options, [each.pid for each in cluster.workers]
        fill(folder, jobs, sampled(given))
        daemon = Daemon(folder, options, given.program, given.keep_log or folder / "daemon.log")
        running.callback(daemon.end)
        return watched(daemon, jobs, port, pipe, given, workers)


def watched(
    daemon: Daemon, jobs: int, port: int, pipe: Connection, given: argparse.Namespace, workers: list[int]
) -> dict[str, object]:
    """Return the figures of the passes after the windows are full."""
    began, peak, started = time.monotonic(), 0.0, counted(pipe)
    marks: list[tuple[Tree, Counts]] = []
    beside: list[float] = []
    first_page = None
    hook: subprocess.Popen[bytes] | None = None
    while len(marks) <= given.passes:
        if daemon.has_ended or time.monotonic() - began > given.limit:
            return {"jobs": jobs, "failed": f"{started.lists} passes in {time.monotonic() - began:.0f} s"}
        time.sleep(given.look)
        usage, counts = tree(daemon.pid), counted(pipe)
        peak = max(peak, usage.own_resident)
        if counts.lists > started.lists:
            started = counts
            if counts.lists == COLD:
                first_page, _ = page(port)
            if counts.lists > COLD + 1:
                marks.append((usage, counts))
                beside.append(sum(tree(pid).cpu for pid in workers))
                if given.during and hook is None:
                    hook = subprocess.Popen(given.during.replace("{pid}", str(daemon.pid)), shell=True)
    assert first_page is not None
    last_page, scrape = page(port)
    if hook is not None:
        hook.wait()
    pairs = list(itertools.pairwise(marks))
    asked = [(after[1].flink - before[1].flink, after[1].prometheus - before[1].prometheus) for before, after in pairs]
    own = [after[0].own_cpu - before[0].own_cpu for before, after in pairs]
    passes = total(last_page, "pass_seconds_count") - total(first_page, "pass_seconds_count")
    seconds = total(last_page, "pass_seconds_sum") - total(first_page, "pass_seconds_sum")
    balanced = total(last_page, "job_balanced_total") - total(first_page, "job_balanced_total")
    return {
        "jobs": jobs,
        "source": given.source,
        "engine": given.engine,
        "cpu": round(statistics.median(after[0].cpu - before[0].cpu for before, after in pairs), 3),
        "own_cpu": round(statistics.median(own), 3),
        "workers_cpu": round(statistics.median(after - before for before, after in itertools.pairwise(beside)), 3),
        "cpu_each": [round(each, 2) for each in own],
        "wall": round(seconds / passes, 3),
        "flink": statistics.median(each[0] for each in asked),
        "prometheus": statistics.median(each[1] for each in asked),
        "peak_mb": round(peak),
        "tree_mb": round(marks[-1][0].resident),
        "decided": round(balanced / passes / jobs, 3),
        "page_kb": len(last_page) // 1024,
        "page_s": round(scrape, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between passes")
    parser.add_argument("--look", type=float, default=0.25, help="seconds between two looks at the daemon")
    parser.add_argument("--source", choices=["rest", "prometheus"], default="prometheus")
    parser.add_argument("--engine", choices=["inline", "spark", "auto", CLUSTER], default="inline")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--program", default=str(Path(sys.executable).parent / "flink-autoscaler"))
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds after which a run ends")
    parser.add_argument("--keep-log", type=Path)
    parser.add_argument("--during", help="shell command beside the measured passes; {pid} is the daemon's")
    given = parser.parse_args()
    for jobs in given.jobs:
        print(json.dumps(measured(jobs, given)), flush=True)


if __name__ == "__main__":
    main()
