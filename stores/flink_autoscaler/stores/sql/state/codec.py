"""The kinds of state: what the database calls them, where they are in a job's state, and both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.stores.sql.state import readers, writers
from flink_autoscaler.stores.sql.state.documents import DocumentError
from flink_autoscaler.stores.sql.state.readers import Decoded


class StateType(StrEnum):
    """The kinds of state, as in the column ``state_type``."""

    SCALING_HISTORY = "scalingHistory"
    SCALING_TRACKING = "scalingTracking"
    COLLECTED_METRICS = "collectedMetrics"
    PARALLELISM_OVERRIDES = "parallelismOverrides"
    CONFIG_OVERRIDES = "configOverrides"
    DELAYED_SCALE_DOWN = "delayedScaleDown"


class Kind(NamedTuple):
    """How one kind of state is kept: its field of ``JobState``, its empty value, and both directions."""

    name: str
    empty: Any
    encode: Callable[[Any], str]
    decode: Callable[[str], Decoded]


KINDS: Mapping[StateType, Kind] = {
    StateType.SCALING_HISTORY: Kind("history", {}, writers.encode_history, readers.decode_history),
    StateType.SCALING_TRACKING: Kind("tracking", (), writers.encode_tracking, readers.decode_tracking),
    StateType.COLLECTED_METRICS: Kind("samples", (), writers.encode_samples, readers.decode_samples),
    StateType.PARALLELISM_OVERRIDES: Kind("overrides", {}, writers.encode_overrides, readers.decode_overrides),
    StateType.CONFIG_OVERRIDES: Kind("config_changes", ConfigChanges(), writers.encode_config, readers.decode_config),
    StateType.DELAYED_SCALE_DOWN: Kind("delayed", {}, writers.encode_delayed, readers.decode_delayed),
}


def encode(state_type: StateType, part: Any) -> str | None:
    """Write a part of a job's state; None when it is empty and needs no row."""
    kind = KINDS[state_type]
    return None if part == kind.empty else kind.encode(part)


def decode(state_type: StateType, text: str) -> Decoded:
    """Read what :func:`encode` or the Java process wrote.

    Raises:
        UnreadableError: It cannot be read; nothing of it is used.
    """
    try:
        return KINDS[state_type].decode(text)
    except DocumentError:
        raise
    except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError) as error:
        # What the readers below stumble over when a document has another shape than it should.
        raise DocumentError(f"unexpected content: {type(error).__name__}: {str(error)[:100]}") from None
