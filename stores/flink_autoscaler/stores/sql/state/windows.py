"""The texts of metric windows, made of those of their samples: all but the newest one were written before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.stores.sql.state.codec import sample_text

MOST_KEPT: Final = 256 << 20
"""Characters of all texts that are kept, one byte each: those of some thousand jobs with ten vertices."""


class WindowTexts:
    """Writes metric windows, and keeps the texts of samples for the next time.

    Thread-safe; calls for one job do not overlap.

    Samples are told apart by what they are, not by what they hold: a sample that stays in the window stays the same
    value from pass to pass, and comparing its numbers would take longer than writing them.

    Args:
        most_kept: Characters that are kept. The windows of jobs beyond that are written anew each time.
    """

    def __init__(self, *, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._lock = threading.Lock()
        self._kept: dict[JobKey, tuple[Sequence[MetricSample], list[str]]] = {}
        self._characters = 0

    @property
    def characters(self) -> int:
        """How many are kept."""
        return self._characters

    def write(self, job_key: JobKey, samples: Sequence[MetricSample]) -> str:
        """Return the text of a window that is not empty."""
        samples_before, texts_before = self._kept.get(job_key, ((), ()))
        # The samples are held as long as their texts, so that no other object gets the identity of one of them.
        known = dict(zip(map(id, samples_before), texts_before, strict=True))
        texts = [known.get(id(sample)) or sample_text(sample) for sample in samples]
        self._keep(job_key, samples, texts, sum(map(len, texts)) - sum(map(len, texts_before)))
        return "{" + ",".join(texts) + "}"

    def forget(self, job_key: JobKey) -> None:
        """Free the memory that a job takes."""
        with self._lock:
            _, texts = self._kept.pop(job_key, ((), ()))
            self._characters -= sum(map(len, texts))

    def clear(self) -> None:
        """Free the memory of all jobs."""
        with self._lock:
            self._kept, self._characters = {}, 0

    def _keep(self, job_key: JobKey, samples: Sequence[MetricSample], texts: list[str], more: int) -> None:
        with self._lock:
            if self._characters + more <= self._most_kept:
                self._kept[job_key] = samples, texts
                self._characters += more
                return
        self.forget(job_key)
