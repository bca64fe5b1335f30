"""What HTTP error statuses of a JobManager mean."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Final

from flink_autoscaler.clients.auth.challenges import what_to_do
from flink_autoscaler.clients.http.answers import Answer, excerpt, is_json
from flink_autoscaler.clients.http.proxy_page import is_page, shortened
from flink_autoscaler.core.errors import FlinkRestError, JobGoneError, RefusedError, ResponseError

_JOB_PATH: Final = re.compile(r"/jobs/[0-9a-f]{32}(/|$)")
_BODY_LIMIT: Final = 8192
"""Characters kept for classification: the cause of a server-side exception stands in its first lines."""

_SERVER_ERROR: Final = 500
_BAD_REQUEST: Final = 400
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405


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
    message = f"{what}: HTTP {answer.status}: {_headline(errors) if errors else _page(answer)}"
    message += _advice(answer, shown)
    body = "\n".join(errors)[:_BODY_LIMIT]
    kind = JobGoneError if _is_job_gone(answer.status, path, body) else RefusedError
    return kind(message, answer.status, body)


def _advice(answer: Answer, shown: Collection[str]) -> str:
    if answer.status in (_UNAUTHORIZED, _FORBIDDEN):
        is_known = answer.status == _FORBIDDEN
        return f"; {what_to_do(answer.challenge, shown, is_known=is_known)}"
    if answer.status == _METHOD_NOT_ALLOWED and not _errors(answer):
        return (
            "; is this a proxy that passes only GET on? The JobManager has to be reached directly (yarn.access: direct)"
        )
    return ""


def _is_job_gone(status: int, path: str, body: str) -> bool:
    # A body is asked for because a proxy's own 404 page says nothing about the job.
    if status == _NOT_FOUND:
        return bool(body) and _JOB_PATH.match(path) is not None
    return status == _SERVER_ERROR and "FlinkJobNotFoundException" in body


def _errors(answer: Answer) -> list[str]:
    if not is_json(answer.content_type):
        return []
    try:
        decoded = json.loads(answer.body)
    except (ValueError, RecursionError):
        return []
    errors = decoded.get("errors") if isinstance(decoded, dict) else None
    return [text for text in errors if isinstance(text, str) and text] if isinstance(errors, list) else []


def _headline(errors: list[str]) -> str:
    """Return the first line; of two errors the second is the server's exception, whose first line tells more."""
    if len(errors) > 1:
        exception = errors[1].removeprefix("<Exception on server side:").strip()
        return f"{_first_line(errors[0])} {_first_line(exception)}".strip()
    return _first_line(errors[0])


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()[:500]


def _page(answer: Answer) -> str:
    if not answer.body:
        return "no explanation"
    if is_page(answer.content_type):
        return shortened(answer.body)
    return f"{answer.content_type.partition(';')[0] or 'no content type'}: {excerpt(answer.body)}"
