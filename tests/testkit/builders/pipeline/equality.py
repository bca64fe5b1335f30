"""Equality of outcomes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum

from flink_autoscaler.core.ports.passes import PassOutcome


def comparable(outcome: PassOutcome) -> object:
    """Return an outcome as plain values: NaN equals NaN, errors are equal by type and text.

    Times, and which engine it was, are left out.
    """
    return _plain(dataclasses.replace(outcome, seconds={}, engine=None))


def _plain(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, Enum) or value is None or isinstance(value, str):
        return value
    if dataclasses.is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in dataclasses.fields(value))]
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value
