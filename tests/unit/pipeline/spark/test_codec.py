from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from flink_autoscaler.core.errors import PluginError, RefusedError
from flink_autoscaler.core.model.job import Endpoint, PrometheusSource
from flink_autoscaler.core.model.reading import CachedDetails
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.pipeline.spark.codec import (
    CodecError,
    decode,
    decode_outcome,
    encode,
    encode_outcome,
    portable_error,
)
from testkit.builders.pipeline import Fleet, a_request, comparable, next_pass
from testkit.contracts.recorded_passes import beside_another

REQUEST = a_request(Endpoint("http://127.0.0.1:1", headers=(("Authorization", "secret"),)), "orders")


class ForeignError(RefusedError):
    """An error that the core does not know."""


class Unpicklable(str):
    __slots__ = ()

    def __reduce__(self) -> str:
        raise RuntimeError("no")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1",)


def packed(data: bytes, length: int | None = None) -> bytes:
    """Compress foreign data as values travel, with a length that may be wrong."""
    told = len(data) if length is None else length
    return told.to_bytes(8) + bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.fixture
def passed() -> Iterator[tuple[PassRequest, PassOutcome]]:
    """A third pass over a job: its request with two samples, and its outcome with three."""
    with Fleet.serving() as fleet:
        request = fleet.add("orders")
        for _ in range(2):
            request = next_pass(request, fleet.inline.evaluate([request])[0])
        yield request, fleet.inline.evaluate([request])[0]


@pytest.mark.parametrize("is_packed", [True, False])
def test_request_arrives_as_it_was(is_packed: bool) -> None:
    assert decode(encode(REQUEST, is_packed=is_packed), PassRequest) == REQUEST


def test_the_source_of_metrics_and_kept_details_arrive_as_they_were() -> None:
    request = REQUEST
    source = PrometheusSource(Endpoint("http://127.0.0.1:2"), selector=(("cluster", "a"),))
    context = replace(request.context, endpoint=Endpoint("http://127.0.0.1:1", prometheus=source))
    kept = CachedDetails(JobDetails("0" * 32, "orders", "RUNNING", 1, (), ()), 1, 2)
    sent = replace(request, context=context, memory=replace(request.memory, kept=kept))

    assert decode(encode(sent), PassRequest) == sent


@pytest.mark.parametrize("is_packed", [True, False])
def test_outcome_arrives_as_it_was(passed: tuple[PassRequest, PassOutcome], is_packed: bool) -> None:
    request, outcome = passed
    there = decode(encode(request, is_packed=is_packed), PassRequest)

    back = decode_outcome(encode_outcome(outcome, request, is_packed=is_packed), there)

    assert comparable(back) == comparable(outcome)
    assert len(back.state.samples) == 3


def test_outcome_shares_the_samples_of_the_request(passed: tuple[PassRequest, PassOutcome]) -> None:
    request, outcome = passed

    back = decode_outcome(encode_outcome(outcome, request), request)

    assert all(mine is sent for mine, sent in zip(request.state.samples, back.state.samples, strict=False))


def test_what_policies_remember_and_one_in_shadow_mode_would_do_travel() -> None:
    job = beside_another()
    for record in job.records:
        request, outcome = record.request, replace(record.outcome, inputs=None)

        back = decode_outcome(encode_outcome(outcome, request), decode(encode(request), PassRequest))

        assert back.shadow == outcome.shadow
        assert back.state.policies == outcome.state.policies
    assert outcome.shadow is not None
    assert outcome.state.policies["policies.shadow"]["policy"] == "varga"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"garbage", id="not compressed"),
        pytest.param(encode(REQUEST)[:-20], id="cut short"),
        pytest.param(packed(b"\x80\x05garbage"), id="not pickled"),
        pytest.param(packed(pickle.dumps(REQUEST), 10), id="longer than told"),
        pytest.param(packed(pickle.dumps(REQUEST), 1 << 40), id="too long"),
        pytest.param(encode(7), id="another kind"),
        pytest.param(packed(pickle.dumps(Evil())), id="a call"),
        pytest.param(bytes(8) + pickle.dumps(Evil()), id="a call, not compressed"),
        pytest.param(encode(REQUEST, is_packed=False)[:-20], id="cut short, not compressed"),
        pytest.param(packed(b"cflink_autoscaler.core.options.job\nre\n."), id="a module"),
        pytest.param(packed(b"\x80\x04\x8c\x1eflink_autoscaler.core.options.job\x8c\x0bre.template\x93."), id="dots"),
        pytest.param(
            packed(b"cbuiltins\ngetattr\n(cflink_autoscaler.core.model.job\nEndpoint\nS'url'\ntR."), id="getattr"
        ),
    ],
)
def test_decode_refuses_what_is_not_ours(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data, PassRequest)


def test_encode_refuses_what_cannot_travel() -> None:
    poisoned = replace(REQUEST, state=replace(REQUEST.state, job_id=Unpicklable("x")))

    with pytest.raises(CodecError, match="RuntimeError: no"):
        encode(poisoned)


def test_foreign_error_travels_as_a_plugin_error(passed: tuple[PassRequest, PassOutcome]) -> None:
    _, outcome = passed

    error = portable_error(replace(outcome, error=ForeignError("broken", 500)))

    assert type(error) is PluginError
    assert str(error) == "ForeignError: broken"


@pytest.mark.parametrize("sent", [(), (1, 2, 3, 4), (REQUEST, ([], {}), None, None), "text"])
def test_decode_refuses_what_is_no_outcome(sent: object) -> None:
    with pytest.raises(CodecError):
        decode_outcome(encode(sent), REQUEST)


def test_outcome_refers_to_no_sample_that_the_request_lacks(passed: tuple[PassRequest, PassOutcome]) -> None:
    request, outcome = passed
    shorter = replace(request, state=replace(request.state, samples=()))

    with pytest.raises(CodecError, match="not an outcome of this request"):
        decode_outcome(encode_outcome(outcome, request), shorter)
