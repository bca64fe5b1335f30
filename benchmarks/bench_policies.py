"""Policies compared: slot-hours beside those of an oracle, time over the limit and rescales, on any load shape.

Run: ``PYTHONPATH=. python benchmarks/bench_policies.py --shapes office bursts trace:elb --policies capacity --days 7
--seeds 3 --jobs-in-parallel 2``. Every run is one backtest: the production pass once a minute over a simulated chain of
three vertices. A policy is a name of ``POLICIES`` or anything that the option ``policies`` takes. The oracle knows the
future; its plan is acted out with the same outages, and kept in a folder, since it is the same the next time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.loads import NAMES, made, read_trace
from benchmarks.oracles import OracleCache, PlayTerms
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.backtest.arrivals import Quarters, Sample
from flink_autoscaler.pipeline.backtest.compare import MOST_ERRORS
from flink_autoscaler.pipeline.backtest.computing import problem_of
from flink_autoscaler.pipeline.backtest.nights import nights_of
from flink_autoscaler.pipeline.backtest.subject import PAST_WEEKS, Subject, chain
from flink_autoscaler.pipeline.simulator import JobModel, RescaleTerms, Simulation, run
from flink_autoscaler.pipeline.simulator.bounds import OracleTerms, area, instant, static_peak
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import DAY, MINUTE, WEEK, WORKLOADS, Workload, earlier, office

HOUR: Final = 3600.0
PREFIX: Final = "job.autoscaler."
LATE_AFTER: Final = 60.0
REPLAY: Final = 5.0
LATE_WEIGHT: Final = 150.0
ORACLE_LAG: Final = 30.0
TRACES: Final = Path(__file__).parent / "traces"
TRACE: Final = "trace:"
PROFILES: Final = PREFIX + "forecast.enabled"
TRACE_PEAK: Final = 125e3
"""Records/s: 25 slots."""

NEW: Final = "capacity, nothing measured before"
"""A job that is new in a cluster without other jobs: its first three rescales are planned with ``restart.time``."""

POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    "capacity": {},
    NEW: {},
    "capacity, restart.time 5 min": {"restart.time-source": "option"},
    "capacity, restart.time 60 s": {"restart.time-source": "option", "restart.time": "60 s"},
    "varga": {"policy": "varga"},
    "slo": {"policy": "slo"},
    "slo, profiles": {"policy": "slo", "forecast.enabled": "true"},
}


@dataclass(frozen=True)
class Case:
    """A load, and what a rescale costs. ``key_groups`` of every vertex that has keys; 0 divides them evenly.

    With ``branches`` every source has a map of its own, the first one the slowest.
    """

    shape: str
    seed: int
    days: float
    outage: float
    key_groups: int
    branches: bool = False

    def workload(self) -> Workload:
        """Return what arrives. Of the office it is a fifth week; of a recorded load the seed takes later days."""
        seconds = self.days * DAY
        if self.shape.startswith(TRACE):
            whole = read_trace(trace_file(self.shape), self.shape)
            first = self.seed * seconds % max(DAY, whole.duration - seconds)
            return whole.part(first, first + seconds).scaled_to(TRACE_PEAK)
        if self.shape == "office":
            return office(seed=self.seed, weeks=4 + seconds / WEEK).part(4 * WEEK, 4 * WEEK + seconds)
        return made(self.shape, self.seed, seconds)

    def job(self, workload: Workload) -> JobModel:
        """Return the job that it arrives at."""
        job, groups = branched(chain(workload)) if self.branches else chain(workload), self.key_groups
        if not groups:
            return job
        keyed = {v.vertex_id: 0 if v.vertex_id in job.sources else groups for v in job.vertices}
        vertices = (replace(v, max_parallelism=groups, key_groups=keyed[v.vertex_id]) for v in job.vertices)
        return JobModel(tuple(vertices), job.edges)

    def profiles(
        self, job: JobModel, workload: Workload, configuration: Mapping[str, str]
    ) -> tuple[ProfileResult, ...]:
        """Return what the nightly job makes of four weeks before and of the days themselves."""
        if self.shape not in WORKLOADS:
            before: Sequence[Sequence[float]] = ()
        elif self.shape == "office":
            before = office(seed=self.seed, weeks=4.0).rows
        else:
            before = earlier(self.shape, self.seed, PAST_WEEKS).rows
        since = MONDAY_MS / 1000 - len(before) * MINUTE
        columns = zip(*before, *workload.rows, strict=True)
        past = [
            Quarters.of(Sample(since + n * MINUTE, MINUTE, each) for n, each in enumerate(column)) for column in columns
        ]
        subject = Subject(f"{self.shape}/{self.seed}", job, workload, past=dict(zip(job.sources, past, strict=True)))
        return tuple(night.result for night in nights_of(subject, configuration))


def branched(job: JobModel) -> JobModel:
    """Give every source a map of its own instead of a common one, each twice as fast as the one before."""
    (common, window), sources = job.vertices[-2:], job.vertices[:-2]
    maps = [
        replace(common, vertex_id=f"b{number}".rjust(32, "0"), name=f"map {number}", rate=common.rate * 2.0**number)
        for number in range(len(sources))
    ]
    pairs = {(source.vertex_id, each.vertex_id): 1.0 for source, each in zip(sources, maps, strict=True)}
    selectivity = job.edges[common.vertex_id, window.vertex_id]
    return JobModel(
        (*sources, *maps, window), pairs | {(each.vertex_id, window.vertex_id): selectivity for each in maps}
    )


@dataclass(frozen=True)
class Row:
    """A line of a table; what a bound does not have is None."""

    slot_hours: float
    rescales: float | None = None
    reversals: float | None = None
    lag_p95: float | None = None
    lag_p99: float | None = None
    late_minutes: float | None = None
    score: float | None = None


ORACLE: Final = "oracle"
"""The row that others are divided by."""


@dataclass(frozen=True)
class Answer:
    """The rows of one run, with the days that were simulated and how it went, for people."""

    rows: Mapping[str, Row]
    days: float
    note: str


def trace_file(shape: str) -> Path:
    """Return the only file of ``TRACES`` in whose name a shape's is.

    Raises:
        ValueError: There is none, or more than one.
    """
    found = [path for path in sorted(TRACES.glob("*.csv.gz")) if shape.removeprefix(TRACE) in path.name]
    if len(found) != 1:
        raise ValueError(f"no recorded load is {shape}; known: {' '.join(map(trace_name, TRACES.glob('*.csv.gz')))}")
    return found[0]


def trace_name(path: Path) -> str:
    """Return the shape of a file: the last word of its name, or its first where that is a mere number."""
    words = path.name.removesuffix(".csv.gz").split("_")
    return TRACE + (words[-1] if words[-1].isalpha() else words[0])


def simulated(case: Case, policy: str) -> Answer:
    """Run one backtest of a policy."""
    begun, workload = time.process_time(), case.workload()
    configuration = {PREFIX + key: value for key, value in POLICIES.get(policy, {"policy": policy}).items()}
    job = case.job(workload)
    backtest = Simulation(
        job,
        workload,
        configuration,
        installed_plugins(),
        terms=RescaleTerms(case.outage, replay=REPLAY),
        slo_lag=LATE_AFTER,
        profiles=case.profiles(job, workload, configuration) if PROFILES in configuration else (),
    )
    result = run(replace(backtest, outages=()) if policy == NEW else backtest)
    m, seconds = result.measures, time.process_time() - begun
    row = Row(m.slot_hours, m.rescales, m.reversals, m.lag_p95, m.lag_p99, m.over_slo / 60, m.score)
    most = MOST_ERRORS * m.duration / backtest.interval
    wrong = "".join(f"; {count} passes ended in: {text}" for text, count in result.errors.items() if count > most)
    note = f"{m.slot_hours:.0f} slot-hours, {m.rescales} rescales, {row.late_minutes:.0f} min late"
    return Answer({policy: row}, m.duration / DAY, f"{note} ({seconds:.1f} s of processor){wrong}")


def bounded(case: Case, cache: Path) -> Answer:
    """Work out what nobody can do better than, and what never rescaling costs."""
    begun, workload = time.process_time(), case.workload()
    job, rescale, kept = case.job(workload), RescaleTerms(case.outage, replay=REPLAY), OracleCache(cache)
    careless = PlayTerms(OracleTerms(outage=case.outage), rescale, LATE_AFTER)
    careful = OracleTerms(outage=case.outage, late_weight=LATE_WEIGHT, slo_lag=ORACLE_LAG)
    (cheap, _), (best, is_cached) = (kept.played(job, workload, t) for t in (careless, replace(careless, plan=careful)))
    rows = {
        "static peak": Row(static_peak(job, workload) / HOUR),
        "instant": Row(instant(job, workload) / HOUR),
        "area": Row(area(job, workload) / HOUR),
        "oracle, slots only (cost)": Row(cheap.cost / HOUR, cheap.rescales),
        "oracle (cost)": Row(best.cost / HOUR, best.rescales),
        ORACLE: Row(best.slot_seconds / HOUR, best.rescales, lag_p99=best.lag_p99, late_minutes=best.late_seconds / 60),
    }
    seconds = time.process_time() - begun
    note = f"the oracle was {'there already' if is_cached else 'worked out'} ({seconds:.1f} s of processor)"
    return Answer(rows, workload.duration / DAY, note)


@dataclass
class Results:
    """The answers of one shape, row by row, of all seeds."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    days: float = 0.0
    pending: int = 0

    def take(self, answer: Answer) -> None:
        """Add an answer."""
        for name, row in answer.rows.items():
            self.rows.setdefault(name, []).append(row)
        self.days, self.pending = answer.days, self.pending - 1


