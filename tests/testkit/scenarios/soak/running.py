"""Runs a soak, round by round."""

from __future__ import annotations

import resource
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.soak.faults import faults
from testkit.scenarios.soak.outcome import Outcome, Round
from testkit.scenarios.soak.plan import Plan
from testkit.scenarios.soak.sampling import Sample, passes_of, tidied_at
from testkit.scenarios.soak.site import Site

_TICK = 0.25
_LOOK = 1.0
_HOUR = 3600.0

Tell = Callable[[Round], None]


def soak(plan: Plan, tell: Tell = lambda _: None) -> Outcome:
    """Run a week and return what came of it.

    Args:
        plan: How.
        tell: Takes every round when it is over.
    """
    began = time.monotonic()
    outcome = Outcome(plan)
    with Site(plan) as site:
        run = _Run(site, began=time.monotonic())
        for number in range(plan.rounds):
            outcome.rounds.append(run.round(number))
            tell(outcome.rounds[-1])
        outcome.cpu = site.cpu()
        outcome.log_bytes = len(site.daemon.text())
        code = site.end()
    if code != 0:
        outcome.problems.append(f"the daemon ended with code {code}")
    outcome.seconds = time.monotonic() - began
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    outcome.cpu_of_all = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return outcome


class _Run:
    """A site in the course of its rounds."""

    def __init__(self, site: Site, *, began: float) -> None:
        self._site = site
        self._began = began

    def round(self, number: int) -> Round:
        """Let half a day go by, in which everything goes wrong once, and wait until it is well again."""
        length, begun = self._site.plan.round_seconds, time.monotonic()
        due, samples = deque(faults(self._site, number)), list[Sample]()
        rescales, gone = self._site.fleet.rescales, self._site.fleet.gone
        settling: _Settling | None = None
        while (passed := time.monotonic() - begun) < length:
            while due and due[0].at * length <= passed:
                settling = settling or (_Settling(self._site) if due[0].waits else None)
                if settling is not None and not settling.is_over():
                    begun += _TICK
                    break
                settling = None
                due.popleft().do()
            self._site.fleet.tick(time.monotonic() - self._began)
            if len(samples) < self._site.plan.samples * passed / length:
                samples.append(self._site.sampler.sample())
            time.sleep(_TICK)
        problem = self._recovered(samples[-1])
        samples.append(self._site.sampler.sample())
        return Round(
            number=number,
            figures=_medians(samples),
            passes=sum(samples[-1].passes.values()) - sum(samples[0].passes.values()),
            rescales=self._site.fleet.rescales - rescales,
            gone=self._site.fleet.gone - gone,
            problem=problem,
        )

    def _recovered(self, before: Sample) -> str:
        """Wait until every cluster has had another pass and the daemon is ready; return what is not so in the end."""

        def is_well() -> bool:
            passes = passes_of(self._site.sampler.page("/metrics"))
            are_passing = all(passes.get(name, 0.0) > count for name, count in before.passes.items())
            return are_passing and len(passes) == len(self._site.clusters) and not self._site.sampler.readiness()

        try:
            wait_until(
                "the daemon is well again", is_well, self._site.plan.patience, interval=_LOOK, context=self._site.told
            )
        except (HarnessError, OSError) as error:
            return str(error).strip()
        return ""


class _Settling:
    """A wait for another pass over every cluster, and for history and outbox to be tidied by the clock of now.

    Raises:
        HarnessError: The patience of the plan is over.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._passes = passes_of(site.sampler.page("/metrics"))
        self._deadline = time.monotonic() + site.plan.patience

    def is_over(self) -> bool:
        page = self._site.sampler.page("/metrics")
        passes = passes_of(page)
        is_tidied = tidied_at(page) > self._site.clock.now() - _HOUR
        old_notices = self._site.sampler.old_notices(self._site.clock.now()) if is_tidied else 0
        if is_tidied and not old_notices and all(passes.get(name, 0.0) > count for name, count in self._passes.items()):
            return True
        if time.monotonic() > self._deadline:
            raise HarnessError(f"no passes, or not tidied ({is_tidied=}, {old_notices=})\n{self._site.told()}")
        return False


def _medians(samples: Sequence[Sample]) -> dict[str, float]:
    names = dict.fromkeys(name for sample in samples for name in sample.figures)
    return {
        name: statistics.median(sample.figures[name] for sample in samples if name in sample.figures) for name in names
    }
