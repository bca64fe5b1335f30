"""The applications of a YARN cluster from pass to pass: where they are reached, on which way, and until when.

That a ResourceManager does not list an application among the running ones does not mean that it has ended: while the
next ApplicationMaster starts, and for some seconds after every fail-over, the application is ACCEPTED although its job
may run on. A ResourceManager that has just lost its role may also list what was. So each of them is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from flink_autoscaler.clients.flink.capacity import read_capacity
from flink_autoscaler.clients.flink.client_cache import ClientCache, ConcurrencyLimiter
from flink_autoscaler.clients.flink.decode import JobListing, JobOverview
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.yarn import (
    Application,
    ApplicationFilter,
    ResourceManagerClient,
    direct_url,
    proxy_url,
)
from flink_autoscaler.clients.yarn.applications import RUNNING, origin
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await
from flink_autoscaler.core.errors import (
    AutoscalerError,
    ConnectError,
    FlinkRestError,
    NotReadyError,
    ResponseError,
)
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import ClusterCapacity, Endpoint
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER, JobListReconciler, ListedJobs
from flink_autoscaler.standalone.settings.credentials import DELEGATION_TOKEN, Credentials, MetricSources
from flink_autoscaler.standalone.settings.schema.settings import Cluster

DIRECT_SHARE: Final = 0.25
"""Of the timeout of a request, what direct access may take while the proxy is still to be tried: where nodes cannot
be reached, packets are often dropped without a word."""

MAX_SKIPPED_PASSES: Final = 16
"""Passes from one attempt to reach an application to the next, at most."""

_HA_ID: Final = "high-availability.cluster-id"
"""Flink sets it to the application id unless the user has set it."""

UNKNOWN_RETENTION: Final = 300.0
"""Seconds for which an application is kept that the ResourceManager does not know: longer than a fail-over takes.
Those that have ended it remembers for long, so that only one without recovery, after a restart, has none of them."""

MAX_LOOKUPS: Final = 64
"""Applications that are asked for in one pass, so that a list that is empty for once costs no thousand requests."""

_HTTPS: Final = "https"


JobsResponse = tuple[FlinkRestClient, JobListing]
"""The client on the way that worked, and the jobs."""


@dataclass(frozen=True, slots=True)
class Routes:
    """On which ways the JobManager of an application may be reached.

    Attributes:
        direct: To the node that it runs on, to be tried in this order; empty where that is not wanted or not known.
        proxy: Through YARN's web proxy; None where that is not wanted or there is none.
    """

    direct: tuple[Endpoint, ...] = ()
    proxy: Endpoint | None = None

    def __iter__(self) -> Iterator[Endpoint]:
        """Give every way once."""
        yield from self.direct
        if self.proxy is not None:
            yield self.proxy


class YarnEndpoints:
    """Makes the endpoints of one pass. Credentials are read by :meth:`renew`, not on an event loop.

    There are two sets of credentials. Those of the cluster entry are for JobManagers, whose addresses their
    ApplicationMasters have registered: anybody's who may start an application. So no credentials go to a host that is
    neither a ResourceManager's nor vouched for by one nor configured: that way is not taken. Those
    below ``yarn`` are for ResourceManagers, and for the web proxy that they name in the tracking URLs of applications
    that they manage; never unencrypted to a proxy while the ResourceManagers are asked over https. A delegation token
    goes to the configured ResourceManagers alone.

    Args:
        cluster: Whose settings hold.

    Attributes:
        resource_managers: One endpoint each, in the configured order.
        trusted_hosts: Hosts that the ResourceManagers were found to vouch for, in lower case.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.settings.yarn
        self._plain = replace(cluster.endpoint, url="")
        self._access = Credentials(cluster.settings, f"cluster '{cluster.name}': ")
        self._metrics = MetricSources(cluster.settings, f"cluster '{cluster.name}': ")
        self._yarn_access = Credentials(self._settings, f"cluster '{cluster.name}': yarn.")
        # Over http anybody on the way could read what is meant to be encrypted.
        self._schemes = (_HTTPS,) if cluster.settings.tls.model_fields_set else ("http", _HTTPS)
        self._origins = [origin(url) for url in self._settings.url]
        self._jobmanager = self._resource_manager = self._plain
        self.resource_managers: tuple[Endpoint, ...] = ()
        self.vouched_hosts: frozenset[str] = frozenset()

    def needs_hosts(self, listed: Iterable[Application]) -> bool:
        """Tell whether credentials would go to a host that nobody has vouched for yet."""
        return any(not self._is_safe(each) for application in listed for each in self._possible_routes(application))

    def renew(self) -> None:
        """Read credentials from where the settings say. May raise :class:`ConfigError`."""
        plain = self._metrics.with_metric_source(self._plain)
        self._jobmanager = self._access.with_credentials(plain)
        self._resource_manager = self._yarn_access.with_credentials(plain)
        self.resource_managers = tuple(replace(self._resource_manager, url=url) for url in self._settings.url)

    def routes(self, application: Application) -> Routes:
        """Return on which ways an application may be reached.

        Raises:
            NotReadyError: Its ApplicationMaster has not registered yet.
            ResponseError: It has, but the ResourceManager does not tell what the configured way needs.
        """
        possible = self._possible_routes(application)
        ways = Routes(
            tuple(filter(self._is_safe, possible.direct)),
            possible.proxy if possible.proxy is not None and self._is_safe(possible.proxy) else None,
        )
        if next(iter(ways), None) is not None:
            return ways
        if (unsafe := next(iter(possible), None)) is not None:
            raise ResponseError(
                f"its address {unsafe.url!r:.200} is on no host that the ResourceManager lists, so no credentials are"
                " sent there; add the host to yarn.trusted-hosts if it is one of the cluster's"
            )
        raise _unreachable_error(application, self._settings.access)

    def _is_safe(self, endpoint: Endpoint) -> bool:
        """Tell whether an endpoint has no credentials, or is on a host that may have them."""
        if not endpoint.headers and endpoint.kerberos is None:
            return True
        host = origin(endpoint.url)[1]
        is_known = host in self.vouched_hosts or any(host == known[1] for known in self._origins)
        return is_known or any(fnmatchcase(host, pattern.lower()) for pattern in self._settings.trusted_hosts)

    def _possible_routes(self, application: Application) -> Routes:
        access = self._settings.access
        urls = [url for scheme in self._schemes if (url := direct_url(application, scheme)) is not None]
        direct = () if access == "proxy" else tuple(replace(self._jobmanager, url=url) for url in urls)
        proxy = None
        if access != "direct" and (url := proxy_url(application)) is not None:
            proxy = replace(self._proxy_endpoint(url), put_url=next(iter(urls), None))
        return Routes(direct, proxy)

    def _proxy_endpoint(self, url: str) -> Endpoint:
        scheme, host, _ = there = origin(url)
        endpoint = replace(self._resource_manager, url=url, approves_proxy=self._settings.approve_proxy)
        if there not in self._origins:
            kept = tuple((name, value) for name, value in endpoint.headers if name != DELEGATION_TOKEN)
            is_downgrade = scheme != _HTTPS and all(known[0] == _HTTPS for known in self._origins)
            endpoint = replace(endpoint, headers=() if is_downgrade else kept)
        if endpoint.kerberos is not None and host not in {known[1] for known in self._origins}:
            endpoint = replace(endpoint, kerberos=replace(endpoint.kerberos, host=None))
        return endpoint


