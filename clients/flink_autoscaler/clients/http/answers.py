"""HTTP answers: the JSON in them, and what a refusal, or a page for people in its place, means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple

import httpx

from flink_autoscaler.clients.auth.authentication import what_to_do
from flink_autoscaler.clients.http.bounds import BodyReader, check_json
from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import FlinkRestError, JobGoneError, RefusedError, ResponseError

APPROVAL: Final = {"proxyapproved": "true"}
"""Query parameter by which a visitor of YARN's web proxy confirms its warning (``ProxyUriUtils`` of Hadoop)."""

_SHOWN: Final = 60
"""Characters of a body, title or text in a message."""

_PAGE_LIMIT: Final = 16_384
"""Bytes of a page that are looked at."""

_BODY_LIMIT: Final = 8192
"""Characters kept for classification: the cause of a server-side exception stands in its first lines."""

_quickly: Callable[[bytes], object] | None = (
    import_module("pydantic_core").from_json if find_spec("pydantic_core") else None
)
"""None in a process that has been given the clients alone, such as an executor of Spark."""

_MOST_DIGITS: Final = 400
"""Of a whole number; one with more is none that anything counts, and only its own entry is concerned."""

_SERVER_ERROR: Final = 500
_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405

_JOB_PATH: Final = re.compile(r"/jobs/[0-9a-f]{32}(/|$)")
_WARNING: Final = "The following page may not be safe"
_OWNER: Final = re.compile(r"owned by (\S{1,64})")
_LOGIN: Final = re.compile(r"\b(log ?in|log ?on|sign ?in|single sign-on|authenticat\w+)\b", re.IGNORECASE)


class Answer(NamedTuple):
    """A complete HTTP answer.

    Attributes:
        content_type: As sent; empty when missing.
        body: Decompressed.
        location: Target of a redirect; empty when there is none.
        challenge: What the server wants to be convinced by, ``WWW-Authenticate``; empty when it does not say.
    """

    status: int
    content_type: str
    body: bytes
    location: str = ""
    challenge: str = ""

    @property
    def media_type(self) -> str:
        """The content type without parameters; empty when missing."""
        return self.content_type.partition(";")[0].strip()

    @property
    def is_json(self) -> bool:
        """Return whether the content type announces JSON."""
        return self.media_type.lower().endswith(("/json", "+json"))

    @property
    def is_page(self) -> bool:
        """Return whether the content type announces a page for people."""
        return "html" in self.media_type.lower()

    @property
    def is_proxy_warning(self) -> bool:
        """Return whether this is the page by which YARN's web proxy warns others than an application's owner.

        The proxy shows it, with status 200, instead of passing the request on.
        """
        return self.is_page and _WARNING in _Page(self.body).text


def json_of(answer: Answer, what: str) -> object:
    """Decode the body of a successful answer, which may be anything; ``what`` is method and URL, for messages.

    Raises:
        ResponseError: Not JSON, cut off, nested too deeply, or more values than anybody needs.
    """
    if not answer.body:
        raise ResponseError(f"{what}: the answer is empty")
    if not answer.is_json:
        kind = answer.media_type or "an answer without content type"
        instead = (
            _page_with_success(_Page(answer.body))
            if answer.is_page
            else f"{_excerpt(answer.body)}; is this another program's port?"
        )
        raise ResponseError(f"{what}: expected JSON but got {kind}: {instead}")
    try:
        return _decoded(answer.body)
    except ResponseError as exc:
        raise ResponseError(f"{what}: {exc}") from exc
    except ValueError as exc:  # bad syntax, bad UTF-8, or a number with thousands of digits
        raise ResponseError(f"{what}: the answer is not valid JSON ({exc}): {_excerpt(answer.body)}") from exc


def _decoded(body: bytes) -> object:
    """Decode JSON within bounds. Raises ResponseError beyond them, and ValueError for what is no JSON."""
    check_json(body)
    try:
        return _parsed(body)
    except RecursionError as exc:  # brackets in texts have hidden how deep it is
        raise ResponseError("the answer is nested too deeply") from exc


def _parsed(body: bytes) -> object:
    """Parse JSON, by pydantic's parser where it is and takes it, which needs half the time."""
    if _quickly is None:
        return _parsed_by_python(body)
    try:
        return _quickly(body)
    except ValueError:  # half a character, more digits or depth than it takes, or no JSON
        return _parsed_by_python(body)


def _parsed_by_python(body: bytes) -> object:
    decoded: object
    try:
        decoded = json.loads(body)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with thousands of digits, which is a matter of the entry that has it
        decoded = json.loads(body, parse_int=_number)
    return decoded


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def refusal(answer: Answer, path: str, what: str, *, shown: Collection[str] = ()) -> FlinkRestError:
    """Make the error for an answer whose status is 300 or more.

    Args:
        answer: Flink's own carry ``{"errors": [text, ...]}``; a proxy's may carry anything.
        path: Path of the request below the base URL.
        what: Method and URL, for messages.
        shown: Kinds of credentials that the request carried, in lower case, such as ``basic``.

    Returns:
        :class:`JobGoneError` when the job is not known, :class:`ResponseError` for a redirect, else
        :class:`RefusedError`.
    """
    if answer.status < _BAD_REQUEST:
        target = answer.location.partition("?")[0].rpartition("@")[2] or "nowhere"
        return ResponseError(f"{what}: HTTP {answer.status}, redirected to {target}; is this a proxy or a login page?")
    errors = _errors(answer)
    message = f"{what}: HTTP {answer.status}: {_headline(errors) if errors else _instead_of_errors(answer)}"
    if answer.status in (_UNAUTHORIZED, _FORBIDDEN):
        message += f"; {what_to_do(answer.challenge, shown, is_known=answer.status == _FORBIDDEN)}"
    elif answer.status == _METHOD_NOT_ALLOWED and not errors:
        message += "; is this a proxy that passes only GET on? The JobManager has to be reached directly "
        message += "(yarn.access: direct)"
    body = "\n".join(errors)[:_BODY_LIMIT]
    kind = JobGoneError if _is_job_gone(answer.status, path, body) else RefusedError
    return kind(message, answer.status, body)


