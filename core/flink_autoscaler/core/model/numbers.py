"""Arithmetic with the numeric rules of the autoscaler: IEEE doubles that never raise, and its roundings.

NaN stands for "unknown" inside this arithmetic and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal
from math import floor

NAN = math.nan
INFINITY = math.inf

_MAX_INT32 = 2**31 - 1
_MIN_INT32 = -(2**31)
_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_EXACT_INTEGERS = 2.0**53
"""From here on every double is an integer."""
_FAST_LIMIT = 1e9
"""Of numbers times a thousand: up to here rounding them is exact but for ties."""
_TIE_GUARD = 1e-5
_WIDE = Context(prec=400)
"""Wide enough for every double written out with decimals."""


def divide(numerator: float, denominator: float) -> float:
    """Divide as IEEE 754 does: x/0 is infinite, 0/0 is NaN, nothing raises."""
    if denominator != 0.0:
        return numerator / denominator
    if numerator == 0.0 or math.isnan(numerator):
        return NAN
    return math.copysign(INFINITY, numerator) * math.copysign(1.0, denominator)


def maximum(left: float, right: float) -> float:
    """Return the larger number, NaN when either is NaN."""
    if math.isnan(left) or math.isnan(right):
        return NAN
    return max(left, right)


def minimum(left: float, right: float) -> float:
    """Return the smaller number, NaN when either is NaN."""
    if math.isnan(left) or math.isnan(right):
        return NAN
    return min(left, right)


def _saturated(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    if value >= high:
        return high
    return low if value <= low else math.trunc(value)


def trunc32(value: float) -> int:
    """Cut to a 32-bit integer: toward zero, saturating, NaN is 0."""
    return _saturated(value, _MIN_INT32, _MAX_INT32)


def trunc64(value: float) -> int:
    """Cut to a 64-bit integer: toward zero, saturating, NaN is 0."""
    return _saturated(value, _MIN_INT64, _MAX_INT64)


def round64(value: float) -> float:
    """Round to the nearest 64-bit integer, ties upward, as a double; NaN gives 0, infinities saturate."""
    if math.isnan(value):
        return 0.0
    if abs(value) >= _EXACT_INTEGERS:
        return float(_saturated(value, _MIN_INT64, _MAX_INT64))
    below = floor(value)
    return float(below + 1 if value - below >= 0.5 else below)  # noqa: PLR2004 - exact in doubles


def finite(value: float | None) -> float | None:
    """Return a number that any JSON parser reads; None for one that is not known or not finite."""
    return value if value is not None and math.isfinite(value) else None


def r3(value: float) -> float:
    """Round one value, see :func:`rounded`."""
    return rounded((value,))[0]


def rounded(values: Iterable[float]) -> list[float]:
    """Round to three decimals, half away from zero on the shortest decimal text of each double.

    Non-finite numbers stay; a number that would round to zero stays as it is, so that a tiny rate
    does not become "no rate".
    """
    results = []
    for value in values:
        if value - value != 0.0 or value == floor(value):
            results.append(value)
            continue
        scaled = value * 1000.0 if value > 0.0 else value * -1000.0
        below = floor(scaled)
        rest = scaled - below
        if scaled >= _FAST_LIMIT or -_TIE_GUARD < rest - 0.5 < _TIE_GUARD:  # only the decimal text can tell
            near = float(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_HALF_UP, _WIDE))
        else:
            near = (below + 1 if rest > 0.5 else below) / 1000.0  # noqa: PLR2004
            near = near if value > 0.0 else -near
        results.append(near if near != 0.0 else value)
    return results


def ceil_decimals(value: float, decimals: int) -> float:
    """Round up (toward +infinity) on the shortest decimal text; the value must be finite."""
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_CEILING, _WIDE))


def three_digits(value: float) -> str:
    """Print a finite number for people: three digits at least, whole from a hundred on, with commas."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits are enough


def two_decimals(value: float) -> str:
    """Print with two decimals, half up on the decimal text; ``NaN``, ``Infinity`` for those."""
    if value - value != 0.0:
        return plain(value)
    scaled = min(abs(value) * 100.0, _FAST_LIMIT)  # which is infinite for the greatest doubles
    below = floor(scaled)
    rest = scaled - below
    if scaled >= _FAST_LIMIT or -_TIE_GUARD < rest - 0.5 < _TIE_GUARD:  # only the decimal text can tell
        return f"{Decimal(repr(value)).quantize(Decimal('0.01'), ROUND_HALF_UP, _WIDE):f}"
    whole, hundredths = divmod(below + 1 if rest > 0.5 else below, 100)  # noqa: PLR2004
    return f"{'-' if math.copysign(1.0, value) < 0 else ''}{whole}.{hundredths:02d}"


def plain(value: float) -> str:
    """Print as the shortest text with at least one decimal; ``1.2E9`` from 1e7 up and below 1e-3."""
    if value == 0.0 or 1e-3 <= abs(value) < 1e7:  # noqa: PLR2004 - the limits of the format
        text = repr(value)  # without an exponent between these limits
        return text if "." in text else f"{text}.0"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    places = "".join(map(str, digits))
    power = int(exponent) + len(places) - 1
    return f"{'-' if sign else ''}{places[0]}.{places[1:] or '0'}E{power}"
