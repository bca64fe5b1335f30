"""Rescales jobs in place through Flink's resource requirements (FLIP-291, Flink 1.18 and later)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import FlinkRestError, JobGoneError, RealizeError, RefusedError, ResponseError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.observe.observation import keeps_floors
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms, RealizeResult
from flink_autoscaler.core.ports.task_managers import is_reactive
from flink_autoscaler.realizers.realization import (
    CONFIG_NOT_APPLIED,
    GRACE,
    REFUSED,
    UNCHANGED,
    BoundedMemory,
    Throttle,
    changed_keys,
    check_overrides,
    config_fingerprint,
    refuse,
)

SCALING = "Scaling"
REACTIVE_MODE = "ReactiveModeNotRescalable"
NOT_SUPPORTED = "RescaleNotSupported"

LOWER_BOUND: Final = 1
"""With fewer slots than wanted a job keeps running at what fits, instead of waiting for all of them; unless it is told
otherwise."""

Requirements = Mapping[VertexId, ParallelismBounds]
"""Lower and upper bound of the parallelism of every vertex of a job."""

_NOT_RUNNING = "job_not_running"
_REQUESTS = 2
"""One GET and at most one PUT; each has the endpoint's timeout."""

_TEXTS = {
    REACTIVE_MODE: "The job runs in reactive mode, in which its parallelism follows the number of TaskManagers and "
    "cannot be requested: set autoscaler.realizer to auto, and a provider of the cluster that starts and stops them.",
    NOT_SUPPORTED: "The cluster cannot change the parallelism of this job in place; that needs Flink 1.18 or later and "
    "jobmanager.scheduler: adaptive. It is not tried again until the job or its configuration changes.",
}

log = structlog.get_logger(__name__)


