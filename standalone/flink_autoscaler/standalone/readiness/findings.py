"""What a check finds: a code for programs, a sentence for people, and the line of configuration that changes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """What a finding means for scaling, the gravest first.

    ``needed``: the job is not scaled before it is done. ``limit``: the job is scaled, but only so far, or at a price.
    ``note``: good to know.
    """

    NEEDED = "needed"
    LIMIT = "limit"
    NOTE = "note"


class Place(StrEnum):
    """Where a line of configuration belongs."""

    FLINK = "Flink's config.yaml"
    DAEMON = "autoscaler.yaml"
    JOB = "the job's pipeline.global-job-parameters"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a cluster or a job; JSON has its fields in this order.

    Attributes:
        code: Stable upper-snake-case word for programs.
        weight: What it means for scaling.
        text: One sentence for people, without a full stop.
        place: Where to write the line that changes it; None where no line of configuration does.
        line: That line, such as ``jobmanager.scheduler: adaptive``.
        vertex_id: The vertex it is about; None for the whole job or cluster.
    """

    code: str
    weight: Weight
    text: str
    place: Place | None = None
    line: str | None = None
    vertex_id: str | None = None