COLUMNS: Final = (
    "slot-hours",
    "÷ oracle",
    "rescales a day",
    "reversals",
    "p95 lag, s",
    "p99 lag, s",
    "late, min",
    "worst",
    "late, %",
    "score",
)


def cells(rows: Sequence[Row], oracle: Sequence[Row], days: float) -> list[str]:
    """Return the means over the seeds, and the latest of them."""
    slots, late = mean([row.slot_hours for row in rows]), mean([row.late_minutes for row in rows])
    rescales, against = mean([row.rescales for row in rows]), mean([row.slot_hours for row in oracle])
    return [
        shown(slots),
        shown(slots / against if slots and against else None, 2),
        shown(None if rescales is None else rescales / days, 1),
        shown(mean([row.reversals for row in rows]), 1),
        shown(mean([row.lag_p95 for row in rows])),
        shown(mean([row.lag_p99 for row in rows])),
        shown(late),
        shown(max((row.late_minutes for row in rows if row.late_minutes is not None), default=None)),
        shown(None if late is None else late / (days * DAY / 60) * 100, 2),
        shown(mean([row.score for row in rows])),
    ]


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean; None where a value is missing."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def shown(value: float | None, digits: int = 0) -> str:
    """Return a figure for people."""
    return "–" if value is None else f"{value:.{digits}f}"


