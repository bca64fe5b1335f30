"""Aligning a parallelism to key groups or source partitions, so that subtasks get even shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.options.job import AutoscalerOptions, LegacyAlignmentMode

OFF = "OFF"
BALANCED = "BALANCED"
EVENLY_SPREAD = "EVENLY_SPREAD"


@dataclass(frozen=True, slots=True)
class AlignmentRequest:
    """A target parallelism to align.

    Attributes:
        target: Wanted parallelism, within all limits, different from ``current``.
        partitions: Source partitions; 0 when unknown.
        lower: Least parallelism.
        upper: Greatest parallelism that the user allows.
        strategies: Ship strategies of the inputs.
    """

    vertex_id: VertexId
    current: int
    target: int
    partitions: int
    max_parallelism: int
    lower: int
    upper: int
    strategies: frozenset[ShipStrategy]

    @property
    def groups(self) -> int:
        """Key groups or partitions that are spread over the subtasks."""
        return self.partitions if self.partitions > 0 else self.max_parallelism

    @property
    def bound(self) -> int:
        """Greatest parallelism that makes sense."""
        return min(self.groups, self.max_parallelism, self.upper)

    @property
    def is_scale_up(self) -> bool:
        """Whether the target is above the current parallelism."""
        return self.target > self.current

    @property
    def is_applicable(self) -> bool:
        """Whether anything is spread by key groups or partitions at all."""
        return self.partitions > 0 or ShipStrategy.HASH in self.strategies


@dataclass(frozen=True, slots=True)
class Aligned:
    """An aligned parallelism, and whether a legacy mode had to deviate from the target (to be reported)."""

    parallelism: int
    is_limited: bool = False


AlignmentMode = Callable[[AlignmentRequest], Aligned]


def search(request: AlignmentRequest, *, accepts_less_load: bool) -> int | None:
    """Search upward from the target for a parallelism with even shares.

    Args:
        request: What to align; a scale-down is searched up to the current parallelism.
        accepts_less_load: Also accept a parallelism whose busiest subtask gets fewer groups than at the target.

    Returns:
        The first match; None when there is none up to the bound.
    """
    end = request.bound if request.is_scale_up else min(request.current, request.bound)
    share = request.groups // request.target
    for parallelism in range(request.target, end + 1):
        if request.groups % parallelism == 0:
            return parallelism
        if accepts_less_load and request.groups // parallelism < share:
            return parallelism
    return None


def off(request: AlignmentRequest) -> Aligned:
    """Keep the target."""
    return Aligned(request.target)


def balanced(request: AlignmentRequest) -> Aligned:
    """Take the next parallelism that lowers the load of the busiest subtask, or the target."""
    found = search(request, accepts_less_load=True) if request.is_applicable else None
    return Aligned(request.target if found is None else found)


def evenly_spread(request: AlignmentRequest) -> Aligned:
    """Take the next parallelism that divides the groups, or the target."""
    found = search(request, accepts_less_load=False) if request.is_applicable else None
    return Aligned(request.target if found is None else found)


def legacy_evenly_spread(request: AlignmentRequest) -> Aligned:
    """Like :func:`evenly_spread`, walking down where nothing is found above."""
    return _legacy(request, accepts_less_load=False)


def legacy_maximize_utilisation(request: AlignmentRequest) -> Aligned:
    """Like :func:`balanced`, walking down where nothing is found above."""
    return _legacy(request, accepts_less_load=True)


def _legacy(request: AlignmentRequest, *, accepts_less_load: bool) -> Aligned:
    if not request.is_applicable:
        return Aligned(request.target)
    found = search(request, accepts_less_load=accepts_less_load)
    return _walk_down(request) if found is None else Aligned(found)


def _walk_down(request: AlignmentRequest) -> Aligned:
    """Take the least parallelism whose subtasks have the same share as at the next larger share's edge."""
    groups, target = request.groups, request.target
    candidate = target
    while candidate > 0 and groups // candidate <= groups // target:
        candidate -= 1
    if candidate > 0 and groups % candidate != 0:
        candidate += 1
    candidate = max(candidate, request.lower)
    if (candidate <= request.current) if request.is_scale_up else (candidate >= request.current):
        return Aligned(request.current, is_limited=True)
    return Aligned(candidate, is_limited=candidate != target)


_BUILT_IN: dict[str, AlignmentMode] = {OFF: off, BALANCED: balanced, EVENLY_SPREAD: evenly_spread}
_LEGACY: dict[LegacyAlignmentMode, AlignmentMode] = {
    LegacyAlignmentMode.EVENLY_SPREAD: legacy_evenly_spread,
    LegacyAlignmentMode.MAXIMIZE_UTILISATION: legacy_maximize_utilisation,
}


def custom_mode_name(options: AutoscalerOptions) -> str | None:
    """Return the name of the custom mode that is configured, or None."""
    is_set = options.is_set(AutoscalerOptions.alignment_mode)
    return options.alignment_mode if is_set and options.alignment_mode not in _BUILT_IN else None


def built_in_mode(options: AutoscalerOptions) -> AlignmentMode:
    """Return the built-in mode that is configured; BALANCED stands in for a custom one."""
    if options.is_set(AutoscalerOptions.alignment_mode):
        return _BUILT_IN.get(options.alignment_mode, balanced)
    if options.is_set(AutoscalerOptions.legacy_alignment_mode):
        return _LEGACY[options.legacy_alignment_mode]
    return balanced
