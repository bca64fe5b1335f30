"""The lag of a consumer group by partition: end offsets minus committed offsets, asked of the brokers themselves."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ConnectError, RefusedError, ResponseError
from flink_autoscaler.core.model.source_lag import NumberKind, TopicLag, topic_lag
from flink_autoscaler.core.ports.lag_sources import LagQuery

LIBRARY: Final = "confluent_kafka"
EXTRA: Final = "flink-autoscaler[kafka]"

_AT_LEAST: Final = 0.5
"""Seconds that the library itself is given less than a caller waits for it."""

_SHOWN: Final = 200
_FORBIDDEN: Final = 403
_REFUSED: Final = frozenset(
    {"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
)
_MOST_NAMED: Final = 3
_LONGEST_GROUP: Final = 1000
"""Characters; the name may be the word of a job."""

T = TypeVar("T")

_Place = tuple[str, int]
"""A topic, and the number of a partition of it."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Address and options of a Kafka cluster.

    Attributes:
        name: In the configuration, for people.
        bootstrap_servers: ``host:port``, several of them.
        properties: Of librdkafka, such as ``security.protocol``; handed through.
        timeout: Seconds that one question may take.
    """

    name: str
    bootstrap_servers: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 5.0


@dataclass(frozen=True, slots=True)
class _Topic:
    """Answer about one topic: lags by partition, or the reason why they are unknown."""

    name: str
    partitions: int
    lags: Mapping[str, float] | AutoscalerError

    def lag(self) -> TopicLag:
        if isinstance(self.lags, AutoscalerError):
            return TopicLag(self.name, partitions=self.partitions, problem=str(self.lags)[:_SHOWN])
        return topic_lag(self.name, self.lags)


class KafkaLag:
    """A ``TopicLagSource`` that asks brokers; one connection, kept from pass to pass. Usable from several threads.

    Args:
        address: Called whenever a connection is made, since secrets may be replaced; may raise ``ConfigError``.
    """

    def __init__(self, address: Callable[[], KafkaAddress]) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._kept: tuple[KafkaAddress, Any] | None = None

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        """Return the records that wait, by ``topic-partition``.

        A partition without a committed offset has a lag of 0 while it is empty, and is unknown otherwise.

        Raises:
            ConfigError: The library is not installed, no group is named, or a property is wrong.
            ConnectError: The brokers did not answer in time.
            RefusedError: They do not let the daemon see this.
            ResponseError: There are no offsets, or such that cannot be.
        """
        lags: dict[str, float] = {}
        for topic in self._topics(query):
            if isinstance(topic.lags, AutoscalerError):
                raise topic.lags
            lags |= topic.lags
        return lags

    def lags_by_topic(self, query: LagQuery) -> tuple[TopicLag, ...]:
        """Return the lag of every topic, also of those whose lag is unknown.

        Raises:
            ConfigError: The library is not installed, no group is named, or a property is wrong.
            ConnectError: The brokers did not answer in time.
            RefusedError: They do not let the daemon see the group.
            ResponseError: The group has no offsets.
        """
        return tuple(topic.lag() for topic in self._topics(query))

    def _topics(self, query: LagQuery) -> list[_Topic]:
        _check(query)
        address, client = self._client()
        library = importlib.import_module(LIBRARY)
        asked = _Asked(library, client, address, query.group)
        of_topic = partial(_of_topic, library, address, query.group)
        with _as_ours(library, address, query.group):
            committed = asked.committed()
            names = query.topics or sorted({topic for topic, _ in committed})
            read = {topic: of_topic(partial(asked.partitions, topic)) for topic in names}
            known = {topic: places for topic, places in read.items() if not isinstance(places, AutoscalerError)}
            ends = asked.questions([place for places in known.values() for place in places], "latest")

        def lags(places: list[_Place]) -> Mapping[str, float]:
            mine = asked.answers({place: ends[place] for place in places})
            return lags_of(committed, mine, asked.offsets, query.group)

        return [
            _Topic(topic, 0, places)
            if isinstance(places, AutoscalerError)
            else _Topic(topic, len(places), of_topic(partial(lags, places)))
            for topic, places in read.items()
        ]

    def close(self) -> None:
        """Forget the connection, which ends with it."""
        with self._lock:
            self._kept = None

    def _client(self) -> tuple[KafkaAddress, Any]:
        with self._lock:
            address = self._address()
            if self._kept is None or self._kept[0] != address:
                self._kept = (address, _connected(address))
            return self._kept


def _check(query: LagQuery) -> None:
    """Refuse what brokers cannot be asked for.

    Raises:
        ConfigError: It is something else than lag, or there is no group, or none that can be.
    """
    if query.kind is not NumberKind.LAG:
        raise ConfigError(f"job {query.job_key}: Kafka tells lag, and no {query.kind}")
    if not query.group:
        raise ConfigError(
            f"job {query.job_key}: job.autoscaler.lag.kafka.group is not set, and no parameter of the job names a group"
        )
    if len(query.group) > _LONGEST_GROUP:
        raise ConfigError(f"job {query.job_key}: a consumer group of {len(query.group)} characters")


def lags_of(
    committed: Mapping[_Place, int],
    ends: Mapping[_Place, int],
    offsets: Callable[[Iterable[_Place], str], Mapping[_Place, int]],
    group: str,
) -> dict[str, float]:
    """Return end minus committed offsets by ``topic-partition``.

    Args:
        committed: Offsets of the group; a partition without is not in it.
        ends: End offsets of the partitions that the job reads.
        offsets: Asked for the earliest offsets of partitions without a committed one.
        group: For messages.

    Raises:
        ResponseError: An offset is missing, or above the end: the topic was made anew.
    """
    missing = [place for place in ends if place not in committed]
    starts = offsets(missing, "earliest") if missing else {}
    unread = [place for place in missing if starts.get(place) != ends[place]]
    if unread:
        raise ResponseError(f"the group {group} has no committed offset for {_listed(unread)}")
    beyond = [place for place, end in ends.items() if committed.get(place, 0) > end and place in committed]
    if beyond:
        raise ResponseError(f"the group {group} has committed offsets above the end of {_listed(beyond)}")
    return {_named(place): float(end - committed[place]) if place in committed else 0.0 for place, end in ends.items()}


class _Asked:
    """One question: a group and the partitions of its topics."""

    def __init__(self, library: Any, client: Any, address: KafkaAddress, group: str) -> None:
        self._library = library
        self._client = client
        self._timeout = address.timeout
        self._group = group

    def committed(self) -> dict[_Place, int]:
        request = [self._library.ConsumerGroupTopicPartitions(self._group)]
        [future] = self._client.list_consumer_group_offsets(request, request_timeout=self._timeout).values()
        found = self._result(future).topic_partitions or ()
        for each in found:
            if each.error is not None:
                raise self._library.KafkaException(each.error)
        committed = {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
        if not committed:
            raise ResponseError(f"the group {self._group} has no committed offsets; is checkpointing on?")
        return committed

    def partitions(self, topic: str) -> list[_Place]:
        found = self._client.list_topics(topic, timeout=self._timeout).topics.get(topic)
        if found is None:
            raise ResponseError(f"there is no topic {topic}")
        if found.error is not None:
            raise self._library.KafkaException(found.error)
        return [(topic, number) for number in found.partitions]

    def offsets(self, places: Iterable[_Place], which: str) -> dict[_Place, int]:
        return self.answers(self.questions(places, which))

    def questions(self, places: Iterable[_Place], which: str) -> dict[_Place, Future[Any]]:
        """Ask for offsets, all at once."""
        admin = importlib.import_module(f"{LIBRARY}.admin")
        spec = admin.OffsetSpec.latest() if which == "latest" else admin.OffsetSpec.earliest()
        asked = {self._library.TopicPartition(*place): spec for place in places}
        futures = self._client.list_offsets(asked, request_timeout=self._timeout) if asked else {}
        return {(each.topic, each.partition): future for each, future in futures.items()}

    def answers(self, questions: Mapping[_Place, Future[Any]]) -> dict[_Place, int]:
        """Return the offsets that were asked for."""
        return {place: self._result(future).offset for place, future in questions.items()}

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result(self._timeout + _AT_LEAST)
        except TimeoutError as error:
            raise ConnectError(f"the brokers did not answer within {self._timeout:g} s") from error


def _connected(address: KafkaAddress) -> Any:
    """Make a client; nothing is sent yet.

    Raises:
        ConfigError: The library is missing, or does not take a property.
    """
    try:
        admin = importlib.import_module(f"{LIBRARY}.admin")
    except ImportError as error:
        raise ConfigError(f"{address.name}: lag from Kafka needs the extra: pip install '{EXTRA}'") from error
    properties = {
        **address.properties,
        "bootstrap.servers": ",".join(address.bootstrap_servers),
        "client.id": "flink-autoscaler",
        "socket.timeout.ms": max(10, round(1000 * address.timeout)),
    }
    found = attempted(lambda: admin.AdminClient(properties, logger=_silent()), ConfigError)
    if isinstance(found, AutoscalerError):  # the library tells values of properties
        raise ConfigError(f"{address.name}: {_without(str(found), address)}")
    return found


def _silent() -> logging.Logger:
    """Return a logger for the library's own lines: that brokers are away is told once, by us."""
    logger = logging.Logger("flink_autoscaler.kafka", level=logging.CRITICAL)
    logger.addHandler(logging.NullHandler())
    return logger


