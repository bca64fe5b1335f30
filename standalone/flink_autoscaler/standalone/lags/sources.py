"""Builds the places that know lag from the settings of the daemon; credentials are read whenever they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.number import HttpNumber
from flink_autoscaler.clients.kafka.lag import KafkaAddress, KafkaLag
from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.source_lag import FLINK
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.lag_sources import LagSource
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.fetchers.access import Access
from flink_autoscaler.standalone.lags.book import AT_ONCE
from flink_autoscaler.standalone.settings import secrets
from flink_autoscaler.standalone.settings.schema.lags import KafkaSettings, NumberSettings, NumberType
from flink_autoscaler.standalone.settings.schema.settings import Settings

_MOST_BYTES: Final = 1 << 20

DECLARED: Final = {
    AutoscalerOptions.lag_sources.key: "autoscaler.kafka or autoscaler.numbers",
    AutoscalerOptions.arrival_rate_sources.key: "autoscaler.numbers",
    AutoscalerOptions.floor_sources.key: "autoscaler.numbers",
}
"""Where the places are declared that an option may name."""


def build_sources(settings: Settings, loop: EventLoopThread) -> dict[str, LagSource]:
    """Return the places that know lag, by name.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    kafka: dict[str, LagSource] = {each.name: KafkaLag(partial(address_of, each)) for each in settings.kafka}
    return {**kafka, **{each.name: _number(each, loop) for each in settings.numbers}}


def lag_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with them, one sentence per problem."""
    names = [*(each.name for each in settings.kafka), *(each.name for each in settings.numbers)]
    for name in dict.fromkeys(each for each in names if names.count(each) > 1 or each == FLINK):
        yield f"the name '{name}' in autoscaler.kafka and autoscaler.numbers is used twice, or means Flink itself"
    for kafka in settings.kafka:
        if not kafka.bootstrap_servers:
            yield f"autoscaler.kafka: '{kafka.name}' has no bootstrap-servers"
        if "bootstrap.servers" in {*kafka.properties, *kafka.properties_env, *kafka.properties_file}:
            yield f"autoscaler.kafka: '{kafka.name}' names its brokers by bootstrap-servers, not by a property"
    for number in settings.numbers:
        if number.type in tuple(NumberType) and len(number.url) != 1:
            yield f"autoscaler.numbers: '{number.name}' needs one url"
        if number.type == NumberType.PROMQL and number.query is None:
            yield f"autoscaler.numbers: '{number.name}' has no query"
    yield from _name_problems(settings, names)


def _name_problems(settings: Settings, names: Sequence[str]) -> Iterator[str]:
    brokers = {each.name for each in settings.kafka}
    for key, name in _named(settings):
        if name in brokers and key != AutoscalerOptions.lag_sources.key:
            yield f"{key}: '{name}' is in autoscaler.kafka, which tells lag and nothing else"
        elif name not in names and (name != FLINK or key != AutoscalerOptions.lag_sources.key):
            yield f"{key}: there is no '{name}' in {DECLARED[key]}"


def _named(settings: Settings) -> list[tuple[str, str]]:
    """Return the options in the defaults of clusters and the places that they name, each once."""
    asked = [attempted(partial(_asked, cluster.job_defaults)) for cluster in settings.effective_clusters()]
    return list(dict.fromkeys(each for found in asked if isinstance(found, list) for each in found))


def _asked(defaults: Mapping[str, str]) -> list[tuple[str, str]]:
    options = AutoscalerOptions(defaults)
    listed = {
        AutoscalerOptions.lag_sources.key: options.lag_sources,
        AutoscalerOptions.arrival_rate_sources.key: options.arrival_rate_sources,
        AutoscalerOptions.floor_sources.key: options.floor_sources,
    }
    return [(key, name) for key, entries in listed.items() for entry in entries for name in entry.names]


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
    if settings.type not in tuple(NumberType):
        source: LagSource = make_plugin(
            PluginGroup.LAG_SOURCES, settings.type, {"parameters": settings.parameters, "name": settings.name}
        )
        return source
    is_promql = settings.type == NumberType.PROMQL
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
