"""Values that a field may be replaced with, and how an answer is changed at a place."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

_RAW: Final = "@raw:"
_DEEP: Final = "[" * 4000 + "]" * 4000
_RAW_TEXTS: Final = {
    "deep-list": _DEEP,
    "deep-object": '{"a":' * 4000 + "1" + "}" * 4000,
    "nan-word": "NaN",
    "infinity-word": "-Infinity",
    "digits": "9" * 5000,
    "exponent": "1e400",
    "tiny": "1e-400",
    "repeated-key": '{"id":"a","id":"b","parallelism":1,"parallelism":9}',
}

MISSING: Final = object()


def _raw(name: str, _: Any) -> str:
    """Return a mark for a text that no encoder of JSON would write."""
    return _RAW + name


VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "null": lambda _: None,
    "missing": lambda _: MISSING,
    "true": lambda _: True,
    "empty-text": lambda _: "",
    "word": lambda _: "nonsense",
    "number-text": lambda _: "5",
    "zero": lambda _: 0,
    "minus-one": lambda _: -1,
    "half": lambda _: 0.5,
    "three": lambda _: 3,
    "2^31": lambda _: 2**31,
    "2^53+1": lambda _: 2**53 + 1,
    "2^63": lambda _: 2**63,
    "minus-2^63": lambda _: -(2**63),
    "1e308": lambda _: 1e308,
    "minus-1e308": lambda _: -1e308,
    "text-infinity": lambda _: "Infinity",
    "text-minus-infinity": lambda _: "-Infinity",
    "text-nan": lambda _: "NaN",
    "long-text": lambda _: "x" * 100_000,
    "surrogate": lambda _: "\ud800",
    "control": lambda _: "\x00\x1b[2J\r\n",
    "unicode": lambda _: "\u202e\u0665\u00e9\U0001f4a3",
    "markup": lambda _: "<![foo[<script>",
    "path": lambda _: "../../jobs/overview?get=%00",
    "empty-list": lambda _: [],
    "empty-object": lambda _: {},
    "list-of-null": lambda _: [None],
    "long-list": lambda right: [right] * 3000 if len(str(right)) < 100 else [right] * 100,
    "wrapped": lambda right: [right],
    "long-ago": lambda _: 1,
    "long-ahead": lambda _: 253_402_300_800_000,
    "soon": lambda _: time.time_ns() // 1_000_000 + 86_400_000,
    "other-id": lambda _: "@other-id",
    "doubled": lambda right: right * 2 if isinstance(right, list | str) else right,
    "reversed": lambda right: right[::-1] if isinstance(right, list | str) else right,
    **{name: partial(_raw, name) for name in _RAW_TEXTS},
}
"""Lies by name: from the right value to a wrong one."""

PLAUSIBLE: Final = frozenset(
    {
        *("true", "zero", "half", "three", "number-text", "2^31", "long-ago", "long-ahead", "soon", "other-id"),
        *("doubled", "reversed", "empty-list", "empty-object", "tiny", "missing", "null"),
    }
)
"""Lies that could be true: nobody can tell them from a load that has changed once they last."""


def places(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the paths of all values inside a decoded answer, itself first."""
    yield prefix
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, f"{prefix}/{_escaped(key)}")
    elif isinstance(value, list):
        for number, each in enumerate(value[:3]):
            yield from places(each, f"{prefix}/{number}")


def changed(answer: Any, path: str, name: str) -> Any:
    """Return an answer with a lie at a place; the answer itself where it has no such place."""
    lie = VALUES[name]
    if not path:
        return lie(answer)
    answer = copy.deepcopy(answer)
    *way, last = map(_unescaped, path[1:].split("/"))
    holder = answer
    try:
        for step in way:
            holder = holder[int(step) if isinstance(holder, list) else step]
        key = int(last) if isinstance(holder, list) else last
        value = lie(holder[key])
        if value is MISSING:
            del holder[key]
        else:
            holder[key] = value
    except (KeyError, IndexError, TypeError, ValueError):
        return answer
    return answer


def text_of(answer: Any, *, other_id: str) -> bytes:
    """Return an answer as JSON, and what JSON should not be."""
    if answer is MISSING:
        return b""
    text = json.dumps(answer).replace("@other-id", other_id)
    if _RAW in text:
        for name, raw in _RAW_TEXTS.items():
            text = text.replace(f'"{_RAW}{name}"', raw)
    return text.encode()


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")
