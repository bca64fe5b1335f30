"""What values of the core's options look like, for error messages and the reference page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.bounded import positive_duration
from flink_autoscaler.core.options.option import Option

_EXPECTED: dict[Callable[[str], Any], str] = {
    syntax.parse_bool: "true or false",
    syntax.parse_int: "a whole number",
    syntax.parse_double: "a decimal number",
    syntax.parse_duration: "a duration such as '10 s'",
    positive_duration: "a duration above 0, such as '10 s'",
    syntax.parse_memory: "a memory size such as '512m'",
    syntax.parse_list: "a list such as 'a;b'",
    syntax.parse_map: "pairs such as 'a:1,b:2'",
    str: "text",
}


def allowed(option: Option[Any]) -> str:
    """Return what an option accepts, as the end of "expected ..."; options with named values list these."""
    kind = _EXPECTED.get(option.parse)
    if kind is None and option.range_text.startswith(("[", "(")):
        return f"a value in {option.range_text}"
    if kind is None:
        return f"one of {option.range_text}"
    return f"{kind}, {option.range_text}" if option.range_text else kind
