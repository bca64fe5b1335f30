"""One YARN application from pass to pass: on which way it is reached, and when to try again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from flink_autoscaler.clients import FlinkRestClient, JobOverview
from flink_autoscaler.clients.flink.capacity import read_capacity
from flink_autoscaler.clients.flink.client_cache import Admission
from flink_autoscaler.clients.yarn import Application
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, FlinkRestError, ResponseError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Capacity, Endpoint
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER
from flink_autoscaler.standalone.fetchers.yarn_endpoints import Ways

DIRECT_SHARE: Final = 0.25
"""Of the timeout of a request, what direct access may take while the proxy is still to be tried: where nodes cannot
be reached, packets are often dropped without a word."""

LONGEST_WAIT: Final = 16
"""Passes from one attempt to reach an application to the next, at most."""

_HA_ID: Final = "high-availability.cluster-id"
"""Flink sets it to the application id unless the user has set it."""


class Clients(Protocol):
    """Gives clients on the event loop, as :class:`~flink_autoscaler.clients.flink.client_cache.ClientCache` does."""

    async def get(self, endpoint: Endpoint) -> FlinkRestClient:
        """Return the client of an endpoint. May raise :class:`ConfigError`."""
        ...


class Look(NamedTuple):
    """What one look at an application gave.

    Attributes:
        client: On the way that worked.
        jobs: All its jobs.
        taskmanager_cpu: CPUs of one of its TaskManagers; None when unknown.
        capacity: Its TaskManagers; None when unknown.
    """

    client: FlinkRestClient
    jobs: tuple[JobOverview, ...]
    taskmanager_cpu: float | None
    capacity: Capacity | None


@dataclass(frozen=True, slots=True)
class ApplicationDependencies:
    """What is around the looks of one pass.

    Attributes:
        clients: Gives the client of an endpoint.
        looks: Bounds how many applications are looked at at the same time.
        proxied: Bounds the requests through the web proxy, which serves all applications.
        application_ids: All applications of the pass.
    """

    clients: Clients
    looks: Admission
    proxied: Admission
    application_ids: Collection[str]


class _Answer(NamedTuple):
    endpoint: Endpoint
    client: FlinkRestClient
    jobs: tuple[JobOverview, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is asked for rarely, and when it was."""

    taskmanager_cpu: float | None
    capacity: Capacity | None
    read_at: float


