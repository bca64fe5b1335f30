"""Waiting for the instant at which a restart repeats least work: right after a completed checkpoint."""

from __future__ import annotations


class CheckpointWait:
    """Notices, from one pass to the next, that a checkpoint was completed. Compares no clocks of different machines."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._seen_ms: int | None = None

    def is_over(self, completed_ms: int | None, patience: float, now: float) -> bool:
        """Tell whether to go ahead.

        Args:
            completed_ms: Instant of the latest completed checkpoint; None without any.
            patience: Seconds after which to go ahead without one.
            now: Seconds of a clock that never runs backward.

        Returns:
            False in the first call, then whether a checkpoint was completed since, or the patience is used up.
        """
        if self._since is None:
            self._since, self._seen_ms = now, completed_ms
            return False
        return completed_ms != self._seen_ms or now - self._since > patience

    def reset(self) -> None:
        """Forget what was waited for."""
        self._since = self._seen_ms = None
