"""An explanation as a document for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from flink_autoscaler.standalone.records.deciding import deciding_sentence
from flink_autoscaler.standalone.records.explain import Explanation
from flink_autoscaler.standalone.settings.secrets import masked


def explanation_document(explained: Explanation) -> dict[str, Any]:
    """Return an explanation as a document for JSON; numbers that JSON does not know are null."""
    return {
        "job_key": explained.request.context.job_key,
        "job_id": explained.request.context.job_id,
        "at": datetime.fromtimestamp(explained.request.now_ms / 1000).astimezone().isoformat(timespec="milliseconds"),
        "at_ms": explained.request.now_ms,
        "phase": explained.outcome.phase.value,
        "headline": masked(explained.headline),
        "decided_by": masked(deciding_sentence(explained)) or None,
        "because": [masked(text) for text in explained.because],
        "shadow": _document(explained.outcome.shadow),
        "samples": explained.outcome.sample_count,
        "is_window_full": explained.outcome.is_window_full,
        "restart_time": explained.outcome.restart_time,
        "restart_basis": _document(explained.outcome.restart_basis),
        "vertices": [_document(story) for story in explained.vertices],
        "follow_up": _document(explained.follow_up),
        "undone_by": _document(explained.undone_by),
        "events": [
            {"type": e.type.value, "reason": e.reason, "message": masked(e.message)} for e in explained.outcome.events
        ],
        "supervision": _document(explained.outcome.state.supervision),
        "orders": _document(explained.request.orders),
    }


def _document(value: Any) -> Any:
    """Return a value of the core in terms of JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {part.name: _document(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _document(entry) for key, entry in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    if isinstance(value, tuple | list):
        return [_document(entry) for entry in value]
    return masked(value) if isinstance(value, str) else value
