"""Weeks in which everything goes wrong that can: no pass of ``slo`` raises, and an hour later all is as it was."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    JobSample,
    Outage,
    PastRescale,
    PolicyInput,
    Proposal,
    ProposalDirection,
    VertexSample,
)
from flink_autoscaler.core.policies.slo.policy import SloPolicy
from flink_autoscaler.core.policies.testing.model_job import Meter, ModelJob, ModelVertex

START: Final = 1_700_000_000.0
DAY: Final = 86_400.0
SOURCE, MAP = "a" * 32, "b" * 32
NEED: Final = 10
"""Slots of work that usually arrive."""
MOST: Final = 32


def a_job(rate: float = 100.0, load: float = 1000.0, most: int = MOST) -> ModelJob:
    """Make a job of which every slot does so many records/s."""
    source = ModelVertex(SOURCE, {}, 5.0 * rate, 12, greatest=most)
    return ModelJob((source, ModelVertex(MAP, {SOURCE: 1.0}, rate, 12, greatest=most)), load)


@dataclass
class Episode:
    """Something that lasts for some passes.

    Attributes:
        name: What it is.
        passes: How many.
        job: What it does to the job.
        seconds: From one of its passes to the next; the first one comes ``jump`` later.
        shown: What every vertex says instead of what it does.
    """

    name: str
    passes: int = 20
    job: ModelJob = field(default_factory=a_job)
    jump: float = 60.0
    seconds: float = 60.0
    shown: dict[str, Any] = field(default_factory=dict)


@dataclass
class Week:
    """A job under the policy whose proposals are carried out at once."""

    now: float = START
    size: dict[VertexId, int] = field(default_factory=lambda: dict(a_job().parallelism))
    state: dict[str, Any] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    history: tuple[PastRescale, ...] = ()

    def live(self, episode: Episode) -> list[Proposal]:
        """Go through an episode."""
        self.now += episode.jump - episode.seconds
        return [self._once(episode) for _ in range(episode.passes)]

    def _once(self, episode: Episode) -> Proposal:
        self.now += episode.seconds
        rescaled = self.history[-1].at if self.history else None
        obs = episode.job.observed(self.size, self.now, last_rescale_at=rescaled)
        sample = _said(self.meter.sample(obs), episode.shown)
        outage = Outage(60.0, 90.0, 0.0, 5.0)
        proposal = SloPolicy().propose(PolicyInput(obs, self.history, None, outage, {}, self.state, (sample,), False))
        self.state = json.loads(json.dumps(dict(proposal.state), allow_nan=False))
        self._sane(proposal, episode)
        if proposal.targets and proposal.direction is not ProposalDirection.NONE:
            after = {**self.size, **proposal.targets}
            self.history = (*self.history, PastRescale(self.now, self.size, after, 60.0))[-64:]
            self.size = after
        return proposal

    def _sane(self, proposal: Proposal, episode: Episode) -> None:
        assert proposal.reasons, episode.name
        assert all(1 <= target <= MOST for target in (proposal.targets or {}).values()), episode.name
        figures = [value for reason in proposal.reasons for _, value in reason.figures]
        assert all(map(math.isfinite, figures)), (episode.name, figures)
        assert len(json.dumps(self.state, separators=(",", ":"))) <= 12_000, episode.name


def _said(sample: JobSample, shown: dict[str, Any]) -> JobSample:
    return replace(sample, vertices={v: _vertex(each, shown) for v, each in sample.vertices.items()})


def _vertex(vertex: VertexSample, shown: dict[str, Any]) -> VertexSample:
    is_waiting = vertex.pending is not None
    return vertex._replace(**{name: each for name, each in shown.items() if name != "pending" or is_waiting})


USUAL = Episode("as usual", 60)

EPISODES: Final = (
    Episode("a hole of a day", 5, jump=DAY),
    Episode("a hole of eight days", 5, jump=8 * DAY),
    Episode("a clock that goes forward by an hour", jump=3600.0),
    Episode("a clock that goes back by an hour", jump=-3600.0),
    Episode("a clock that goes back by a year", jump=-365 * DAY),
    Episode("a lag of 10^12", shown={"pending": 1e12}),
    Episode("a lag that is not known", shown={"pending": None}),
    Episode("nothing arrives", 40, a_job(load=0.0), seconds=300.0),
    Episode("half the capacity", 60, a_job(rate=50.0)),
    Episode("no capacity", job=a_job(rate=1e-6)),
    Episode("always busy without reading", shown={"busy": 1.0, "records_in": 1.0, "records_out": 1.0}),
    Episode("endless capacity", job=a_job(rate=1e11)),
    Episode("never busy", shown={"busy": 0.0}),
    Episode("no number", shown={"busy": math.nan, "records_in": math.inf, "pending": -1.0}),
    Episode("counters that go back", 6, shown={"records_in": 5.0, "records_out": 5.0}),
    Episode("bounds below the need", 60, a_job(most=4)),
    Episode("three times the load", job=a_job(load=3_000.0)),
    Episode("passes every five minutes", seconds=300.0),
    Episode("passes every ten seconds", seconds=10.0),
)


def keeps_pace(week: Week) -> bool:
    """Tell whether the size is that of an ordinary hour: enough, and not all that there is."""
    return NEED <= week.size[MAP] < MOST


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.name)
def test_an_hour_after_it_the_job_keeps_pace_again(episode: Episode) -> None:
    week = Week()
    week.live(USUAL)
    week.live(episode)

    proposals = week.live(USUAL)

    assert proposals[-1].targets is not None
    assert keeps_pace(week), (week.size, [reason.text for reason in proposals[-1].reasons])


def test_a_week_without_arrivals_ends_small_and_grows_again_within_minutes() -> None:
    week = Week()
    week.live(USUAL)
    week.live(Episode("a week of nothing", 7 * 96, a_job(load=0.0), seconds=900.0))
    smallest = week.size[MAP]

    week.live(USUAL)

    assert smallest == 1
    assert keeps_pace(week)


@settings(
    max_examples=6,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(episodes=st.lists(st.sampled_from(EPISODES), min_size=2, max_size=5))
def test_no_pass_of_a_hostile_week_raises_and_the_job_comes_back(episodes: list[Episode]) -> None:
    week = Week()
    week.live(USUAL)
    for episode in episodes:
        week.live(episode)

    proposals = week.live(USUAL)

    assert proposals[-1].targets is not None
    assert week.size[MAP] >= NEED, [reason.text for reason in proposals[-1].reasons]
