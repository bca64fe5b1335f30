"""Plans of bounds: at which times they hold, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from zoneinfo import ZoneInfo

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import validate_pattern
from flink_autoscaler.core.options.calendar import (
    PERIOD_FIELDS,
    SEPARATORS,
    Fields,
    Period,
    field_key,
    parse_period,
    read_fields,
)
from flink_autoscaler.core.options.declare import number_from

_UTC: Final = ZoneInfo("UTC")
_ALWAYS: Final = Period()
EVERY_VERTEX: Final = "*"
MAX_PLANS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """One plan.

    Attributes:
        period: In which it holds; in UTC where it names no zone.
        vertex: Id or name pattern of the vertices that it is about.
        min_parallelism: Of each of them; None says nothing.
        max_parallelism: The same.
        min_rate: Records/s that each source among them has to sustain; None says nothing.
        text: How it was written.
    """

    period: Period = _ALWAYS
    vertex: str = EVERY_VERTEX
    min_parallelism: int | None = None
    max_parallelism: int | None = None
    min_rate: float | None = None
    text: str = field(default="", compare=False)

    def holds_at(self, now: float, lead: float = 0.0) -> bool:
        """Tell whether an instant is in the plan, or at most ``lead`` seconds before it begins."""
        return self.period.holds_at(round(now * 1000), _UTC, round(lead * 1000))


def parse_plans(text: str) -> tuple[SchedulePlan, ...]:
    """Read ``days=mon-fri, from=07:00, to=19:00, min-parallelism=8; ...``.

    Raises:
        ValueError: It cannot be read, or a plan says nothing.
    """
    parts = [part for part in syntax.parse_list(text) if part.strip()]
    if len(parts) > MAX_PLANS:
        raise ValueError(f"at most {MAX_PLANS} plans, not {len(parts)}")
    return tuple(map(_plan, parts))


def format_plans(plans: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Write plans, each given as names of fields and their texts, so that :func:`parse_plans` can read them.

    Several days may be separated by blanks, commas, or semicolons, as Flink writes lists. A comma in the name of a
    vertex becomes a pattern that fits it.
    """
    return syntax.format_list(
        [", ".join(f"{name}={_format_entry(name, text)}" for name, text in plan) for plan in plans]
    )


def _format_entry(name: str, text: str) -> str:
    key = field_key(name)
    if key == "days":
        return " ".join(SEPARATORS.split(text.strip()))
    return text.strip().replace(",", "?") if key == "vertex" else text.strip()


def _plan(text: str) -> SchedulePlan:
    values = read_fields(text, _FIELDS)
    shown = repr(syntax.abbreviate(text))
    attributes = {attribute for attribute, _ in PERIOD_FIELDS.values()}
    named = {name: values.pop(name) for name in attributes & values.keys()}
    if named and "period" in values:
        raise ValueError(f"{shown} has a period and {', '.join(PERIOD_FIELDS)} beside it")
    plan = SchedulePlan(**{"period": Period(**named), **values}, text=text)
    if (plan.min_parallelism, plan.max_parallelism, plan.min_rate) == (None, None, None):
        raise ValueError(f"{shown} has none of min-parallelism, max-parallelism and min-rate")
    if plan.max_parallelism is not None and (plan.min_parallelism or 1) > plan.max_parallelism:
        raise ValueError(f"{shown} has a least parallelism above the greatest")
    return plan


def _parallelism(text: str) -> int:
    number = syntax.parse_int(text)
    if number < 1:
        raise ValueError(f"a parallelism of {number} is not possible")
    return number


_FIELDS: Final[Fields] = {
    "period": ("period", parse_period),
    **PERIOD_FIELDS,
    "vertex": ("vertex", validate_pattern),
    "min-parallelism": ("min_parallelism", _parallelism),
    "max-parallelism": ("max_parallelism", _parallelism),
    "min-rate": ("min_rate", number_from(0.0)),
}
