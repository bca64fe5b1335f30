"""The built-in checkers for rescales that a job does not survive (``JobUnrecoverableErrorChecker`` of FLINK-37411)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.safety import MEMORY_PRESSURE
from flink_autoscaler.core.ports.plugins import CheckInput, UnrecoverableErrorChecker
from flink_autoscaler.core.rescale.timers import observation_ms

GC: Final = "gc"
HEAP: Final = "heap"
RESTARTS: Final = "restarts"

NETWORK_MEMORY: Final = "network-memory"
NO_RESOURCES: Final = "no-resources"
CRASH_LOOP: Final = "crash-loop"

_BUFFERS: Final = ("Insufficient number of network buffers", "Timeout triggered when requesting exclusive buffers")
"""Flink says the one where it finds the pool too small, the other where tasks that have buffers keep them."""
_RESOURCES: Final = ("NoResourceAvailableException", "Could not acquire the minimum required resources")
_WAIT_MS: Final = 60_000
_DEFAULT_WAIT_MS: Final = 300_000
_CRASHES: Final = 5

_SEVERE: Final[Mapping[str, float]] = {GC: 0.3, HEAP: 0.95}
"""Shares of time and of heap that a healthy TaskManager does not have pass after pass."""


class NetworkMemoryChecker:
    """Finds jobs that cannot start because their tasks do not get enough network buffers."""

    is_gradual = False

    def check(self, given: CheckInput) -> str | None:
        """Look for the exception of the network stack."""
        return _message(given, _BUFFERS) if given.is_unhealthy else None


class NoResourcesChecker:
    """Finds jobs that wait in vain for the slots they need at least."""

    is_gradual = False

    def check(self, given: CheckInput) -> str | None:
        """Look for the exception, once the time is over that such a job waits."""
        wait = given.context.flink_options.resource_wait
        patience_ms = (_DEFAULT_WAIT_MS if wait is None else wait.ms) + _WAIT_MS
        began_ms = given.rescale.accepted_ms or given.rescale.decided_ms
        if not given.is_unhealthy or given.now_ms - began_ms <= patience_ms:
            return None
        return _message(given, _RESOURCES)


class MemoryPressureChecker:
    """Finds TaskManagers that are short of heap since the rescale put more subtasks on each of them."""

    is_gradual = True

    def check(self, given: CheckInput) -> str | None:
        """Compare garbage collection and heap with their thresholds, now and before."""
        if not _is_denser(given):
            return None
        for name, limit in _thresholds(given.context.options).items():
            now, before = given.pressure.get(name), given.baseline.get(name)
            if limit < 1 and now is not None and now > limit and before is not None and before <= limit:
                return f"{name} {now:.2f} is above {limit:g}, before the rescale it was {before:.2f}"
        return None


def _thresholds(options: AutoscalerOptions) -> dict[str, float]:
    """Return the shares above which memory is short, by what is measured; 1 where nothing is."""
    own = {GC: options.rollback_gc_threshold, HEAP: options.rollback_heap_threshold}
    of_scaling = {GC: options.gc_pressure_threshold, HEAP: options.heap_usage_threshold}
    severe = _SEVERE if options.rollback_memory_enabled else {}
    unset = {name: severe.get(name, 1.0) if limit >= 1 else limit for name, limit in of_scaling.items()}
    return {name: unset[name] if limit is None else limit for name, limit in own.items()}


class CrashLoopChecker:
    """Finds jobs that fail again and again since the rescale, and did not before."""

    is_gradual = False

    def check(self, given: CheckInput) -> str | None:
        """Compare the restarts since the rescale with those in an equally long time before."""
        restarts, before = given.facts.restarts, given.baseline.get(RESTARTS)
        window_ms = observation_ms(given.context, given.facts)
        began_ms = given.rescale.accepted_ms or given.rescale.decided_ms
        if restarts is None or before is None or given.now_ms - began_ms > window_ms:
            return None
        if _failures(given, given.rescale.since_ms - window_ms, given.rescale.since_ms) > 1:
            return None
        crashes = restarts - int(before)
        if crashes < _CRASHES or _has_checkpoint(given):
            return None
        return f"{crashes} restarts and no checkpoint since the rescale"


CHECKERS: Final[Mapping[str, UnrecoverableErrorChecker]] = {
    NETWORK_MEMORY: NetworkMemoryChecker(),
    NO_RESOURCES: NoResourcesChecker(),
    MEMORY_PRESSURE: MemoryPressureChecker(),
    CRASH_LOOP: CrashLoopChecker(),
}
"""The built-in checkers by the name in ``rollback.checkers``."""


def _message(given: CheckInput, needles: tuple[str, ...]) -> str | None:
    """Return the line with one of the texts, from the newest exception that has it."""
    for exception in given.exceptions():
        for line in exception.text.splitlines():
            if any(needle in line for needle in needles):
                return line.strip()[:500]
    return None


def _failures(given: CheckInput, from_ms: int, to_ms: int) -> int:
    return sum(from_ms <= exception.at_ms <= to_ms for exception in given.facts.exceptions or ())


def _has_checkpoint(given: CheckInput) -> bool:
    checkpoints = given.facts.checkpoints
    completed_ms = checkpoints.completed_ms if checkpoints else None
    return completed_ms is not None and completed_ms > given.rescale.since_ms


def _is_denser(given: CheckInput) -> bool:
    """Tell whether a TaskManager may have more to do than before: the job has more subtasks, or fewer slots."""
    before, after = given.rescale.before.values(), given.rescale.target.values()
    return sum(after) > sum(before) or max(after, default=0) < max(before, default=0)
