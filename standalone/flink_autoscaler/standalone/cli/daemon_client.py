"""Asks a running daemon over its API, for commands that go to it instead of to its database."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.rescale.operator_commands import OperatorCommand, time_text
from flink_autoscaler.standalone.operator_commands.named_jobs import resolve_jobs
from flink_autoscaler.stores.sql.known_jobs import KnownJob

VARIABLE: Final = "FLINK_AUTOSCALER_TOKEN"
"""Environment variable with the token that is shown to the daemon."""

_TIMEOUT: Final = 30.0
_MAX_RESPONSE_BYTES: Final = 64 << 20
_PAGE_SIZE: Final = 1000
"""Jobs that a daemon answers with at most."""


class DaemonError(AutoscalerError):
    """The daemon does not answer, or refuses."""


def get_json(url: str, path: str, **parameters: object) -> Any:
    """Return the document that a daemon answers a question with.

    Args:
        url: Of the daemon.
        path: Such as ``/api/v1/jobs``.
        parameters: Of the question; those that are None are left out.

    Raises:
        ConfigError: The URL is none.
        DaemonError: The daemon does not answer, or refuses.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    return json.loads(_send_request(_build_request(url, f"{path}?{urlencode(given)}" if given else path, None)))


def get_bytes(url: str, path: str, **parameters: object) -> bytes:
    """Return what a daemon answers, as it is; errors are those of :func:`get_json`."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return _send_request(_build_request(url, f"{path}?{urlencode(given)}", None))


def post_json(url: str, path: str, body: Mapping[str, object]) -> Any:
    """Send something to a daemon and return its answer; errors are those of :func:`get_json`."""
    return json.loads(_send_request(_build_request(url, path, json.dumps(body).encode())))


def list_daemon_jobs(url: str, **parameters: object) -> list[dict[str, Any]]:
    """Return all jobs of a daemon that match, by name, over all pages; errors are those of :func:`get_json`.

    Args:
        url: Of the daemon.
        parameters: Of ``/api/v1/jobs``, but for the page.
    """
    found: dict[str, dict[str, Any]] = {}
    offset = 0
    while True:
        page = get_json(url, "/api/v1/jobs", **parameters, limit=_PAGE_SIZE, offset=offset, sort="name")
        # By key: a job that comes or goes meanwhile moves the others from one page to the next.
        found |= {job["job_key"]: job for job in page["jobs"]}
        offset += _PAGE_SIZE
        if offset >= page["total"]:
            return list(found.values())


def find_daemon_job(url: str, text: str) -> JobKey:
    """Return the job of a running daemon that a text means.

    Raises:
        AmbiguousJobError: It means none, or several.
        DaemonError: The daemon does not answer.
    """
    return resolve_jobs([KnownJob(job["job_key"], job["job_id"]) for job in list_daemon_jobs(url)], text)[0]


class DaemonCommands:
    """Gives and lists orders over the API of a running daemon, which signs them with who it takes us for.

    Has what :class:`~flink_autoscaler.standalone.operator_commands.service.CommandService` has; errors are those of
    :func:`get_json`.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def resolve_jobs(self, text: str, **_: bool) -> tuple[JobKey, ...]:
        """Return the job that is meant: one. May raise :class:`AmbiguousJobError`."""
        return (find_daemon_job(self._url, text),)

    def describe_memory(self, _: JobKey) -> str:
        """Return what the daemon remembers about a job, in a few words: the API does not tell."""
        return "everything learned and decided"

    def submit(
        self, job_keys: Iterable[JobKey], command: OperatorCommand, _: str, reason: str
    ) -> Iterator[tuple[JobKey, str, bool]]:
        """Give an order for jobs; yield what came of each, and whether it was refused."""
        for job_key in job_keys:
            body = {
                "job_key": job_key,
                "order": command.order,
                "reason": reason,
                "direction": command.direction.value,
                "seconds": None if command.lasts_ms is None else command.lasts_ms / 1000,
                "vertices": dict(command.vertices),
                "force": command.is_forced,
            }
            ordered = post_json(self._url, "/api/v1/commands", body)
            yield job_key, ordered["text"], ordered["is_refused"]

    def list_commands(self, job: str | None) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return what is ordered now, for JSON and for people."""
        job_key = None if job is None else find_daemon_job(self._url, job)
        documents = get_json(self._url, "/api/v1/commands", job=job_key)["commands"]
        return documents, [{**each, "since": time_text(each["since_ms"])} for each in documents]


def _build_request(url: str, path: str, body: bytes | None) -> Request:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError(f"--daemon-url '{parts.scheme}://…': expected http:// or https:// and a host, without user")
    token = os.environ.get(VARIABLE)
    headers = {"Accept": "application/json", **({} if token is None else {"Authorization": f"Bearer {token}"})}
    return Request(url.rstrip("/") + path, body, headers, method="GET" if body is None else "POST")  # noqa: S310


def _send_request(request: Request) -> bytes:
    """Return the answer; proxies are for the internet, not for a daemon nearby."""
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=_TIMEOUT) as answer:
            content = answer.read(_MAX_RESPONSE_BYTES + 1)
    except HTTPError as error:
        raise DaemonError(f"the daemon refuses ({error.code}): {_error_text(error.read(10_000))}") from error
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DaemonError(f"the daemon at {urlsplit(request.full_url).netloc} does not answer: {reason}") from error
    if len(content) > _MAX_RESPONSE_BYTES:
        raise DaemonError(f"the answer is longer than {_MAX_RESPONSE_BYTES >> 20} MiB")
    return bytes(content)


def _error_text(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")
