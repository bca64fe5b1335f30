"""What is remembered about forecasts, as JSON values: short lists, because every job carries them from pass to pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flink_autoscaler.core.forecast.buckets import OpenBucket
from flink_autoscaler.core.forecast.guard import Issued, Score, SourceState
from flink_autoscaler.core.forecast.online import Bucket
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import r3

Json = dict[str, Any]


def forecast_document(states: Mapping[VertexId, SourceState]) -> Json:
    """Return the states of a job's sources as JSON values; rates with three decimals."""
    return {source: _source_document(state) for source, state in states.items()}


def forecast_states(document: Mapping[str, Any]) -> dict[VertexId, SourceState]:
    """Return the states that were written.

    Raises:
        ValueError: The document is something else.
    """
    try:
        return {source: _source_state(each) for source, each in document.items()}
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"not the state of forecasts: {type(error).__name__}") from error


def _source_document(state: SourceState) -> Json:
    bucket = state.bucket
    return {
        "trusted": state.is_trusted,
        "bucket": None if bucket is None else [bucket.start, bucket.minutes, bucket.count, bucket.total],
        "recent": [[each.start, r3(each.rate)] for each in state.recent],
        "issued": [[each.target, r3(each.f50), r3(each.f90)] for each in state.issued],
        "scores": [[each.at, r3(each.rate), r3(each.f50), r3(each.f90)] for each in state.scores],
    }


def _source_state(document: Mapping[str, Any]) -> SourceState:
    bucket = document["bucket"]
    return SourceState(
        is_trusted=bool(document["trusted"]),
        bucket=None if bucket is None else _bucket(*bucket),
        recent=tuple(Bucket(int(start), float(rate)) for start, rate in document["recent"]),
        issued=tuple(Issued(int(target), float(f50), float(f90)) for target, f50, f90 in document["issued"]),
        scores=tuple(Score(int(at), float(y), float(f50), float(f90)) for at, y, f50, f90 in document["scores"]),
    )


def _bucket(start: int, minutes: int, count: int, total: float) -> OpenBucket:
    return OpenBucket(int(start), int(minutes), int(count), float(total))
