"""Recorded passes as text: JSON of the core's own values, compressed, without secrets, of bounded size.

A metric window is written by columns, one list of numbers per vertex and metric. What the state after a pass shares
with the state before it is written once. Reading is bounded and makes nothing but values of the core.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from pydantic import ConfigDict, RootModel, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from flink_autoscaler.core import errors
from flink_autoscaler.core.errors import AutoscalerError, StoreError
from flink_autoscaler.core.model.decision import Evaluation, Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.metrics import EvaluatedMetrics, MetricSample, VertexId
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import EMPTY_MEMORY
from flink_autoscaler.core.model.state import JobState, ScalingSummary
from flink_autoscaler.core.options.option import ValueParseError
from flink_autoscaler.core.ports.passes import PassInputs, PassOutcome, PassRequest
from flink_autoscaler.standalone.records.samples import samples_document, samples_of
from flink_autoscaler.standalone.settings.secrets import masked, shown

T = TypeVar("T")
Json = dict[str, Any]

VERSION: Final = 1
TEXT_LIMIT: Final = 4 << 20
"""Characters of a record as it is stored: much less than the packet that MySQL has to take."""
READ_LIMIT: Final = 64 << 20
"""Bytes of a record after decompression; also of a file."""

_LEVEL: Final = 1
"""Of compression: 6 takes five times as long, for a tenth less."""
_SUSPICIOUS: Final = re.compile(r"://|passw|pwd|secret|token|api-?key|basic\s|bearer\s|negotiate\s", re.IGNORECASE)
_BEGINNINGS: Final = ("://", "passw", "pwd", "secret", "token", "apikey", "api-key", "basic", "bearer", "negotiate")
"""Without any of them a text has nothing suspicious; they are found in a tenth of the time."""
_ERRORS: Final = {
    **{name: kind for name, kind in vars(errors).items() if isinstance(kind, type)},
    ValueParseError.__name__: ValueParseError,
}


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass: what it was asked, what the cluster answered, and what it came to.

    Attributes:
        outcome: With the answers of the cluster, where there were any.
        is_whole: Whether the metric windows and the answers are there, so that the pass can be replayed.
    """

    request: PassRequest
    outcome: PassOutcome
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class _Decided:
    """What is written of an outcome in another form than the core has it; samples are written apart, too.

    Attributes:
        summaries: Parallelism before and after by vertex; None where the decision is to hold.
        same: Parts of the state that are those of the state before.
        metrics: Of the evaluation, whose other parts the outcome has as well.
    """

    reasons: tuple[Reason, ...]
    summaries: Mapping[VertexId, tuple[int, int]] | None = None
    same: tuple[str, ...] = ()
    metrics: EvaluatedMetrics | None = None


class _Written(RootModel[T]):
    """A value of the core as JSON, field by field, with names for the numbers that JSON does not know."""

    model_config = ConfigDict(arbitrary_types_allowed=True, ser_json_inf_nan="strings", frozen=True, defer_build=True)


_ELSEWHERE: Final = frozenset(
    {"job_key", "decision", "undecided", "memory", "sample", "evaluation", "report", "error", "seconds", "inputs"}
)
"""Fields of an outcome that are in :class:`_Decided`, in the request, or not kept."""


def encode(record: PassRecord, limit: int = TEXT_LIMIT) -> str:
    """Write a record as text; one that is longer than the limit loses what only replaying needs."""
    text = _compressed(to_document(record))
    if len(text) <= limit:
        return text
    state = replace(record.request.state, samples=())
    after = replace(record.outcome.state, samples=())
    outcome = replace(record.outcome, state=after, inputs=None)
    return _compressed(to_document(PassRecord(replace(record.request, state=state), outcome, is_whole=False)))


def decode(text: str) -> PassRecord:
    """Read what :func:`encode` wrote.

    Raises:
        StoreError: It is damaged, too long, or of a version that is not known.
    """
    return from_document(_load(_inflated(text)))


