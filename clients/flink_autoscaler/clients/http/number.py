"""A number that a service answers with, found by a JSON pointer or by a PromQL query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import ConfigError, ConnectError, ResponseError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.lag_sources import LagQuery

PROMQL_PATH: Final = "/api/v1/query"
_WORD: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}")
_MEANINGFUL: Final = re.compile(r"""["'`\\\x00-\x1f\x7f]""")
_PATTERN: Final = re.compile(r"""[=!]~\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
_OF_PATTERNS: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
_DOTS: Final = frozenset({"", ".", ".."})
_CLOSING: Final = 2.0
"""Seconds that closing connections may take."""

_VALUE: Final = 2
"""An instant and a number, as Prometheus writes a sample."""


class HttpLagSource:
    """A ``LagSource`` that asks a service. Which service is up to the daemon's configuration; jobs only fill in words.

    Connections are kept from pass to pass, as long as the service is reached in the same way.

    Args:
        loop: Where requests run.
        endpoint: Called before each request, since secrets may be replaced.
        path: Below the base URL, with words such as ``{job}``; each fills one part of it.
        pointer: JSON pointer (RFC 6901) to the number.
        query: PromQL with words in its strings; empty where the number is found by the pointer.
    """

    def __init__(
        self, loop: EventLoopThread, endpoint: Callable[[], Endpoint], *, path: str, pointer: str = "", query: str = ""
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._path = path
        self._pointer = pointer
        self._query = query
        self._kept: tuple[Endpoint, HttpTransport] | None = None

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        """Return the number under one name.

        Raises:
            ConfigError: A word has no value, or one that fits no URL.
            FlinkRestError: The service did not answer, or not with a number from 0 on.
        """
        words = placeholders(query)
        if self._query:
            params = {"query": render_promql(self._query, words)}
            number = sample_of(self._get(self._path + PROMQL_PATH, params))
        else:
            number = json_pointer_number(self._get(render(self._path, words, _in_path), {}), self._pointer)
        if not (math.isfinite(number) and number >= 0):
            raise ResponseError(f"the answer is {number:g}, which is no {query.kind.value.replace('-', ' ')}")
        return {"all": number}

    def close(self) -> None:
        """Close the connections."""
        with suppress(ConnectError):  # the loop has been closed, and they with it
            self._loop.run(self._close_transport(), _CLOSING)

    def _get(self, path: str, params: Mapping[str, str]) -> object:
        endpoint = self._endpoint()
        return self._loop.run(self._fetch(endpoint, path, params), 2 * endpoint.timeout)

    async def _fetch(self, endpoint: Endpoint, path: str, params: Mapping[str, str]) -> object:
        if self._kept is not None and self._kept[0] != endpoint:  # a secret was replaced
            await self._close_transport()
        if self._kept is None:
            self._kept = (endpoint, HttpTransport(endpoint))
        return await self._kept[1].get_json(path, params=params)

    async def _close_transport(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept[1].aclose()


def placeholders(query: LagQuery) -> dict[str, str]:
    """Return what may stand in braces: the job's parameters, and who it is, which no parameter replaces."""
    own = {"job": query.job_name, "cluster": query.cluster, "group": query.group, "vertex": query.pattern}
    return {**dict(query.parameters), **own}


def render(template: str, words: Mapping[str, str], quoted: Callable[[str], str]) -> str:
    """Return a template with its words filled in, quoted so that they stay inside the part that they are in.

    Raises:
        ConfigError: A word has no value, or one that cannot stand there.
    """

    def fill(found: re.Match[str]) -> str:
        if found[1] not in words:
            raise ConfigError(f"{{{found[1]}}} is filled by job.autoscaler.lag.parameters, which does not have it")
        return quoted(words[found[1]])

    return _WORD.sub(fill, template)


def render_promql(template: str, words: Mapping[str, str]) -> str:
    """Return a query with its words filled in: each is the word itself, also in a string of ``=~`` or ``!~``.

    Raises:
        ConfigError: A word has no value.
    """
    strings = (found.span() for found in _PATTERN.finditer(template))
    parts, place = list[str](), 0
    for begin, end in strings:
        parts += [render(template[place:begin], words, _in_string), render(template[begin:end], words, _in_pattern)]
        place = end
    return "".join([*parts, render(template[place:], words, _in_string)])


def _in_path(word: str) -> str:
    if word in _DOTS:
        raise ConfigError(f"{word!r} cannot be a part of a path")
    return quote(word, safe="")


def _in_string(word: str) -> str:
    # As numbers: they mean themselves between either kind of quotes, where \" or \' of the other kind is an error.
    return _MEANINGFUL.sub(lambda found: f"\\x{ord(found[0]):02x}", word)


def _in_pattern(word: str) -> str:
    return _in_string(_OF_PATTERNS.sub(r"\\\g<0>", word))


def json_pointer_number(document: object, pointer: str) -> float:
    """Return the number at a JSON pointer; a text is none.

    Raises:
        ResponseError: There is none.
    """
    found = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise ResponseError(f"the answer has nothing at {pointer}")
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ResponseError(f"the answer has no number at {pointer or 'its top'}, but {type(found).__name__}")
    return float(found)


def sample_of(document: object) -> float:
    """Return the value of the only sample of an instant query.

    Raises:
        ResponseError: There is none, or there are several, or Prometheus warns that some may be missing.
    """
    body = document if isinstance(document, dict) else {}
    data = body.get("data")
    data = data if isinstance(data, dict) else {}
    if body.get("status") != "success" or body.get("warnings"):
        raise ResponseError("the query did not succeed, or only in part")
    result = data.get("result")
    samples = [result] if data.get("resultType") == "scalar" else _values(result)
    if len(samples) != 1:
        raise ResponseError(f"the query has {len(samples)} samples instead of one")
    [sample] = samples
    if not (
        isinstance(sample, list) and len(sample) == _VALUE and isinstance(sample[1], str) and _is_instant(sample[0])
    ):
        raise ResponseError("the query has no sample with a value")
    try:
        return float(sample[1])
    except ValueError as error:
        raise ResponseError("the query has a sample that is no number") from error


def _is_instant(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _values(result: object) -> list[object]:
    return [each.get("value") for each in result if isinstance(each, dict)] if isinstance(result, list) else []
