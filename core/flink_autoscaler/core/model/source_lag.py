"""What others than Flink say about a job, the lag of its sources and other numbers, as it travels with a request."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

FLINK: Final = "flink"
"""What the cluster's own metrics say, in the order of sources."""

HOT_SHARE: Final = 0.5
"""Of the whole lag; with a smaller share a partition is one of several that are late."""

HOT_FACTOR: Final = 4.0
"""How many times the mean lag of the others a partition has to have to count as hot."""

MIN_HOT_LAG: Final = 1_000.0
"""Records; below that no partition is worth a word."""

_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_]")


class ExternalMetricKind(StrEnum):
    """What a number is about."""

    __hash__ = str.__hash__

    LAG = "lag"
    ARRIVAL_RATE = "arrival-rate"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class ExternalMetric:
    """The answer of one place about the vertices that a pattern fits; several are asked in order.

    Attributes:
        kind: Not :attr:`ExternalMetricKind.LAG`, which is a :class:`.SourceLag`.
        pattern: Id of a vertex, or a pattern of its name.
        origin: Who answered, for people.
        value: Records/s that arrive at a source, or the least parallelism of a vertex; None when unknown.
        problem: Why it is unknown; empty where it is known.
    """

    kind: ExternalMetricKind
    pattern: str
    origin: str
    value: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The lag of one topic.

    Attributes:
        total: Records that wait, all partitions together; None when unknown.
        partitions: How many there are, also where their lag is unknown; 0 when even that is.
        slowest: The partition with most of them; empty when unknown.
        most: Records that wait in that one.
        problem: Why the lag is unknown; empty where it is known.
    """

    topic: str
    total: float | None = None
    partitions: int = 0
    slowest: str = ""
    most: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The answer of one place about the sources that a pattern fits; several are asked in order.

    Attributes:
        pattern: Id of a vertex, or a pattern of its name.
        origin: Who answered, for people; :data:`FLINK` stands for what the cluster's own metrics say.
        total: Records that wait, all partitions together; None when unknown.
        partitions: How many there are; 0 when unknown.
        hot: The partition that has most of the lag by itself; empty where the lag is spread.
        problem: Why the lag is unknown; empty where it is known.
        most: Records that wait in the slowest partition; None where partitions are not told apart.
        topics: The same topic by topic, where a source may read only some of them: the rest follows from these.
    """

    pattern: str
    origin: str
    total: float | None = None
    partitions: int = 0
    hot: str = ""
    problem: str = ""
    most: float | None = None
    topics: tuple[TopicLag, ...] = ()


def spread_lag(pattern: str, origin: str, lags: Mapping[str, float]) -> SourceLag:
    """Return what the lags of the partitions, by name, come to. A lag that cannot be makes all of it unknown."""
    return lag_of_topics(SourceLag(pattern, origin), (topic_lag("", lags),))


def topic_lag(topic: str, lags: Mapping[str, float]) -> TopicLag:
    """Return what the lags of the partitions of a topic, by name, come to."""
    wrong = next((name for name, lag in lags.items() if not (math.isfinite(lag) and lag >= 0)), None)
    if wrong is not None:
        return TopicLag(topic, partitions=len(lags), problem=f"the lag of {wrong} is {lags[wrong]:g}")
    if not lags:
        return TopicLag(topic, problem="there are no partitions")
    slowest = max(lags, key=lambda each: lags[each])
    return TopicLag(topic, math.fsum(lags.values()), len(lags), slowest, lags[slowest])


def lag_of_topics(asked: SourceLag, read: Collection[TopicLag]) -> SourceLag:
    """Return the lag of a source that reads these topics; unknown where that of one of them is.

    Args:
        asked: Who was asked about which sources.
        read: At least one topic.
    """
    partitions = sum(each.partitions for each in read) if all(each.partitions for each in read) else 0
    problem = next(filter(None, map(_problem_of, read)), "")
    if problem:
        return replace(asked, partitions=partitions, problem=problem, topics=())
    total, slowest = math.fsum(each.total or 0.0 for each in read), max(read, key=lambda each: each.most)
    hot = slowest.slowest if _is_hot(slowest.most, total, partitions) else ""
    most = slowest.most if partitions > 1 else None
    return replace(asked, total=total, partitions=partitions, hot=hot, most=most, topics=())


def _problem_of(topic: TopicLag) -> str:
    """Return why the lag of a topic is unknown, of which a plug-in may have said anything."""
    if topic.total is None:
        return topic.problem or f"the lag of {topic.topic} is unknown"
    is_possible = 0 <= topic.most <= topic.total < math.inf
    return (
        "" if is_possible else f"the lag of {topic.topic} is {topic.total:g}, of which one partition has {topic.most:g}"
    )


def _is_hot(most: float, total: float, partitions: int) -> bool:
    """Tell whether one partition has so much of the lag that more subtasks would not shrink it.

    Subtasks take whole partitions: what one partition is behind, one subtask has to catch up. A partition is hot that
    has more than ``HOT_SHARE`` of the whole lag and more than ``HOT_FACTOR`` times the mean of the others.
    """
    if partitions <= 1 or most < MIN_HOT_LAG:
        return False
    return most > HOT_SHARE * total and most > HOT_FACTOR * (total - most) / (partitions - 1)


def topics_read(
    known: Iterable[TopicLag], seen: Collection[str], seen_elsewhere: Collection[str]
) -> tuple[TopicLag, ...] | str:
    """Return the topics that a source reads, or why that cannot be told.

    Flink's metrics name topics with ``_`` for what is special to them: two topics may look alike.

    Args:
        known: Topics of the consumer group.
        seen: Those of the source, as its metrics name them; empty where they name none, as before the first record.
        seen_elsewhere: Those of other sources of the job; a source without any reads what is left.
    """
    topics = tuple(known)
    if not seen:
        others = {_plain(name) for name in seen_elsewhere}
        left = tuple(each for each in topics if _plain(each.topic) not in others)
        return left or "the group has no committed offsets of topics that no other source reads"
    found: list[TopicLag] = []
    for name in seen:
        fitting = [each for each in topics if each.topic == name] or [
            each for each in topics if _plain(each.topic) == _plain(name)
        ]
        if len(fitting) != 1:
            alike = ", ".join(each.topic for each in fitting)
            why = f"may be {alike}: set job.autoscaler.lag.kafka.topics" if fitting else "has no committed offsets"
            return f"the topic {name}, as Flink's metrics call it, {why}"
        found += fitting
    return tuple(dict.fromkeys(found))


def _plain(topic: str) -> str:
    return _SPECIAL.sub("_", topic)
