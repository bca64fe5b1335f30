"""The loads of the study, written down before anything was tuned, and what nobody can do better on them.

*Tune* is what a policy may be developed on; *check* is looked at seldom, and every look is noted. They have different
shapes, different recorded series and different seeds. A third of the loads are recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.loads import made, read_trace
from benchmarks.oracles import OracleCache, PlayTerms
from benchmarks.policy_study.simulate import REPLAY, study_job
from flink_autoscaler.pipeline.simulator import RescaleParams, Workload
from flink_autoscaler.pipeline.simulator.bounds import OracleParams
from flink_autoscaler.pipeline.simulator.workloads import DAY, WEEK, office

TRACES: Final = Path(__file__).parents[1] / "traces"

RECORDED: Final[Mapping[str, tuple[str, float]]] = {
    **{name: (f"Twitter_volume_{name}.csv.gz", 125e3) for name in ("AAPL", "AMZN", "FB", "GOOG", "KO")},
    "elb": ("elb_request_count_8c0756.csv.gz", 125e3),
    "demeter-ads": ("demeter_ads.csv.gz", 110e3),
}
"""Recorded series: the file, and the peak that it is scaled to, records/s; 5 k keep a slot busy."""

TRACE_SHIFT: Final = 9 * DAY
"""By how much the days that one seed takes of a recorded series lie after those of the seed before."""

LATE_WEIGHT: Final = 150.0
"""Slot-seconds that a second above the acceptable lag costs."""

PAIRS: Final = ("10/60", "60/60", "180/300")
"""Outage of a rescale and acceptable lag, seconds."""


@dataclass(frozen=True)
class StudySet:
    """Loads with the seeds that they are made with."""

    shapes: tuple[str, ...]
    seeds: tuple[int, ...]


SETS: Final[Mapping[str, StudySet]] = {
    "tune": StudySet(
        (
            *("office", "week-sine", "swing", "spikes", "step", "opposite", "traffic"),
            *("flat-white-10", "flat-correlated-20", "walk", "sparse"),
            *("AAPL", "GOOG", "elb"),
        ),
        (0, 1, 2),
    ),
    "check": StudySet(
        (
            *("holiday", "growth", "sine", "bursts", "upstream-outage", "three-sources", "random"),
            *("flat-white-20", "flat-correlated-10", "launch", "counts"),
            *("AMZN", "FB", "KO", "demeter-ads"),
        ),
        (3, 4, 5),
    ),
}


@dataclass(frozen=True)
class Case:
    """A load, and what a rescale costs."""

    shape: str
    seed: int
    days: float
    pair: str

    @property
    def outage(self) -> float:
        """Seconds that a rescale takes."""
        return float(self.pair.split("/")[0])

    @property
    def limit(self) -> float:
        """Lag in seconds above which the job is late."""
        return float(self.pair.split("/")[1])

    def workload(self) -> Workload:
        """Return what arrives. Of the office it is a fifth week; of a recorded load the seed takes later days."""
        seconds = self.days * DAY
        if self.shape in RECORDED:
            file, peak = RECORDED[self.shape]
            whole = read_trace(TRACES / file, self.shape)
            first = self.seed * TRACE_SHIFT % max(DAY, whole.duration - seconds) if whole.duration > seconds else 0.0
            return whole.part(first, first + seconds).scaled_to(peak)
        if self.shape == "office":
            return office(seed=self.seed, weeks=4 + seconds / WEEK).part(4 * WEEK, 4 * WEEK + seconds)
        return made(self.shape, self.seed, seconds)

    def oracle(self, cache: OracleCache) -> dict[str, float]:
        """Return the ``slot_seconds``, ``late`` seconds and ``rescales`` of somebody who knows the future.

        The plan serves every five minutes at their peak, minds lag above half of what is acceptable, and is acted out
        with the same outages as the rescales of policies.
        """
        workload = self.workload()
        plan = OracleParams(outage=self.outage, late_weight=LATE_WEIGHT, slo_lag=self.limit / 2)
        terms = PlayTerms(plan, RescaleParams(self.outage, replay=REPLAY), self.limit)
        best, _ = cache.played(study_job(workload), workload, terms)
        return {"slot_seconds": best.slot_seconds, "late": best.late_seconds, "rescales": best.rescales}


def cases(name: str, pairs: tuple[str, ...], days: float) -> Iterator[Case]:
    """Yield the cases of a set, seed after seed, so that the first results are of all shapes."""
    for number, seed in enumerate(SETS[name].seeds):
        for shape in SETS[name].shapes:
            # Less than a day long: no seed takes another part of it.
            if shape == "demeter-ads" and number:
                continue
            yield from (Case(shape, seed, days, pair) for pair in pairs)
