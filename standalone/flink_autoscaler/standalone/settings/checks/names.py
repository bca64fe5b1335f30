"""Names of settings for messages: key, value and origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flink_autoscaler.standalone.settings.sources.entry import Value
from flink_autoscaler.standalone.settings.sources.keys import daemon_option
from flink_autoscaler.standalone.settings.sources.masking import shown


def named(key: str, values: Mapping[str, Value]) -> str:
    """Return a key that is set as in ``autoscaler.http.port = '1' (--set)``, without secrets."""
    return f"{key} = '{shown(key, values[key].text)}' ({values[key].origin})"


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """A section of a cluster in the flat configuration.

    Attributes:
        prefix: Of its keys, such as ``autoscaler.clusters.0.`` or ``autoscaler.clusters.0.yarn.``.
        values: The part of the flat configuration that is about the cluster.
    """

    prefix: str
    values: Mapping[str, Value]

    def of(self, name: str) -> str:
        """Return an option of the section with its value and origin, or that it is not set."""
        key = self.prefix + name
        return named(key, self.values) if key in self.values else f"{key} is not set ({self._origin()})"

    def sets(self, name: str) -> bool:
        """Tell whether an option of the section is set to something else than its default."""
        key = self.prefix + name
        option = daemon_option(key)
        return key in self.values and option is not None and self.values[key].text.strip() != option.default_text

    def below(self, name: str) -> list[str]:
        """Return the options of a section below that are set like this, such as ``yarn.url``."""
        start = f"{self.prefix}{name}."
        names = (key.removeprefix(self.prefix) for key in self.values if key.startswith(start))
        return [name for name in names if self.sets(name)]

    def _origin(self) -> str:
        return f"the cluster is in {next(iter(self.values.values())).origin}"
