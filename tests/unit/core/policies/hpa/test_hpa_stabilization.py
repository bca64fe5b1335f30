"""``hpa`` with its own behaviour for Flink: nobody has to switch on what keeps a job still after a rescale."""

from __future__ import annotations

import pytest
from core_builders import MINUTE, JobDriver, a_context, single_source

from flink_autoscaler.core.model.decision import PassPhase, Rescale

OPTIONS = {"policy": "hpa", "metrics.window": "2 min"}


def phases(options: dict[str, str], minutes: int) -> list[PassPhase]:
    """Do passes over a job that is always busy and began to run at minute 0; return how far they came."""
    driver = JobDriver(a_context({**OPTIONS, **options}))
    return [
        driver.run(minute * MINUTE, single_source(minute, rate=100.0, busy_ms=1000.0)).phase
        for minute in range(1, minutes + 1)
    ]


@pytest.mark.parametrize("behavior", ["flink", "kubernetes"])
def test_hpa_decides_nothing_within_the_stabilization_interval(behavior: str) -> None:
    found = phases({"hpa.behavior": behavior, "stabilization.interval": "5 min"}, 9)

    assert PassPhase.EXECUTED not in found[:5]
    assert found[-1] is PassPhase.EXECUTED


def test_hpa_for_flink_scales_down_only_when_an_hour_agrees_without_the_filter() -> None:
    driver = JobDriver(a_context({**OPTIONS, "stabilization.interval": "0 s", "scale-down.interval": "0 s"}))
    decided = []
    for minute in range(1, 75):
        outcome = driver.run(minute * MINUTE, single_source(minute, rate=100.0, busy_ms=100.0))
        if isinstance(outcome.decision, Rescale):
            decided.append(minute)
            break

    assert decided
    assert decided[0] >= 60
