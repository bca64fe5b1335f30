"""Whole passes of policies that go by the lag, over a source with a slow partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.source_lag import SourceLag
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core import a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_MAP, PIPELINE_SOURCE

OPTIONS = {"stabilization.interval": "0 s", "metrics.window": "2 min", "catch-up.duration": "10 min"}
ALIKE = SourceLag("*", "kafka", 6_000.0, 16, most=375.0)
SLOW = SourceLag("*", "kafka", 6_000.0, 16, most=2_500.0)
"""2,500 of the 6,000 records wait in one of the 16 partitions."""
HOT = SourceLag("*", "kafka", 6_000.0, 16, hot="orders-3", most=5_000.0)


def last_of(policy: str, lag: SourceLag, passes: int) -> PassOutcome:
    """Return the last pass over a pipeline of two vertices, 50 records/s per subtask, at which 100 arrive."""
    state = JobState()
    context = a_context({**OPTIONS, "policy": policy})
    for minute in range(1, passes + 1):
        reading = pipeline(minute, pending=0.0, rate=100.0, busy_ms=(500.0, 500.0))
        outcome = advance(PassRequest(context, state, minute * 60_000, lags=(lag,)), reading, ClusterReading())
        state = outcome.state
    return outcome


def wants(outcome: PassOutcome, vertex_id: str) -> str:
    """Return what is said about a vertex."""
    return "\n".join(reason.text for reason in outcome.decision.reasons if reason.vertex_id == vertex_id)


def new_parallelism(outcome: PassOutcome, vertex_id: str) -> int | None:
    """Return what a vertex is scaled to; None where it stays."""
    summaries = outcome.decision.summaries if isinstance(outcome.decision, Rescale) else {}
    return summaries[vertex_id].new if vertex_id in summaries else None


@pytest.mark.parametrize(
    ("lag", "source"),
    [
        pytest.param(ALIKE, "needs 203 records/s, capacity is 100 at", id="alike"),
        pytest.param(SLOW, "needs 226 records/s, capacity is 100 at", id="slow"),
    ],
)
def test_sources_are_sized_for_the_slowest_partition(lag: SourceLag, source: str) -> None:
    assert source in wants(last_of("capacity", lag, 6), PIPELINE_SOURCE)


@pytest.mark.parametrize("lag", [1.0, 10.0], ids=["some", "more than the source can do"])
def test_what_is_behind_the_source_is_sized_for_the_sum(lag: float) -> None:
    alike, slow = (
        replace(each, total=lag * (each.total or 0.0), most=lag * (each.most or 0.0)) for each in (ALIKE, SLOW)
    )

    found = [new_parallelism(last_of("capacity", each, 6), PIPELINE_MAP) for each in (alike, slow)]

    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("lag", "seconds"),
    [(ALIKE, "lag is 60 s"), (SLOW, "lag is 196.6 s"), (HOT, "lag is 60 s")],
    ids=["alike", "slow", "hot"],
)
def test_slo_goes_by_the_slowest_partition_unless_no_size_helps_it(lag: SourceLag, seconds: str) -> None:
    texts = [reason.text for reason in last_of("slo", lag, 6).decision.reasons]

    assert any(text.endswith(seconds) for text in texts), texts
