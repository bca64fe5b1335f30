"""Recorded passes as text: JSON of the core's own values, compressed, without secrets, of bounded size.

A metric window is written by columns, one list of numbers per vertex and metric. What the state after a pass shares
with the state before it is written once. Reading is bounded and makes nothing but values of the core.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Final, TypeVar, cast

from pydantic import ConfigDict, RootModel, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from flink_autoscaler.core import errors
from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.core.decide.slot_sharing import PinnedJob
from flink_autoscaler.core.errors import AutoscalerError, StoreError
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import Endpoint, JobKey
from flink_autoscaler.core.model.metrics import (
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
)
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, ClusterReading
from flink_autoscaler.core.model.state import JobState, ScalingSummary
from flink_autoscaler.core.model.supervision import Supervision, Vector
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.window import VertexTable
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.ports.passes import PassInputs, PassOutcome, PassRequest
from flink_autoscaler.standalone.settings.secrets import mask_secrets, mask_value
from flink_autoscaler.stores.sql.state.own_state import non_busy_columns, non_busy_rows

T = TypeVar("T")
Json = dict[str, Any]
Column = list[float | str | None]
"""One entry per sample: a number, its name where JSON has no number for it, or None where the metric is absent."""

VERSION: Final = 1
TEXT_LIMIT: Final = 4 << 20
"""Characters of a record as it is stored: much less than the packet that MySQL has to take."""
READ_LIMIT: Final = 64 << 20
"""Bytes of a record after decompression; also of a file."""

_LEVEL: Final = 1
"""Of compression: 6 takes five times as long, for a tenth less."""
_SUSPICIOUS: Final = ("://", "passw", "pwd", "secret", "token", "apikey", "api-key", "basic", "bearer", "negotiate")
"""Without any of them a text has no secret; looking for them costs less than masking what has none."""
_NAMES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}
_ERRORS: Final = {
    **{name: kind for name, kind in vars(errors).items() if isinstance(kind, type)},
    ValueParseError.__name__: ValueParseError,
}


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass: what it was asked, what the cluster answered, and what it came to.

    Attributes:
        outcome: With the answers of the cluster, where there were any.
        is_complete: Whether the metric windows and the answers are there, so that the pass can be replayed.
    """

    request: PassRequest
    outcome: PassOutcome
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _DecisionFields:
    """Parts of an outcome that are written in another form than the core has; samples are written apart, too.

    Attributes:
        summaries: Parallelism before and after by vertex; None where the decision is to hold.
        same: Parts of the state that are those of the state before.
    """

    reasons: tuple[Reason, ...]
    summaries: Mapping[VertexId, tuple[int, int]] | None = None
    same: tuple[str, ...] = ()


class _JsonModel(RootModel[T]):
    """A value of the core as JSON, field by field, with names for the numbers that JSON does not know."""

    model_config = ConfigDict(arbitrary_types_allowed=True, ser_json_inf_nan="strings", frozen=True, defer_build=True)


_WRITTEN_APART: Final = frozenset(
    {"job_key", "decision", "undecided", "memory", "report", "error", "seconds", "inputs"}
)
"""Fields of an outcome that are in :class:`_DecisionFields`, in the request, or not kept."""

_STORED_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "observation": {name: name for name in ("sample_count", "is_window_full", "topology", "excluded", "origins")},
    "restart": {"seconds": "restart_time", "basis": "restart_basis"},
    "target": {
        "parallelism": "wanted",
        "min_parallelism": "least",
        "found_requirements": "found",
        "tunes_memory": "wanted_config",
        "is_repair": "is_repair",
    },
}
"""Parts of an outcome whose fields stand beside each other in a record, with the keys that records have always had."""


def encode(record: PassRecord, limit: int = TEXT_LIMIT) -> str:
    """Write a record as text; one that is longer than the limit loses what only replaying needs."""
    text = _compress(to_document(record))
    if len(text) <= limit:
        return text
    state = replace(record.request.state, samples=())
    after = replace(record.outcome.state, samples=())
    outcome = replace(record.outcome, state=after, inputs=None)
    return _compress(to_document(PassRecord(replace(record.request, state=state), outcome, is_complete=False)))


def decode(text: str) -> PassRecord:
    """Read what :func:`encode` wrote.

    Raises:
        StoreError: It is damaged, too long, or of a version that is not known.
    """
    return _from_document(_load(_decompress(text)))


