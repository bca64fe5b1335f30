"""What a check finds: a code for programs, a sentence for people, and the line of configuration that changes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Weight(StrEnum):
    """What a finding means for scaling.

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
class Fix:
    """A line of configuration, such as ``jobmanager.scheduler: adaptive``, and where it goes."""

    place: Place
    line: str

    @property
    def text(self) -> str:
        """The same for people."""
        return f"in {self.place}: {self.line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a cluster or a job.

    Attributes:
        code: Stable upper-snake-case word for programs.
        weight: What it means for scaling.
        text: One sentence for people, without a full stop.
        fix: What to write where; None where no line of configuration changes it.
        vertex_id: The vertex it is about; None for the whole job or cluster.
    """

    code: str
    weight: Weight
    text: str
    fix: Fix | None = None
    vertex_id: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The same for JSON; what is not there is null."""
        return {
            "code": self.code,
            "weight": self.weight.value,
            "text": self.text,
            "place": None if self.fix is None else self.fix.place.value,
            "line": None if self.fix is None else self.fix.line,
            "vertex_id": self.vertex_id,
        }


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with what is needed first and notes last, else in the order given."""
    return tuple(sorted(findings, key=lambda finding: list(Weight).index(finding.weight)))


def needed(code: str, text: str, fix: Fix | None = None, vertex_id: str | None = None) -> Finding:
    """Make a finding without whose remedy the job is not scaled."""
    return Finding(code, Weight.NEEDED, text, fix, vertex_id)


def limit(code: str, text: str, fix: Fix | None = None, vertex_id: str | None = None) -> Finding:
    """Make a finding that holds scaling within limits, or makes it dear."""
    return Finding(code, Weight.LIMIT, text, fix, vertex_id)


def note(code: str, text: str, fix: Fix | None = None, vertex_id: str | None = None) -> Finding:
    """Make a finding that is good to know."""
    return Finding(code, Weight.NOTE, text, fix, vertex_id)
