"""Sees to it that the metric store of a JobManager has been filled before jobs are read from it.

Flink gathers metrics when somebody asks for some, at most once per ``metrics.fetcher.update-interval``, and answers
from what it gathered before: after a quiet time the first answers are as old as that quiet time, or empty. So one cheap
request wakes the store, and what the jobs say is read when an answer has moved. What moves with every gathering is the
CPU time of the TaskManagers, whose counters are gathered with it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from flink_autoscaler.clients.flink.decode import Readable
from flink_autoscaler.core.error_boundary import try_await
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, ResponseError
from flink_autoscaler.core.model.metrics import Aggregate
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.observe.freshness import OLD

FETCH_INTERVAL: Final = "metrics.fetcher.update-interval"
DEFAULT_INTERVAL: Final = 10.0

CLOCK: Final = ("Status.JVM.CPU.Time",)
"""What is different after every gathering: a process that answers needs time."""

ALWAYS_THERE: Final = ("Status.JVM.Memory.Heap.Used",)
"""What a store has that was filled; without the clock beside it nothing can be proven, now or ever."""

EARLY: Final = 0.2
"""Seconds that a pass waits until the store takes the next wake-up, when it comes before that."""

STEADY_PATIENCE: Final = 0.25
"""Seconds in which the store should move where the last pass was lately: what is there then is not old."""

QUIET_PATIENCE: Final = 5.0
"""The same after a quiet time. A large cluster, or one on a busy machine, needs seconds to gather."""

EMPTY_PATIENCE: Final = 2.0
"""The same where the store is empty, so that nobody has woken it before, or no TaskManager is there."""

MAX_MOVE_TIMEOUT: Final = 15.0
"""The same where it is not known when the store was filled, as when a process has just begun. Somebody else may have
woken it, such as an open page of Flink's web interface, and then it moves within an interval."""

LONGEST_ANSWER: Final = 2.0
"""Seconds that one answer may take. What hangs is found out by the requests that follow."""

LATE: Final = "Flink did not answer in time when it was asked to gather metrics"

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.15


class Freshness(NamedTuple):
    """Verdict on the freshness of metrics that are read now.

    Attributes:
        doubt: Why nobody can tell that they are fresh; None where they are, or where a cluster does not say what it
            would take to tell.
        waited: Seconds that the store was waited for.
        age: Seconds since the store was first seen to say what it says now; 0 where that is not known.
        interval: Seconds for which a store may say the same; 0 where nobody can tell whether it does.
    """

    doubt: str | None
    waited: float = 0.0
    age: float = 0.0
    interval: float = 0.0


class AsksForMetrics(Protocol):
    """The requests that are needed (see :class:`FlinkRestClient`)."""

    async def taskmanager_metrics(self, names: tuple[str, ...]) -> Readable[Aggregate]:
        """Return metrics over all TaskManagers."""
        ...

    async def cluster_configuration(self) -> dict[str, str]:
        """Return the configuration of the JobManager."""
        ...


class _Poll(Enum):
    """Difference between two readings of the metric store."""

    SAME = auto()
    OTHER = auto()
    EMPTY = auto()
    LATE = auto()
    """Nobody answered, or not in time."""
    UNKNOWN = auto()
    """It was refused, or the cluster does not say what it would take to tell."""


