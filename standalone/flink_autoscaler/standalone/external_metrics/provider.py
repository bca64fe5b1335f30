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
from flink_autoscaler.clients.http.number import HttpLagSource
from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.source_lag import (
    FLINK,
    ExternalMetric,
    ExternalMetricKind,
    SourceLag,
    TopicLag,
    lag_of_topics,
    spread_lag,
)
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.lag import ALL
from flink_autoscaler.core.ports.lag_sources import LagQuery, LagSource, TopicLagSource
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.standalone.settings import secrets
from flink_autoscaler.standalone.settings.credentials import Credentials
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.clusters import (
    EXTERNAL_METRIC_TYPES,
    ExternalMetricSettings,
    KafkaSettings,
)
from flink_autoscaler.standalone.settings.schema.settings import Settings

RESPONSE_TIMEOUT: Final = 2.0
"""Seconds that a pass waits for answers; what comes later is for the next pass, if it is not too old by then."""

MAX_CONCURRENT: Final = 16
"""Questions to one source at the same time."""

_MAX_ERROR_LENGTH: Final = 300
_RETENTION: Final = 3600.0
"""Seconds for which an answer is kept; longer than it may be used."""

_Lags = Mapping[str, float] | tuple[TopicLag, ...]

_SourceQuery = tuple[str, LagQuery]
"""The name of a source, and what is asked of it."""


@dataclass(frozen=True, slots=True)
class _SourceResponse:
    """Answer of a source with its time: lags by partition, or by topic and partition, or why it does not know."""

    at: float
    lags: _Lags | AutoscalerError


class ExternalMetricsProvider:
    """External lag, arrival rates and floors of jobs. Usable from the threads of several clusters.

    Each source has threads of its own, so that one that hangs holds up no other; who did not answer in time is not
    waited for again until it has.

    Args:
        sources: By name.
        response_timeout: Seconds that a pass waits.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        sources: Mapping[str, LagSource],
        *,
        response_timeout: float = RESPONSE_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._response_timeout = response_timeout
        self._clock = clock
        self._answers: dict[_SourceQuery, _SourceResponse] = {}
        self._open: dict[_SourceQuery, Future[_SourceResponse]] = {}
        self._late: set[str] = set()
        self._lock = threading.Lock()
        self._workers = {name: ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix=f"lag-{name}") for name in sources}

    def enrich(self, requests: Sequence[PassRequest]) -> list[PassRequest]:
        """Return the requests with what others know about their jobs. Never raises."""
        asked = {id(request): list(_queries_for(request.context)) for request in requests}
        queries = dict.fromkeys((name, query) for each in asked.values() for name, query in each if name != FLINK)
        if queries:
            self._query_sources(list(queries))
        return [
            self._enrich_request(request, asked[id(request)]) if asked[id(request)] else request for request in requests
        ]

    def close(self) -> None:
        """Close the sources; questions under way are not waited for."""
        for workers in self._workers.values():
            workers.shutdown(wait=False, cancel_futures=True)
        for source in self._sources.values():
            try_call(source.close)

    def _enrich_request(self, request: PassRequest, asked: Sequence[_SourceQuery]) -> PassRequest:
        lags = tuple(self._lag(request.context, *each) for each in asked if each[1].kind is ExternalMetricKind.LAG)
        numbers = tuple(
            self._external_metric(request.context, *each)
            for each in asked
            if each[1].kind is not ExternalMetricKind.LAG
        )
        return replace(request, lags=lags, numbers=numbers)

    def _query_sources(self, queries: Sequence[_SourceQuery]) -> None:
        with self._lock:
            for asked in queries:
                if asked[0] in self._sources and asked not in self._open:
                    self._open[asked] = self._workers[asked[0]].submit(self._query, *asked)
            mine = {asked: self._open[asked] for asked in queries if asked in self._open}
            prompt = [future for asked, future in mine.items() if asked[0] not in self._late]
        wait(prompt, timeout=self._response_timeout)
        with self._lock:
            self._collect_responses()
            self._late -= {name for name, _ in mine}
            self._late |= {name for name, query in mine if (name, query) in self._open}

    def _collect_responses(self) -> None:
        """Take what has been answered, and forget what nobody has asked for long."""
        for asked, future in list(self._open.items()):
            if future.done():
                self._answers[asked] = future.result()
                del self._open[asked]
        oldest = self._clock() - _RETENTION
        self._answers = {asked: answer for asked, answer in self._answers.items() if answer.at >= oldest}

    def _query(self, name: str, query: LagQuery) -> _SourceResponse:
        found = try_call(lambda: _query_source(self._sources[name], query), ConfigError, f"lag source '{name}'")
        return _SourceResponse(self._clock(), found)

    def _lag(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> SourceLag:
        asked = SourceLag(query.pattern, name)
        if name == FLINK:
            return asked
        found = self._latest_response(context, name, query)
        if isinstance(found, str):
            return replace(asked, problem=found)
        if found == ():
            return replace(asked, problem="there are no topics")
        if isinstance(found, tuple):  # topics that are configured are those that the source reads
            return lag_of_topics(asked, found) if query.topics else replace(asked, topics=found)
        spread = spread_lag(query.pattern, name, found)
        return replace(spread, partitions=spread.partitions if spread.partitions > 1 else 0)

    def _external_metric(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> ExternalMetric:
        asked, found = ExternalMetric(query.kind, query.pattern, name), self._latest_response(context, name, query)
        if isinstance(found, str):
            return replace(asked, problem=found)
        if isinstance(found, tuple) or len(found) != 1:
            return replace(asked, problem="it gave no single number")
        return replace(asked, value=next(iter(found.values())))

    def _latest_response(self, context: JobAutoScalerContext, name: str, query: LagQuery) -> _Lags | str:
        """Return what a source answered not long ago, or why it is not known."""
        if name not in self._sources:
            return "it is neither in autoscaler.kafka nor in autoscaler.external-metrics of the daemon's configuration"
        answer = self._answers.get((name, query))
        if answer is None or self._clock() - answer.at > context.options.lag_max_age.exact_seconds:
            return "there is no answer in time"
        return str(answer.lags)[:_MAX_ERROR_LENGTH] if isinstance(answer.lags, AutoscalerError) else answer.lags


def _query_source(source: LagSource, query: LagQuery) -> _Lags:
    if query.kind is ExternalMetricKind.LAG and isinstance(source, TopicLagSource):
        return tuple(source.lags_by_topic(query))
    return dict(source.lags(query))


def _queries_for(context: JobAutoScalerContext) -> Iterator[_SourceQuery]:
    """Yield who is to be asked what about a job, in order; nobody where its options cannot be read."""
    found = try_call(lambda: list(_queries_from_options(context)))
    yield from () if isinstance(found, AutoscalerError) else found


def _queries_from_options(context: JobAutoScalerContext) -> Iterator[_SourceQuery]:
    options = context.options
    if not options.enabled:
        return
    topics, parameters = options.lag_kafka_topics, tuple(sorted(options.lag_parameters.items()))
    query = LagQuery(context.job_key, context.job_name, context.cluster, parameters=parameters)
    for entry in options.lag_sources:
        read = next((each.names for each in topics if each.pattern in (entry.pattern, ALL)), ())
        about = replace(query, pattern=entry.pattern, group=options.consumer_group, topics=read)
        yield from ((name, about) for name in entry.names)
    listed = {
        ExternalMetricKind.ARRIVAL_RATE: options.arrival_rate_sources,
        ExternalMetricKind.FLOOR: options.floor_sources,
    }
    for kind, entries in listed.items():
        for entry in entries:
            about = replace(query, pattern=entry.pattern, group=options.consumer_group, kind=kind)
            yield from ((name, about) for name in entry.names)


_MAX_RESPONSE_BYTES: Final = 1 << 20


def build_sources(settings: Settings, loop: EventLoopThread) -> dict[str, LagSource]:
    """Return the places that know lag, by name.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    kafka: dict[str, LagSource] = {each.name: KafkaLag(partial(kafka_address, each)) for each in settings.kafka}
    return {**kafka, **{each.name: _http_source(each, loop) for each in settings.external_metrics}}


