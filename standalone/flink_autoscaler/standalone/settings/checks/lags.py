"""Checks of the places that know lag, arrivals and floors, and of the options that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from flink_autoscaler.core.border import attempted
from flink_autoscaler.core.model.source_lag import FLINK
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.schema.clusters import NumberType
from flink_autoscaler.standalone.settings.schema.settings import Settings

DECLARED: Final = {
    AutoscalerOptions.lag_sources.key: "autoscaler.kafka or autoscaler.numbers",
    AutoscalerOptions.arrival_rate_sources.key: "autoscaler.numbers",
    AutoscalerOptions.floor_sources.key: "autoscaler.numbers",
}
"""Where the places are declared that an option may name."""


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
