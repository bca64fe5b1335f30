"""Requests as they go over the wire."""

from __future__ import annotations

import httpx
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.http.connections import Address
from flink_autoscaler.clients.http.sending import Sending, target_of

ADDRESS = Address("http://localhost:8081/proxy/application_1_2", httpx.Headers())
METRICS = f"/jobs/{'a' * 32}/vertices/{'b' * 32}/subtasks/metrics"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["0.busyTimeMsPerSecond", "0.Source__orders.KafkaSourceReader.topic.a~b.partition.3.lag", "ä,ö", "a b&c=d"]
)


@given(st.sampled_from([METRICS, "/jobs/overview", "/a b", "/jobs/../config", "/x%2Fy"]), st.lists(NAMES, max_size=4))
def test_a_target_is_what_httpx_would_send(path: str, names: list[str]) -> None:
    sending = Sending(ADDRESS, path, {"get": ",".join(names)} if names else {}, None, 1.0)

    assert target_of(sending) == httpx.URL(sending.url).raw_path.decode("ascii").removeprefix("/proxy/application_1_2")
