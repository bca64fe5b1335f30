"""What all jobs of a cluster need: version, scheduler, mode, metrics, slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.ports.task_managers import REACTIVE
from flink_autoscaler.standalone.readiness.facts import ClusterFacts
from flink_autoscaler.standalone.readiness.findings import Finding, Fix, Place, limit, needed, note

FIRST_WITH_API: Final = (1, 18)
"""FLIP-291: ``/jobs/:jobid/resource-requirements``."""

FETCH_INTERVAL: Final = "metrics.fetcher.update-interval"
"""Milliseconds, or a duration since Flink 2.0; 0 has Flink gather no metrics (``MetricOptions``)."""

DEFAULT_FETCH_INTERVAL: Final = 10.0
"""Seconds."""

_VERSION: Final = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_SCHEDULER: Final = Fix(Place.FLINK, "jobmanager.scheduler: adaptive")


def cluster_findings(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Return what is to be known about a cluster, the most important first; nothing about what is not known."""
    return tuple(finding for check in _CHECKS for finding in check(facts))


def is_old(version: str) -> bool | None:
    """Tell whether a version of Flink lacks the API for rescaling; None when it cannot be read."""
    match = _VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2])) < FIRST_WITH_API


def _version(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.version is not None and is_old(facts.version):
        yield needed(
            "FLINK_TOO_OLD",
            f"Flink {facts.version} cannot rescale a job that runs: its REST API has that since 1.18; upgrade Flink",
        )


def _mode(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.configuration is None:
        return
    flink = FlinkOptions(facts.configuration)
    if flink.scheduler_mode.strip().lower() == REACTIVE:
        if not facts.has_provider:
            yield _reactive()
    elif flink.scheduler.strip().lower() != "adaptive":
        yield not_adaptive(flink.scheduler)


def _reactive() -> Finding:
    return needed(
        "REACTIVE_MODE",
        "the cluster runs in reactive mode, in which the parallelism follows the number of TaskManagers and cannot be "
        "requested; give the cluster a provider that starts and stops them, and set autoscaler.realizer to auto",
    )


def not_adaptive(scheduler: str) -> Finding:
    """Make the finding about a cluster with another scheduler; an empty text is Flink's default."""
    found = (
        f"the scheduler is {scheduler.strip()}" if scheduler.strip() else "no scheduler is set, so it is the default"
    )
    text = f"{found}; only the adaptive scheduler changes the parallelism of a job that runs; restart Flink after it"
    return needed("SCHEDULER_NOT_ADAPTIVE", text, _SCHEDULER)


def fetch_interval(facts: ClusterFacts) -> float:
    """Return the seconds between two gatherings of metrics by Flink; 0 when it gathers none."""
    text = (facts.configuration or {}).get(FETCH_INTERVAL, "").strip()
    try:
        return float(text) / 1000 if text else DEFAULT_FETCH_INTERVAL
    except ValueError:
        return _duration(text)


def _duration(text: str) -> float:
    from flink_autoscaler.core.model.syntax import parse_duration  # noqa: PLC0415 - only where it is written like this

    try:
        return parse_duration(text).exact_seconds
    except ValueError:
        return DEFAULT_FETCH_INTERVAL


def _rescales(facts: ClusterFacts) -> Iterator[Finding]:
    flink = FlinkOptions(facts.configuration or {})
    least, forced = flink.min_parallelism_increase, flink.forced_rescale
    if least > 1:
        late = f"smaller ones come true after {forced} only" if forced else "smaller ones never come true"
        key = FlinkOptions.min_parallelism_increase.key
        yield note("MIN_INCREASE", f"Flink scales a job up by {least} subtasks of a vertex or more, {late} ({key})")


def _metrics(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.configuration is not None and fetch_interval(facts) <= 0:
        text = (
            "Flink is told to gather no metrics, and without them nothing is known about a job; restart Flink after it"
        )
        yield needed("METRICS_OFF", text, Fix(Place.FLINK, f"{FETCH_INTERVAL}: 10000"))


def _slots(facts: ClusterFacts) -> Iterator[Finding]:
    capacity = facts.capacity
    if capacity is None:
        return
    if not capacity.is_fixed:
        yield note("CLUSTER_GROWS", "TaskManagers are added when jobs ask for more slots than there are")
    elif capacity.taskmanagers == 0:
        yield needed("NO_TASKMANAGERS", "no TaskManager is registered, so no job can run; start some")
    elif capacity.free_slots == 0:
        yield _no_free_slots(capacity.slots, capacity.slots_per_taskmanager)
    else:
        free = "1 slot that is" if capacity.free_slots == 1 else f"{capacity.free_slots} slots that are"
        text = f"its jobs together can grow by the {free} free; more TaskManagers give more"
        yield note("FREE_SLOTS", text)


def _no_free_slots(slots: int, per_taskmanager: int) -> Finding:
    text = f"all {slots} slots are taken: no job can grow before there are more TaskManagers, or more slots on each"
    return limit("NO_FREE_SLOTS", text, Fix(Place.FLINK, f"taskmanager.numberOfTaskSlots: {2 * per_taskmanager}"))


_CHECKS: Final[tuple[Callable[[ClusterFacts], Iterator[Finding]], ...]] = (_version, _mode, _rescales, _metrics, _slots)