class RescaleApiRealizer:
    """Compares the requirements of a job with what is wanted and, where they differ, replaces them with one request.

    The request is accepted long before the job runs with the new parallelism, and is not a promise that it will.

    Args:
        clients: Gives the client of a cluster; the caller owns it, so that a cluster's connections are shared.
        loop: Runs the requests of those clients; owned by the caller.
        clock: Seconds that never run backward; spaces out warnings.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._loop = loop
        self._throttle = Throttle(clock)
        self._refused_for_good: BoundedMemory[JobKey, tuple[int, str]] = BoundedMemory()

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Request ``overrides`` as upper bounds, where the cluster does not have them yet.

        A job that is to be repaired need not be running: the adaptive scheduler keeps what it is asked for and starts
        the next attempt with it.

        Returns:
            REQUESTED with the upper bounds of all vertices that have an override, UNCHANGED (also where somebody else
            just changed the requirements), or REFUSED when the job cannot be rescaled as it is, which is said once per
            ``scaling.event.interval``.

        Raises:
            RealizeError: The cluster did not answer or refused; its cause is a FlinkRestError. Or a parallelism is
                not a positive number, or the cluster holds an unusable bound of another vertex.
            ConfigError: The id of the job is not one of Flink's.
        """
        refusal = self._refusal(context, is_repair=terms.is_repair)
        if refusal is not None:
            return refusal
        check_overrides(overrides)
        try:
            change = _change(self._clients(context.endpoint), context, overrides, terms)
            before, after = self._loop.run(change, _REQUESTS * context.endpoint.timeout + GRACE)
        except FlinkRestError as error:
            return self._failure(context, error)
        if after is None:
            log.info("requirements_changed_meanwhile", cluster=context.cluster, job_key=context.job_key)
            return UNCHANGED
        return _realization(before, after, overrides, terms.vertices)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Refuse: a job that is rescaled in place keeps its configuration."""
        keys = changed_keys(changes)
        if not keys:
            return UNCHANGED
        text = f"Configuration cannot be changed by an in-place rescale; set it yourself and restart the job: {keys}"
        if not context.options.is_improved:
            return self._refuse_with_line(context, CONFIG_NOT_APPLIED, keys=keys)
        return self._refuse_with_event(context, CONFIG_NOT_APPLIED, text)

    def close(self) -> None:
        """Release nothing: clients and event loop belong to whoever made them."""

    def _refusal(self, context: JobAutoScalerContext, *, is_repair: bool) -> Realization | None:
        """Tell whether the job cannot be rescaled at all, without asking the cluster."""
        flink = context.flink_options
        if is_reactive(context):
            return self._refuse_with_event(context, REACTIVE_MODE, _TEXTS[REACTIVE_MODE])
        if flink.scheduler.strip().lower() != "adaptive":
            return self._refuse_with_line(context, "scheduler_not_adaptive", scheduler=flink.scheduler)
        is_ready = context.status is JobStatus.RUNNING or (is_repair and not context.status.is_terminal)
        if not is_ready or context.job_id is None:
            return self._refuse_with_line(context, _NOT_RUNNING, status=context.status.value)
        remembered = self._refused_for_good.get(context.job_key)
        if remembered is not None and remembered[0] == config_fingerprint(context):
            return self._refuse_with_event(context, remembered[1], _TEXTS[remembered[1]])
        return None

    def _refuse_with_line(self, context: JobAutoScalerContext, reason: str, **facts: object) -> Realization:
        # Jobs end, and every rescale has them not run for a moment; everybody else should hear of a refusal.
        write = log.debug if context.status.is_terminal or reason == _NOT_RUNNING else log.warning
        if self._throttle.admits(context, reason):
            write("rescale_refused", cluster=context.cluster, job_key=context.job_key, reason=reason, **facts)
        return REFUSED

    def _refuse_with_event(self, context: JobAutoScalerContext, reason: str, text: str) -> Realization:
        return refuse(context, reason, text) if self._throttle.admits(context, reason) else REFUSED

    def _failure(self, context: JobAutoScalerContext, error: FlinkRestError) -> Realization:
        reason = _permanent_reason(error)
        if reason is not None:
            self._refused_for_good.put(context.job_key, (config_fingerprint(context), reason))
            return self._refuse_with_event(context, reason, _TEXTS[reason])
        if isinstance(error, JobGoneError):
            log.debug("job_removed", cluster=context.cluster, job_key=context.job_key, error=str(error))
            return REFUSED
        raise RealizeError(f"job {context.job_id} was not rescaled: {error}") from error


async def _change(
    client: FlinkRestClient, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], terms: RealizationTerms
) -> tuple[Requirements, Requirements | None]:
    """Send one GET, and one PUT with all vertices when a bound differs; Flink refuses a PUT that leaves one out.

    Returns:
        Requirements of all vertices before and after, equal when nothing had to be sent. None instead of the latter
        when a bound differs, but somebody else changed the requirements since they were read for the decision, or it
        was made without them and would go below a lower bound that somebody set: the next pass knows it.

    Raises:
        ResponseError: The answer leaves out a vertex of the job.
    """
    job_id, keeps = context.job_id or "", keeps_floors(context.options)
    before = await client.resource_requirements(job_id)
    if left_out := sorted(terms.vertices.keys() - before.keys()):
        raise ResponseError(f"the resource requirements leave out {', '.join(left_out)}, of the job's own vertices")
    after = target_requirements(before, overrides, terms.min_parallelism, keeps_lower=keeps)
    if after != before:
        is_followed = context.options.supervises_rescales
        is_below = keeps and is_followed and any(after[v].lower < bounds.lower for v, bounds in before.items())
        is_outdated = (
            is_below and not terms.is_repair if terms.found_requirements is None else terms.found_requirements != before
        )
        if is_outdated:
            return before, None
        await client.set_resource_requirements(job_id, after)
    return before, after


def _permanent_reason(error: FlinkRestError) -> str | None:
    """Return why the job will never be rescaled as it is configured; None when the next pass may succeed.

    Flink answers an unknown job with status 500 here, so its "Not found" is about the path: Flink before 1.18.
    """
    text = error.body.lower() if isinstance(error, RefusedError) else ""
    if "unsupportedoperationexception" in text:
        return REACTIVE_MODE if "reactive mode" in text else NOT_SUPPORTED
    return NOT_SUPPORTED if text.startswith("not found") else None


def _realization(
    before: Requirements, after: Requirements, overrides: Mapping[VertexId, int], names: Mapping[VertexId, str]
) -> Realization:
    if after == before:
        return UNCHANGED
    text = f"Requested new bounds of the parallelism: {describe_bounds_change(before, after, names)}"
    requested = {vertex_id: bounds.upper for vertex_id, bounds in after.items() if vertex_id in overrides}
    return Realization(RealizeResult.REQUESTED, requested, (Event(EventType.NORMAL, SCALING, text),))


def target_requirements(
    current: Requirements,
    overrides: Mapping[VertexId, int],
    least: Mapping[VertexId, int] | None = None,
    *,
    keeps_lower: bool = False,
) -> dict[VertexId, ParallelismBounds]:
    """Return the requirements of all vertices of the job, those with an override replaced.

    Overrides of vertices that the job does not have are ignored; vertices without an override keep both bounds.

    Args:
        current: Requirements of all vertices.
        overrides: Upper bounds.
        least: Lower bounds; 1 for vertices that are not named.
        keeps_lower: Whether a greater lower bound stays, as far as the upper bound allows it.
    """
    wanted = dict(current)
    for vertex_id in current.keys() & overrides.keys():
        upper = overrides[vertex_id]
        lower = max(LOWER_BOUND, (least or {}).get(vertex_id, LOWER_BOUND))
        if keeps_lower:
            lower = max(lower, current[vertex_id].lower)
        wanted[vertex_id] = ParallelismBounds(min(lower, upper), upper)
    return wanted


def describe_bounds_change(current: Requirements, wanted: Requirements, names: Mapping[VertexId, str]) -> str:
    """Return an entry per vertex that gets other bounds, such as ``work 1..2 -> 1..4``; its id where it has no name."""
    return ", ".join(
        f"{names.get(vertex_id) or vertex_id} {_text(bounds)} -> {_text(wanted[vertex_id])}"
        for vertex_id, bounds in current.items()
        if bounds != wanted[vertex_id]
    )


def _text(bounds: ParallelismBounds) -> str:
    return f"{bounds.lower}..{bounds.upper}"