def _unreachable_error(application: Application, access: str) -> AutoscalerError:
    has_registered = application.am_rpc_address or application.tracking_url
    if not has_registered:
        return NotReadyError("its ApplicationMaster has not registered with YARN yet")
    if access == "direct":
        return ResponseError(
            f"the ResourceManager shows no address of its JobManager ({application.am_rpc_address!r:.80}): either the "
            "daemon may not view the application, or needs access: auto or proxy"
        )
    if application.is_unmanaged:
        return ResponseError("its ApplicationMaster runs outside YARN and can only be reached directly")
    return ResponseError(f"its tracking URL {application.tracking_url!r:.200} is not one of YARN's web proxy")


class ApplicationFacts(NamedTuple):
    """Facts that are requested rarely.

    Attributes:
        taskmanager_cpu: CPUs of one TaskManager; None when unknown.
        capacity: All TaskManagers, or why they are unknown.
        read_at: When it was asked for.
    """

    taskmanager_cpu: float | None
    capacity: ClusterCapacity | AutoscalerError
    read_at: float


class ApplicationSnapshot(NamedTuple):
    """Result of one look at an application: all its jobs, and the client on the route that worked."""

    application: Application
    client: FlinkRestClient
    jobs: ListedJobs
    facts: ApplicationFacts