class WatchedApplication:
    """Remembers about one application what the next pass needs. Belongs to one event loop; looks do not overlap.

    The way that worked is kept until it fails, or until another attempt of the application has registered. What
    cannot be reached is tried again after 1, 2, 4, 8 and then every 16 passes: many such applications do not make
    every pass as long as a timeout.

    Attributes:
        jobs: Those of the last look that succeeded.
        failures: Looks that have failed in a row.
        url: Of the way that worked last; empty when none has.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.jobs: tuple[JobOverview, ...] = ()
        self.failures = 0
        self.url = ""
        self._clock = clock
        self._attempt: tuple[str, ...] = ()
        self._facts: _Facts | None = None
        self._to_skip = 0
        self._error: AutoscalerError = ConnectError("not looked at yet")

    async def look(self, application: Application, ways: Ways, around: ApplicationDependencies) -> Look:
        """List the jobs, or raise at once the error of the last look when it is too early for another.

        Raises:
            AutoscalerError: It could not be reached, or does not answer as documented.
        """
        if application.attempt != self._attempt:
            self._begin(application.attempt)
        if self._to_skip:
            self._to_skip -= 1
            raise self._error.with_traceback(None)
        try:
            async with around.looks():
                look = await self._look(application, ways, around)
        except AutoscalerError as error:
            self.failed(error)
            raise
        self.failures = 0
        self.jobs = look.jobs
        return look

    def failed(self, error: AutoscalerError) -> None:
        """Take note that the application cannot be read, and put the next look off."""
        self.failures += 1
        self._to_skip = min(1 << (self.failures - 1), LONGEST_WAIT) - 1
        self._error = error
        self.url = ""
        self._facts = None

    def _begin(self, attempt: tuple[str, ...]) -> None:
        self._attempt = attempt
        self._facts = None
        self._to_skip = self.failures = 0
        self.url = ""

    async def _look(self, application: Application, ways: Ways, around: ApplicationDependencies) -> Look:
        endpoint, client, jobs = await self._first_answer(ways, around)
        if self._facts is None or self._is_outdated(self._facts, jobs):
            async with _gate(endpoint, ways, around):
                self._facts = await self._read_facts(client, application, around.application_ids)
        self.url = endpoint.url
        return Look(client, jobs, self._facts.taskmanager_cpu, self._facts.capacity)

    async def _first_answer(self, ways: Ways, around: ApplicationDependencies) -> _Answer:
        """Ask for the jobs, on the way that worked last, or else on one after the other."""
        proven = [endpoint for endpoint in ways if endpoint.url == self.url]
        if proven:
            return await _answer(proven[0], ways, around, proven[0].timeout)
        loop = asyncio.get_running_loop()
        direct_until = loop.time() + _direct_seconds(ways)
        errors: list[AutoscalerError] = []
        for endpoint in ways:
            seconds = endpoint.timeout if endpoint is ways.proxy else direct_until - loop.time()
            if seconds <= 0:
                continue
            try:
                return await _answer(endpoint, ways, around, seconds)
            except AutoscalerError as error:
                errors.append(error)
        raise errors[0] if len(errors) == 1 else FlinkRestError("; ".join(map(str, errors)))

    async def _read_facts(self, client: FlinkRestClient, application: Application, others: Collection[str]) -> _Facts:
        configuration, capacity = await asyncio.gather(client.cluster_configuration(), read_capacity(client))
        claimed = configuration.get(_HA_ID, "")
        if claimed != application.application_id and claimed in others:
            # Ports are given out again: after a fail-over a ResourceManager may name an address of the past.
            raise ResponseError(f"GET {client.endpoint.url}/jobmanager/config: this is the JobManager of {claimed}")
        return _Facts(taskmanager_cpu(configuration), capacity, self._clock())

    def _is_outdated(self, facts: _Facts, jobs: Collection[JobOverview]) -> bool:
        is_starting = bool(jobs) and facts.capacity is not None and not facts.capacity.taskmanagers
        return is_starting or self._clock() - facts.read_at >= REFRESH_AFTER


def taskmanager_cpu(configuration: Mapping[str, str]) -> float | None:
    """Return the virtual cores of a container of a TaskManager as Flink asks for them; None when that is not a number.

    That is ``taskmanager.cpu.cores`` where it is set, else ``yarn.containers.vcores`` where that is set, else the
    number of slots (Flink's ``YarnWorkerResourceSpecFactory``).
    """
    try:
        cores = syntax.parse_double(configuration.get("taskmanager.cpu.cores", "-1"))
        vcores = syntax.parse_int(configuration.get("yarn.containers.vcores", "-1"))
        slots = FlinkOptions(configuration).task_slots
    except (ValueError, AutoscalerError):
        return None
    return next((float(value) for value in (cores, vcores, slots) if value > 0), None)


def _direct_seconds(ways: Ways) -> float:
    """Return the time for all direct ways together."""
    timeout = next(iter(ways)).timeout
    return timeout if ways.proxy is None else timeout * DIRECT_SHARE


def _gate(endpoint: Endpoint, ways: Ways, around: ApplicationDependencies) -> AbstractAsyncContextManager[None]:
    return around.proxied() if endpoint is ways.proxy else nullcontext()


async def _answer(endpoint: Endpoint, ways: Ways, around: ApplicationDependencies, seconds: float) -> _Answer:
    async with _gate(endpoint, ways, around):
        try:
            async with asyncio.timeout(seconds):
                client = await around.clients.get(endpoint)
                return _Answer(endpoint, client, await client.jobs_overview())
        except TimeoutError as error:
            # Without a number: what is left of the time differs from look to look, and the message is news then.
            raise ConnectError(f"GET {endpoint.url}/jobs/overview: no complete answer in time") from error
