"""Checks of the clusters: how their jobs and metrics are found, and how their services are reached."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.clients.auth.authentication import authenticator_for
from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.standalone.settings.credentials import AUTHORIZATION, Access
from flink_autoscaler.standalone.settings.plugins import PluginGroup, unknown_plugin
from flink_autoscaler.standalone.settings.schema.clusters import (
    AccessSettings,
    ClusterSettings,
    KerberosAuth,
    PrometheusSettings,
)
from flink_autoscaler.standalone.settings.schema.options import LISTS, daemon_option, place_of
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import from_file, from_variable, is_sensitive, named
from flink_autoscaler.standalone.settings.sources.layer import FileUnreadableError, Value, read_bytes

FLINK: Final = "flink"
YARN: Final = "yarn"
_EXPRESSION: Final = re.compile(r"^\^|\$$|(^|\W)\.[*+]")
"""Not ``com.acme.*``, which is a good pattern, too."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OUR_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie", "host", "transfer-encoding"}
)
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)
_GROUPS: Final = ("headers", "headers-env", "headers-file")
_NEEDED_BY: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "basic": (("auth.username",), ("auth.password-file", "auth.password-env-variable")),
    "bearer": (("auth.token-file", "auth.token-env-variable"),),
    "simple": (("auth.username",),),
}
"""Of each group one has to be set."""

_MOST_NAMED: Final = 3
_POINTERS: Final = ("file", "env-variable")
_SECRETS: Final = ("auth.password", "auth.token", "tls.key-password", "delegation-token")
_SENT_AS_THEY_ARE: Final = ("auth.token", "delegation-token", "headers")
_TLS_KEY: Final = ("tls.key-file", "tls.key-password-file", "tls.key-password-env-variable")


@dataclass(frozen=True, slots=True)
class EntrySection:
    """A section of a list entry, most of them clusters, in the flat configuration.

    Attributes:
        prefix: Of its keys, such as ``autoscaler.clusters.0.`` or ``autoscaler.clusters.0.yarn.``.
        values: The part of the flat configuration that is about the entry; never empty.
        what: An entry is called.
    """

    prefix: str
    values: Mapping[str, Value]
    what: str = "cluster"

    def of(self, name: str) -> str:
        """Return an option of the section with its value and origin, or that it is not set."""
        key = self.prefix + name
        if key in self.values:
            return named(key, self.values)
        return f"{key} is not set (the {self.what} is in {next(iter(self.values.values())).origin})"

    def sets(self, name: str) -> bool:
        """Tell whether an option of the section is set to something else than its default."""
        key = self.prefix + name
        option = daemon_option(key)
        return key in self.values and option is not None and self.values[key].text.strip() != option.default_text

    def section(self, name: str) -> EntrySection:
        """Return a section of this one, such as ``yarn``."""
        return EntrySection(f"{self.prefix}{name}.", self.values, self.what)

    def below(self, name: str) -> list[str]:
        """Return the options of a section below that are set like this, such as ``yarn.url``."""
        start = f"{self.prefix}{name}."
        names = (key.removeprefix(self.prefix) for key in self.values if key.startswith(start))
        return [name for name in names if self.sets(name)]


PlacedCluster = tuple[EntrySection, ClusterSettings]


def entries(list_key: str, values: Mapping[str, Value]) -> list[EntrySection]:
    """Return the entries of a list that are set, by ascending number; numbers may be left out."""
    own: dict[int, dict[str, Value]] = {}
    for key, value in values.items():
        if key.startswith(f"{list_key}.") and (place := place_of(key)) is not None:
            own.setdefault(int(place.filled[0]), {})[key] = value
    return [EntrySection(f"{list_key}.{number}.", own[number], LISTS[list_key]) for number in sorted(own)]


def cluster_places(settings: Settings, values: Mapping[str, Value]) -> list[PlacedCluster]:
    """Return the configured clusters, each with where it was configured."""
    return list(zip(entries("autoscaler.clusters", values), settings.clusters, strict=True))


def cluster_problems(places: Sequence[PlacedCluster]) -> Iterator[str]:
    """Yield what is wrong with the configured clusters, one sentence per problem. Reads the files that are named."""
    yield from duplicate_names((place, cluster.name) for place, cluster in places)
    for place, cluster in places:
        yield from _type_problems(cluster, place)
        yield from _url_problems(cluster, place)
        yield from access_problems(cluster, place, cluster.url)
        yield from access_problems(cluster.yarn, place.section("yarn"), cluster.yarn.url)
        if cluster.metrics.source == "prometheus":
            yield from _prometheus_problems(cluster.metrics.prometheus, place.section("metrics.prometheus"))
        else:
            chosen = f"{place.prefix}metrics.source prometheus, which is rest"
            yield from (f"{place.of(name)}: only for {chosen}" for name in place.below("metrics.prometheus"))


