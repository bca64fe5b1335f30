"""``python -m benchmarks.policy_study.pictures FOLDER``: weeks of the policy ``slo``, drawn by matplotlib.

From top to bottom: what arrives and what the slots can do, the lag and its limit, and what is used of the error budget.
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Final

from benchmarks.policy_study.cases import Case
from benchmarks.policy_study.simulate import PREFIX, REPLAY, study_job
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.simulator import RescaleParams, Simulation, run

WEEKS: Final = (Case("upstream-outage", 3, 7.0, "60/60"), Case("AMZN", 3, 7.0, "60/60"))
RATE_OF_SLOT: Final = 5000.0
"""Records/s that keep one slot of the study's job busy."""
_HOUR: Final = 3600.0


def main(folder: Path) -> None:
    """Simulate the weeks and draw each into a PNG file of its name."""
    for case in WEEKS:
        draw(case, folder / f"slo-{case.shape}.png")


def draw(case: Case, path: Path) -> None:
    """Simulate a week with the policy ``slo`` and draw it."""
    pyplot = import_module("matplotlib.pyplot")  # which nothing else needs, so that it is not installed
    workload, used = case.workload(), list[tuple[float, float]]()

    def note_budget(outcome: PassOutcome, _: JobAutoScalerContext, now_ms: int) -> None:
        for reason in outcome.decision.reasons:
            if reason.code == "SLO_BUDGET":
                used.append((now_ms / 1000, dict(reason.figures)["used"]))

    options = {PREFIX + "policy": "slo", PREFIX + "slo.lag": f"{case.limit:g} s"}
    terms = RescaleParams(case.outage, replay=REPLAY)
    study = Simulation(study_job(workload), workload, options, installed_plugins(), terms=terms, slo_lag=case.limit)
    trace = run(study, watch=note_budget).trace
    hours = [second / _HOUR for second in accumulate(trace.seconds)]
    arrivals = [sum(rates) / RATE_OF_SLOT for rates in workload.rows]

    figure, (sizes, lags, budget) = pyplot.subplots(3, 1, sharex=True, figsize=(11, 6), height_ratios=(3, 1, 1))
    sizes.plot([number * workload.step / _HOUR for number in range(len(arrivals))], arrivals, lw=0.6, label="needed")
    sizes.step(hours, trace.slots, lw=1.0, label="held")
    sizes.set_ylabel("slots")
    sizes.legend(loc="upper right")
    lags.plot(hours, trace.lags, lw=0.6)
    lags.axhline(case.limit, color="tab:red", lw=0.8)
    lags.set_ylabel("lag, s")
    budget.plot([(second - used[0][0]) / _HOUR for second, _ in used], [100 * share for _, share in used], lw=0.8)
    budget.axhline(100, color="tab:red", lw=0.8)
    budget.set_ylabel("budget used, %")
    budget.set_xlabel("hours")
    figure.suptitle(f"{case.shape}: outage {case.outage:g} s, acceptable lag {case.limit:g} s")
    figure.tight_layout()
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
