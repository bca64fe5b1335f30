"""Lists the jobs of all Flink applications of a YARN cluster."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from flink_autoscaler.clients.flink.capacity import with_capacities
from flink_autoscaler.clients.flink.client_cache import ClientCache, ConcurrencyLimiter
from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.yarn import Application, ApplicationFilter, ResourceManagerClient
from flink_autoscaler.clients.yarn.capacity import YarnCapacity, yarn_capacity
from flink_autoscaler.clients.yarn.resource_manager import trusted_hosts
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError, ResponseError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.job_contexts import JobContexts
from flink_autoscaler.standalone.fetchers.job_keys import ApplicationJob, assign_application_keys, is_selected
from flink_autoscaler.standalone.fetchers.yarn_applications import (
    ApplicationDependencies,
    ApplicationSnapshot,
    ApplicationTracker,
    YarnEndpoints,
)
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode

log = structlog.get_logger(__name__)

MAX_CONCURRENT_LISTINGS: Final = 64
"""Applications that are looked at at the same time, those that have not answered for some seconds not counted."""

_NUMBERS: Final = re.compile(r"[0-9]+")


ApplicationContexts = tuple[tuple[JobAutoScalerContext, ...], dict[JobKey, AutoscalerError]]
"""The contexts of the jobs of one application, and why others could not be made."""


class YarnFetcher:
    """Reads all applications that are managed (a ``JobListFetcher``); their jobs make one list.

    Per pass one request for the list of applications, two for queues and nodes, and one per application for its jobs.
    An application that cannot be read is among the problems of the list, under its id, and concerns no other; one
    whose ApplicationMaster has not registered yet as well, with a :class:`NotReadyError`. The configuration of
    applications and jobs is remembered between passes.

    Takes the same as :class:`~flink_autoscaler.standalone.fetchers.flink.FlinkClusterFetcher`.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        loop: EventLoopThread,
        clients: ClientCache,
        job_key: JobKeyMode = JobKeyMode.NAME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._clients = clients
        self._job_key = job_key
        yarn = cluster.settings.yarn
        self._wanted = ApplicationFilter(yarn.types, yarn.queues, yarn.users, yarn.tags, yarn.names)
        self._endpoints = YarnEndpoints(cluster)
        self._roll = ApplicationTracker(clock=clock)
        self._contexts = JobContexts(cluster, clock=clock)
        self._log_once = LogOnce()
        self._keys: dict[str, frozenset[JobKey]] = {}
        self._rm: ResourceManagerClient | None = None

    def fetch(self) -> JobList:
        """Return all jobs of all applications.

        Raises:
            ConfigError: A secret is not where the settings say.
            FlinkRestError: No ResourceManager gave a list of applications.
        """
        self._endpoints.renew()
        return self._loop.run(self._fetch())

    def close(self) -> None:
        """Close the connections to ResourceManagers; loop and clients belong to the caller."""
        if self._rm is not None:
            self._loop.run(self._rm.aclose())

    async def _fetch(self) -> JobList:
        rm = await self._resource_manager()
        before = rm.active_url
        listed, illegible = await rm.applications(self._wanted)
        if before not in (None, rm.active_url):
            log.warning("resource_manager_changed", cluster=self._cluster.name, before=before, now=rm.active_url)
        await self._refresh_vouched_hosts(rm, listed)
        (absent, moved), capacity, (seen, problems) = await asyncio.gather(
            self._roll.check_missing(rm, self._wanted, {each.application_id for each in listed} | illegible.keys()),
            self._yarn_capacity(rm, listed),
            self._list_all(listed),
        )
        for application_id, found in seen.items():
            problems |= {f"{application_id}: {part}": error for part, error in found.jobs.problems.items()}
        jobs = self._assign_keys(seen)
        read, unreadable, failed = await self._read_all(seen, jobs, capacity)
        self._contexts.keep_only({watched.url for _, watched in self._roll.items()})
        left_out = {key for key, placed in jobs.items() if not is_selected(placed.job.name, self._cluster.settings)}
        return JobList(
            jobs=tuple(context for contexts, _ in read for context in contexts),
            unreadable={**unreadable, **{key: error for _, failures in read for key, error in failures.items()}},
            left_out=frozenset(left_out).union(*(self._keys.get(each, ()) for each in moved)),
            problems={**illegible, **problems, **absent, **failed},
        )

    async def _resource_manager(self) -> ResourceManagerClient:
        """Return the client; another one when credentials were replaced."""
        endpoints = self._endpoints.resource_managers
        if self._rm is None or self._rm.endpoints != endpoints:
            before = self._rm
            self._rm = ResourceManagerClient(endpoints, first=None if before is None else before.active_url)
            if before is not None:
                await before.aclose()
        return self._rm

    async def _refresh_vouched_hosts(self, rm: ResourceManagerClient, listed: Sequence[Application]) -> None:
        """Ask which hosts may have credentials, where applications are on others than those that are known."""
        if not self._endpoints.needs_hosts(listed):
            return
        hosts = await try_await(trusted_hosts(rm), ResponseError)
        error = hosts if isinstance(hosts, AutoscalerError) else None
        if not isinstance(hosts, AutoscalerError):
            self._endpoints.vouched_hosts = hosts
        if self._log_once.is_news("hosts", error) and error is not None:
            log.warning("yarn_nodes_unknown", cluster=self._cluster.name, error=str(error))

    async def _yarn_capacity(self, rm: ResourceManagerClient, listed: Sequence[Application]) -> YarnCapacity | None:
        """Return what queues and nodes have; without it jobs are managed all the same."""
        if not self._cluster.settings.yarn.headroom or not listed:
            return None
        capacity = await try_await(yarn_capacity(rm), ResponseError)
        error = capacity if isinstance(capacity, AutoscalerError) else None
        if self._log_once.is_news("headroom", error):
            if error is None:
                log.info("yarn_headroom_known", cluster=self._cluster.name)
            else:
                log.warning("yarn_headroom_unknown", cluster=self._cluster.name, error=str(error))
        return None if isinstance(capacity, AutoscalerError) else capacity

    async def _list_all(
        self, listed: Sequence[Application]
    ) -> tuple[dict[str, ApplicationSnapshot], dict[str, AutoscalerError]]:
        """Look at all applications at the same time, those that failed before last."""
        problems = _duplicate_addresses(listed)
        applications = {each.application_id: each for each in listed if each.application_id not in problems}
        around = ApplicationDependencies(
            self._clients,
            listings=ConcurrencyLimiter(jobs=MAX_CONCURRENT_LISTINGS),
            proxy_requests=ConcurrencyLimiter(jobs=self._cluster.endpoint.max_connections),
            application_ids=applications.keys(),
        )

        async def look(application: Application) -> ApplicationSnapshot | AutoscalerError:
            watched = self._roll[application.application_id]
            with ErrorBoundary() as boundary:
                return await watched.list_jobs(application, self._endpoints.routes(application), around)
            return boundary.error or NotReadyError("not looked at")

        in_turn = sorted(applications.values(), key=lambda each: self._roll[each.application_id].failures)
        results = dict(zip(in_turn, await asyncio.gather(*map(look, in_turn)), strict=True))
        seen = {}
        for application_id, application in applications.items():
            match results[application]:
                case ApplicationSnapshot() as found:
                    seen[application_id] = found
                case error:
                    problems[application_id] = error
        return seen, problems

    def _assign_keys(self, seen: Mapping[str, ApplicationSnapshot]) -> dict[JobKey, ApplicationJob]:
        """Give the jobs their keys.

        Those of applications that cannot be read at the moment take part: otherwise another job of the same name would
        have its name for itself for a while, and take over what was learned.
        """
        known = {each: seen[each].jobs.all if each in seen else watched.jobs for each, watched in self._roll.items()}
        keyed = assign_application_keys(self._cluster.name, known, self._job_key)
        keys: dict[str, set[JobKey]] = defaultdict(set)
        for key, placed in keyed.items():
            keys[placed.application_id].add(key)
        self._keys = {each: frozenset(keys[each]) for each in known}
        return {key: placed for key, placed in keyed.items() if placed.application_id in seen}

    async def _read_all(
        self,
        seen: Mapping[str, ApplicationSnapshot],
        jobs: Mapping[JobKey, ApplicationJob],
        capacity: YarnCapacity | None,
    ) -> tuple[list[ApplicationContexts], dict[JobKey, AutoscalerError], dict[str, AutoscalerError]]:
        """Return what was read of each application, why some of their jobs cannot be, and which cannot be at all."""
        admission = ConcurrencyLimiter(jobs=MAX_CONCURRENT_LISTINGS)
        selected: dict[str, dict[JobKey, JobOverview]] = {each: {} for each in seen}
        for key, placed in jobs.items():
            if is_selected(placed.job.name, self._cluster.settings):
                selected[placed.application_id][key] = placed.job
        divided = {each: seen[each].jobs.partition(mine) for each, mine in selected.items()}

        async def read(application_id: str) -> ApplicationContexts:
            async with admission():
                return await self._read(seen[application_id], divided[application_id][0], capacity)

        found = dict(zip(seen, await asyncio.gather(*(try_await(read(each)) for each in seen)), strict=True))
        return (
            [each for each in found.values() if not isinstance(each, AutoscalerError)],
            {key: error for _, unreadable in divided.values() for key, error in unreadable.items()},
            {each: error for each, error in found.items() if isinstance(error, AutoscalerError)},
        )

    async def _read(
        self, look: ApplicationSnapshot, jobs: Mapping[JobKey, JobOverview], capacity: YarnCapacity | None
    ) -> ApplicationContexts:
        application = look.application
        contexts, failures = await self._contexts.contexts(
            look.client,
            jobs,
            labels={
                "yarn_application_id": application.application_id,
                "yarn_queue": application.queue,
                "yarn_user": application.user,
            },
            headroom=None if capacity is None else capacity.headroom(application.queue, application.user or None),
            taskmanager_cpu=look.facts.taskmanager_cpu,
        )
        if failures and not contexts:
            self._roll[application.application_id].record_failure(next(iter(failures.values())))
        # Flink asks YARN for TaskManagers itself: there is no fixed number of slots to share.
        given, refused = with_capacities(contexts, look.facts.capacity, is_fixed=False)
        return given, {**failures, **refused}


def _duplicate_addresses(listed: Sequence[Application]) -> dict[str, AutoscalerError]:
    """Return a problem for each application whose address is that of a later one: no two JobManagers share one."""
    latest: dict[str, str] = {}
    for application in sorted(listed, key=lambda each: _application_number(each.application_id)):
        if application.am_rpc_address:
            latest[application.am_rpc_address] = application.application_id
    return {
        each.application_id: ResponseError(
            f"the ResourceManager gives it the address {each.am_rpc_address!r:.80} of {latest[each.am_rpc_address]}: "
            "its list is out of date"
        )
        for each in listed
        if each.am_rpc_address and latest[each.am_rpc_address] != each.application_id
    }


def _application_number(application_id: str) -> list[int]:
    return list(map(int, _NUMBERS.findall(application_id)))
