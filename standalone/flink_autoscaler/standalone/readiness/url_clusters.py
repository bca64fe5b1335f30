"""Clusters that are given by URLs on the command line, as settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.schema.types import parse_base_urls

DEFAULT_URL: Final = "http://localhost:8081"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_ADDRESS: Final = re.compile(r"[\d.]++|[^:\n]*+:.*+", re.ASCII)
_MAX_NAME_LENGTH: Final = 50
"""Characters of a name; a port or number may follow."""


@dataclass(frozen=True, slots=True)
class UrlCluster:
    """A cluster as it was given.

    Attributes:
        options: How it is reached, by option of a cluster entry; no secrets, only where they are.
    """

    name: str
    url: str
    options: Mapping[str, str] = field(default_factory=dict)


def clusters_from_urls(urls: Sequence[str], access: Mapping[str, str]) -> tuple[UrlCluster, ...]:
    """Name the clusters behind some URLs, each by its host.

    Args:
        urls: As typed.
        access: Options of a cluster entry that hold for all of them; those of TLS for https alone, if there is any.

    Raises:
        ConfigError: A URL cannot be used, or is there twice.
    """
    read = [_validate_url(url) for url in urls]
    twice = next((url for url in read if read.count(url) > 1), None)
    if twice is not None:
        raise ConfigError(f"--jobmanager-url {twice}: is there more than once")
    has_tls = any(url.startswith("https:") for url in read)
    plain = {key: value for key, value in access.items() if not (has_tls and key.startswith("tls."))}
    return tuple(
        UrlCluster(name, url, access if url.startswith("https:") else plain)
        for name, url in zip(_names(read), read, strict=True)
    )


def settings_of(clusters: Sequence[UrlCluster], overrides: Sequence[str] = ()) -> Settings:
    """Return settings for some clusters and for nothing else, and set up the log.

    Neither files nor environment variables count.

    Args:
        clusters: At least one.
        overrides: Further texts ``key=value``.

    Raises:
        ConfigError: Something is wrong; one line per problem.
    """
    own = ["autoscaler.dry-run=true", "autoscaler.engine.kind=inline"]
    for number, cluster in enumerate(clusters):
        values = {"name": cluster.name, "url": cluster.url, **cluster.options}
        own += [f"autoscaler.clusters.{number}.{key}={value}" for key, value in values.items()]
    quiet = "autoscaler.log.level=error"  # what goes wrong is told as the outcome
    return SettingsLoader(overrides=[quiet, *overrides, *own], environment={}).read(sets_log=True)


def _validate_url(url: str) -> str:
    try:
        (read,) = parse_base_urls(url)
    except ValueError as error:
        hint = f"; did you mean http://{url}?" if "://" not in url and "@" not in url and url.strip() else ""
        shown = "" if "@" in url else f" '{url}'"
        raise ConfigError(f"--jobmanager-url{shown}: expected {_reason(error)}{hint}") from error
    return read


def _reason(error: ValueError) -> str:
    text = str(error)
    return (
        "one URL; several clusters take --jobmanager-url several times"
        if "unpack" in text
        else f"{text}, such as {DEFAULT_URL}"
    )


def _names(urls: Sequence[str]) -> Iterator[str]:
    taken: set[str] = set()
    for url in urls:
        name = next(each for each in _candidates(url) if each not in taken)
        taken.add(name)
        yield name


def _candidates(url: str) -> Iterator[str]:
    """Yield names for a cluster, the shortest first: ``flink-prod`` of ``http://flink-prod.example:8081``."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    label = host if _ADDRESS.fullmatch(host) else host.partition(".")[0]
    base = _NOT_IN_NAMES.sub("-", label)[:_MAX_NAME_LENGTH].strip("-.") or "flink"
    yield base
    if parts.port is not None:
        yield f"{base}-{parts.port}"
    yield from (f"{base}-{number}" for number in range(2, 1 << 16))
