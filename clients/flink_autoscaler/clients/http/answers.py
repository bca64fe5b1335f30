"""An HTTP answer as it came, and the JSON in it."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from flink_autoscaler.clients.http.proxy_page import explained_page, is_page
from flink_autoscaler.core.errors import ResponseError

_EXCERPT: Final = 60


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


def json_of(answer: Answer, what: str) -> object:
    """Decode the body of a successful answer.

    Args:
        answer: Its body may be anything.
        what: Method and URL, for messages.

    Raises:
        ResponseError: Not JSON, cut off, or nested too deeply.
    """
    if not answer.body:
        raise ResponseError(f"{what}: the answer is empty")
    if not is_json(answer.content_type):
        raise ResponseError(f"{what}: {_instead_of_json(answer)}")
    try:
        decoded: object = json.loads(answer.body)
    except ValueError as exc:  # bad syntax, bad UTF-8, or a number with thousands of digits
        raise ResponseError(f"{what}: the answer is not valid JSON ({exc}): {excerpt(answer.body)}") from exc
    except RecursionError as exc:
        raise ResponseError(f"{what}: the answer is nested too deeply") from exc
    return decoded


def is_json(content_type: str) -> bool:
    """Whether a content type announces JSON."""
    return content_type.partition(";")[0].strip().lower().endswith(("/json", "+json"))


def excerpt(body: bytes) -> str:
    """Return the beginning of a body on one line, safe to print."""
    text = " ".join(body[: 4 * _EXCERPT].decode("utf-8", "replace").split())
    return repr(text[:_EXCERPT] + "..." if len(text) > _EXCERPT else text)


def _instead_of_json(answer: Answer) -> str:
    kind = answer.content_type.partition(";")[0].strip() or "an answer without content type"
    if is_page(answer.content_type):
        return f"expected JSON but got {kind}: {explained_page(answer.body)}"
    return f"expected JSON but got {kind}: {excerpt(answer.body)}; is this another program's port?"