def read_export(data: bytes) -> PassRecord:
    """Read a record that was exported as JSON.

    Raises:
        StoreError: It is damaged, too long, or of a version that is not known.
    """
    if len(data) > READ_LIMIT:
        raise StoreError(f"a record longer than {READ_LIMIT >> 20} MiB")
    return _from_document(_load(data))


def to_document(record: PassRecord) -> Json:
    """Return a record as a JSON document without secrets and without numbers that JSON does not know."""
    request, inputs = record.request, record.outcome.inputs
    bare = replace(  # without what a decision does not depend on: credentials, and what only the collector needs
        request,
        context=replace(request.context, configuration={}, endpoint=Endpoint("")),
        state=replace(request.state, samples=()),
        memory=EMPTY_MEMORY,
        recorded=None,
    )
    document: Json = {
        "version": VERSION,
        "is_whole": record.is_complete,
        "request": _document(_JsonModel[PassRequest](bare)),
        "outcome": outcome_document(record.outcome, request.state),
    }
    configuration = {key: mask_value(key, text) for key, text in request.context.configuration.items()}
    document["request"]["context"]["configuration"] = configuration
    if inputs is not None:
        reading, cluster = inputs.reading, inputs.cluster
        read = None if reading is None else replace(reading, error=None, memory=replace(reading.memory, names={}))
        document["inputs"] = _document(_JsonModel[PassInputs](PassInputs(read, replace(cluster, error=None))))
        document["inputs"]["cluster_error"] = _error_field(cluster.error)
        if reading is not None:
            document["inputs"]["reading_error"] = _error_field(reading.error)
    document["samples"], document["samples_after"] = samples_document(
        request.state.samples, record.outcome.state.samples
    )
    return document


def outcome_document(outcome: PassOutcome, before: JobState | None = None) -> Json:
    """Return what a pass came to as a JSON document without secrets.

    Samples are not in it, and of the state only what differs from the one before.
    """
    decision, after = outcome.decision, outcome.state
    names = [part.name for part in fields(JobState) if part.name != "samples"]
    same = tuple(name for name in names if before is not None and getattr(before, name) == getattr(after, name))
    state = JobState(**{name: getattr(after, name) for name in names if name not in same})
    changes = decision.summaries.items() if isinstance(decision, Rescale) else None
    decided = _DecisionFields(
        tuple(replace(reason, figures=tuple(reason.figures)) for reason in decision.reasons),
        None if changes is None else {vertex_id: (summary.current, summary.new) for vertex_id, summary in changes},
        same,
    )
    unsampled = replace(outcome.observation, sample=None)
    document = {
        **_document(_JsonModel[PassOutcome](replace(outcome, state=state, observation=unsampled)), _WRITTEN_APART),
        **_document(_JsonModel[_DecisionFields](decided)),
    }
    for part, keys in _STORED_KEYS.items():
        document |= {keys[name]: value for name, value in document.pop(part, {}).items()}
    if "excluded" in document:
        document["excluded"].sort()
    return {**document, **_error_field(outcome.error)}


