"""One ResourceManager of the fake YARN cluster, and the web proxy inside it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from testkit.fakes.flink import Canned, FakeRequest
from testkit.fakes.flink.service import FaultyService
from testkit.fakes.yarn.application import FakeApplication

if TYPE_CHECKING:
    from testkit.fakes.yarn.cluster import FakeYarn

_APPS = "/ws/v1/cluster/apps"
_TEXT = "text/plain;charset=utf-8"
_HTML = "text/html;charset=utf-8"


class Standby(Enum):
    """How a standby answers, by version and by what it knows."""

    REDIRECT = auto()
    """307 to the active one."""
    REFRESH = auto()
    """307 without ``Location``, with ``Refresh``: it does not know who is active."""
    TEXT = auto()
    """200 with a text for people: it has given up looking for the active one."""


class FakeResourceManager(FaultyService):
    """Answers for the cluster that it belongs to.

    Attributes:
        state: Its ``haState``; None leaves it out of the answer, as a router of a federation does.
        standby: How it answers when it is not active.
        listed: The applications that it knows; None for those of the cluster.
        required_header: Name and value of a header without which everything is 401; None asks for nothing.
    """

    def __init__(self, yarn: FakeYarn, *, state: str | None) -> None:
        super().__init__()
        self.state = state
        self.standby = Standby.REDIRECT
        self.listed: Sequence[FakeApplication] | None = None
        self.required_header: tuple[str, str] | None = None
        self._yarn = yarn

    @property
    def is_active(self) -> bool:
        """Whether it answers."""
        return self.state in ("ACTIVE", None)

    def _answer(self, request: FakeRequest) -> Canned:
        if self.required_header is not None:
            name, value = self.required_header
            if request.headers.get(name.lower()) != value:
                return Canned(b"<html>Unauthorized</html>", 401, _HTML, {"WWW-Authenticate": "Basic"})
        if request.path.startswith("/proxy/"):
            return self._proxied(request)
        if request.path == "/ws/v1/cluster/info":
            return Canned.json({"clusterInfo": {"id": 1, "state": "STARTED", **self._ha_state()}})
        if not self.is_active:
            return self._not_active(request)
        if request.path == _APPS:
            return self._list(request)
        if request.path.startswith(_APPS + "/"):
            return self._application(request.path.rpartition("/")[2])
        known = self._yarn.answers.get(request.path.removeprefix("/ws/v1/cluster"))
        return _exception(404, "NotFoundException", request.path) if known is None else Canned(known)

    def _ha_state(self) -> dict[str, str]:
        return {} if self.state is None else {"haState": self.state}

    def _not_active(self, request: FakeRequest) -> Canned:
        target = f"{self._yarn.active_url or self.url}{request.target}"
        if self.standby is Standby.TEXT:
            return Canned(b"There is currently no active RM. Refresh later", 200, _TEXT)
        text = f"This is standby RM. The redirect url is: {target}\n".encode()
        name, value = ("Location", target) if self.standby is Standby.REDIRECT else ("Refresh", f"7;url={target}")
        return Canned(text, 307, _TEXT, {name: value})

    def _known(self) -> list[FakeApplication]:
        return list(self._yarn.applications if self.listed is None else self.listed)

    def _list(self, request: FakeRequest) -> Canned:
        if "queue" in request.query and request.query["queue"] not in {each.queue for each in self._known()}:
            return _exception(400, "BadRequestException", f"Unknown queue: {request.query['queue']}")
        entries = [each.json(self._proxy_url(each)) for each in self._known() if each.matches(request.query)]
        if not entries:
            return Canned.json({"apps": self._yarn.empty})
        is_object = len(entries) == 1 and self._yarn.single_as_object
        return Canned.json({"apps": {"app": entries[0] if is_object else entries}})

    def _application(self, application_id: str) -> Canned:
        found = next((each for each in self._known() if each.id == application_id), None)
        if found is None:
            return _exception(404, "NotFoundException", f"app with id: {application_id} not found")
        return Canned.json({"app": found.json(self._proxy_url(found))})

    def _proxy_url(self, application: FakeApplication) -> str:
        return f"{self._yarn.proxy_base or self.url}/proxy/{application.id}/"

    def _proxied(self, request: FakeRequest) -> Canned:
        application_id, _, rest = request.path.removeprefix("/proxy/").partition("/")
        found = next((each for each in self._yarn.applications if each.id == application_id), None)
        if found is None:
            return Canned(b"<html>unknown application</html>", 404, _HTML)
        if found.jobmanager is None or found.state != "RUNNING":
            return Canned(b"", 302, _HTML, {"Location": f"{self.url}/cluster/app/{application_id}"})
        if request.method not in ("GET", "PUT") or (request.method == "PUT" and not self._yarn.forwards_put):
            return Canned(b"", 405, _HTML)
        query = urlsplit(request.target).query
        return _forwarded(found.jobmanager.url, request, f"/{rest}?{query}" if query else f"/{rest}")


def _forwarded(url: str, request: FakeRequest, target: str) -> Canned:
    """Pass a request on, with the few headers that the web proxy passes on."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
    body = None if request.body is None else json.dumps(request.body)
    try:
        connection.request(request.method, target, body, {"Accept": "application/json"})
        answer = connection.getresponse()
        return Canned(answer.read(), answer.status, answer.headers.get("Content-Type"))
    except OSError as error:
        return Canned(f"<html>{error}</html>".encode(), 500, _HTML)
    finally:
        connection.close()


def _exception(status: int, kind: str, message: str) -> Canned:
    return Canned.json({"RemoteException": {"exception": kind, "message": f"java.lang.Exception: {message}"}}, status)