@dataclass(frozen=True, slots=True)
class ApplicationDependencies:
    """Services that the looks of one pass use.

    Attributes:
        clients: Gives the client of an endpoint.
        listings: Bounds how many applications are looked at at the same time.
        proxy_requests: Bounds the requests through the web proxy, which serves all applications.
        application_ids: All applications of the pass.
    """

    clients: ClientCache
    listings: ConcurrencyLimiter
    proxy_requests: ConcurrencyLimiter
    application_ids: Collection[str]


class TrackedApplication:
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
        self._listed = JobListReconciler()
        self.failures = 0
        self.url = ""
        self._clock = clock
        self._attempt: tuple[str, ...] = ()
        self._facts: ApplicationFacts | None = None
        self._to_skip = 0
        self._error: AutoscalerError = ConnectError("not looked at yet")

    async def list_jobs(
        self, application: Application, ways: Routes, around: ApplicationDependencies
    ) -> ApplicationSnapshot:
        """List the jobs, or raise at once the error of the last look when it is too early for another."""
        if application.attempt != self._attempt:
            self._attempt = application.attempt
            self._facts = None
            self._to_skip = self.failures = 0
            self.url = ""
        if self._to_skip:
            self._to_skip -= 1
            raise self._error.with_traceback(None)
        with ErrorBoundary(ResponseError) as boundary:
            async with around.listings():
                look = await self._list_jobs(application, ways, around)
        if boundary.error is not None:
            self.record_failure(boundary.error)
            raise boundary.error
        self.failures = 0
        self.jobs = look.jobs.all
        return look

    def record_failure(self, error: AutoscalerError) -> None:
        """Take note that the application cannot be read, and put the next look off."""
        self.failures += 1
        self._to_skip = min(1 << (self.failures - 1), MAX_SKIPPED_PASSES) - 1
        self._error = error
        self.url = ""
        self._facts = None

    async def _list_jobs(
        self, application: Application, ways: Routes, around: ApplicationDependencies
    ) -> ApplicationSnapshot:
        client, listing = await self._first_response(ways, around)
        facts = self._facts
        # A job without TaskManagers is starting: they will be there soon.
        is_starting = (
            bool(listing.jobs)
            and facts is not None
            and isinstance(facts.capacity, ClusterCapacity)
            and not facts.capacity.taskmanagers
        )
        if facts is None or is_starting or self._clock() - facts.read_at >= REFRESH_AFTER:
            async with _proxy_limit(client.endpoint, ways, around):
                self._facts = facts = await self._read_facts(client, application, around.application_ids)
        self.url = client.endpoint.url
        return ApplicationSnapshot(application, client, self._listed.update(listing), facts)

    async def _first_response(self, ways: Routes, around: ApplicationDependencies) -> JobsResponse:
        """Ask for the jobs, on the way that worked last, or else on one after the other."""
        proven = [endpoint for endpoint in ways if endpoint.url == self.url]
        if proven:
            return await _request_jobs(proven[0], ways, around, proven[0].timeout)
        loop = asyncio.get_running_loop()
        timeout = next(iter(ways)).timeout
        # All direct ways share a part of the time, as long as there is another one to try.
        direct_until = loop.time() + (timeout if ways.proxy is None else timeout * DIRECT_SHARE)
        errors: list[AutoscalerError] = []
        for endpoint in ways:
            seconds = endpoint.timeout if endpoint is ways.proxy else direct_until - loop.time()
            if seconds <= 0:
                continue
            try:
                return await _request_jobs(endpoint, ways, around, seconds)
            except AutoscalerError as error:
                errors.append(error)
        raise errors[0] if len(errors) == 1 else FlinkRestError("; ".join(map(str, errors)))

    async def _read_facts(
        self, client: FlinkRestClient, application: Application, others: Collection[str]
    ) -> ApplicationFacts:
        configuration, capacity = await asyncio.gather(client.cluster_configuration(), read_capacity(client))
        claimed = configuration.get(_HA_ID, "")
        if claimed != application.application_id and claimed in others:
            # Ports are given out again: after a fail-over a ResourceManager may name an address of the past.
            raise ResponseError(f"GET {client.endpoint.url}/jobmanager/config: this is the JobManager of {claimed}")
        return ApplicationFacts(taskmanager_cpu(configuration), capacity, self._clock())


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