def _from_document(document: Json) -> PassRecord:
    """Read what :func:`to_document` made.

    Raises:
        StoreError: It is something else.
    """
    if document.get("version") != VERSION:
        raise StoreError(f"a record of version {document.get('version')!r}; this flink-autoscaler reads {VERSION}")
    try:
        before, after = read_samples(document["samples"], document["samples_after"])
        request = _JsonModel[dict[str, PassRequest]].model_validate({"request": document["request"]}).root["request"]
        request = replace(request, state=replace(request.state, samples=before))
        outcome = _outcome(document["outcome"], request, after)
        inputs = _inputs(document["inputs"]) if "inputs" in document else None
        return PassRecord(request, replace(outcome, inputs=inputs), is_complete=bool(document["is_whole"]))
    except ValidationError as error:
        # What is wrong without the values, which may be long or confidential.
        first = error.errors(include_input=False, include_url=False)[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise StoreError(f"a record that cannot be read: {problem}") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StoreError(f"a record that cannot be read: {type(error).__name__}") from error


def _inputs(document: Json) -> PassInputs:
    inputs = _JsonModel[PassInputs].model_validate(document).root
    reading = inputs.reading
    if reading is not None:
        reading = replace(reading, error=_error(document["reading_error"]))
    return PassInputs(reading, replace(inputs.cluster, error=_error(document["cluster_error"])))


def _outcome(document: Json, request: PassRequest, samples: tuple[MetricSample, ...]) -> PassOutcome:
    decided = _JsonModel[_DecisionFields].model_validate(document).root
    parts = {
        part: {name: document[key] for name, key in keys.items() if key in document}
        for part, keys in _STORED_KEYS.items()
    }
    given = {**document, **{part: values for part, values in parts.items() if values}}
    missing = {"job_key": request.context.job_key, "decision": Hold(decided.reasons), "error": _error(document)}
    outcome = _JsonModel[PassOutcome].model_validate({**given, **missing}).root
    decision, observation = outcome.decision, outcome.observation
    if decided.summaries is not None:
        vertices = outcome.evaluated
        changes = decided.summaries.items()
        decision = Rescale({v: ScalingSummary(*change, vertices.get(v, {})) for v, change in changes}, decided.reasons)
    if samples and observation.sample_count is not None:
        observation = replace(observation, sample=samples[-1])
    same = {name: getattr(request.state, name) for name in decided.same}
    state = replace(outcome.state, samples=samples, **same)
    return replace(outcome, decision=decision, state=state, observation=observation)


def _error_field(error: AutoscalerError | None) -> Json:
    """Write an error as its kind and what it was made of; one of a kind that is not the core's by its text alone."""
    if error is None:
        return {}
    kind, parts = type(error).__name__, error.__reduce__()[1]
    is_ours = _ERRORS.get(kind) is type(error) and all(isinstance(part, str | int) for part in parts)
    return {"error": _mask([kind, *parts] if is_ours else [AutoscalerError.__name__, str(error)])}


def _error(document: Json) -> AutoscalerError | None:
    if "error" not in document:
        return None
    name, *parts = document["error"]
    error = _ERRORS[name](*parts)
    if not isinstance(error, AutoscalerError):
        raise TypeError(f"{name} is not an error of ours")
    return error


def _mask(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {key: _mask(entry) for key, entry in value.items()}
    return [_mask(entry) for entry in value] if isinstance(value, list) else value


def _compress(document: Json) -> str:
    try:
        data = to_json(document)
    except PydanticSerializationError:
        # Half a character, which JSON of others can name and no encoding takes, becomes a question mark.
        text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def _decompress(text: str) -> bytes:
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(text, validate=True), READ_LIMIT + 1)
    except (zlib.error, binascii.Error, ValueError) as error:
        raise StoreError(f"a record that cannot be read: {type(error).__name__}") from error
    if len(data) > READ_LIMIT or not inflater.eof:
        raise StoreError(f"a record that is cut off, or longer than {READ_LIMIT >> 20} MiB")
    return data


def _load(data: bytes) -> Json:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a record that cannot be read: {type(error).__name__}") from error
    if not isinstance(document, dict):
        raise StoreError("a record that cannot be read: not a JSON object")
    return document


def _document(value: _JsonModel[T], without: frozenset[str] = frozenset()) -> Json:
    """Return a value as a document, without secrets and without fields that have their default."""
    try:
        text = value.model_dump_json(exclude_defaults=True, exclude=set(without))
        document: Json = from_json(text)
    except PydanticSerializationError:  # a text with half a character, such as a job's name of "\ud800"
        plain = value.model_dump(mode="json", exclude_defaults=True, exclude=set(without))
        text = json.dumps(plain, ensure_ascii=False)
        document = json.loads(text, parse_constant=str)  # with names for the numbers that JSON does not know
    folded = text.casefold()
    return cast("Json", _mask(document)) if any(each in folded for each in _SUSPICIOUS) else document


def samples_document(before: Sequence[MetricSample], after: Sequence[MetricSample]) -> tuple[Json, list[list[int]]]:
    """Write the samples of two windows that mostly are the same.

    Returns:
        All of them by columns, and which of them each window has, in order.
    """
    places = {id(sample): index for index, sample in enumerate(before)}
    samples = list(before)
    for sample in after:
        if id(sample) not in places:
            places[id(sample)] = len(samples)
            samples.append(sample)
    document = {
        "at_ms": [sample.at_ms for sample in samples],
        "vertices": _vertices([sample.vertices for sample in samples]),
        "globals": _metrics([sample.globals_ for sample in samples]),
        "waited": non_busy_columns(samples),
        "incomplete": {str(index): sorted(s.incomplete) for index, s in enumerate(samples) if s.incomplete},
    }
    return document, [list(range(len(before))), [places[id(sample)] for sample in after]]


def _vertices(rows: Sequence[Mapping[VertexId, VertexMetrics]]) -> Json:
    """Write the metrics of all vertices; those of tables of one layout, as nearly all are, column by column."""
    tables = [row for row in rows if isinstance(row, VertexTable)]
    if tables and len(tables) == len(rows) and all(table.layout is tables[0].layout for table in tables):
        columns = map(list, zip(*(table.numbers for table in tables), strict=True))
        return {
            v: {metric.value: _column(next(columns)) for metric in metrics} for v, metrics in tables[0].layout.shape
        }
    vertices = dict.fromkeys(vertex_id for row in rows for vertex_id in row)
    return {v: _metrics([row.get(v) for row in rows]) for v in vertices}


def _metrics(rows: Sequence[VertexMetrics | None]) -> Json:
    """Write one map per sample; None where a sample has no such map."""
    maps = [{} if row is None else dict(row.items()) for row in rows]
    names = dict.fromkeys(chain.from_iterable(maps))
    columns: Json = {metric.value: _column([each.get(metric) for each in maps]) for metric in names}
    missing = [index for index, row in enumerate(rows) if row is None]
    return {**columns, "": missing} if missing else columns


def _column(values: list[float | None] | list[float]) -> Column:
    # A sum is finite only where all numbers are, which are nearly all.
    if None not in values and math.isfinite(sum(cast("list[float]", values))):
        return cast("Column", values)
    return [v if v is None or math.isfinite(v) else _NAMES.get(v, "NaN") for v in values]


def read_samples(document: Json, order: Sequence[Sequence[int]]) -> tuple[tuple[MetricSample, ...], ...]:
    """Return the samples of the windows that :func:`samples_document` wrote."""
    instants: list[int] = document["at_ms"]
    count = len(instants)
    vertices = {str(v): _rows(columns, count) for v, columns in document["vertices"].items()}
    globals_ = _rows(document["globals"], count)
    incomplete: Mapping[str, Iterable[str]] = document["incomplete"]
    waited = non_busy_rows(document.get("waited", {}), count)
    samples = [
        MetricSample(
            int(at_ms),
            VertexTable.of({v: row for v, rows in vertices.items() if (row := rows[index]) is not None}),
            globals_[index] or {},
            frozenset(incomplete.get(str(index), ())),
            waited[index],
        )
        for index, at_ms in enumerate(instants)
    ]
    before, after = (tuple(samples[index] for index in window if index >= 0) for window in order)
    return before, after


def _rows(columns: Mapping[str, Column], count: int) -> list[dict[ScalingMetric, float] | None]:
    missing = set(columns.get("", ()))
    rows: list[dict[ScalingMetric, float] | None] = [None if index in missing else {} for index in range(count)]
    for name, column in columns.items():
        if name:
            metric = ScalingMetric(name)
            for row, value in zip(rows, column, strict=True):
                if row is not None and value is not None:
                    row[metric] = float(value)
    return rows


SIZED: Final = frozenset({"SIZED", "AT_TARGET"})
"""Codes of the reasons that carry how a vertex was sized."""


def vertices_of(outcome: PassOutcome) -> tuple[Vertex | VertexDetails, ...]:
    """Return the vertices as far as they were read, also of a job that does not run."""
    if outcome.observation.topology is not None:
        return tuple(outcome.observation.topology.vertices.values())
    reading = None if outcome.inputs is None else outcome.inputs.reading
    return () if reading is None or reading.details is None else reading.details.vertices


def desired_parallelism_of(supervision: Supervision, outcome: PassOutcome | None) -> Vector:
    """Return what is wanted of vertices: what the load asks for where a pass has sized it, else what is asked for.

    What the load asks for may be more than is asked of the cluster, where slots, a wait or a rule hold it back. Pins go
    before it.
    """
    wanted = dict(supervision.asked)
    for reason in () if outcome is None else outcome.decision.reasons:
        aligned = dict(reason.figures).get("aligned") if reason.code in SIZED else None
        if reason.vertex_id and aligned is not None and reason.vertex_id not in supervision.pinned:
            wanted[reason.vertex_id] = round(aligned)
    return wanted


def latest_snapshot(records: RecordStore, job_key: JobKey) -> PinnedJob | None:
    """Return a job as its latest recorded pass saw it; None where that does not tell."""
    newest = records.latest(job_key)
    if newest is None:
        return None
    try:
        record = decode(newest.text)
    except StoreError:
        return None
    vertices = vertices_of(record.outcome)
    inputs = record.outcome.inputs
    cluster = ClusterReading() if inputs is None else inputs.cluster
    return PinnedJob(record.request.context, vertices, cluster, record.request.now_ms) if vertices else None
