"""Builds the places that know lag from the settings of the daemon; credentials are read whenever they are used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.number import HttpNumber
from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.lag_sources import LagSource
from flink_autoscaler.standalone.lags.book import AT_ONCE
from flink_autoscaler.standalone.settings import secrets
from flink_autoscaler.standalone.settings.credentials import Access
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.clusters import NUMBER_TYPES, KafkaSettings, NumberSettings
from flink_autoscaler.standalone.settings.schema.settings import Settings

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
