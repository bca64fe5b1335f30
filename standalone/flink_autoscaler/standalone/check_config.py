"""The effective configuration with the origin of each value, for ``check-config``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flink_autoscaler.standalone.configuration import Configuration
from flink_autoscaler.standalone.declarations import DaemonOption, daemon_options
from flink_autoscaler.standalone.keys import daemon_keys, job_keys
from flink_autoscaler.standalone.masking import shown
from flink_autoscaler.standalone.settings import Cluster, Settings

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
        as_json: JSON with ``values`` (key, value, origin), ``clusters`` (name, url, interval and timeout in seconds,
            engine) and ``warnings``, instead of tables.

    Returns:
        Text that ends with a line end. Secrets are masked.
    """
    lines = effective_values(configuration)
    clusters = [_cluster(each) for each in settings.effective_clusters()]
    if as_json:
        document = {
            "values": [asdict(line) for line in lines],
            "clusters": clusters,
            "warnings": list(configuration.warnings),
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _as_tables(lines, clusters, configuration.warnings)


def _cluster(cluster: Cluster) -> dict[str, str | float]:
    return {
        "name": cluster.name,
        "url": cluster.endpoint.url,
        "interval": cluster.interval,
        "timeout": cluster.endpoint.timeout,
        "engine": cluster.engine.value,
    }


def _as_tables(lines: list[EffectiveValue], clusters: list[dict[str, str | float]], warnings: tuple[str, ...]) -> str:
    values = _table("key", "value", "origin")
    for line in lines:
        values.add_row(Text(line.key), Text("(unset)" if line.value is None else line.value), Text(line.origin))
    where = _table("cluster", "url", "interval (s)", "timeout (s)", "engine")
    for cluster in clusters:
        where.add_row(*(Text(f"{value:g}" if isinstance(value, float) else value) for value in cluster.values()))
    out = StringIO()
    console = Console(file=out, width=_WIDTH, force_terminal=False)
    console.print(values, where, *(Text(f"warning: {warning}") for warning in warnings), sep="\n")
    return out.getvalue()


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
