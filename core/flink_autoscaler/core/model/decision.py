"""The result of a pass: to rescale or to hold, with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.model.value import value


class PassPhase(StrEnum):
    """How far a pass came."""

    DISABLED = "disabled"
    INVALID_CONFIG = "invalid_config"
    NOT_RUNNING = "not_running"
    NOT_READY = "not_ready"
    ERROR = "error"
    COLLECTING = "collecting"
    WINDOW_FILLING = "window_filling"
    EXECUTED = "executed"


class RestartSource(StrEnum):
    """What the assumed duration of a restart was taken from."""

    OPTION = "option"
    LONGEST_TRACKED = "longest tracked"
    MEASURED_OF_JOB = "measured of the job"
    MEASURED_OF_CLUSTER = "measured of the cluster"


@value
class RestartBasis:
    """What the assumed duration of a restart rests on.

    Attributes:
        source: Where it was taken from.
        own: Measured outages of the job that were at hand, also where they were too few.
        elsewhere: Other jobs of its cluster whose outages count with them, each as one.
    """

    source: RestartSource
    own: int = 0
    elsewhere: int = 0


@value
class RestartTime:
    """How long a restart is assumed to take, in seconds, and what that rests on; older records do not say that."""

    seconds: int
    basis: RestartBasis | None = None


@value
class Hold:
    """Leave the job as it is."""

    kind: ClassVar[str] = "hold"

    reasons: tuple[Reason, ...]

    @classmethod
    def because(cls, code: str, text: str) -> Hold:
        """Make a hold with one reason about the whole job."""
        return cls((Reason(code, text),))


@dataclass(frozen=True, slots=True)
class Rescale:
    """Change the parallelism of some vertices."""

    kind: ClassVar[str] = "rescale"

    summaries: ScalingSummaries
    reasons: tuple[Reason, ...]
