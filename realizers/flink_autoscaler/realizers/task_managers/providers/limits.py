"""Limits of a provider's TaskManagers, and its readings of those who start them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import OperationState, Progress, ProviderInfo

UNKNOWN_OPERATION: Final = OperationState(
    Progress.FAILED, "not known: begun by another daemon, or followed by another one"
)

_COUNTS: Final = {
    "desired": "desired",
    "running": "running",
    "minimum": "minimum",
    "maximum": "maximum",
    "slotsPerTaskManager": "slots_per_taskmanager",
}
_IDS: Final = {"taskManagerIds": "taskmanager_ids", "leavingIds": "leaving_ids"}


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """Bounds on the number of TaskManagers, and the properties of one.

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

    def info(self, desired: int | None = None, running: int | None = None) -> ProviderInfo:
        """Describe TaskManagers of which only their number is known."""
        return ProviderInfo(
            desired, running, self.minimum, self.maximum, self.slots_per_taskmanager, self.typical_startup
        )

    def check(self, count: int) -> None:
        """Refuse a count that is not within the limits.

        Raises:
            RealizeError: It is not.
        """
        most = "" if self.maximum is None else f" to {self.maximum}"
        if count < max(0, self.minimum) or (self.maximum is not None and count > self.maximum):
            raise RealizeError(f"{count} TaskManagers are not within the limits of the provider: {self.minimum}{most}")


def parse_description(value: object, info: ProviderInfo) -> ProviderInfo:
    """Lay a description over what is known without it; its fields may all be missing, unknown ones are ignored.

    Limits only ever become narrower: those of the settings hold in any case.

    Args:
        value: Has ``desired``, ``running``, ``minimum``, ``maximum``, ``slotsPerTaskManager`` as whole numbers,
            ``canPickVictims`` as a truth value, ``taskManagerIds`` and ``leavingIds`` as lists of texts,
            ``typicalStartupSeconds`` as a number.
        info: What is known without it.

    Raises:
        RealizeError: A field has another type.
    """
    if not isinstance(value, Mapping):
        raise RealizeError(f"expected a JSON object that describes TaskManagers, not {str(value)[:80]!r}")
    changes: dict[str, Any] = {name: _count(value, key) for key, name in _COUNTS.items() if value.get(key) is not None}
    changes |= {name: _ids(value, key) for key, name in _IDS.items() if value.get(key) is not None}
    if value.get("canPickVictims") is not None:
        changes["can_pick_victims"] = value["canPickVictims"] is True
    if value.get("typicalStartupSeconds") is not None:
        changes["typical_startup"] = _seconds(value["typicalStartupSeconds"])
    if info.maximum is not None:
        changes["maximum"] = min(info.maximum, changes.get("maximum", info.maximum))
    changes["minimum"] = max(info.minimum, changes.get("minimum", info.minimum))
    return replace(info, **changes)


def _count(value: Mapping[Any, Any], key: str) -> int:
    number = value[key]
    if type(number) is not int or number < 0:
        raise RealizeError(f"{key}: expected a whole number of 0 or more, not {str(number)[:40]!r}")
    return number


def _ids(value: Mapping[Any, Any], key: str) -> frozenset[str]:
    ids = value[key]
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
        raise RealizeError(f"{key}: expected a list of texts")
    return frozenset(ids)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise RealizeError(f"typicalStartupSeconds: expected a number of 0 or more, not {str(value)[:40]!r}")
    return float(value)


def with_default_desired(found: ProviderInfo) -> ProviderInfo:
    """Fill in how many there are to be: as many as there are, where nobody says."""
    return found if found.desired is not None else replace(found, desired=found.running)
