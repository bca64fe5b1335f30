"""The effective configuration with the origin of each value, for ``check-config``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flink_autoscaler.standalone.settings.loading import warnings_of
from flink_autoscaler.standalone.settings.schema.clusters import AccessSettings, YarnSettings
from flink_autoscaler.standalone.settings.schema.options import DaemonOption, daemon_keys, daemon_options, job_keys
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from flink_autoscaler.standalone.settings.secrets import shown
from flink_autoscaler.standalone.settings.sources.configuration import Configuration

DEFAULT = "default"
_WIDTH = 160


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One line of the effective configuration.

    Attributes:
        key: The key.
        value: Its text with secrets masked; None when it is unset.
        origin: Where the text comes from; ``default`` where nobody set it.
    """

    key: str
    value: str | None
    origin: str


def effective_values(configuration: Configuration) -> list[EffectiveValue]:
    """Return a line for every option without placeholders and for every other key that is set, sorted by key.

    An old key that sets an option is named in the origin.
    """
    lines = [_line(option.key, _keys(option), option.default_text, configuration) for option in _plain_options()]
    declared = {option.key: option for option in job_keys().values()}
    lines += [_line(key, option.keys, option.default_text, configuration) for key, option in declared.items()]
    return sorted([*lines, *_others(configuration)], key=lambda line: line.key)


def _plain_options() -> Iterator[DaemonOption]:
    return (option for option in daemon_options() if not option.is_pattern)


def _keys(option: DaemonOption) -> tuple[str, ...]:
    return (option.key, *option.old_keys)


def _line(key: str, keys: tuple[str, ...], default: str, configuration: Configuration) -> EffectiveValue:
    for candidate in keys:
        if candidate in configuration.values:
            value = configuration.values[candidate]
            origin = value.origin if candidate == key else f"{value.origin}, as {candidate}"
            return EffectiveValue(key, shown(candidate, value.text), origin)
    return EffectiveValue(key, default or None, DEFAULT)


def _others(configuration: Configuration) -> Iterator[EffectiveValue]:
    for key, value in configuration.values.items():
        if key not in job_keys() and key not in daemon_keys():
            yield EffectiveValue(key, shown(key, value.text), value.origin)


def render_effective(configuration: Configuration, settings: Settings, as_json: bool) -> str:
    """Return the effective configuration and clusters as text for a terminal, or as one JSON document.

    Args:
        configuration: Where the values came from.
        settings: What they came to.
        as_json: JSON with ``values`` (key, value, origin), ``clusters`` (name, type, url, interval and timeout in
            seconds, how it is reached, which jobs, ...) and ``warnings``, instead of tables.

    Returns:
        Text that ends with a line end. Secrets are masked.
    """
    lines = effective_values(configuration)
    clusters = [_cluster(each) for each in settings.effective_clusters()]
    warnings = warnings_of(configuration, settings)
    if as_json:
        document = {
            "values": [asdict(line) for line in lines],
            "clusters": clusters,
            "warnings": list(warnings),
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _as_tables(lines, clusters, warnings)


def _cluster(cluster: Cluster) -> dict[str, Any]:
    """Return what holds for a cluster. Of secrets only where they come from is known here."""
    settings = cluster.settings
    document = {
        "name": cluster.name,
        "type": settings.type,
        "url": cluster.shown_url,
        "interval": cluster.interval,
        "timeout": cluster.endpoint.timeout,
        "engine": cluster.engine.value,
        "max_connections": settings.max_connections,
        **_access(settings),
        "include": list(settings.include),
        "exclude": list(settings.exclude),
        "job_user_config": settings.job_user_config,
        "options": {key: shown(key, text) for key, text in settings.options.items()},
    }
    return document | ({"yarn": _yarn(settings.yarn)} if settings.yarn.url else {})


def _access(settings: AccessSettings) -> dict[str, Any]:
    headers = (settings.headers, settings.headers_env, settings.headers_file)
    return {
        "auth": settings.auth.kind.value,
        "headers": sorted({name for group in headers for name in group}),
        "tls": settings.tls.model_dump(exclude_none=True),
    }


def _yarn(settings: YarnSettings) -> dict[str, Any]:
    filters = {name: list(getattr(settings, name)) for name in ("types", "queues", "users", "tags", "names")}
    return {**_access(settings), **filters, "access": settings.access.value, "headroom": settings.headroom}


def _as_tables(lines: list[EffectiveValue], clusters: list[dict[str, Any]], warnings: tuple[str, ...]) -> str:
    values = _table("key", "value", "origin")
    for line in lines:
        values.add_row(Text(line.key), Text("(unset)" if line.value is None else line.value), Text(line.origin))
    where = _table("cluster", "type", "url", "auth", "jobs", "interval (s)", "timeout (s)", "engine")
    for cluster in clusters:
        where.add_row(*map(Text, _cells(cluster)))
    out = StringIO()
    console = Console(file=out, width=_WIDTH, force_terminal=False)
    console.print(values, where, *(Text(f"warning: {warning}") for warning in warnings), sep="\n")
    return out.getvalue()


def _cells(cluster: Mapping[str, Any]) -> Iterator[str]:
    jobs = [*cluster["include"], *(f"not {pattern}" for pattern in cluster["exclude"])]
    auth = cluster["auth"] if "yarn" not in cluster else f"{cluster['auth']}, YARN: {cluster['yarn']['auth']}"
    yield from (cluster["name"], cluster["type"], cluster["url"], auth, ", ".join(jobs) or "all")
    yield from (f"{cluster['interval']:g}", f"{cluster['timeout']:g}", cluster["engine"])


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
