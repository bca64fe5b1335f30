"""Secrets of Kafka are shown nowhere."""

from __future__ import annotations

import pytest

from flink_autoscaler.clients.kafka.lag import KafkaAddress
from flink_autoscaler.standalone.settings.secrets import MASK, mask_value


@pytest.mark.parametrize(
    ("key", "is_masked"),
    [
        ("autoscaler.kafka.0.properties.sasl.password", True),
        ("autoscaler.kafka.0.properties.ssl.key.password", True),
        ("autoscaler.kafka.0.properties.ssl.key.pem", True),
        ("autoscaler.kafka.0.properties.sasl.oauthbearer.client.secret", True),
        ("autoscaler.external-metrics.0.headers.X-Key", True),
        ("autoscaler.kafka.0.properties-file.sasl.password", False),
        ("autoscaler.kafka.0.properties.security.protocol", False),
        ("autoscaler.external-metrics.0.auth.token-file", False),
    ],
)
def test_values_are_masked_and_pointers_to_them_are_not(key: str, is_masked: bool) -> None:
    assert (mask_value(key, "hunter2") == MASK) is is_masked


def test_an_address_does_not_show_its_properties() -> None:
    assert "hunter2" not in repr(KafkaAddress("a", ("b:1",), {"sasl.password": "hunter2"}))
