"""Asking beside the passes: nobody waits for long, and nothing old is believed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from time import monotonic

import pytest

from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.source_lag import ExternalMetricKind, SourceLag, TopicLag, topic_lag
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.lag import GROUP_PARAMETERS
from flink_autoscaler.core.ports.lag_sources import LagQuery
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.standalone.external_metrics.provider import ExternalMetricsProvider
from testkit.builders.core import a_context
from testkit.clusters.flink.waiting import wait_until


class Known:
    """Always knows; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[LagQuery] = []

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        self.asked.append(query)
        return {f"t-{n}": 5.0 for n in range(4)}

    def close(self) -> None:
        """Do nothing."""


class Hanging(Known):
    """Answers once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        found = super().lags(query)
        self.may_answer.wait(300)
        return found


class Telling(Known):
    """Knows topics apart; of one it knows nothing."""

    def lags_by_topic(self, query: LagQuery) -> Sequence[TopicLag]:
        self.asked.append(query)
        return topic_lag("x", {"x-0": 5.0, "x-1": 7.0}), TopicLag("y", problem="there is no topic y")


class Away(Known):
    """Never answers."""

    def lags(self, query: LagQuery) -> Mapping[str, float]:
        raise ConnectError("the brokers did not answer")


def request(sources: str, job: str = "a", **options: str) -> PassRequest:
    context = a_context({"lag.sources": sources, **{key.replace("_", "."): v for key, v in options.items()}})
    return PassRequest(replace(context, job_key=job), EMPTY_STATE, 0)


def one(book: ExternalMetricsProvider, asked: PassRequest) -> SourceLag:
    [added] = book.enrich([asked])
    return added.lags[0]


def test_a_job_that_names_nobody_is_left_as_it_is() -> None:
    source = Known()
    with closing(ExternalMetricsProvider({"kafka": source})) as book:
        plain = PassRequest(a_context(), EMPTY_STATE, 0)

        assert book.enrich([plain]) == [plain]
    assert source.asked == []


def test_the_job_says_in_which_order_who_is_asked_for_which_source() -> None:
    with closing(ExternalMetricsProvider({"kafka": Known(), "away": Away()})) as book:
        [added] = book.enrich([request("Source: a=away,kafka;flink")])

    assert [(lag.pattern, lag.origin, lag.total) for lag in added.lags] == [
        ("Source: a", "away", None),
        ("Source: a", "kafka", 20.0),
        ("*", "flink", None),
    ]
    assert "brokers did not answer" in added.lags[0].problem


def test_topics_and_group_of_the_job_are_asked_about() -> None:
    source = Known()
    options = {"lag.kafka.group": "g", "lag.kafka.topics": "Source: a=x,y;z"}
    with closing(ExternalMetricsProvider({"kafka": source})) as book:
        book.enrich([request("Source: a=kafka;kafka", **options)])

    assert {(each.pattern, each.group, each.topics) for each in source.asked} == {
        ("Source: a", "g", ("x", "y")),
        ("*", "g", ("z",)),
    }


def test_who_hangs_is_waited_for_once_and_holds_up_no_other() -> None:
    hanging, known = Hanging(), Known()
    with closing(ExternalMetricsProvider({"hanging": hanging, "kafka": known}, response_timeout=2.0)) as book:
        started = monotonic()
        book.enrich([request("hanging"), request("kafka", "b")])
        waited = monotonic()
        first, second = book.enrich([request("hanging"), request("kafka", "b")])
        ended = monotonic()
        hanging.may_answer.set()
        wait_until("the late answer", lambda: one(book, request("hanging")).total == 20.0)

    assert ended - waited < waited - started
    assert first.lags[0].problem == "there is no answer in time"
    assert second.lags[0].total == 20.0


def test_an_answer_that_is_too_old_is_unknown() -> None:
    hanging, now = Hanging(), [0.0]
    hanging.may_answer.set()
    with closing(ExternalMetricsProvider({"kafka": hanging}, response_timeout=0.2, clock=lambda: now[0])) as book:
        fresh = one(book, request("kafka"))
        hanging.may_answer.clear()
        now[0] = 59.0
        kept = one(book, request("kafka"))
        now[0] = 61.0
        old = one(book, request("kafka"))
        hanging.may_answer.set()

    assert (fresh.total, kept.total, old.total) == (20.0, 20.0, None)


def test_a_name_that_the_daemon_does_not_declare_is_unknown_and_asks_nobody() -> None:
    with closing(ExternalMetricsProvider({})) as book:
        found = one(book, request("http://169.254.169.254/latest"))

    assert found.total is None
    assert "neither in autoscaler.kafka" in found.problem


def test_options_that_cannot_be_read_are_somebody_elses_to_tell() -> None:
    with closing(ExternalMetricsProvider({})) as book:
        asked = request("a==,;=")

        assert book.enrich([asked]) == [asked]


def test_topics_are_told_apart_until_it_is_known_which_of_them_a_source_reads() -> None:
    with closing(ExternalMetricsProvider({"kafka": Telling()})) as book:
        found = one(book, request("kafka"))

    assert [(each.topic, each.total, each.problem) for each in found.topics] == [
        ("x", 12.0, ""),
        ("y", None, "there is no topic y"),
    ]


def test_configured_topics_are_those_that_the_source_reads() -> None:
    with closing(ExternalMetricsProvider({"kafka": Telling()})) as book:
        found = one(book, request("kafka", **{"lag.kafka.topics": "x,y"}))

    assert (found.total, found.problem, found.topics) == (None, "there is no topic y", ())


@pytest.mark.parametrize("name", GROUP_PARAMETERS)
def test_the_group_is_that_of_the_option_or_of_the_parameters_of_the_job(name: str) -> None:
    source = Known()
    asked = request("kafka")
    named = {**asked.context.configuration, name: "own"}
    with closing(ExternalMetricsProvider({"kafka": source})) as book:
        book.enrich([replace(asked, context=replace(asked.context, configuration=named))])
        set_too = {**named, "job.autoscaler.lag.kafka.group": "set"}
        book.enrich([replace(asked, context=replace(asked.context, configuration=set_too))])

    assert [each.group for each in source.asked] == ["own", "set"]


@pytest.mark.parametrize("kind", [ExternalMetricKind.ARRIVAL_RATE, ExternalMetricKind.FLOOR])
def test_other_numbers_are_asked_for_by_their_kind(kind: ExternalMetricKind) -> None:
    class One(Known):
        def lags(self, query: LagQuery) -> Mapping[str, float]:
            self.asked.append(query)
            return {"all": 12.0}

    source = One()
    with closing(ExternalMetricsProvider({"service": source, "many": Known()})) as book:
        [added] = book.enrich([request("", **{f"{kind}.sources": "Source: a=service;many"})])

    assert [each.kind for each in source.asked] == [kind]
    assert [(each.kind, each.pattern, each.origin, each.value, each.problem) for each in added.numbers] == [
        (kind, "Source: a", "service", 12.0, ""),
        (kind, "*", "many", None, "it gave no single number"),
    ]
    assert added.lags == ()


@pytest.mark.parametrize("topics", ["", "x"])
def test_a_source_without_any_topic_is_unknown(topics: str) -> None:
    class Without(Known):
        def lags_by_topic(self, query: LagQuery) -> Sequence[TopicLag]:
            self.asked.append(query)
            return ()

    with closing(ExternalMetricsProvider({"kafka": Without()})) as book:
        assert one(book, request("kafka", **{"lag.kafka.topics": topics})).problem == "there are no topics"