def _proxy_limit(
    endpoint: Endpoint, ways: Routes, around: ApplicationDependencies
) -> AbstractAsyncContextManager[None]:
    return around.proxy_requests() if endpoint == ways.proxy else nullcontext()


async def _request_jobs(
    endpoint: Endpoint, ways: Routes, around: ApplicationDependencies, seconds: float
) -> JobsResponse:
    async with _proxy_limit(endpoint, ways, around):
        try:
            async with asyncio.timeout(seconds):
                client = await around.clients.get(endpoint)
                return client, await client.job_listing()
        except TimeoutError as error:
            # Without a number: what is left of the time differs from look to look, and the message is news then.
            raise ConnectError(f"GET {endpoint.url}/jobs/overview: no complete answer in time") from error


class ApplicationTracker:
    """The applications that are managed, from when they are listed until they have ended.

    Belongs to one event loop; calls do not overlap.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched: dict[str, TrackedApplication] = {}
        self._unknown_since: dict[str, float] = {}

    def __getitem__(self, application_id: str) -> TrackedApplication:
        """Return what is remembered about an application; it is managed from now on."""
        if application_id not in self._watched:
            self._watched[application_id] = TrackedApplication(clock=self._clock)
        return self._watched[application_id]

    def items(self) -> Iterable[tuple[str, TrackedApplication]]:
        """Give every application that is managed, with its id."""
        return self._watched.items()

    async def check_missing(
        self, rm: ResourceManagerClient, wanted: ApplicationFilter, listed: Collection[str]
    ) -> tuple[dict[str, AutoscalerError], frozenset[str]]:
        """Find out about the applications that are not listed, and forget those that have ended. Never raises.

        Returns:
            Why it is not known what an application runs, by id; and which run, but do not match the filters any more,
            for example in another queue.
        """
        for application_id in self._unknown_since.keys() & set(listed):
            del self._unknown_since[application_id]
        missing = [application_id for application_id in self._watched if application_id not in listed]
        asked, put_off = missing[:MAX_LOOKUPS], missing[MAX_LOOKUPS:]
        found = await asyncio.gather(*(self._check_missing(rm, wanted, application_id) for application_id in asked))
        problems: dict[str, AutoscalerError] = {
            each: NotReadyError("not listed, not asked for yet") for each in put_off
        }
        problems |= {each: error for each, error in zip(asked, found, strict=True) if error is not None}
        # Those that wait come first in the next pass.
        self._watched = {each: self._watched[each] for each in (*put_off, *self._watched) if each in self._watched}
        return problems, frozenset(asked) & self._watched.keys() - problems.keys()

    async def _check_missing(
        self, rm: ResourceManagerClient, wanted: ApplicationFilter, application_id: str
    ) -> AutoscalerError | None:
        application = await try_await(rm.application(application_id), ResponseError)
        if isinstance(application, AutoscalerError):
            return application
        if application is None:
            since = self._unknown_since.setdefault(application_id, self._clock())
            if self._clock() - since < UNKNOWN_RETENTION:
                return NotReadyError("the ResourceManager does not know it; it may have failed over to an older state")
        self._unknown_since.pop(application_id, None)
        if application is None or application.has_ended:
            self._watched.pop(application_id, None)
            return None
        is_left_out = application.state == RUNNING and not wanted.accepts(application)
        return None if is_left_out else NotReadyError(f"not listed; it is {application.state}")
