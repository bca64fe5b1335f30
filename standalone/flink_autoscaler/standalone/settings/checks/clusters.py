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
from flink_autoscaler.standalone.settings.credentials import AUTHORIZATION, Credentials
from flink_autoscaler.standalone.settings.plugins import PluginGroup, unknown_plugin_problem
from flink_autoscaler.standalone.settings.schema.clusters import (
    AccessSettings,
    ClusterSettings,
    KerberosAuth,
    PrometheusSettings,
)
from flink_autoscaler.standalone.settings.schema.options import LISTS, daemon_option, match_option
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import (
    describe_setting,
    is_sensitive,
    read_secret_file,
    read_secret_variable,
)
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

_MAX_NAMED: Final = 3
_POINTERS: Final = ("file", "env-variable")
_SECRETS: Final = ("auth.password", "auth.token", "tls.key-password", "delegation-token")
_SENT_UNCHANGED: Final = ("auth.token", "delegation-token", "headers")
_TLS_KEY: Final = ("tls.key-file", "tls.key-password-file", "tls.key-password-env-variable")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A section of a list entry, most of them clusters, in the flat configuration.

    Attributes:
        prefix: Of its keys, such as ``autoscaler.clusters.0.`` or ``autoscaler.clusters.0.yarn.``.
        values: The part of the flat configuration that is about the entry; never empty.
        entry_kind: An entry is called.
    """

    prefix: str
    values: Mapping[str, Value]
    entry_kind: str = "cluster"

    def describe(self, name: str) -> str:
        """Return an option of the section with its value and origin, or that it is not set."""
        key = self.prefix + name
        if key in self.values:
            return describe_setting(key, self.values)
        return f"{key} is not set (the {self.entry_kind} is in {next(iter(self.values.values())).origin})"

    def is_set(self, name: str) -> bool:
        """Tell whether an option of the section is set to something else than its default."""
        key = self.prefix + name
        option = daemon_option(key)
        return key in self.values and option is not None and self.values[key].text.strip() != option.default_text

    def section(self, name: str) -> ConfigEntry:
        """Return a section of this one, such as ``yarn``."""
        return ConfigEntry(f"{self.prefix}{name}.", self.values, self.entry_kind)

    def set_children(self, name: str) -> list[str]:
        """Return the options of a section below that are set like this, such as ``yarn.url``."""
        start = f"{self.prefix}{name}."
        names = (key.removeprefix(self.prefix) for key in self.values if key.startswith(start))
        return [name for name in names if self.is_set(name)]


ConfiguredCluster = tuple[ConfigEntry, ClusterSettings]


def config_entries(list_key: str, values: Mapping[str, Value]) -> list[ConfigEntry]:
    """Return the entries of a list that are set, by ascending number; numbers may be left out."""
    own: dict[int, dict[str, Value]] = {}
    for key, value in values.items():
        if key.startswith(f"{list_key}.") and (place := match_option(key)) is not None:
            own.setdefault(int(place.placeholder_values[0]), {})[key] = value
    return [ConfigEntry(f"{list_key}.{number}.", own[number], LISTS[list_key]) for number in sorted(own)]


def configured_clusters(settings: Settings, values: Mapping[str, Value]) -> list[ConfiguredCluster]:
    """Return the configured clusters, each with where it was configured."""
    return list(zip(config_entries("autoscaler.clusters", values), settings.clusters, strict=True))


def cluster_problems(places: Sequence[ConfiguredCluster]) -> Iterator[str]:
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
            yield from (
                f"{place.describe(name)}: only for {chosen}" for name in place.set_children("metrics.prometheus")
            )


def cluster_warnings(places: Sequence[ConfiguredCluster]) -> Iterator[str]:
    """Yield what looks like a mistake or a danger in the configured clusters, one sentence each."""
    yield from _shared_urls(places)
    for place, cluster in places:
        yield from access_warnings(cluster, place, cluster.url)
        yield from access_warnings(cluster.yarn, place.section("yarn"), cluster.yarn.url)
        prometheus = cluster.metrics.prometheus
        yield from access_warnings(prometheus, place.section("metrics.prometheus"), prometheus.url)
        patterns = {"include": cluster.include, "exclude": cluster.exclude, "yarn.names": cluster.yarn.names}
        for name in (name for name, texts in patterns.items() if any(map(_EXPRESSION.search, texts))):
            yield (
                f"{place.describe(name)}: looks like a regular expression; * stands for any text, and ? for one"
                " character"
            )


def duplicate_names(named_places: Iterable[tuple[ConfigEntry, str]]) -> Iterator[str]:
    """Yield a sentence for every name that more than one entry has."""
    same: dict[str, list[ConfigEntry]] = defaultdict(list)
    for place, name in named_places:
        same[name].append(place)
    for name, found in same.items():
        if len(found) > 1:
            keys = [f"{place.prefix}name" for place in found[:_MAX_NAMED]]
            origins = ", ".join(f"{key} ({place.values[key].origin})" for key, place in zip(keys, found, strict=False))
            more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
            yield f"the {found[0].entry_kind} name '{name}' is used more than once: {origins}{more}"


def _type_problems(cluster: ClusterSettings, place: ConfigEntry) -> Iterator[str]:
    if cluster.type not in (FLINK, YARN):
        if problem := unknown_plugin_problem(PluginGroup.FETCHERS, cluster.type):
            yield f"{place.describe('type')}: {problem}"
        return
    for name in place.set_children("parameters"):
        yield f"{place.describe(name)}: clusters of type {cluster.type} have no parameters"
    if cluster.type == FLINK:
        for name in place.set_children("yarn"):
            yield f"{place.describe(name)}: only for {place.prefix}type yarn, which is flink"


def _url_problems(cluster: ClusterSettings, place: ConfigEntry) -> Iterator[str]:
    if cluster.type == FLINK and not cluster.url:
        yield f"{place.describe('url')}: expected the URL of a JobManager, or {place.prefix}type yarn"
    if cluster.type == YARN and not cluster.yarn.url:
        yield f"{place.describe('yarn.url')}: {place.prefix}type yarn needs the URL of a ResourceManager"
    if cluster.type == YARN and place.is_set("url"):
        yield (
            f"{place.describe('url')}: only for {place.prefix}type flink; ResourceManagers are in"
            f" {place.prefix}yarn.url"
        )
    for name, urls in (("url", cluster.url), ("yarn.url", cluster.yarn.url)):
        for url in (url for url, count in Counter(urls).items() if count > 1):
            yield f"{place.describe(name)}: {url} is there more than once"


def _shared_urls(places: Sequence[ConfiguredCluster]) -> Iterator[str]:
    """Two clusters with one JobManager would scale the same jobs, unless each takes its own."""
    seen: dict[str, str] = {}
    for place, cluster in places:
        if cluster.include or cluster.exclude:
            continue
        for url in cluster.url:
            other = seen.setdefault(url, cluster.name)
            if other != cluster.name:
                yield f"{place.describe('url')}: the cluster '{other}' has {url}, too; both will scale the same jobs"


def _prometheus_problems(prometheus: PrometheusSettings, place: ConfigEntry) -> Iterator[str]:
    # Imported here: few clusters have metrics from Prometheus, and every command checks its settings.
    from flink_autoscaler.clients.prometheus.queries import LABELS, NAMES  # noqa: PLC0415

    if len(prometheus.url) != 1:
        yield f"{place.describe('url')}: metrics.source prometheus needs the URL of one server, such as http://prometheus:9090"
    yield from access_problems(prometheus, place, prometheus.url)
    yield from _mapping_problems("names", prometheus.names, NAMES, _METRIC, place)
    yield from _mapping_problems("labels", prometheus.labels, frozenset(LABELS), _LABEL, place)
    for name, value in prometheus.selector.items():
        if not _LABEL.fullmatch(name):
            yield (
                f"{place.describe(f'selector.{name}')}: not the name of a label; expected letters, digits and"
                " underscores"
            )
        elif value.startswith("~") and not _is_pattern(value[1:]):
            yield f"{place.describe(f'selector.{name}')}: what follows ~ is not a regular expression"
    for name in prometheus.replica_labels or ():
        if not _LABEL.fullmatch(name):
            yield f"{place.describe('replica-labels')}: '{name}' is not the name of a label"


def _mapping_problems(
    group: str, mapping: Mapping[str, str], known: frozenset[str], form: re.Pattern[str], place: ConfigEntry
) -> Iterator[str]:
    for name, other in mapping.items():
        if name not in known:
            yield f"{place.describe(f'{group}.{name}')}: '{name}' is not used{closest_key(name, sorted(known))}"
        elif not form.fullmatch(other):
            yield f"{place.describe(f'{group}.{name}')}: '{other:.60}' is not a name of Prometheus"


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def access_problems(settings: AccessSettings, place: ConfigEntry, urls: Sequence[str]) -> Iterator[str]:
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
        if place.is_set(f"{name}-file") and place.is_set(f"{name}-env-variable"):
            yield (
                f"{place.describe(f'{name}-file')} and {place.describe(f'{name}-env-variable')}: expected one of"
                " the two"
            )
    unreadable = [*_secret_problems(place), *_keytab_problems(settings, place)]
    yield from unreadable or _certificate_problems(settings, place)


def access_warnings(settings: AccessSettings, place: ConfigEntry, urls: Sequence[str]) -> Iterator[str]:
    """Yield what looks dangerous about how a service is reached: secrets that everybody on the way can read."""
    exposed = [url for url in urls if url.startswith("http:") and not _is_loopback(urlsplit(url).hostname or "")]
    sent = _sent_secret_option(settings, place)
    if exposed and sent is not None:
        yield f"{place.describe(sent)}: sent to {exposed[0]} without encryption, so that others can read it; use https"


def _auth_problems(kind: str, place: ConfigEntry) -> Iterator[str]:
    chosen = f"{place.prefix}auth.kind {kind}"
    for names in _NEEDED_BY.get(kind, ()):
        if not any(map(place.is_set, names)):
            others = "".join(f", nor is {place.prefix}{name}" for name in names[1:])
            yield f"{place.describe(names[0])}{others}: {chosen} needs it"
    if kind == "kerberos":
        try:
            authenticator_for(Endpoint("", kerberos=Kerberos()))
        except ConfigError as error:
            yield f"{place.prefix}{error}"


def _tls_problems(place: ConfigEntry, urls: Sequence[str]) -> Iterator[str]:
    names = [
        name for name in ("tls.ca-file", "tls.certificate-file", *_TLS_KEY, "tls.verify-host") if place.is_set(name)
    ]
    if names and urls and not any(url.startswith("https:") for url in urls):
        yield f"{place.describe(names[0])}: of no use for {urls[0]}; use https, or remove it"
    for name in names:
        if name in _TLS_KEY and not place.is_set("tls.certificate-file"):
            yield f"{place.describe(name)}: of no use without {place.prefix}tls.certificate-file"


def _header_problems(settings: AccessSettings, place: ConfigEntry) -> Iterator[str]:
    names = [name for group in _GROUPS for name in place.set_children(group)]
    counts = Counter(_header_name(name) for name in names)
    chosen = f"{place.prefix}auth.kind {settings.auth.kind}"
    for name in names:
        header = _header_name(name)
        if not _HEADER_NAME.fullmatch(header):
            yield f"{place.describe(name)}: not the name of a header; expected letters, digits and hyphens"
        elif header in _OUR_HEADERS:
            yield f"{place.describe(name)}: the daemon sets this header itself"
        elif counts[header] > 1:
            yield f"{place.describe(name)}: this header is set more than once, in {', '.join(_GROUPS)}"
        elif header == AUTHORIZATION.lower() and settings.auth.kind != "none":
            yield f"{place.describe(name)}: {chosen} sets this header; remove one of the two"
    for header, text in settings.headers.items():
        if not _is_sendable(text):
            yield f"{place.describe(f'headers.{header}')}: expected printable ASCII"


def _header_name(name: str) -> str:
    return name.partition(".")[2].lower()


def _secret_problems(place: ConfigEntry) -> Iterator[str]:
    """Read every secret, as a pass would do."""
    for ending, headers, read in (
        ("file", "headers-file", read_secret_file),
        ("env-variable", "headers-env", read_secret_variable),
    ):
        for name in filter(place.is_set, [*(f"{name}-{ending}" for name in _SECRETS), *place.set_children(headers)]):
            try:
                text = read(place.describe(name), place.values[place.prefix + name].text.strip())
            except ConfigError as error:
                yield str(error)
                continue
            if name.startswith(_SENT_UNCHANGED) and not _is_sendable(text):
                yield f"{place.describe(name)}: what it holds cannot be sent; expected printable ASCII"


def _keytab_problems(settings: AccessSettings, place: ConfigEntry) -> Iterator[str]:
    auth = settings.auth
    if not isinstance(auth, KerberosAuth) or auth.keytab is None:
        return
    try:
        if not read_bytes(Path(auth.keytab)):
            yield f"{place.describe('auth.keytab')}: the file is empty"
    except FileUnreadableError as error:
        yield f"{place.describe('auth.keytab')}: {error}"


def _certificate_problems(settings: AccessSettings, place: ConfigEntry) -> Iterator[str]:
    if not any(map(place.is_set, ("tls.ca-file", "tls.certificate-file"))):
        return
    try:
        client_context(Credentials(settings, place.prefix).tls())
    except ConfigError as error:
        yield f"{place.prefix}{error}"


def _sent_secret_option(settings: AccessSettings, place: ConfigEntry) -> str | None:
    """Return an option whose secret is part of requests."""
    sources = [f"{name}-{end}" for name in ("auth.password", "auth.token", "delegation-token") for end in _POINTERS]
    names = [*filter(place.is_set, sources), *place.set_children("headers-env"), *place.set_children("headers-file")]
    names += [f"headers.{name}" for name in settings.headers if is_sensitive(name) or name.lower() == "authorization"]
    return next(iter(names), None)


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