def print_table(shape: str, results: Results, order: Sequence[str], arguments: argparse.Namespace) -> None:
    """Print the table of one shape, for a console or for a page."""
    title = f"{shape}: {results.days:g} days, {arguments.seeds} seeds, outages of {arguments.outage:g} s"
    names = [*(name for name in results.rows if name not in order), *order]
    lines = [(name, *cells(results.rows[name], results.rows[ORACLE], results.days)) for name in names]
    if arguments.markdown:
        head, rule = ("policy", *COLUMNS), ("---",) * (len(COLUMNS) + 1)
        print(f"\n## {title}\n", *(f"| {' | '.join(line)} |" for line in (head, rule, *lines)), sep="\n", flush=True)
        return
    table = Table("policy", *COLUMNS, title=title)
    for line in lines:
        table.add_row(*line)
    Console(width=150).print(table)


def parsed() -> argparse.Namespace:
    """Return the arguments, which are known to name what there is."""
    names = [*POLICIES, *(["slo"] if problem_of({PREFIX + "policy": "slo"}) is None else [])]
    traces = [trace_name(path) for path in sorted(TRACES.glob("*.csv.gz"))]
    kept = Path(os.environ.get("FLINK_AUTOSCALER_CACHE", Path.home() / ".cache" / "flink-autoscaler")) / "oracles"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=[*NAMES, *traces], metavar="NAME", help="loads")
    parser.add_argument("--policies", nargs="+", default=names, metavar="NAME", help="policies")
    parser.add_argument("--days", type=float, default=7.0, help="days of every load shape")
    parser.add_argument("--seeds", type=int, default=1, help="how many of each; figures are means")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds that a rescale takes")
    parser.add_argument("--key-groups", type=int, default=0, help="of vertices with keys; 0 divides them evenly")
    parser.add_argument("--branches", action="store_true", help="every source has a map of its own")
    parser.add_argument("--jobs-in-parallel", type=int, default=2, help="processes")
    parser.add_argument("--cache", type=Path, default=kept, help="folder in which oracles are kept")
    parser.add_argument("--markdown", action="store_true", help="print tables for a page")
    arguments = parser.parse_args()
    for problem in problems(arguments):
        parser.error(problem)
    return arguments


def problems(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what is wrong with names."""
    for shape in arguments.shapes:
        if shape.startswith(TRACE):
            try:
                trace_file(shape)
            except ValueError as error:
                yield str(error)
        elif shape not in NAMES:
            yield f"no load is {shape}; known: {' '.join(NAMES)}"
    for policy in arguments.policies:
        if policy not in POLICIES and (problem := problem_of({PREFIX + "policy": policy})):
            yield problem


def submitted(pool: ProcessPoolExecutor, arguments: argparse.Namespace) -> dict[Future[Answer], tuple[Case, str]]:
    """Hand everything out, shape after shape."""
    asked: dict[Future[Answer], tuple[Case, str]] = {}
    for shape in arguments.shapes:
        for seed in range(arguments.seeds):
            case = Case(shape, seed, arguments.days, arguments.outage, arguments.key_groups, arguments.branches)
            asked[pool.submit(bounded, case, arguments.cache)] = case, "bounds"
            asked |= {pool.submit(simulated, case, policy): (case, policy) for policy in arguments.policies}
    return asked


def main() -> None:
    arguments = parsed()
    per_shape = arguments.seeds * (1 + len(arguments.policies))
    results = {shape: Results(pending=per_shape) for shape in arguments.shapes}
    with ProcessPoolExecutor(arguments.jobs_in_parallel) as pool:
        asked = submitted(pool, arguments)
        for number, future in enumerate(as_completed(asked), start=1):
            (case, what), answer = asked[future], future.result()
            print(f"[{number}/{len(asked)}] {case.shape}, seed {case.seed}, {what}: {answer.note}", file=sys.stderr)
            results[case.shape].take(answer)
            if not results[case.shape].pending:
                print_table(case.shape, results[case.shape], arguments.policies, arguments)


if __name__ == "__main__":
    main()
