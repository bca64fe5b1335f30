"""Checks of the clusters: how their jobs are found, and how they are reached."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from flink_autoscaler.standalone.daemon.plugins import PluginGroup, unknown_plugin
from flink_autoscaler.standalone.settings.checks.access_checks import access_problems, access_warnings
from flink_autoscaler.standalone.settings.checks.names import ClusterSection
from flink_autoscaler.standalone.settings.schema.sections import ClusterSettings
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.entry import Value
from flink_autoscaler.standalone.settings.sources.placement import cluster_numbers

FLINK: Final = "flink"
YARN: Final = "yarn"
_EXPRESSION: Final = re.compile(r"^\^|\$$|(^|\W)\.[*+]")
"""Not ``com.acme.*``, which is a good pattern, too."""


def cluster_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is wrong with the configured clusters, one sentence per problem."""
    places = _places(settings, values)
    yield from _duplicate_names(places)
    for place, cluster in places:
        yield from _type_problems(cluster, place)
        yield from _url_problems(cluster, place)
        yield from access_problems(cluster, place, cluster.url)
        yield from access_problems(cluster.yarn, _of_yarn(place), cluster.yarn.url)


def cluster_warnings(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what looks like a mistake or a danger in the configured clusters, one sentence each."""
    places = _places(settings, values)
    yield from _shared_urls(places)
    for place, cluster in places:
        yield from access_warnings(cluster, place, cluster.url)
        yield from access_warnings(cluster.yarn, _of_yarn(place), cluster.yarn.url)
        patterns = {"include": cluster.include, "exclude": cluster.exclude, "yarn.names": cluster.yarn.names}
        for name in (name for name, texts in patterns.items() if any(map(_looks_like_an_expression, texts))):
            yield f"{place.of(name)}: looks like a regular expression; * stands for any text, and ? for one character"


def _places(settings: Settings, values: Mapping[str, Value]) -> list[tuple[ClusterSection, ClusterSettings]]:
    own: dict[str, dict[str, Value]] = {f"autoscaler.clusters.{number}.": {} for number in cluster_numbers(values)}
    for key, value in values.items():
        # Each cluster with its own keys: there may be hundreds of clusters.
        if (prefix := ".".join(key.split(".", 3)[:3]) + ".") in own:
            own[prefix][key] = value
    places = (ClusterSection(prefix, texts) for prefix, texts in own.items())
    return list(zip(places, settings.clusters, strict=True))


def _of_yarn(place: ClusterSection) -> ClusterSection:
    return ClusterSection(f"{place.prefix}yarn.", place.values)


def _duplicate_names(places: list[tuple[ClusterSection, ClusterSettings]]) -> Iterator[str]:
    counts = Counter(cluster.name for _, cluster in places)
    for name in (name for name, count in counts.items() if count > 1):
        same = [place for place, cluster in places if cluster.name == name]
        origins = (f"{place.prefix}name ({place.values[f'{place.prefix}name'].origin})" for place in same)
        yield f"the cluster name '{name}' is used more than once: {', '.join(origins)}"


def _type_problems(cluster: ClusterSettings, place: ClusterSection) -> Iterator[str]:
    if cluster.type not in (FLINK, YARN):
        if problem := unknown_plugin(PluginGroup.FETCHERS, cluster.type):
            yield f"{place.of('type')}: {problem}"
        return
    for name in place.below("parameters"):
        yield f"{place.of(name)}: clusters of type {cluster.type} have no parameters"
    if cluster.type == FLINK:
        for name in place.below("yarn"):
            yield f"{place.of(name)}: only for {place.prefix}type yarn, which is flink"


def _url_problems(cluster: ClusterSettings, place: ClusterSection) -> Iterator[str]:
    if cluster.type == FLINK and not cluster.url:
        yield f"{place.of('url')}: expected the URL of a JobManager, or {place.prefix}type yarn"
    if cluster.type == YARN and not cluster.yarn.url:
        yield f"{place.of('yarn.url')}: {place.prefix}type yarn needs the URL of a ResourceManager"
    if cluster.type == YARN and place.sets("url"):
        yield f"{place.of('url')}: only for {place.prefix}type flink; ResourceManagers are in {place.prefix}yarn.url"
    for name, urls in (("url", cluster.url), ("yarn.url", cluster.yarn.url)):
        for url in (url for url, count in Counter(urls).items() if count > 1):
            yield f"{place.of(name)}: {url} is there more than once"


def _shared_urls(places: list[tuple[ClusterSection, ClusterSettings]]) -> Iterator[str]:
    """Two clusters with one JobManager would scale the same jobs, unless each takes its own."""
    seen: dict[str, str] = {}
    for place, cluster in places:
        if cluster.include or cluster.exclude:
            continue
        for url in cluster.url:
            other = seen.setdefault(url, cluster.name)
            if other != cluster.name:
                yield f"{place.of('url')}: the cluster '{other}' has {url}, too; both will scale the same jobs"


def _looks_like_an_expression(pattern: str) -> bool:
    return _EXPRESSION.search(pattern) is not None
