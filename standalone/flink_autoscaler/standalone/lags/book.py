"""Sources of lag and other numbers beside Flink, and their last answers; requested beside the passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.number import HttpNumber
from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.source_lag import (
    FLINK,
    NumberKind,
    OutsideNumber,
    SourceLag,
    TopicLag,
    of_topics,
    spread_lag,
)
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.lag import ALL
from flink_autoscaler.core.ports.lag_sources import LagQuery, LagSource, TopicLagSource
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.standalone.settings import secrets
from flink_autoscaler.standalone.settings.credentials import Access
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.clusters import NUMBER_TYPES, KafkaSettings, NumberSettings
from flink_autoscaler.standalone.settings.schema.settings import Settings

PATIENCE: Final = 2.0
"""Seconds that a pass waits for answers; what comes later is for the next pass, if it is not too old by then."""

AT_ONCE: Final = 16
"""Questions to one source at the same time."""

_SHOWN: Final = 300
_KEPT: Final = 3600.0
"""Seconds for which an answer is kept; longer than it may be used."""

_Lags = Mapping[str, float] | tuple[TopicLag, ...]

_Asked = tuple[str, LagQuery]
"""The name of a source, and what is asked of it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Answer of a source with its time: lags by partition, or by topic and partition, or why it does not know."""

    at: float
    lags: _Lags | AutoscalerError


class LagBook:
    """External lag, arrival rates and floors of jobs. Usable from the threads of several clusters.

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
        self._workers = {name: ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"lag-{name}") for name in sources}

    def added(self, requests: Sequence[PassRequest]) -> list[PassRequest]:
        """Return the requests with what others know about their jobs. Never raises."""
        asked = {id(request): list(_wanted(request.context)) for request in requests}
        queries = dict.fromkeys((name, query) for each in asked.values() for name, query in each if name != FLINK)
        if queries:
            self._ask(list(queries))
        return [self._with(request, asked[id(request)]) if asked[id(request)] else request for request in requests]

    def close(self) -> None:
        """Close the sources; questions under way are not waited for."""
        for workers in self._workers.values():
            workers.shutdown(wait=False, cancel_futures=True)
        for source in self._sources.values():
            attempted(source.close)

    def _with(self, request: PassRequest, asked: Sequence[_Asked]) -> PassRequest:
        lags = tuple(self._lag(request.context, *each) for each in asked if each[1].kind is NumberKind.LAG)
        numbers = tuple(self._number(request.context, *each) for each in asked if each[1].kind is not NumberKind.LAG)
        return replace(request, lags=lags, numbers=numbers)

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
        found = attempted(lambda: _asked_of(self._sources[name], query), ConfigError, f"lag source '{name}'")
        return _Answer(self._clock(), found)

    def _lag(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> SourceLag:
        asked = SourceLag(query.pattern, name)
        if name == FLINK:
            return asked
        found = self._found(context, name, query)
        if isinstance(found, str):
            return replace(asked, problem=found)
        if found == ():
            return replace(asked, problem="there are no topics")
        if isinstance(found, tuple):  # topics that are configured are those that the source reads
            return of_topics(asked, found) if query.topics else replace(asked, topics=found)
        spread = spread_lag(query.pattern, name, found)
        return replace(spread, partitions=spread.partitions if spread.partitions > 1 else 0)

    def _number(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> OutsideNumber:
        asked, found = OutsideNumber(query.kind, query.pattern, name), self._found(context, name, query)
        if isinstance(found, str):
            return replace(asked, problem=found)
        if isinstance(found, tuple) or len(found) != 1:
            return replace(asked, problem="it gave no single number")
        return replace(asked, value=next(iter(found.values())))

    def _found(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> _Lags | str:
        """Return what a source answered not long ago, or why it is not known."""
        if name not in self._sources:
            return "it is neither in autoscaler.kafka nor in autoscaler.numbers of the daemon's configuration"
        answer = self._answers.get((name, query))
        if answer is None or self._clock() - answer.at > context.options.lag_max_age.exact_seconds:
            return "there is no answer in time"
        return str(answer.lags)[:_SHOWN] if isinstance(answer.lags, AutoscalerError) else answer.lags


def _asked_of(source: LagSource, query: LagQuery) -> _Lags:
    if query.kind is NumberKind.LAG and isinstance(source, TopicLagSource):
        return tuple(source.lags_by_topic(query))
    return dict(source.lags(query))


def _wanted(context: JobAutoScalerContext) -> Iterator[_Asked]:
    """Yield who is to be asked what about a job, in order; nobody where its options cannot be read."""
    found = attempted(lambda: list(_of_options(context)))
    yield from () if isinstance(found, AutoscalerError) else found


def _of_options(context: JobAutoScalerContext) -> Iterator[_Asked]:
    options = context.options
    if not options.enabled:
        return
    topics, parameters = options.lag_kafka_topics, tuple(sorted(options.lag_parameters.items()))
    query = LagQuery(context.job_key, context.job_name, context.cluster, parameters=parameters)
    for entry in options.lag_sources:
        read = next((each.names for each in topics if each.pattern in (entry.pattern, ALL)), ())
        about = replace(query, pattern=entry.pattern, group=options.consumer_group, topics=read)
        yield from ((name, about) for name in entry.names)
    listed = {NumberKind.ARRIVAL_RATE: options.arrival_rate_sources, NumberKind.FLOOR: options.floor_sources}
    for kind, entries in listed.items():
        for entry in entries:
            about = replace(query, pattern=entry.pattern, group=options.consumer_group, kind=kind)
            yield from ((name, about) for name in entry.names)


_MOST_BYTES: Final = 1 << 20


def build_sources(settings: Settings, loop: EventLoopThread) -> dict[str, LagSource]:
    """Return the places that know lag, by name.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    kafka: dict[str, LagSource] = {each.name: KafkaLag(partial(address_of, each)) for each in settings.kafka}
    return {**kafka, **{each.name: _number(each, loop) for each in settings.numbers}}


def address_of(settings: KafkaSettings) -> KafkaAddress:
    """Return how a Kafka cluster is reached, with its secrets.

    Raises:
        ConfigError: A secret is not where the settings say.
    """
    keys = f"autoscaler.kafka '{settings.name}': "
    env, files = settings.properties_env.items(), settings.properties_file.items()
    properties: Mapping[str, str] = {
        **settings.properties,
        **{name: secrets.from_variable(f"{keys}properties-env.{name}", variable) for name, variable in env},
        **{name: secrets.from_file(f"{keys}properties-file.{name}", file) for name, file in files},
    }
    return KafkaAddress(settings.name, settings.bootstrap_servers, properties, settings.timeout)


def _number(settings: NumberSettings, loop: EventLoopThread) -> LagSource:
    if settings.type not in NUMBER_TYPES:
        source: LagSource = make_plugin(
            PluginGroup.LAG_SOURCES, settings.type, {"parameters": settings.parameters, "name": settings.name}
        )
        return source
    is_promql = settings.type == "promql"
    return HttpNumber(
        loop,
        partial(_endpoint, settings),
        path="" if is_promql else settings.path,
        pointer=settings.json_pointer or "",
        query=settings.query or "" if is_promql else "",
    )


def _endpoint(settings: NumberSettings) -> Endpoint:
    if len(settings.url) != 1:
        raise ConfigError(f"autoscaler.numbers: '{settings.name}' needs one url")
    plain = Endpoint(
        url=settings.url[0], timeout=settings.timeout, max_connections=AT_ONCE, max_response_bytes=_MOST_BYTES
    )
    return Access(settings, f"autoscaler.numbers '{settings.name}': ").secured(plain)
