"""The options that say who knows the lag of a job's sources; part of the autoscaler's options."""

from __future__ import annotations

from dataclasses import dataclass

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import validate_pattern
from flink_autoscaler.core.options.declare import option, optional_option, positive_duration
from flink_autoscaler.core.options.option import OptionSet

ALL = "*"
_MAX_ENTRIES = 100


@dataclass(frozen=True, slots=True)
class VertexSetting:
    """Names that hold for the vertices that a pattern fits, in order."""

    pattern: str
    names: tuple[str, ...]


def parse_for_vertices(text: str) -> tuple[VertexSetting, ...]:
    """Read ``pattern=name,name;...``; an entry without a pattern holds for all vertices.

    Raises:
        ValueError: It cannot be read, or there are too many entries.
    """
    entries = syntax.parse_list(text)
    if len(entries) > _MAX_ENTRIES:
        raise ValueError(f"at most {_MAX_ENTRIES} entries, not {len(entries)}")
    return tuple(map(_entry, entries))


def _entry(entry: str) -> VertexSetting:
    pattern, equals, listed = entry.rpartition("=")
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    if not names or (equals and not pattern.strip()):
        raise ValueError(f"{syntax.abbreviate(entry)!r} is not pattern=name,name")
    return VertexSetting(validate_pattern(pattern.strip() or ALL), names)


GROUP_PARAMETERS = ("group.id", "properties.group.id", "kafka.group.id", "kafka.properties.group.id")
"""Global parameters of a job that name its consumer group, where ``lag.kafka.group`` does not."""


class LagOptions(OptionSet):
    """Who knows the lag of sources, and other numbers about vertices."""

    lag_sources = option(
        "lag.sources", parse_for_vertices, "", allowed="pattern=name,name or name,name; several separated by semicolons"
    )
    lag_kafka_group = optional_option("lag.kafka.group", str)
    lag_kafka_topics = option(
        "lag.kafka.topics",
        parse_for_vertices,
        "",
        allowed="pattern=topic,topic or topic,topic; several separated by semicolons",
    )
    lag_parameters = option("lag.parameters", syntax.parse_map, "")
    lag_max_age = option("lag.max-age", positive_duration, "60 s")
    arrival_rate_sources = option(
        "arrival-rate.sources",
        parse_for_vertices,
        "",
        allowed="pattern=name,name or name,name; several separated by semicolons",
    )
    floor_sources = option(
        "floor.sources",
        parse_for_vertices,
        "",
        allowed="pattern=name,name or name,name; several separated by semicolons",
    )

    @property
    def consumer_group(self) -> str:
        """The consumer group of the job; empty where nobody names one."""
        return self.lag_kafka_group or next(filter(None, map(self.configuration.get, GROUP_PARAMETERS)), "")
