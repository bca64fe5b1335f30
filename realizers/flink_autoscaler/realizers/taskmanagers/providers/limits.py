"""What every provider is told about its TaskManagers."""

from __future__ import annotations

from dataclasses import dataclass

from flink_autoscaler.core.errors import RealizeError


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """How many TaskManagers there may be, and what one is like.

    Attributes:
        minimum: Never fewer.
        maximum: Never more; None sets no limit.
        slots_per_taskmanager: None takes what the cluster says.
        typical_startup: Seconds from the request until a TaskManager offers its slots.
    """

    minimum: int = 0
    maximum: int | None = None
    slots_per_taskmanager: int | None = None
    typical_startup: float = 30.0


def checked_count(count: int, limits: ProviderLimits) -> int:
    """Return a count that is within the limits.

    Raises:
        RealizeError: It is not.
    """
    most = "" if limits.maximum is None else f" to {limits.maximum}"
    if count < max(0, limits.minimum) or (limits.maximum is not None and count > limits.maximum):
        raise RealizeError(f"{count} TaskManagers are not within the limits of the provider: {limits.minimum}{most}")
    return count
