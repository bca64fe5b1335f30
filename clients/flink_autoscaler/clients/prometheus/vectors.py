"""Answers to instant queries, decoded while they come: series by series, of a bounded number."""

from __future__ import annotations

import codecs
import json
import re
import reprlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from flink_autoscaler.clients.http.json_object import JsonObject
from flink_autoscaler.core.errors import ResponseError

MAX_SERIES: Final = 100_000
"""Series in one answer."""

LONGEST_SERIES: Final = 64 << 10
"""Characters of one series with its labels, and of what comes before the first one."""

MAX_SHOWN: Final = 20
"""Warnings, and series that are not as documented, that are told of one answer."""

_RESULT: Final = re.compile(r'"result"\s*:\s*\[')
_GAP: Final = re.compile(r"[\s,]*")
_NOTE: Final = "PromQL info:"
"""How servers begin a hint about a query that says nothing about the answer (Prometheus 2.45 to 2.53)."""

_scan = json.JSONDecoder().raw_decode


class TooManySeriesError(ResponseError):
    """An answer has more series than are taken; fewer jobs at once may help."""


class LabeledSample(NamedTuple):
    """One series of an answer.

    Attributes:
        labels: Name to value.
        value: NaN where the series has none, or something that is no number.
    """

    labels: Mapping[str, str]
    value: float


class Vector(NamedTuple):
    """A complete answer.

    Attributes:
        series: In the order of the server.
        warnings: Why it may not be all; empty where it is.
        skipped: Series that are not as documented and were left out, of a bounded number.
    """

    series: list[LabeledSample]
    warnings: tuple[str, ...]
    skipped: tuple[str, ...]


class VectorReader:
    """Takes the body of an answer to ``/api/v1/query`` and makes a vector of it.

    Never holds more of the text than one series and one piece.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._before: str | None = None
        self._has_ended = False
        self._series: list[LabeledSample] = []
        self._strange: list[str] = []
        self._taken = 0

    def take(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises:
            TooManySeriesError: There are more series than are taken.
            ResponseError: It is not what such a server answers.
        """
        self._text += self._decoder.decode(piece)
        if self._before is None:
            self._find_result()
        if self._before is not None and not self._has_ended:
            self._take_series()
        if len(self._text) > LONGEST_SERIES + len(piece):
            raise ResponseError("this is not an answer to a query of Prometheus: one part of it is too long")

    def vector(self) -> Vector:
        """Return what the answer has; called after its end.

        Raises:
            ResponseError: It says that the query failed, ends early, or is not what such a server answers.
        """
        if self._before is not None and not self._has_ended:
            raise ResponseError("the answer ends in the middle of the series")
        text = self._text if self._before is None else f"{self._before}]{self._text}"
        try:
            answer = JsonObject(json.loads(text), "answer")
        except (ValueError, RecursionError) as exc:
            raise ResponseError(f"the answer is not valid JSON ({exc})") from exc
        if answer.get("status") != "success":
            raise ResponseError(f"the query failed: {str(answer.get('error'))[:300]}")
        kind = answer.child("data").text("resultType")
        if kind != "vector":
            raise ResponseError(f"the answer is a {kind:.40}, not a vector")
        return Vector(self._series, _warnings(answer.get("warnings")), tuple(self._strange))

    def _find_result(self) -> None:
        found = _RESULT.search(self._text)
        if found is not None:
            self._before, self._text = self._text[: found.end()], self._text[found.end() :]

    def _take_series(self) -> None:
        text, end = self._text, len(self._text)
        place = self._take_plain(text, _GAP.match(text).end())  # type: ignore[union-attr]  # it matches anything
        while (place := _GAP.match(text, place).end()) < end:  # type: ignore[union-attr]  # it matches anything
            if text[place] == "]":
                self._has_ended, place = True, place + 1
                break
            try:
                entry, place = _scan(text, place)
            except (StopIteration, ValueError):  # the rest of it is still to come
                break
            self._add(entry)
        self._text = text[place:]

    def _take_plain(self, text: str, place: int) -> int:  # noqa: ARG002 - for readers that know what they wait for
        """Take as many series at once as can be, and return where the first one begins that is not taken."""
        return place

    def _take_entry(self, labels: Mapping[str, str], value: float) -> None:
        """Take one series."""
        self._series.append(LabeledSample(labels, value))

    def _count(self, series: int) -> None:
        self._taken += series
        if self._taken > MAX_SERIES:
            raise TooManySeriesError(f"the answer has more than {MAX_SERIES} series")

    def _add(self, entry: object) -> None:
        self._count(1)
        try:
            labels, (_, text) = entry["metric"], entry["value"]  # type: ignore[index]
            "".join(labels.values())  # all of them are texts
            self._take_entry(labels, float(text))
        except (KeyError, TypeError, ValueError, AttributeError):
            self._note_skipped(entry)

    def _note_skipped(self, entry: object) -> None:
        if len(self._strange) < MAX_SHOWN:
            self._strange.append(f"not a series with a number: {reprlib.repr(entry):.200}")


def _warnings(value: object) -> tuple[str, ...]:
    """Return the warnings of an answer; anything else in their place is one, too."""
    found = value if isinstance(value, list) else [] if value is None else [value]
    texts = [f"{each:.200}" if isinstance(each, str) else reprlib.repr(each) for each in found[:MAX_SHOWN]]
    return tuple(text for text in texts if not text.startswith(_NOTE))
