"""Checks of where the metrics of clusters come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.clients.prometheus.questions import LABELS, NAMES
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.standalone.settings.checks.clusters import (
    EntrySection,
    access_problems,
    access_warnings,
    cluster_places,
)
from flink_autoscaler.standalone.settings.schema.clusters import AuthKind, ClusterSettings, SourceKind
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.layer import Value

_KINDS: Final = (AuthKind.NONE, AuthKind.BASIC, AuthKind.BEARER)
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)


def metric_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is wrong with where metrics come from, one sentence per problem. Reads the files that are named."""
    for place, cluster in cluster_places(settings, values):
        if cluster.metrics.source is SourceKind.REST:
            chosen = f"{place.prefix}metrics.source prometheus, which is rest"
            yield from (f"{place.of(name)}: only for {chosen}" for name in place.below("metrics.prometheus"))
        else:
            yield from _prometheus_problems(cluster, _section(place))


def metric_warnings(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what looks dangerous about where metrics come from, one sentence each."""
    for place, cluster in cluster_places(settings, values):
        prometheus = cluster.metrics.prometheus
        yield from access_warnings(prometheus, _section(place), prometheus.url)


def _section(place: EntrySection) -> EntrySection:
    return EntrySection(f"{place.prefix}metrics.prometheus.", place.values)


def _prometheus_problems(cluster: ClusterSettings, place: EntrySection) -> Iterator[str]:
    prometheus = cluster.metrics.prometheus
    if len(prometheus.url) != 1:
        yield f"{place.of('url')}: metrics.source prometheus needs the URL of one server, such as http://prometheus:9090"
    if prometheus.auth.kind not in _KINDS:
        yield f"{place.of('auth.kind')}: expected {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
    yield from access_problems(prometheus, place, prometheus.url)
    yield from _mapping_problems("names", prometheus.names, NAMES, _METRIC, place)
    yield from _mapping_problems("labels", prometheus.labels, frozenset(LABELS), _LABEL, place)
    for name, value in prometheus.selector.items():
        if not _LABEL.fullmatch(name):
            yield f"{place.of(f'selector.{name}')}: not the name of a label; expected letters, digits and underscores"
        elif value.startswith("~") and not _is_pattern(value[1:]):
            yield f"{place.of(f'selector.{name}')}: what follows ~ is not a regular expression"
    for name in prometheus.replica_labels or ():
        if not _LABEL.fullmatch(name):
            yield f"{place.of('replica-labels')}: '{name}' is not the name of a label"


def _mapping_problems(
    group: str, mapping: Mapping[str, str], known: frozenset[str], form: re.Pattern[str], place: EntrySection
) -> Iterator[str]:
    for name, other in mapping.items():
        if name not in known:
            yield f"{place.of(f'{group}.{name}')}: '{name}' is not used{nearest(name, sorted(known))}"
        elif not form.fullmatch(other):
            yield f"{place.of(f'{group}.{name}')}: '{other:.60}' is not a name of Prometheus"


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