class MetricFetcherMonitor:
    """One client's knowledge of the metric store behind it. Belongs to one event loop; calls may overlap.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._interval: float | None = None
        self._has_clock = True
        self._woken_at = -math.inf
        self._seen: Aggregate | None = None
        self._asked_at = -math.inf
        self._other_at = -math.inf  # when the store was last seen to say something else than it says now
        self._first_at = -math.inf  # when it was first seen to say what it says now
        self._doubt: str | None = None

    async def refresh(self, client: AsksForMetrics, seconds: float, *, is_provable: bool = False) -> Freshness:
        """Wake the store, and wait until it has been filled. Never raises.

        A call that comes before the store takes the next wake-up asks nothing and waits for nothing.

        Args:
            client: Of the JobManager.
            seconds: That this may take at most.
            is_provable: Whether what is read afterwards can tell itself how old it is, so that this process does not
                have to find out.
        """
        async with self._lock:
            interval = DEFAULT_INTERVAL if self._interval is None else self._interval
            since = self._clock() - self._woken_at
            if not self._has_clock or interval <= 0:
                return Freshness(None)
            waited = 0.0
            if self._doubt is not None or since >= interval - EARLY:
                await asyncio.sleep(max(0.0, min(EARLY, interval - since)))
                most = min(seconds, QUIET_PATIENCE) if is_provable else seconds
                self._doubt, waited = await self._visit(client, since, most)
            elif not self._is_lately(interval):
                self._doubt = self._reason()
            return Freshness(self._doubt, waited, self._age(), 0.0 if self._seen is None else interval)

    async def _visit(self, client: AsksForMetrics, since: float, seconds: float) -> tuple[str | None, float]:
        """Return what is in doubt now, and for how many seconds the store was waited for."""
        started = self._clock()
        first = await self._poll(client)
        if first in (_Poll.LATE, _Poll.UNKNOWN):
            return None if first is _Poll.UNKNOWN else LATE, 0.0
        self._woken_at = started
        if self._interval is None:
            self._interval = await _interval(client)
        is_quiet = since > OLD * self._interval
        is_old = is_quiet or not self._is_lately(self._interval)
        until = started + min(seconds, _move_timeout(first, self._interval, since, is_old=is_old))
        has_moved = await self._moves(client, until, is_quiet=is_quiet)
        if has_moved:
            self._woken_at = self._first_at  # it was one of these requests that came when the next one was due
        # After a quiet time another answer than the last one may be as old as that time: what somebody read at its
        # beginning has filled the store, and nobody has looked since.
        is_recent = self._is_lately(self._interval) or (first is _Poll.OTHER and not is_quiet)
        return None if has_moved or is_recent else self._reason(), self._clock() - started

    async def _moves(self, client: AsksForMetrics, until: float, *, is_quiet: bool) -> bool:
        """Tell whether the store moves in time; after a quiet time also wait for TaskManagers that are behind."""
        has_moved, pause = False, _FIRST_PAUSE
        while self._clock() < until:
            await asyncio.sleep(pause)
            is_moving = await self._poll(client) is _Poll.OTHER
            if has_moved and not is_moving:
                break
            has_moved |= is_moving
            if has_moved and not is_quiet:
                break
            pause = _FIRST_PAUSE if has_moved else min(2 * pause, _LONGEST_PAUSE)
        return has_moved

    async def _poll(self, client: AsksForMetrics) -> _Poll:
        """Ask once."""
        asked_at, before = self._clock(), self._asked_at
        answer = await _answer(client, CLOCK)
        if isinstance(answer, AutoscalerError):
            return _Poll.LATE if isinstance(answer, ConnectError) else _Poll.UNKNOWN
        value = answer.values.get(CLOCK[0])
        if value is None:
            return await self._without_clock(client, asked_at)
        is_same = value == self._seen
        if not is_same:
            self._other_at, self._first_at = before, asked_at
        self._seen, self._asked_at = value, asked_at
        return _Poll.SAME if is_same or math.isinf(before) else _Poll.OTHER

    async def _without_clock(self, client: AsksForMetrics, asked_at: float) -> _Poll:
        """Find out whether the store is empty, or the cluster does not say what it would take to tell."""
        other = await _answer(client, ALWAYS_THERE)
        if isinstance(other, AutoscalerError):
            return _Poll.UNKNOWN
        if other.values:
            self._has_clock = self._seen is not None
            return _Poll.UNKNOWN
        self._seen, self._asked_at = None, asked_at
        return _Poll.EMPTY

    def _is_lately(self, interval: float) -> bool:
        """Tell whether what the store says was gathered within the last two intervals."""
        return self._seen is not None and self._clock() - self._other_at <= OLD * interval

    def _age(self) -> float:
        is_known = self._doubt is None and self._seen is not None and math.isfinite(self._other_at)
        return max(0.0, self._clock() - self._first_at) if is_known else 0.0

    def _reason(self) -> str:
        if self._seen is None:
            return "Flink has no metrics yet; it gathers them when they are asked for"
        age = self._clock() - self._other_at
        limit = "" if math.isinf(age) else f"; those it has may be {age:.0f} s old"
        return f"Flink has not gathered metrics since it was asked for them{limit}"


async def _answer(client: AsksForMetrics, names: tuple[str, ...]) -> Readable[Aggregate] | AutoscalerError:
    """Return what the TaskManagers say; a JobManager that hangs is left to those that have more time."""
    try:
        async with asyncio.timeout(LONGEST_ANSWER):
            return await try_await(client.taskmanager_metrics(names), ResponseError)
    except TimeoutError:
        return ConnectError(LATE)


def _move_timeout(first: _Poll, interval: float, since: float, *, is_old: bool) -> float:
    """Return the seconds that the store has to move in: few where it was lately seen to."""
    if first is _Poll.EMPTY:
        return EMPTY_PATIENCE
    if math.isinf(since) or (is_old and first is _Poll.OTHER):
        return min(MAX_MOVE_TIMEOUT, interval + QUIET_PATIENCE)
    return QUIET_PATIENCE if is_old else STEADY_PATIENCE


def gathering_interval(configuration: Mapping[str, str]) -> float:
    """Return the least seconds between two gatherings of metrics by a JobManager; 0 where there are none.

    The option is a number of milliseconds, or a duration since Flink 2.0; 0 switches it off (``MetricOptions``).
    """
    text = configuration.get(FETCH_INTERVAL, "").strip()
    try:
        return parse_duration(text).exact_seconds if text else DEFAULT_INTERVAL
    except ValueError:
        return DEFAULT_INTERVAL


async def _interval(client: AsksForMetrics) -> float:
    configuration: dict[str, str] | AutoscalerError = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_ANSWER):
            configuration = await try_await(client.cluster_configuration(), ResponseError)
    return gathering_interval({} if isinstance(configuration, AutoscalerError) else configuration)