def _of_topic(library: Any, address: KafkaAddress, group: str, asked: Callable[[], T]) -> T | AutoscalerError:
    """Return what is known of one topic, or what concerns it alone.

    Raises:
        ConnectError: The brokers did not answer; nothing else will be known, either.
    """
    try:
        with _as_ours(library, address, group):
            return asked()
    except (RefusedError, ResponseError) as error:
        return error


@contextmanager
def _as_ours(library: Any, address: KafkaAddress, group: str) -> Iterator[None]:
    """Turn errors of the library into ours."""
    try:
        yield
    except library.KafkaException as error:
        raise _wrapped(error, address, group) from error


def _wrapped(error: Any, address: KafkaAddress, group: str) -> AutoscalerError:
    """Return what an error of the library means, without values of properties."""
    cause = error.args[0] if error.args else error
    name = cause.name() if hasattr(cause, "name") else type(cause).__name__
    text = _without(cause.str() if hasattr(cause, "str") else str(cause), address)
    if name in _REFUSED:
        text = f"the group {group} or its topics may not be described: {text}; grant DESCRIBE on both"
        return RefusedError(f"{address.name}: {text}", _FORBIDDEN)
    if name.startswith("_"):
        return ConnectError(
            f"{address.name}: the brokers {', '.join(address.bootstrap_servers)} did not answer: {text}"
        )
    return ResponseError(f"{address.name}: {text}")


def _without(text: str, address: KafkaAddress) -> str:
    """Return a text without the values of properties, which may be secrets."""
    for value in sorted(address.properties.values(), key=len, reverse=True):
        text = text.replace(value, "******") if value else text
    return text[:_SHOWN]


def _named(place: _Place) -> str:
    return f"{place[0]}-{place[1]}"


def _listed(places: Iterable[_Place]) -> str:
    names = [_named(place) for place in places]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