def kafka_address(settings: KafkaSettings) -> KafkaAddress:
    """Return how a Kafka cluster is reached, with its secrets.

    Raises:
        ConfigError: A secret is not where the settings say.
    """
    keys = f"autoscaler.kafka '{settings.name}': "
    env, files = settings.properties_env.items(), settings.properties_file.items()
    properties: Mapping[str, str] = {
        **settings.properties,
        **{name: secrets.read_secret_variable(f"{keys}properties-env.{name}", variable) for name, variable in env},
        **{name: secrets.read_secret_file(f"{keys}properties-file.{name}", file) for name, file in files},
    }
    return KafkaAddress(settings.name, settings.bootstrap_servers, properties, settings.timeout)


def _http_source(settings: ExternalMetricSettings, loop: EventLoopThread) -> LagSource:
    if settings.type not in EXTERNAL_METRIC_TYPES:
        source: LagSource = make_plugin(
            PluginGroup.LAG_SOURCES, settings.type, {"parameters": settings.parameters, "name": settings.name}
        )
        return source
    is_promql = settings.type == "promql"
    return HttpLagSource(
        loop,
        partial(_endpoint, settings),
        path="" if is_promql else settings.path,
        pointer=settings.json_pointer or "",
        query=settings.query or "" if is_promql else "",
    )


def _endpoint(settings: ExternalMetricSettings) -> Endpoint:
    if len(settings.url) != 1:
        raise ConfigError(f"autoscaler.external-metrics: '{settings.name}' needs one url")
    plain = Endpoint(
        url=settings.url[0],
        timeout=settings.timeout,
        max_connections=MAX_CONCURRENT,
        max_response_bytes=_MAX_RESPONSE_BYTES,
    )
    return Credentials(settings, f"autoscaler.external-metrics '{settings.name}': ").with_credentials(plain)
