"""One value of the configuration and one layer of values, as the sources give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Value:
    """Text of a value and where it was set.

    Attributes:
        text: The text; may be secret.
        origin: For people, such as ``/etc/autoscaler.yaml line 12`` or ``environment variable X``.
    """

    text: str = field(repr=False)
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source sets; problems and warnings are full sentences that name the place."""

    values: Mapping[str, Value] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def failed(problem: str) -> Layer:
    """Return the layer of a source that cannot be used at all."""
    return Layer(problems=(problem,))
