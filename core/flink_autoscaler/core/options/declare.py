"""Short ways to declare options, and readers of values that say what is permitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.load_profile import zone_named
from flink_autoscaler.core.options.option import LEGACY_PREFIX, PREFIX, Option

T = TypeVar("T")
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True)
class Reader(Generic[T]):
    """Reads the text of a value.

    Attributes:
        parse: Raises ValueError for what is not permitted.
        allowed: What is, for the reference page.
    """

    parse: Callable[[str], T]
    allowed: str

    def __call__(self, text: str) -> T:
        """Return the value."""
        return self.parse(text)


def one_of(kind: type[_E]) -> Reader[_E]:
    """Return a reader of the names of an enumeration, in any case."""
    return Reader(lambda text: syntax.parse_enum(text, kind), ", ".join(kind))


def number_from(least: float, most: float = math.inf) -> Reader[float]:
    """Return a reader of finite numbers from ``least`` to ``most``, both included."""
    allowed = limits_text(least, most)

    def parse(text: str) -> float:
        value = syntax.parse_double(text)
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"a number in {allowed}")
        return value

    return Reader(parse, allowed)


def limits_text(least: float, most: float = math.inf) -> str:
    """Write limits as the reference page shows them."""
    return f"[{least:g}, {'+Infinity' if math.isinf(most) else f'{most:g}'}]"


def positive_duration(text: str) -> syntax.Duration:
    """Read a duration that is not 0."""
    duration = syntax.parse_time(text)
    if duration.nanoseconds == 0:
        raise ValueError("a duration above 0")
    return duration


def time_zone(text: str) -> str:
    """Read the name of a time zone."""
    try:
        zone_named(text.strip())
    except ConfigError as error:
        raise ValueError("a time zone such as UTC or Europe/Berlin that this machine knows") from error
    return text.strip()


def option(
    suffix: str,
    parse: Callable[[str], T],
    default: str,
    *,
    fallback: tuple[str, ...] = (),
    deprecated: tuple[str, ...] = (),
    allowed: str = "",
) -> Option[T]:
    """Declare an option with a default; without ``fallback`` its legacy key is the prefixed one."""
    key = PREFIX + suffix
    return Option(
        key=key,
        parse=parse,
        default=parse(default),
        default_text=default,
        fallback_keys=fallback or (LEGACY_PREFIX + key,),
        deprecated_keys=deprecated,
        range_text=allowed or _allowed(parse),
    )


def optional_option(suffix: str, parse: Callable[[str], T], *, allowed: str = "") -> Option[T | None]:
    """Declare an option for which "not set" means something."""
    key = PREFIX + suffix
    return Option(key, parse, None, "", (LEGACY_PREFIX + key,), range_text=allowed or _allowed(parse))


def flag(suffix: str, default: str) -> Option[bool]:
    """Declare a switch."""
    return option(suffix, syntax.parse_bool, default)


def count(suffix: str, default: str, *, allowed: str = "") -> Option[int]:
    """Declare a whole number; limits in ``allowed`` are checked elsewhere (:mod:`.checks`)."""
    return option(suffix, syntax.parse_int, default, allowed=allowed)


def decimal(
    suffix: str,
    default: str,
    *,
    least: float | None = None,
    most: float = math.inf,
    allowed: str = "",
) -> Option[float]:
    """Declare a number, which is finite and within limits where ``least`` is given; ``allowed`` as for counts."""
    parse = syntax.parse_double if least is None else number_from(least, most)
    return option(suffix, parse, default, allowed=allowed)


def ratio(suffix: str, default: str) -> Option[float]:
    """Declare a share of a whole, which is checked elsewhere."""
    return decimal(suffix, default, allowed="[0.0, 1.0]")


def duration(suffix: str, default: str) -> Option[syntax.Duration]:
    """Declare a duration as the Java program reads it: a whole number and a unit."""
    return option(suffix, syntax.parse_duration, default)


def time(suffix: str, default: str) -> Option[syntax.Duration]:
    """Declare a duration of ours, such as ``1h 30min``."""
    return option(suffix, syntax.parse_time, default)


def text_list(suffix: str, default: str, *, allowed: str = "") -> Option[tuple[str, ...]]:
    """Declare a list of texts."""
    return option(suffix, syntax.parse_list, default, allowed=allowed)


def choice(kind: type[_E], suffix: str, default: str) -> Option[_E]:
    """Declare one member of an enumeration, in any case."""
    return option(suffix, one_of(kind), default)


def _allowed(parse: Callable[[str], object]) -> str:
    return parse.allowed if isinstance(parse, Reader) else ""
