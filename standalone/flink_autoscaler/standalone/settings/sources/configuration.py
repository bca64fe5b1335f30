"""The flat configuration: every key that was set, its text, and where it was set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from flink_autoscaler.standalone.settings.sources.files import read_installation, read_yaml
from flink_autoscaler.standalone.settings.sources.frame import framed
from flink_autoscaler.standalone.settings.sources.layer import Layer, Value
from flink_autoscaler.standalone.settings.sources.variables import read_environment, read_overrides

CONFIG_VARIABLE = "FLINK_AUTOSCALER_CONFIG"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What was set anywhere, the layer that wins already chosen. Defaults are not in it.

    Attributes:
        values: Text and origin by flat key, in the order in which keys were first set.
        problems: What has to be corrected before the configuration can be used, in full sentences.
        warnings: What was skipped or looks like a mistake, in full sentences.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def load_configuration(*, file: Path | None, environment: Mapping[str, str], overrides: Sequence[str]) -> Configuration:
    """Read all layers: Java installation, file, environment variables, overrides; later ones win.

    Args:
        file: The YAML file; None takes the one that ``FLINK_AUTOSCALER_CONFIG`` names, if any.
        environment: Environment variables, usually ``os.environ``.
        overrides: Texts ``key=value``, as given by ``--set``.

    Returns:
        The merged configuration. Nothing is raised here: what is wrong with any layer is in ``problems``, so that
        all of it is reported together (see :func:`flink_autoscaler.standalone.settings.loading.load_settings`).
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    frame = framed(
        {
            "installation": partial(read_installation, environment),
            "file": partial(read_yaml, file) if file is not None else Layer,
            "environment": partial(read_environment, environment),
            "overrides": partial(read_overrides, overrides),
        }
    )
    return Configuration(frame.values, _all(frame.problems), _all(frame.warnings))


def _all(told: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(told.values()))