def read_export(data: bytes) -> PassRecord:
    """Read a record that was exported as JSON.

    Raises:
        StoreError: It is damaged, too long, or of a version that is not known.
    """
    if len(data) > READ_LIMIT:
        raise StoreError(f"a record longer than {READ_LIMIT >> 20} MiB")
    return from_document(_load(data))


def to_document(record: PassRecord) -> Json:
    """Return a record as a JSON document without secrets and without numbers that JSON does not know."""
    request, inputs = record.request, record.outcome.inputs
    configuration = {key: shown(key, text) for key, text in request.context.configuration.items()}
    document = {"request": _request_document(request), "outcome": outcome_document(record.outcome, request.state)}
    if inputs is not None:
        document["inputs"] = _inputs_document(inputs)
    document["request"]["context"]["configuration"] = configuration
    samples, order = samples_document(request.state.samples, record.outcome.state.samples)
    return {"version": VERSION, "is_whole": record.is_whole, **document, "samples": samples, "samples_after": order}


def outcome_document(outcome: PassOutcome, before: JobState | None = None) -> Json:
    """Return what a pass came to as a JSON document without secrets.

    Samples are not in it, and of the state only what differs from the one before.
    """
    decision, after, evaluation = outcome.decision, outcome.state, outcome.evaluation
    names = [part.name for part in fields(JobState) if part.name != "samples"]
    same = tuple(name for name in names if before is not None and getattr(before, name) == getattr(after, name))
    state = JobState(**{name: getattr(after, name) for name in names if name not in same})
    changes = decision.summaries.items() if isinstance(decision, Rescale) else None
    decided = _Decided(
        tuple(replace(reason, figures=tuple(reason.figures)) for reason in decision.reasons),
        None if changes is None else {vertex_id: (summary.current, summary.new) for vertex_id, summary in changes},
        same,
        None if evaluation is None else evaluation.metrics,
    )
    document = {
        **_document(_Written[PassOutcome](replace(outcome, state=state)), _ELSEWHERE),
        **_document(_Written[_Decided](decided)),
    }
    if "excluded" in document:
        document["excluded"].sort()
    return {**document, **_error_field(outcome.error)}