def cluster_warnings(places: Sequence[PlacedCluster]) -> Iterator[str]:
    """Yield what looks like a mistake or a danger in the configured clusters, one sentence each."""
    yield from _shared_urls(places)
    for place, cluster in places:
        yield from access_warnings(cluster, place, cluster.url)
        yield from access_warnings(cluster.yarn, place.section("yarn"), cluster.yarn.url)
        prometheus = cluster.metrics.prometheus
        yield from access_warnings(prometheus, place.section("metrics.prometheus"), prometheus.url)
        patterns = {"include": cluster.include, "exclude": cluster.exclude, "yarn.names": cluster.yarn.names}
        for name in (name for name, texts in patterns.items() if any(map(_EXPRESSION.search, texts))):
            yield f"{place.of(name)}: looks like a regular expression; * stands for any text, and ? for one character"


def duplicate_names(named_places: Iterable[tuple[EntrySection, str]]) -> Iterator[str]:
    """Yield a sentence for every name that more than one entry has."""
    same: dict[str, list[EntrySection]] = defaultdict(list)
    for place, name in named_places:
        same[name].append(place)
    for name, found in same.items():
        if len(found) > 1:
            keys = [f"{place.prefix}name" for place in found[:_MOST_NAMED]]
            origins = ", ".join(f"{key} ({place.values[key].origin})" for key, place in zip(keys, found, strict=False))
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            yield f"the {found[0].what} name '{name}' is used more than once: {origins}{more}"


def _type_problems(cluster: ClusterSettings, place: EntrySection) -> Iterator[str]:
    if cluster.type not in (FLINK, YARN):
        if problem := unknown_plugin(PluginGroup.FETCHERS, cluster.type):
            yield f"{place.of('type')}: {problem}"
        return
    for name in place.below("parameters"):
        yield f"{place.of(name)}: clusters of type {cluster.type} have no parameters"
    if cluster.type == FLINK:
        for name in place.below("yarn"):
            yield f"{place.of(name)}: only for {place.prefix}type yarn, which is flink"


def _url_problems(cluster: ClusterSettings, place: EntrySection) -> Iterator[str]:
    if cluster.type == FLINK and not cluster.url:
        yield f"{place.of('url')}: expected the URL of a JobManager, or {place.prefix}type yarn"
    if cluster.type == YARN and not cluster.yarn.url:
        yield f"{place.of('yarn.url')}: {place.prefix}type yarn needs the URL of a ResourceManager"
    if cluster.type == YARN and place.sets("url"):
        yield f"{place.of('url')}: only for {place.prefix}type flink; ResourceManagers are in {place.prefix}yarn.url"
    for name, urls in (("url", cluster.url), ("yarn.url", cluster.yarn.url)):
        for url in (url for url, count in Counter(urls).items() if count > 1):
            yield f"{place.of(name)}: {url} is there more than once"


def _shared_urls(places: Sequence[PlacedCluster]) -> Iterator[str]:
    """Two clusters with one JobManager would scale the same jobs, unless each takes its own."""
    seen: dict[str, str] = {}
    for place, cluster in places:
        if cluster.include or cluster.exclude:
            continue
        for url in cluster.url:
            other = seen.setdefault(url, cluster.name)
            if other != cluster.name:
                yield f"{place.of('url')}: the cluster '{other}' has {url}, too; both will scale the same jobs"


