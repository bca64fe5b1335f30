"""Requests to the ResourceManagers of a YARN cluster, of which one is active."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar
from urllib.parse import urlsplit

from flink_autoscaler.clients.http.json_object import JsonObject, decode_answer
from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.clients.yarn import applications
from flink_autoscaler.clients.yarn.applications import Application, ApplicationFilter, ListedApplications
from flink_autoscaler.clients.yarn.capacity import JsonSource
from flink_autoscaler.core.error_boundary import try_await
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, FlinkRestError, RefusedError, ResponseError
from flink_autoscaler.core.model.job import Endpoint

T = TypeVar("T")

APPS: Final = "/ws/v1/cluster/apps"
INFO: Final = "/ws/v1/cluster/info"
ACTIVE: Final = "ACTIVE"

_NOT_FOUND: Final = 404
_NO_INFO: Final = frozenset({_NOT_FOUND, 500, 501})
"""How routers of a federation answer the question for their state: they take requests all the same."""


class ResourceManagerClient:
    """Asks the active one of several ResourceManagers. Belongs to one event loop; calls may overlap.

    The one that answered last is asked first. When it does not, or says anything but JSON (a standby redirects, or
    has a page for people that refreshes itself), all are asked for their state at the same time, and the active one
    for the answer. Redirects are never followed: older versions lose the query on the way.

    Args:
        endpoints: One per ResourceManager, at least one, with everything that requests need.
        first: Base URL of the one that was active when last seen.

    Attributes:
        endpoints: As given.
        active_url: Base URL of the one that answered last; None before the first answer of one of several.
    """

    def __init__(self, endpoints: Sequence[Endpoint], *, first: str | None = None) -> None:
        self.endpoints = tuple(endpoints)
        self._transports = {transport.url: transport for transport in map(HttpTransport, self.endpoints)}
        only = next(iter(self._transports)) if len(self._transports) == 1 else None
        self.active_url = first if first in self._transports else only

    async def applications(self, wanted: ApplicationFilter) -> ListedApplications:
        """Return the running applications that a filter takes, each once, in YARN's order, which is unspecified.

        Of what cannot be read it is not known whether the filter takes it.

        Raises:
            FlinkRestError: No ResourceManager gave a list.
        """
        # The filter again: which parameters a ResourceManager knows depends on its version.
        listed = await self._get_decoded(APPS, applications.decode_applications, wanted.query())
        taken = (each for each in listed.applications if each.state in ("RUNNING", "") and wanted.accepts(each))
        return ListedApplications(tuple(taken), listed.unreadable)

    async def application(self, application_id: str) -> Application | None:
        """Return an application in whatever state; None where the active ResourceManager does not know it.

        Raises:
            FlinkRestError: No ResourceManager answered.
        """
        try:
            return await self._get_decoded(
                f"{APPS}/{application_id}", applications.decode_application, is_answer=_is_not_found
            )
        except RefusedError as error:
            if _is_not_found(error):
                return None
            raise

    async def get_json(self, path: str, *, params: Mapping[str, str] | None = None) -> object:
        """Return the decoded answer of the active ResourceManager to a GET.

        Args:
            path: Below the base URL, with a slash in front, already quoted.
            params: Query parameters; commas in values stay as they are.

        Raises:
            FlinkRestError: None is active, or the active one refused; the message names every URL and what it said.
        """
        return await self._get_decoded(path, lambda answer: answer, params)

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        for transport in self._transports.values():
            await transport.aclose()

    async def _get_decoded(
        self,
        path: str,
        decoder: Callable[[object], T],
        params: Mapping[str, str] | None = None,
        *,
        is_answer: Callable[[FlinkRestError], bool] = lambda _: False,
    ) -> T:
        """Ask for an answer that can be decoded; what cannot is none, and the next one is asked."""
        failures: dict[str, FlinkRestError] = {}
        async with aclosing(self._candidates(failures)) as candidates:
            async for url in candidates:
                try:
                    answer = await self._transports[url].get_json(path, params=params)
                    decoded_answer = decode_answer(answer, decoder, f"GET {url}{path}")
                except FlinkRestError as error:
                    if is_answer(error):
                        raise
                    failures[url] = error
                else:
                    self.active_url = url
                    return decoded_answer
        raise _no_active_error(failures)

    async def _candidates(self, failures: dict[str, FlinkRestError]) -> AsyncGenerator[str, None]:
        """Give out who may be active, one after the other; ``failures`` is read and completed in between."""
        last = self.active_url
        if last is not None:
            yield last
        # One that nobody answers for is not asked again: a timeout would be waited for twice.
        others = [url for url in self._transports if not isinstance(failures.get(url), ConnectError)]
        pending = {asyncio.create_task(self._state(url)): url for url in others}
        silent = []
        try:
            while pending:
                done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    url, state = pending.pop(task), task.result()
                    if state == ACTIVE:
                        yield url
                    elif state is None:
                        silent.append(url)
                    elif isinstance(state, FlinkRestError):
                        failures[url] = state
                    else:
                        failures[url] = ResponseError(f"{url}: its state is {state}")
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        for url in silent:
            yield url

    async def _state(self, url: str) -> str | FlinkRestError | None:
        """Return what a ResourceManager says about itself: None where it does not tell, or why it says nothing."""
        try:
            return applications.ha_state(await self._transports[url].get_json(INFO))
        except RefusedError as error:
            return None if error.status in _NO_INFO else error
        except FlinkRestError as error:
            return error


def _is_not_found(error: FlinkRestError) -> bool:
    return isinstance(error, RefusedError) and error.status == _NOT_FOUND


def _no_active_error(failures: Mapping[str, FlinkRestError]) -> FlinkRestError:
    """Make the error out of what every one said; the error itself where there is only one to ask."""
    if len(failures) == 1:
        (only,) = failures.values()
        return only
    kind = ConnectError if all(isinstance(error, ConnectError) for error in failures.values()) else ResponseError
    return kind("no ResourceManager is active: " + "; ".join(map(str, failures.values())))


NODES_PATH: Final = "/ws/v1/cluster/nodes"
CONF_PATH: Final = "/conf"
_PROXY: Final = "yarn.web-proxy.address"


async def trusted_hosts(rm: JsonSource) -> frozenset[str]:
    """Return host names in lower case; those of the proxy only where the ResourceManager tells its configuration.

    Raises:
        FlinkRestError: It did not list its nodes.
    """
    nodes, conf = await asyncio.gather(
        rm.get_json(NODES_PATH), try_await(rm.get_json(CONF_PATH, params={"name": _PROXY}), ResponseError)
    )
    hosts = _node_hosts(nodes)
    if not isinstance(conf, AutoscalerError) and (proxy := _proxy_host(conf)):
        hosts.add(proxy)
    return frozenset(hosts)


def _node_hosts(answer: object) -> set[str]:
    nodes = JsonObject(answer, "the nodes").get("nodes")
    entries = nodes.get("node") if isinstance(nodes, dict) else None
    listed = entries if isinstance(entries, list) else [entries]
    hosts: set[str] = set()
    for entry in listed:
        if isinstance(entry, dict):
            hosts.add(_host(f"//{entry.get('nodeHTTPAddress')}"))
            hosts.add(_host(f"//{entry.get('nodeHostName')}"))
    return hosts - {"", "none"}


def _proxy_host(conf: object) -> str:
    found = conf.get("property") if isinstance(conf, dict) else None
    is_it = isinstance(found, dict) and found.get("key", found.get("name")) == _PROXY
    return _host(f"//{found.get('value')}") if is_it and isinstance(found, dict) else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