def from_document(document: Json) -> PassRecord:
    """Read what :func:`to_document` made.

    Raises:
        StoreError: It is something else.
    """
    if document.get("version") != VERSION:
        raise StoreError(f"a record of version {document.get('version')!r}; this flink-autoscaler reads {VERSION}")
    try:
        return _record(document)
    except (ValidationError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StoreError(f"a record that cannot be read: {_first_line(error)}") from error


def _record(document: Json) -> PassRecord:
    before, after = samples_of(document["samples"], document["samples_after"])
    request = _Written[dict[str, PassRequest]].model_validate({"request": document["request"]}).root["request"]
    request = replace(request, state=replace(request.state, samples=before))
    outcome = _outcome(document["outcome"], request, after)
    inputs = _inputs(document["inputs"]) if "inputs" in document else None
    return PassRecord(request, replace(outcome, inputs=inputs), is_whole=bool(document["is_whole"]))


def _request_document(request: PassRequest) -> Json:
    """Leave out what a decision does not depend on: credentials, and what only the collector needs."""
    bare = replace(
        request,
        context=replace(request.context, configuration={}, endpoint=Endpoint("")),
        state=replace(request.state, samples=()),
        memory=EMPTY_MEMORY,
        recorded=None,
    )
    return _document(_Written[PassRequest](bare))


def _inputs_document(inputs: PassInputs) -> Json:
    reading, cluster = inputs.reading, inputs.cluster
    bare = None if reading is None else replace(reading, error=None, memory=replace(reading.memory, names={}))
    document = _document(_Written[PassInputs](PassInputs(bare, replace(cluster, error=None))))
    if reading is not None:
        document["reading_error"] = _error_field(reading.error)
    return {**document, "cluster_error": _error_field(cluster.error)}


def _inputs(document: Json) -> PassInputs:
    inputs = _Written[PassInputs].model_validate(document).root
    reading = inputs.reading
    if reading is not None:
        reading = replace(reading, error=_error(document["reading_error"]))
    return PassInputs(reading, replace(inputs.cluster, error=_error(document["cluster_error"])))


def _outcome(document: Json, request: PassRequest, samples: tuple[MetricSample, ...]) -> PassOutcome:
    decided = _Written[_Decided].model_validate(document).root
    missing = {"job_key": request.context.job_key, "decision": _decision(decided), "error": _error(document)}
    outcome = _Written[PassOutcome].model_validate({**document, **missing}).root
    kept = {name: getattr(request.state, name) for name in decided.same}
    metrics, topology = decided.metrics, outcome.topology
    evaluation = None
    if metrics is not None and topology is not None:
        evaluation = Evaluation(metrics, topology, outcome.restart_time or 0, bool(outcome.is_window_full))
    return replace(
        outcome,
        state=replace(outcome.state, samples=samples, **kept),
        sample=samples[-1] if samples and outcome.sample_count is not None else None,
        evaluation=evaluation,
    )


def _decision(decided: _Decided) -> Hold | Rescale:
    if decided.summaries is None:
        return Hold(decided.reasons)
    vertices = {} if decided.metrics is None else decided.metrics.vertices
    summaries = {
        vertex_id: ScalingSummary(current, new, vertices.get(vertex_id, {}))
        for vertex_id, (current, new) in decided.summaries.items()
    }
    return Rescale(summaries, decided.reasons)


def _error_field(error: AutoscalerError | None) -> Json:
    """Write an error as its kind and what it was made of; one of a kind that is not the core's by its text alone."""
    if error is None:
        return {}
    kind, parts = type(error).__name__, error.__reduce__()[1]
    is_ours = _ERRORS.get(kind) is type(error) and all(isinstance(part, str | int) for part in parts)
    return {"error": _masked([kind, *parts] if is_ours else [AutoscalerError.__name__, str(error)])}


def _error(document: Json) -> AutoscalerError | None:
    if "error" not in document:
        return None
    name, *parts = document["error"]
    error = _ERRORS[name](*parts)
    if not isinstance(error, AutoscalerError):
        raise TypeError(f"{name} is not an error of ours")
    return error


def _without_secrets(document: Json, text: str) -> Json:
    """Mask what logs mask in a document; looking at its text first costs less than masking what has no secrets."""
    folded = text.casefold()
    if any(each in folded for each in _BEGINNINGS) and _SUSPICIOUS.search(text):
        return {key: _masked(value) for key, value in document.items()}
    return document


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked(entry) for key, entry in value.items()}
    return [_masked(entry) for entry in value] if isinstance(value, list) else value


def _compressed(document: Json) -> str:
    try:
        data = to_json(document)
    except PydanticSerializationError:
        # Half a character, which JSON of others can name and no encoding takes, becomes a question mark.
        text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def _inflated(text: str) -> bytes:
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


def _document(value: _Written[T], without: frozenset[str] = frozenset()) -> Json:
    """Return a value as a document, without secrets and without fields that have their default."""
    try:
        text = value.model_dump_json(exclude_defaults=True, exclude=set(without))
        document: Json = from_json(text)
    except PydanticSerializationError:  # a text with half a character, such as a job's name of "\ud800"
        document = _named(value.model_dump(mode="json", exclude_defaults=True, exclude=set(without)))
        text = json.dumps(document, ensure_ascii=False)
    return _without_secrets(document, text)


def _named(value: Any) -> Any:
    """Give the numbers that JSON does not know their names, as pydantic does when it writes text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _named(entry) for key, entry in value.items()}
    return [_named(entry) for entry in value] if isinstance(value, list) else value


def _first_line(error: Exception) -> str:
    """Say what is wrong without the values, which may be long or confidential."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return type(error).__name__