def _prometheus_problems(prometheus: PrometheusSettings, place: EntrySection) -> Iterator[str]:
    # Imported here: few clusters have metrics from Prometheus, and every command checks its settings.
    from flink_autoscaler.clients.prometheus.questions import LABELS, NAMES  # noqa: PLC0415

    if len(prometheus.url) != 1:
        yield f"{place.of('url')}: metrics.source prometheus needs the URL of one server, such as http://prometheus:9090"
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
            yield f"{place.of(f'{group}.{name}')}: '{name}' is not used{closest_key(name, sorted(known))}"
        elif not form.fullmatch(other):
            yield f"{place.of(f'{group}.{name}')}: '{other:.60}' is not a name of Prometheus"


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def access_problems(settings: AccessSettings, place: EntrySection, urls: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with how a service is reached. Reads the files that are named.

    Args:
        settings: The section.
        place: Where it was configured.
        urls: Of the service; empty where they are found out later.
    """
    yield from _auth_problems(settings.auth.kind, place)
    yield from _header_problems(settings, place)
    yield from _tls_problems(place, urls)
    for name in _SECRETS:
        if place.sets(f"{name}-file") and place.sets(f"{name}-env-variable"):
            yield f"{place.of(f'{name}-file')} and {place.of(f'{name}-env-variable')}: expected one of the two"
    unreadable = [*_secret_problems(place), *_keytab_problems(settings, place)]
    yield from unreadable or _certificate_problems(settings, place)


def access_warnings(settings: AccessSettings, place: EntrySection, urls: Sequence[str]) -> Iterator[str]:
    """Yield what looks dangerous about how a service is reached: secrets that everybody on the way can read."""
    exposed = [url for url in urls if url.startswith("http:") and not _is_loopback(urlsplit(url).hostname or "")]
    sent = _sent_secret(settings, place)
    if exposed and sent is not None:
        yield f"{place.of(sent)}: sent to {exposed[0]} without encryption, so that others can read it; use https"


def _auth_problems(kind: str, place: EntrySection) -> Iterator[str]:
    chosen = f"{place.prefix}auth.kind {kind}"
    for names in _NEEDED_BY.get(kind, ()):
        if not any(map(place.sets, names)):
            others = "".join(f", nor is {place.prefix}{name}" for name in names[1:])
            yield f"{place.of(names[0])}{others}: {chosen} needs it"
    if kind == "kerberos":
        try:
            authenticator_for(Endpoint("", kerberos=Kerberos()))
        except ConfigError as error:
            yield f"{place.prefix}{error}"


def _tls_problems(place: EntrySection, urls: Sequence[str]) -> Iterator[str]:
    names = [name for name in ("tls.ca-file", "tls.certificate-file", *_TLS_KEY, "tls.verify-host") if place.sets(name)]
    if names and urls and not any(url.startswith("https:") for url in urls):
        yield f"{place.of(names[0])}: of no use for {urls[0]}; use https, or remove it"
    for name in names:
        if name in _TLS_KEY and not place.sets("tls.certificate-file"):
            yield f"{place.of(name)}: of no use without {place.prefix}tls.certificate-file"


def _header_problems(settings: AccessSettings, place: EntrySection) -> Iterator[str]:
    names = [name for group in _GROUPS for name in place.below(group)]
    counts = Counter(_header(name) for name in names)
    chosen = f"{place.prefix}auth.kind {settings.auth.kind}"
    for name in names:
        header = _header(name)
        if not _HEADER_NAME.fullmatch(header):
            yield f"{place.of(name)}: not the name of a header; expected letters, digits and hyphens"
        elif header in _OUR_HEADERS:
            yield f"{place.of(name)}: the daemon sets this header itself"
        elif counts[header] > 1:
            yield f"{place.of(name)}: this header is set more than once, in {', '.join(_GROUPS)}"
        elif header == AUTHORIZATION.lower() and settings.auth.kind != "none":
            yield f"{place.of(name)}: {chosen} sets this header; remove one of the two"
    for header, text in settings.headers.items():
        if not _is_sendable(text):
            yield f"{place.of(f'headers.{header}')}: expected printable ASCII"


def _header(name: str) -> str:
    return name.partition(".")[2].lower()


def _secret_problems(place: EntrySection) -> Iterator[str]:
    """Read every secret, as a pass would do."""
    for ending, headers, read in (("file", "headers-file", from_file), ("env-variable", "headers-env", from_variable)):
        for name in filter(place.sets, [*(f"{name}-{ending}" for name in _SECRETS), *place.below(headers)]):
            try:
                text = read(place.of(name), place.values[place.prefix + name].text.strip())
            except ConfigError as error:
                yield str(error)
                continue
            if name.startswith(_SENT_AS_THEY_ARE) and not _is_sendable(text):
                yield f"{place.of(name)}: what it holds cannot be sent; expected printable ASCII"


def _keytab_problems(settings: AccessSettings, place: EntrySection) -> Iterator[str]:
    auth = settings.auth
    if not isinstance(auth, KerberosAuth) or auth.keytab is None:
        return
    try:
        if not read_bytes(Path(auth.keytab)):
            yield f"{place.of('auth.keytab')}: the file is empty"
    except FileUnreadableError as error:
        yield f"{place.of('auth.keytab')}: {error}"


def _certificate_problems(settings: AccessSettings, place: EntrySection) -> Iterator[str]:
    if not any(map(place.sets, ("tls.ca-file", "tls.certificate-file"))):
        return
    try:
        client_context(Access(settings, place.prefix).tls())
    except ConfigError as error:
        yield f"{place.prefix}{error}"


def _sent_secret(settings: AccessSettings, place: EntrySection) -> str | None:
    """Return an option whose secret is part of requests."""
    sources = [f"{name}-{end}" for name in ("auth.password", "auth.token", "delegation-token") for end in _POINTERS]
    names = [*filter(place.sets, sources), *place.below("headers-env"), *place.below("headers-file")]
    names += [f"headers.{name}" for name in settings.headers if is_sensitive(name) or name.lower() == "authorization"]
    return next(iter(names), None)


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
