"""Numbers of services: found, refused, and asked only where the daemon's configuration says."""

from __future__ import annotations

import ast
import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.number import (
    HttpLagSource,
    _in_string,
    json_pointer_number,
    render,
    render_promql,
    sample_of,
)
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, ResponseError
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.metrics import FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.source_lag import ExternalMetric, ExternalMetricKind, SourceLag, TopicLag, topic_lag
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.lag_sources import LagQuery
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.records.codec import PassRecord, decode, encode
from flink_autoscaler.standalone.views.explanation import explain_pass
from testkit.builders.core import a_context
from testkit.contracts.lags import LagSourceContract
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.wired import passes_of, settings_of


class Service(BaseHTTPRequestHandler):
    """Answers by path."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, object]] = {
        "/queues/orders": {"waiting": [7, 70], "arriving": 300, "least": 3, "nan": math.nan, "negative": -1},
        "/queues/text": {"waiting": "7"},
    }
    paths: ClassVar[list[str]] = []
    clients: ClassVar[set[tuple[str, int]]] = set()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.paths.append(self.path)
        self.clients.add(self.client_address)
        answer = self.answers.get(parts.path)
        if parts.path == "/api/v1/query":
            wanted = parse_qs(parts.query)["query"][0]
            samples = [{"metric": {}, "value": [1.0, "42"]}] if wanted == 'lag{job="orders"}' else []
            answer = {"status": "success", "data": {"resultType": "vector", "result": samples}}
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Service.paths.clear()
    Service.clients.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads = True  # connections are kept
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread("test-lags")
    yield loop
    loop.close()


def query(job: str = "orders", **words: str) -> LagQuery:
    return LagQuery(f"main/{job}", job, "main", parameters=tuple(words.items()))


class TestHttp(LagSourceContract):
    @pytest.fixture
    def source(self, url: str, loop: EventLoopThread) -> HttpLagSource:
        return HttpLagSource(loop, lambda: Endpoint(url, timeout=5.0), path="/queues/{queue}", pointer="/waiting/1")

    @pytest.fixture
    def known(self) -> LagQuery:
        return query(queue="orders")

    @pytest.fixture(params=["text", "absent", "..", "orders/../../secret", "x?y=z#"])
    def unknown(self, request: pytest.FixtureRequest) -> LagQuery:
        return query(queue=request.param)

    def test_the_number_is_at_the_pointer(self, source: HttpLagSource) -> None:
        assert source.lags(query(queue="orders")) == {"all": 70.0}

    def test_a_word_stays_one_part_of_the_path(self, source: HttpLagSource) -> None:
        with pytest.raises(AutoscalerError):
            source.lags(query(queue="a/../b?c=d&e#f@host"))

        assert set(Service.paths) == {"/queues/a%2F..%2Fb%3Fc%3Dd%26e%23f%40host"}

    def test_the_connection_is_kept_until_a_secret_is_replaced(self, url: str, loop: EventLoopThread) -> None:
        token = ["first"]

        def endpoint() -> Endpoint:
            return Endpoint(url, timeout=5.0, headers=(("Authorization", f"Bearer {token[0]}"),))

        with closing(HttpLagSource(loop, endpoint, path="/queues/orders", pointer="/waiting/0")) as source:
            for _ in range(3):
                source.lags(query())
            kept = len(Service.clients)
            token[0] = "second"
            source.lags(query())

        assert (kept, len(Service.clients)) == (1, 2)

    def test_a_word_without_a_value_is_said(self, source: HttpLagSource) -> None:
        with pytest.raises(ConfigError, match=r"lag\.parameters"):
            source.lags(query())


class TestPromql(LagSourceContract):
    @pytest.fixture
    def source(self, url: str, loop: EventLoopThread) -> HttpLagSource:
        return HttpLagSource(loop, lambda: Endpoint(url, timeout=5.0), path="", query='lag{job="{job}"}')

    @pytest.fixture
    def known(self) -> LagQuery:
        return query()

    @pytest.fixture(params=["another", 'x"} or lag{job="orders'])
    def unknown(self, request: pytest.FixtureRequest) -> LagQuery:
        return query(request.param)


@pytest.mark.parametrize("wrong", ["7", True, None, [], {"a": 1}], ids=str)
def test_what_is_no_number_is_refused(wrong: object) -> None:
    with pytest.raises(ResponseError):
        json_pointer_number({"lag": wrong}, "/lag")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"status": "success", "warnings": ["partial"], "data": {}}, id="partial"),
        pytest.param({"status": "success", "data": {"resultType": "vector", "result": []}}, id="no sample"),
        pytest.param({"status": "success", "data": {"resultType": "vector", "result": [{}, {}]}}, id="two"),
        pytest.param({"status": "success", "data": {"resultType": "scalar", "result": [1, "x"]}}, id="text"),
        pytest.param(
            {"status": "success", "data": {"resultType": "scalar", "result": ["1", "2"]}}, id="text as instant"
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "scalar", "result": [math.nan, "2"]}}, id="no instant"
        ),
        pytest.param([], id="a list"),
    ],
)
def test_an_answer_that_does_not_give_one_sample_is_refused(answer: object) -> None:
    with pytest.raises(ResponseError):
        sample_of(answer)


@pytest.mark.parametrize("word", ['a"b', "a'b", "a`b", "a\\b", "a\nb", 'x"} or lag{job="orders'])
def test_word_in_promql_is_the_word_itself_between_either_quotes(word: str) -> None:
    for quote in "\"'":
        text = render(f"lag{{{{job={quote}{{job}}{quote}}}}}", {"job": word}, _in_string).split(quote)

        assert len(text) == 3
        assert ast.literal_eval(f"{quote}{text[1]}{quote}") == word


@pytest.mark.parametrize("word", ["a.b", "(a|b)*", 'a"b', "a\\b", "orders"])
def test_word_in_a_pattern_of_promql_is_the_word_itself(word: str) -> None:
    text = render_promql('lag{job="{job}"} + lag{topic=~"x-{job}-.*"}', {"job": word})

    plain, pattern = (ast.literal_eval(found) for found in re.findall(r'"[^"]*"', text))
    assert plain == word
    assert re.fullmatch(pattern, f"x-{word}-1")
    assert not re.fullmatch(pattern, f"x-{word}x-1")
    assert word == "orders" or not re.fullmatch(pattern, "x-axb-1")


def passed(flink: FakeFlink, **options: str) -> PassOutcome:
    with passes_of(flink, **options) as passes:
        return passes.run().reports["main/orders"].outcome


def test_the_daemon_takes_the_lag_from_a_service_that_its_configuration_declares(url: str) -> None:
    declared = numbers_at(url, "/waiting/1")
    with FakeFlink() as flink:
        source = flink.add_job("orders", chain(vertices=2)).vertices[0].vertex_id
        off = passed(flink, **declared)
        on = passed(flink, **declared, **{"job.autoscaler.lag.sources": "gateway,flink"})

    assert off.observation.origins == {}
    assert on.observation.origins == {source: {FlinkMetric.PENDING_RECORDS: "gateway"}}
    assert on.observation.sample is not None
    assert on.observation.sample.vertices[source][ScalingMetric.LAG] == 70.0


def numbers_at(url: str, pointer: str) -> dict[str, str]:
    return {
        "autoscaler.external-metrics.0.name": "gateway",
        "autoscaler.external-metrics.0.url": url,
        "autoscaler.external-metrics.0.path": "/queues/{job}",
        "autoscaler.external-metrics.0.json-pointer": pointer,
    }


@pytest.mark.parametrize(
    ("option", "pointer", "metric"),
    [
        ("arrival-rate.sources", "/arriving", FlinkMetric.ARRIVAL_RATE),
        ("floor.sources", "/least", FlinkMetric.MIN_PARALLELISM),
    ],
)
def test_the_daemon_takes_other_numbers_from_there_and_says_so(
    url: str, option: str, pointer: str, metric: FlinkMetric
) -> None:
    named = {f"job.autoscaler.{option}": "Source*=gateway"}
    with FakeFlink() as flink:
        source = flink.add_job("orders", chain(vertices=2)).vertices[0].vertex_id
        outcome = passed(flink, **numbers_at(url, pointer), **named)

    assert outcome.observation.origins == {source: {metric: "gateway"}}
    told = explain_pass(PassRecord(PassRequest(a_context(), JobState(), 0), outcome))
    assert [story.origins for story in told.vertices if story.vertex_id == source] == [{metric.value: "gateway"}]


@pytest.mark.parametrize("pointer", ["/nan", "/negative", "/waiting", "/absent"])
@pytest.mark.parametrize(
    ("option", "told"),
    [("lag.sources", "LagUnknown"), ("arrival-rate.sources", "NumberUnknown"), ("floor.sources", "NumberUnknown")],
)
def test_what_is_no_number_is_unknown_and_told_once(url: str, option: str, told: str, pointer: str) -> None:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2))
        outcome = passed(flink, **numbers_at(url, pointer), **{f"job.autoscaler.{option}": "Source*=gateway"})

    assert outcome.observation.origins == {}
    assert [event.reason for event in outcome.events] == [told]


@pytest.mark.parametrize("option", ["arrival-rate.sources", "floor.sources"])
@pytest.mark.parametrize(("name", "words"), [("gateway", "there is no 'gateway'"), ("broker", "which tells lag")])
def test_other_numbers_come_from_declared_services_only(option: str, name: str, words: str) -> None:
    broker = {"autoscaler.kafka.0.name": "broker", "autoscaler.kafka.0.bootstrap-servers": "b:1"}

    with pytest.raises(ConfigError, match=words):
        settings_of({f"job.autoscaler.{option}": name, "autoscaler.clusters.0.name": "main", **broker})


def test_a_service_that_is_away_is_told_about_and_the_lag_is_unknown() -> None:
    away = {**numbers_at("http://127.0.0.1:1", "/waiting/1"), "job.autoscaler.lag.sources": "gateway"}
    with FakeFlink() as flink:
        source = flink.add_job("orders", chain(vertices=2)).vertices[0].vertex_id
        outcome = passed(flink, **away)

    assert outcome.observation.sample is not None
    assert math.isnan(outcome.observation.sample.vertices[source][ScalingMetric.LAG])
    assert "LagUnknown" in {event.reason for event in outcome.events}


def test_what_nobody_declares_is_refused_before_the_start() -> None:
    values = {"job.autoscaler.lag.sources": "http://169.254.169.254/", "autoscaler.clusters.0.name": "main"}
    with pytest.raises(ConfigError, match=r"169\.254"):
        settings_of(values)


@pytest.mark.parametrize(("group", "path"), [("orders", "/queues/orders"), ("a/../b?c", "/queues/a%2F..%2Fb%3Fc")])
def test_the_group_that_a_job_names_among_its_parameters_is_a_word(url: str, group: str, path: str) -> None:
    declared = {**numbers_at(url, "/waiting/1"), "autoscaler.external-metrics.0.path": "/queues/{group}"}
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2)).user_config["properties.group.id"] = group
        passed(flink, **declared, **{"job.autoscaler.lag.sources": "gateway"})

    assert set(Service.paths) == {path}


def test_a_recorded_pass_has_what_others_said_and_needs_to_ask_nobody() -> None:
    topics = (topic_lag("x", {"x-0": 1.0, "x-1": 5.0}), TopicLag("y", problem="there is no topic y"))
    number = ExternalMetric(ExternalMetricKind.FLOOR, "map", "planned", 3.0)
    request = PassRequest(a_context(), JobState(), 0, lags=(SourceLag("*", "kafka", topics=topics),), numbers=(number,))
    outcome = PassOutcome(request.context.job_key, PassPhase.COLLECTING, Hold.because("COLLECTING", "first"))

    read = decode(encode(PassRecord(request, outcome)))

    assert (read.request.lags, read.request.numbers) == (request.lags, request.numbers)
