"""What we remember about a job beyond the Java process: which samples of the window are incomplete."""

from __future__ import annotations

import json
from dataclasses import replace

from flink_autoscaler.core.metrics import MetricSample

_INCOMPLETE = "incomplete"


def own_state_text(samples: tuple[MetricSample, ...]) -> str | None:
    """Write the incomplete vertices by instant as JSON; None when every sample is complete."""
    incomplete = {str(sample.at_ms): sorted(sample.incomplete) for sample in samples if sample.incomplete}
    return json.dumps({_INCOMPLETE: incomplete}, separators=(",", ":")) if incomplete else None


def with_own_state(samples: tuple[MetricSample, ...], text: str | None) -> tuple[MetricSample, ...]:
    """Give samples their incomplete vertices back.

    Of a text that cannot be read only one thing is sure: that something was incomplete. Then everything is.
    """
    if text is None:
        return samples
    try:
        incomplete = {int(at_ms): frozenset(map(str, names)) for at_ms, names in json.loads(text)[_INCOMPLETE].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return tuple(replace(sample, incomplete=frozenset(sample.vertices)) for sample in samples)
    return tuple(
        replace(sample, incomplete=incomplete[sample.at_ms]) if sample.at_ms in incomplete else sample
        for sample in samples
    )
