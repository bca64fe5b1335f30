"""Short ways to declare the autoscaler's options: prefix, legacy key and default in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.bounded import Reader
from flink_autoscaler.core.options.option import LEGACY_PREFIX, PREFIX, Option

T = TypeVar("T")


def option(
    suffix: str,
    parse: Callable[[str], T],
    default: str,
    description: str,
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
        description=description,
        fallback_keys=fallback or (LEGACY_PREFIX + key,),
        deprecated_keys=deprecated,
        range_text=allowed or _allowed(parse),
    )


def unset(suffix: str, parse: Callable[[str], T], description: str, *, allowed: str = "") -> Option[T | None]:
    """Declare an option for which "not set" means something."""
    key = PREFIX + suffix
    return Option(key, parse, None, "", description, (LEGACY_PREFIX + key,), range_text=allowed or _allowed(parse))


def _allowed(parse: Callable[[str], object]) -> str:
    return parse.allowed if isinstance(parse, Reader) else ""


def improvement(suffix: str, description: str) -> Option[bool | None]:
    """Declare the switch of an improvement over the reference; unset follows ``compat``."""
    key = f"{PREFIX}improvement.{suffix}"
    return Option(key, syntax.parse_bool, None, "", f"{description} Unset: on unless compat is reference.")
