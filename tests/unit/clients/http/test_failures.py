"""What is made of the exceptions of libraries."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.http.connections import Address
from flink_autoscaler.clients.http.failures import is_transient, wrap_transport_error
from flink_autoscaler.clients.http.transport import HttpRequest, target_of
from flink_autoscaler.core.errors import ConnectError


@pytest.mark.parametrize("length", [1, 2])
def test_errors_that_cause_each_other_are_looked_at_once(length: int) -> None:
    errors = [OSError(f"no {number}") for number in range(length)]
    for number, error in enumerate(errors):
        error.__cause__ = errors[(number + 1) % length]

    found = wrap_transport_error(errors[0], "GET x", is_tls_untried=False, has_certificate=False)

    assert isinstance(found, ConnectError)
    found.__cause__ = errors[0]
    assert is_transient(found)


ADDRESS = Address("http://localhost:8081/proxy/application_1_2", httpx.Headers())
METRICS = f"/jobs/{'a' * 32}/vertices/{'b' * 32}/subtasks/metrics"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["0.busyTimeMsPerSecond", "0.Source__orders.KafkaSourceReader.topic.a~b.partition.3.lag", "ä,ö", "a b&c=d"]
)


@given(st.sampled_from([METRICS, "/jobs/overview", "/a b", "/jobs/../config", "/x%2Fy"]), st.lists(NAMES, max_size=4))
def test_a_target_is_what_httpx_would_send(path: str, names: list[str]) -> None:
    sending = HttpRequest(ADDRESS, path, {"get": ",".join(names)} if names else {}, None, 1.0)

    assert target_of(sending) == httpx.URL(sending.url).raw_path.decode("ascii").removeprefix("/proxy/application_1_2")