def _is_job_gone(status: int, path: str, body: str) -> bool:
    # A body is asked for because a proxy's own 404 page says nothing about the job.
    if status == _NOT_FOUND:
        return bool(body) and _JOB_PATH.match(path) is not None
    return status == _SERVER_ERROR and "FlinkJobNotFoundException" in body


def _errors(answer: Answer) -> list[str]:
    if not answer.is_json:
        return []
    try:
        decoded = _decoded(answer.body)
    except (ValueError, ResponseError):
        return []
    if not isinstance(decoded, dict):
        return []
    errors = decoded.get("errors", [decoded.get("error")])  # Prometheus has one, which is a text
    return [text for text in errors if isinstance(text, str) and text] if isinstance(errors, list) else []


def _headline(errors: list[str]) -> str:
    """Return the first line; of two errors the second is the server's exception, whose first line tells more."""
    first = _first_line(errors[0])
    if len(errors) == 1:
        return first
    exception = errors[1].removeprefix("<Exception on server side:").strip()
    return f"{first} {_first_line(exception)}".strip()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()[:500]


def _instead_of_errors(answer: Answer) -> str:
    if not answer.body:
        return "no explanation"
    if answer.is_page:
        page = _Page(answer.body)
        return repr(_cut(page.text or page.title, 2 * _SHOWN))
    return f"{answer.media_type or 'no content type'}: {_excerpt(answer.body)}"


def _page_with_success(page: _Page) -> str:
    """Return what a page that came with status 200 probably is, and what to do about it."""
    both = f"{page.title} {page.text}"
    if _WARNING in both:
        return _warning(page)
    if "HTTPS must be used" in both and "STRICT" in both:
        return (
            "YARN's web proxy only leads to JobManagers with https (yarn.resourcemanager.application-https.policy is "
            "STRICT): set security.ssl.rest.enabled for the Flink application, or reach it with yarn.access: direct"
        )
    if page.title == "Apache Flink Web Dashboard":
        return "this is Flink's page for browsers, not its REST API; is there something wrong with the path of the URL?"
    shown = f"{f'titled {_cut(page.title)!r}' if page.title else 'without title'}: {_cut(page.text)!r}"
    if page.asks_for_password or _LOGIN.search(page.title):
        return f"this looks like a login page {shown}; set auth.kind, or a URL that leads past the login"
    return f"this is a page for people {shown}; is this a proxy's page or another program's port?"


def _warning(page: _Page) -> str:
    owner = _OWNER.search(page.text)
    whose = f" to {owner[1]!r}" if owner else " to somebody else"
    return (
        f"YARN's web proxy warns that the application belongs{whose}: let the daemon be that user (auth), reach the "
        "JobManager with yarn.access: direct, or confirm the warning with yarn.approve-proxy: true"
    )


def _excerpt(body: bytes) -> str:
    """Return the beginning of a body on one line, safe to print."""
    return repr(_cut(" ".join(body[: 4 * _SHOWN].decode("utf-8", "replace").split())))


def _cut(text: str, length: int = _SHOWN) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


class _Page(HTMLParser):
    """Visible text of the beginning of a page, which may be anything.

    Attributes:
        title: May be empty.
        text: Without title, scripts and styles. Like the title it is on one line and printable.
        asks_for_password: Whether there is a field for a password.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.asks_for_password = False
        self._inside = ""
        self._title: list[str] = []
        self._text: list[str] = []
        with Border():  # the parser gives up on some pages, by an AssertionError: what it found before is shown
            self.feed(body[:_PAGE_LIMIT].decode("utf-8", "replace"))
            if self._inside == "title":  # newer parsers keep the text of a title until it ends
                self.close()
        self.title, self.text = _one_line(self._title), _one_line(self._text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("title", "script", "style"):
            self._inside = tag
        elif tag == "input" and ("type", "password") in attrs:
            self.asks_for_password = True
        self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self._title.append(data)
        elif not self._inside:
            self._text.append(data)


def _one_line(parts: list[str]) -> str:
    text = " ".join("".join(parts).split())
    return "".join(character if character.isprintable() else "?" for character in text)


async def read_body(response: httpx.Response, limit: int, what: str, take: Callable[[bytes], object]) -> None:
    """Hand on the body of an answer, decompressed; the announced length may lie, so bytes are counted.

    Args:
        response: Of which nothing has been read.
        limit: Bytes, as they come and as they are decompressed.
        what: Method and URL, for messages.
        take: Called with each piece; may raise ``ResponseError``.

    Raises:
        ResponseError: It is too long, cannot be decompressed, or is not taken.
    """
    try:
        reader = BodyReader(response.headers.get_list("content-encoding", split_commas=True), limit)
        reader.announced(response.headers.get("content-length"))
        async for piece in response.aiter_raw():
            reader.take(piece)
            take(reader.taken())
        reader.whole()
    except ResponseError as exc:
        raise ResponseError(f"{what}: {exc}") from exc


async def whole_body(response: httpx.Response, limit: int, what: str) -> bytes:
    """Return the body of an answer.

    Raises:
        ResponseError: As for :func:`read_body`.
    """
    pieces: list[bytes] = []
    await read_body(response, limit, what, pieces.append)
    return b"".join(pieces)
