"""When a pass is worth recording with its inputs, and where records are kept.

A job that is looked at every few seconds mostly comes to the same result. A pass is recorded when it decided
something, when it came to something else than the last one that was recorded, or when that is long enough ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from flink_autoscaler.core.model.decision import PassPhase, Rescale
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

PATIENCE: Final = 10
"""What changes with every breath, such as which reasons apply, is recorded at most so often per interval."""

_DIGEST: Final = 8
"""Bytes: two passes in a row that differ are taken for the same once in 10^19 times."""


def should_record(request: PassRequest, outcome: PassOutcome) -> bool:
    """Tell whether a pass is to be recorded.

    Args:
        request: With the last pass that was recorded; without one, nothing is.
        outcome: What the pass came to.
    """
    last = request.recorded
    if last is None:
        return False
    if isinstance(outcome.decision, Rescale):
        return True
    firm, _, loose = signature(outcome).rpartition(" ")
    known_firm, _, known_loose = last.signature.rpartition(" ")
    if firm != known_firm:
        return True
    if outcome.phase is PassPhase.DISABLED:
        return False
    age_ms = request.now_ms - last.at_ms
    # A clock that was set back must not silence a job.
    least_ms = last.interval_ms if loose == known_loose else last.interval_ms // PATIENCE
    return age_ms >= least_ms or age_ms < 0


def signature(outcome: PassOutcome) -> str:
    """Return what a pass came to, in a few words: passes with the same signature tell people the same.

    Returns:
        Phase and kind of the decision, a digest of what does not change by itself, and one of what may come and go.
    """
    stable, volatile = _digest(_stable_signature(outcome)), _digest(_volatile_signature(outcome))
    return f"{outcome.phase.value} {outcome.decision.kind} {stable} {volatile}"


def _stable_signature(outcome: PassOutcome) -> tuple[object, ...]:
    """Return what is wanted, how far the rescale that is followed came, and what happens once."""
    supervision = outcome.state.supervision
    current, pause, edit = supervision.current, supervision.pause, supervision.edit
    return (
        sorted(outcome.target.parallelism.items()),
        supervision.phase.value,
        None if current is None else (current.decided_ms, current.stage.value),
        None if pause is None else pause.since_ms,
        None if edit is None else edit.at_ms,
        sorted({event.reason for event in outcome.events if event.interval is None}),
    )


def _volatile_signature(outcome: PassOutcome) -> tuple[object, ...]:
    """Return the kinds of reasons, of events that are repeated, and of the error; their texts hold measured numbers.

    What a second policy would do beside that is worth recording when it turns.
    """
    shadow = () if outcome.shadow is None else (outcome.shadow.direction.value, outcome.shadow.wanted is None)
    return (
        *shadow,
        sorted({reason.code for reason in outcome.decision.reasons}),
        sorted({event.reason for event in outcome.events if event.interval is not None}),
        None if outcome.error is None else type(outcome.error).__name__,
    )


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=_DIGEST).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One recorded pass, as it is kept.

    Attributes:
        at_ms: The instant of the pass.
        phase: How far it came, one word.
        decision: ``rescale`` or ``hold``.
        text: Everything else; only who wrote it can read it.
    """

    job_key: JobKey
    at_ms: int
    phase: str
    decision: str
    text: str


class RecordStore(Protocol):
    """Keeps recorded passes: only the newest ones of every job. Calls may come from any thread.

    Implementations raise :class:`StoreError` and nothing else.
    """

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Keep records, and forget the oldest ones of jobs that have too many by now."""
        ...

    def latest(self, job_key: JobKey, at_ms: int | None = None) -> StoredRecord | None:
        """Return the newest record of a job, of those at or before an instant where one is given."""
        ...

    def list_newest(self, job_key: JobKey, before_ms: int | None, limit: int) -> Sequence[tuple[int, str, str]]:
        """Return instant, phase and decision of the newest records of a job before an instant, the newest first."""
        ...

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs that have a record."""
        ...

    def expire(self, before_ms: int) -> int:
        """Forget the records of passes before an instant; return how many there were."""
        ...

    def shrink(self, most_bytes: int) -> int:
        """Forget the oldest records, of whatever job, until the others take no more; return how many there were."""
        ...
