"""Positive numbers as logarithms in printable text: two characters each where half a per cent will do, else three.

The text is safe inside JSON. A series is extended and shortened without being read: its numbers are equally long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from operator import add
from typing import Final

ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_KNOWN: Final = ALPHABET.encode()
_PAIRS: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)

SHORT: Final = 2
"""Characters of a short number."""
LONG: Final = 3
"""Characters of a long number."""
LEAST: Final = 1e-3
GREATEST: Final = 1e6
"""Range of short numbers; others become the nearest of them."""
_LOW: Final = math.log(LEAST)
_STEP: Final = (math.log(GREATEST) - _LOW) / (len(_PAIRS) - 2)
_LOGS: Final = {pair: _LOW + _STEP * (place - 1) for place, pair in enumerate(_PAIRS) if place}
_PLACES: Final = {pair: place for place, pair in enumerate(_PAIRS) if place}
_LAST: Final = len(_PAIRS) - 1
_PER_LOG: Final = 1.0 / _STEP
_VALUES: Final = {pair: math.exp(log) for pair, log in _LOGS.items()}
NOTHING: Final = _PAIRS[0]
"""A short number that is not there."""

_split: Final = re.compile("." * SHORT).findall
_split_longs: Final = re.compile("." * LONG).findall

_LONG_LEAST: Final = 1e-12
_LONG_GREATEST: Final = 1e8
_LONG_LOW: Final = math.log(_LONG_LEAST)
_LONG_STEP: Final = (math.log(_LONG_GREATEST) - _LONG_LOW) / (len(_PAIRS) * len(ALPHABET) - 2)
_COARSE: Final = {
    pair: math.exp(_LONG_LOW + _LONG_STEP * (place * len(ALPHABET) - 1)) for place, pair in enumerate(_PAIRS)
}
_FINE: Final = {digit: math.exp(_LONG_STEP * place) for place, digit in enumerate(ALPHABET)}
_LONG_ZERO: Final = NOTHING + ALPHABET[0]


def short(value: float | None) -> str:
    """Pack a positive number to a quarter of a per cent; :data:`NOTHING` for None, NaN and what is not positive."""
    if value is None or not value > 0.0:
        return NOTHING
    return _PAIRS[1 + round((math.log(min(max(value, LEAST), GREATEST)) - _LOW) / _STEP)]


def from_short(text: str) -> float | None:
    """Unpack one number; None for one that is not there."""
    return _VALUES.get(text)


def shorts(text: str) -> list[float]:
    """Unpack a series that has no gaps."""
    return list(map(_VALUES.__getitem__, _split(text)))


@lru_cache(maxsize=8192)
def packed_shorts(values: tuple[float, ...]) -> str:
    """Pack a series in which what is not positive is zero; it is mostly the one of the pass before."""
    return "".join(map(short, values))


def from_packed_shorts(text: object) -> tuple[float, ...]:
    """Unpack what :func:`packed_shorts` packed.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(text, str):
        raise ValueError(text)
    return _from_packed(text)


@lru_cache(maxsize=8192)
def _from_packed(text: str) -> tuple[float, ...]:
    if not is_series(text, gaps=True):
        raise ValueError(text)
    return tuple(_VALUES.get(each, 0.0) for each in _split(text))


def short_logs(text: str) -> list[float]:
    """Unpack the natural logarithms of a series that has no gaps."""
    return list(map(_LOGS.__getitem__, _split(text)))


def longs(values: Iterable[float]) -> str:
    """Pack numbers to a hundredth of a per cent; what is not positive becomes zero."""
    return "".join(map(long, values))


def long(value: float) -> str:
    """Pack one number to a hundredth of a per cent."""
    if not value > 0.0:
        return _LONG_ZERO
    bounded = min(max(value, _LONG_LEAST), _LONG_GREATEST)
    place = 1 + round((math.log(bounded) - _LONG_LOW) / _LONG_STEP)
    return _PAIRS[place >> 6] + ALPHABET[place & 63]


def from_longs(text: str) -> list[float]:
    """Unpack what :func:`longs` packed."""
    if len(text) % LONG:
        raise ValueError(text)
    return list(map(_from_long, _split_longs(text)))


@lru_cache(maxsize=8192)
def _from_long(text: str) -> float:
    """Unpack one; a series is mostly the one of the pass before."""
    return 0.0 if text == _LONG_ZERO else _COARSE[text[:SHORT]] * _FINE[text[SHORT]]


def scaled(text: str, logs: Iterable[float]) -> str:
    """Return a series that has no gaps times factors, of each number its own.

    Args:
        text: The series.
        logs: Natural logarithms of the factors, as many.
    """
    steps = [round(log * _PER_LOG) for log in logs]
    places = list(map(add, map(_PLACES.__getitem__, _split(text)), steps))
    if places and (min(places) < 1 or max(places) > _LAST):
        places = [min(max(place, 1), _LAST) for place in places]
    return "".join(map(_PAIRS.__getitem__, places))


def is_series(text: object, *, gaps: bool = False) -> bool:
    """Return whether a text is a series of short numbers.

    Args:
        text: What was stored.
        gaps: Whether numbers may be missing.
    """
    if not isinstance(text, str) or len(text) % SHORT or not _is_known(text):
        return False
    return gaps or all(text[at : at + SHORT] != NOTHING for at in _suspects(text))


def is_text(text: object) -> bool:
    """Return whether it is a text of the letters that are used."""
    return isinstance(text, str) and _is_known(text)


def _is_known(text: str) -> bool:
    return text.isascii() and not text.encode().translate(None, _KNOWN)


def _suspects(text: str) -> Iterable[int]:
    """Find where a missing number may be: the search for its text is faster than looking at every number."""
    at = text.find(NOTHING)
    while at >= 0:
        if at % SHORT == 0:
            yield at
        at = text.find(NOTHING, at + 1)


def is_long_series(text: object) -> bool:
    """Return whether a text is a series of long numbers."""
    return isinstance(text, str) and len(text) % LONG == 0 and _is_known(text)
