"""From the metric history of a job to a model of it: how fast its vertices are, and what arrived.

Capacities and selectivities are medians over the recorded windows in which a vertex was busy enough to tell. A vertex
that never was is taken from its busiest windows: it is far from being the one that limits the job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from statistics import median
from typing import Any, Final

import pyarrow as pa

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.pipeline.backtest.arrivals import SKEW, Sample, UnfitError, arrivals_of, past_of
from flink_autoscaler.pipeline.backtest.subject import OUTAGE, LeftOut, Subject
from flink_autoscaler.pipeline.simulator.model import Edge, JobModel, VertexModel

LEAST_BUSY: Final = 0.2
"""Busy share from which a window tells the capacity of a vertex."""

LEAST_WINDOWS: Final = 5
"""Such windows without which the busiest ones have to do."""

DEFAULT_MAX_PARALLELISM: Final = 128
"""Of Flink, for a small job that sets none."""

_BUSIEST: Final = 0.1
_MICROS: Final = 1e6
_NO_OUTAGE: Final = f"No rescale was recorded: each is taken to last {OUTAGE:.0f} s."

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "vertices": (
        "ts",
        "cluster",
        "vertex_id",
        "vertex_name",
        "parallelism",
        "max_parallelism",
        "slot_sharing_group",
        "busy",
        "records_in_rate",
        "true_rate",
        "inputs",
    ),
    "samples": ("ts", "span", "source_id", "arrival_rate", "consumption_rate", "partitions"),
    "rescales": ("ts", "decided_at", "outage"),
}
"""What is needed of the tables of the history, by table, beside ``job_key``."""


@dataclass(frozen=True)
class Records:
    """The rows of one job; every table has its columns of ``COLUMNS``, and the rows are in any order."""

    job_key: str
    vertices: pa.Table
    samples: pa.Table
    rescales: pa.Table


@dataclass(frozen=True, slots=True)
class FitTerms:
    """Terms on which jobs are fitted. Instants are epoch seconds.

    Attributes:
        now: What is later was written by a clock that is wrong.
        since: Arrivals before are not simulated; None simulates all.
        with_past: Whether profiles are going to be made of all arrivals.
    """

    now: float
    since: float | None = None
    with_past: bool = False


@dataclass(frozen=True)
class Windows:
    """The recorded windows of all vertices.

    Attributes:
        newest: The rows of the latest pass: what the job is now.
        of: Rows by vertex, oldest first.
        busy: Busy share by vertex and instant, where it is known.
    """

    newest: Sequence[Mapping[str, Any]]
    of: Mapping[VertexId, Sequence[Mapping[str, Any]]]
    busy: Mapping[tuple[VertexId, int], float]

    def sizes_at(self, instant: float, model: JobModel) -> dict[VertexId, int] | None:
        """Return the first recorded parallelism since an instant; None where that of a vertex is not known."""
        since = int(instant * _MICROS)
        sizes = {
            v.vertex_id: next(
                (row["parallelism"] for row in self.of[v.vertex_id] if row["ts"] >= since and row["parallelism"]), None
            )
            for v in model.vertices
        }
        known = {vertex_id: size for vertex_id, size in sizes.items() if size is not None}
        most = {v.vertex_id: v.max_parallelism for v in model.vertices}
        return {v: min(size, most[v]) for v, size in known.items()} if len(known) == len(sizes) else None


def fit(records: Records, terms: FitTerms) -> Subject | LeftOut:
    """Make a model of a job with its recorded arrivals, or tell why that cannot be done."""
    try:
        return _fitted(records, terms)
    except ValueError as error:  # also what a model says that cannot be: one job must not end all others
        return LeftOut(records.job_key, str(error))


@dataclass(frozen=True)
class FittedModel:
    """Model of a job, independent of its arrivals.

    Attributes:
        outages: Seconds that it was away for rescales, oldest first; empty where none was measured.
        notes: What had to be assumed, in full sentences.
    """

    model: JobModel
    windows: Windows
    outages: tuple[float, ...]
    notes: tuple[str, ...]


def fitted_model(records: Records, now: float) -> FittedModel:
    """Make a model of a job without its arrivals; what is later than now was written by a clock that is wrong.

    Raises:
        ValueError: That cannot be done; the message says why.
    """
    windows, notes = windows_of(records.vertices, now), list[str]()
    model = _model(windows, _partitions(records.samples), notes)
    return FittedModel(model, windows, _outages(records.rescales), tuple(notes))


def _fitted(records: Records, terms: FitTerms) -> Subject:
    found = fitted_model(records, terms.now)
    model, windows = found.model, found.windows
    samples = _samples(records.samples, model.sources)
    arrivals = arrivals_of(records.job_key, _since(terms.since, samples), terms.now)
    first_ms = round(arrivals.start * 1000)
    return Subject(
        records.job_key,
        model,
        arrivals.workload,
        cluster=windows.newest[0]["cluster"],
        initial=windows.sizes_at(arrivals.start, model),
        outage=float(median(found.outages)) if found.outages else OUTAGE,
        start_ms=first_ms,
        past=past_of(samples, terms.now) if terms.with_past else {},
        notes=(*found.notes, *(() if found.outages else (_NO_OUTAGE,)), *arrivals.notes),
    )


def _model(windows: Windows, partitions: Mapping[VertexId, int], notes: list[str]) -> JobModel:
    newest = {row["vertex_id"]: row for row in windows.newest}
    inputs = {v: [each["vertex_id"] for each in row["inputs"] or ()] for v, row in newest.items()}
    missing = sorted({up or "without an id" for each in inputs.values() for up in each} - newest.keys())
    if missing:
        raise UnfitError(f"the latest pass lacks vertex {', '.join(missing)}: its rows are incomplete")
    try:
        order = list(TopologicalSorter(inputs).static_order())
    except CycleError as error:
        raise UnfitError("its vertices feed each other in a circle, which no model here can do") from error
    edges = {(up, down): _selectivity(windows, (up, down)) for down in order for up in inputs[down]}
    idle = _idle(order, inputs, edges)
    return JobModel(
        tuple(
            _vertex(newest[v], 1.0 if v in idle else _rate(windows, newest[v], notes), partitions.get(v, 0))
            for v in order
        ),
        edges,
    )


def _idle(
    order: Iterable[VertexId], inputs: Mapping[VertexId, Sequence[VertexId]], edges: Mapping[Edge, float]
) -> set[VertexId]:
    """Return the vertices that nothing ever reaches, so that any capacity will do."""
    idle: set[VertexId] = set()
    for vertex_id in order:
        fed = inputs[vertex_id]
        if fed and all(upstream in idle or edges[upstream, vertex_id] == 0 for upstream in fed):
            idle.add(vertex_id)
    return idle


def _vertex(row: Mapping[str, Any], rate: float, partitions: int) -> VertexModel:
    strategies = [each["ship_strategy"] for each in row["inputs"] or ()]
    return VertexModel(
        row["vertex_id"],
        row["vertex_name"] or row["vertex_id"],
        rate,
        max_parallelism=row["max_parallelism"] or DEFAULT_MAX_PARALLELISM,
        partitions=partitions,
        ship=ShipStrategy.of(strategies[0] or "") if strategies else ShipStrategy.HASH,
        group=row["slot_sharing_group"] or "default",
    )


def _rate(windows: Windows, newest: Mapping[str, Any], notes: list[str]) -> float:
    """Return the records/s of one subtask that is always busy."""
    name = newest["vertex_name"] or newest["vertex_id"]
    measured = [
        (busy, rate) for row in windows.of[newest["vertex_id"]] if (rate := _measured(row)) for busy in _busy(row)
    ]
    if not measured:
        raise UnfitError(f"no busy time or no record rate of {name} was ever recorded, so its capacity is not known")
    steady = [rate for busy, rate in measured if busy >= LEAST_BUSY]
    if len(steady) >= LEAST_WINDOWS:
        return float(median(steady))
    busiest = sorted(measured, reverse=True)[: max(LEAST_WINDOWS, round(len(measured) * _BUSIEST))]
    notes.append(f"{name} was hardly ever busy for a fifth of its time: its capacity is a rough guess.")
    return float(median(rate for _, rate in busiest))


def _busy(row: Mapping[str, Any]) -> tuple[float, ...]:
    return (min(row["busy"], 1.0),) if row["busy"] is not None else (0.0,)


def _measured(row: Mapping[str, Any]) -> float | None:
    """Return what one subtask could do in one window; None where the window does not tell."""
    busy, records, parallelism = row["busy"], row["records_in_rate"], row["parallelism"]
    if not parallelism:
        return None
    if busy and records:
        return float(records / (min(busy, 1.0) * parallelism))
    is_unknown = busy is None or records is None
    return float(row["true_rate"] / parallelism) if is_unknown and row["true_rate"] else None


def _selectivity(windows: Windows, edge: Edge) -> float:
    """Return the records along an edge per record that its upstream vertex reads."""
    upstream, downstream = edge
    known = [
        (windows.busy.get((upstream, row["ts"]), 0.0), each["selectivity"])
        for row in windows.of[downstream]
        for each in row["inputs"] or ()
        if each["vertex_id"] == upstream and each["selectivity"] is not None
    ]
    if not known:
        raise UnfitError(f"how many records go from {upstream} to {downstream} was never recorded")
    steady = [selectivity for busy, selectivity in known if busy >= LEAST_BUSY]
    return float(median(steady if len(steady) >= LEAST_WINDOWS else [selectivity for _, selectivity in known]))


def _samples(samples: pa.Table, sources: Sequence[VertexId]) -> dict[VertexId, list[Sample]]:
    found: dict[VertexId, list[Sample]] = {source: [] for source in sources}
    for row in numbered_rows(samples):
        if row["source_id"] in found:
            at = row["ts"] / _MICROS
            found[row["source_id"]].append(Sample(at, row["span"], row["arrival_rate"], row["consumption_rate"]))
    return found


def _since(instant: float | None, samples: Mapping[VertexId, list[Sample]]) -> Mapping[VertexId, list[Sample]]:
    if instant is None:
        return samples
    # A sample is about the time before it.
    return {source: [sample for sample in each if sample.at > instant] for source, each in samples.items()}


def _partitions(samples: pa.Table) -> dict[VertexId, int]:
    """Return the latest known number of partitions by source."""
    rows = sorted(numbered_rows(samples), key=lambda row: int(row["ts"]))
    return {row["source_id"]: row["partitions"] for row in rows if row["partitions"]}


def _outages(rescales: pa.Table) -> tuple[float, ...]:
    """Return the measured outages; a rescale counts once, however often it was written."""
    rows = sorted(numbered_rows(rescales), key=lambda row: int(row["ts"]))
    outages = {row["decided_at"]: row["outage"] for row in rows if row["outage"] is not None}
    return tuple(map(float, outages.values()))


def windows_of(vertices: pa.Table, now: float) -> Windows:
    """Sort the rows of a job by vertex; what is later than now was written by a clock that is wrong.

    Raises:
        UnfitError: There is none.
    """
    recorded = [row for row in numbered_rows(vertices) if row["vertex_id"] is not None]
    rows = [row for row in recorded if row["ts"] <= (now + SKEW) * _MICROS]
    if not recorded:
        raise UnfitError("its vertices were never recorded")
    if not rows:
        raise UnfitError("all of it is later than now: the clock of the daemon or of this machine is wrong")
    rows.sort(key=lambda row: int(row["ts"]))
    newest = [row for row in rows if row["ts"] == rows[-1]["ts"]]
    of: dict[VertexId, list[Mapping[str, Any]]] = {row["vertex_id"]: [] for row in newest}
    for row in rows:
        if row["vertex_id"] in of:
            of[row["vertex_id"]].append(row)
    busy = {(row["vertex_id"], row["ts"]): row["busy"] for row in rows if row["busy"] is not None}
    return Windows(newest, of, busy)


def numbered_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows with instants as microseconds since the epoch, and numbers that cannot be as None.

    No number of a history can be negative, infinite or not a number. Rows without an instant say nothing.
    """
    position = table.schema.get_field_index("ts")
    numbered = table.set_column(position, "ts", table.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    for batch in numbered.to_batches(max_chunksize=10_000):
        yield from (_possible(row) for row in batch.to_pylist() if row["ts"] is not None)


def _possible(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if name == "ts" else _known(value) for name, value in row.items()}


def _known(value: Any) -> Any:
    """Return a value; None in place of a number that cannot be, and lists of rows with the same done to them."""
    if isinstance(value, list):
        return [_possible(each) for each in value if each is not None]
    if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
        return None
    return value
