"""Asks those who know lag beside the passes, in threads, and hands to a pass what is known by then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.source_lag import FLINK, SourceLag, spread_lag
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.lag import ALL
from flink_autoscaler.core.ports.lag_sources import LagQuery, LagSource
from flink_autoscaler.core.ports.passes import PassRequest

PATIENCE: Final = 2.0
"""Seconds that a pass waits for answers; what comes later is for the next pass, if it is not too old by then."""

_AT_ONCE: Final = 16
_SHOWN: Final = 300
_KEPT: Final = 3600.0
"""Seconds for which an answer is kept; longer than it may be used."""

_Asked = tuple[str, LagQuery]
"""The name of a source, and what is asked of it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    lags: Mapping[str, float] | AutoscalerError


class LagBook:
    """What is known about the lag of jobs. Usable from the threads of several clusters.

    Each source has threads of its own, so that one that hangs holds up no other; who did not answer in time is not
    waited for again until it has.

    Args:
        sources: By name.
        patience: Seconds that a pass waits.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        sources: Mapping[str, LagSource],
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._patience = patience
        self._clock = clock
        self._answers: dict[_Asked, _Answer] = {}
        self._open: dict[_Asked, Future[_Answer]] = {}
        self._late: set[str] = set()
        self._lock = threading.Lock()
        self._workers = {name: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"lag-{name}") for name in sources}

    def added(self, requests: Sequence[PassRequest]) -> list[PassRequest]:
        """Return the requests with what others know about the lag of their jobs. Never raises."""
        asked = {id(request): list(_wanted(request.context)) for request in requests}
        queries = dict.fromkeys((name, query) for each in asked.values() for name, query in each if name != FLINK)
        if queries:
            self._ask(list(queries))
        return [
            replace(request, lags=tuple(self._told(request.context, *each) for each in asked[id(request)]))
            if asked[id(request)]
            else request
            for request in requests
        ]

    def close(self) -> None:
        """Close the sources; questions under way are not waited for."""
        for workers in self._workers.values():
            workers.shutdown(wait=False, cancel_futures=True)
        for source in self._sources.values():
            attempted(source.close)

    def _ask(self, queries: Sequence[_Asked]) -> None:
        with self._lock:
            for asked in queries:
                if asked[0] in self._sources and asked not in self._open:
                    self._open[asked] = self._workers[asked[0]].submit(self._answer, *asked)
            mine = {asked: self._open[asked] for asked in queries if asked in self._open}
            prompt = [future for asked, future in mine.items() if asked[0] not in self._late]
        wait(prompt, timeout=self._patience)
        with self._lock:
            self._take()
            self._late -= {name for name, _ in mine}
            self._late |= {name for name, query in mine if (name, query) in self._open}

    def _take(self) -> None:
        """Take what has been answered, and forget what nobody has asked for long."""
        for asked, future in list(self._open.items()):
            if future.done():
                self._answers[asked] = future.result()
                del self._open[asked]
        oldest = self._clock() - _KEPT
        self._answers = {asked: answer for asked, answer in self._answers.items() if answer.at >= oldest}

    def _answer(self, name: str, query: LagQuery) -> _Answer:
        found = attempted(lambda: dict(self._sources[name].lags(query)), ConfigError, f"lag source '{name}'")
        return _Answer(self._clock(), found)

    def _told(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> SourceLag:
        if name == FLINK:
            return SourceLag(query.pattern, FLINK)
        if name not in self._sources:
            problem = "it is neither in autoscaler.kafka nor in autoscaler.numbers of the daemon's configuration"
            return SourceLag(query.pattern, name, problem=problem)
        answer = self._answers.get((name, query))
        if answer is None or self._clock() - answer.at > context.options.lag_max_age.exact_seconds:
            return SourceLag(query.pattern, name, problem="there is no answer in time")
        if isinstance(answer.lags, AutoscalerError):
            return SourceLag(query.pattern, name, problem=str(answer.lags)[:_SHOWN])
        found = spread_lag(query.pattern, name, answer.lags)
        return replace(found, partitions=found.partitions if found.partitions > 1 else 0)


def _wanted(context: JobAutoScalerContext) -> Iterator[_Asked]:
    """Yield who is to be asked what about a job, in order; nobody where its options cannot be read."""
    found = attempted(lambda: list(_of_options(context)))
    yield from () if isinstance(found, AutoscalerError) else found


def _of_options(context: JobAutoScalerContext) -> Iterator[_Asked]:
    options = context.options
    if not options.enabled or not options.lag_sources:
        return
    topics, group = options.lag_kafka_topics, options.lag_kafka_group or ""
    for entry in options.lag_sources:
        read = next((each.names for each in topics if each.pattern in (entry.pattern, ALL)), ())
        parameters = tuple(sorted(options.lag_parameters.items()))
        query = LagQuery(context.job_key, context.job_name, context.cluster, entry.pattern, group, read, parameters)
        yield from ((name, query) for name in entry.names)
