"""One simulation of the study: from a case to its figures.

The process may have another checkout in its path, such as an earlier release, so that nothing is imported here but what
has stayed as it is: the simulator and the job that workloads are compared on. The arrivals come with the case.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.pipeline.backtest.case import chain
from flink_autoscaler.pipeline.backtest.simulate_case import configuration_problem
from flink_autoscaler.pipeline.simulator import JobModel, RescaleParams, Simulation, Workload, run

PREFIX: Final = "job.autoscaler."

REPLAY: Final = 5.0
"""Age in seconds of the checkpoint that is restored."""


def study_job(workload: Workload) -> JobModel:
    """Return the job that a workload arrives at: a chain of source, map and window.

    Several sources have a map each, the first one the slowest, so that which of them limits the job changes.
    """
    job = chain(workload)
    if len(job.sources) == 1:
        return job
    (common, window), sources = job.vertices[-2:], job.vertices[:-2]
    maps = [
        replace(common, vertex_id=f"b{number}".rjust(32, "0"), name=f"map {number}", rate=common.rate * 2.0**number)
        for number in range(len(sources))
    ]
    selectivity = job.edges[common.vertex_id, window.vertex_id]
    edges = {(source.vertex_id, each.vertex_id): 1.0 for source, each in zip(sources, maps, strict=True)}
    edges |= {(each.vertex_id, window.vertex_id): selectivity for each in maps}
    return JobModel((*sources, *maps, window), edges)


def simulate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Run one backtest.

    Args:
        case: ``options`` of the job without their prefix, ``rows`` of records/s by source, ``step`` in seconds, and
            ``outage`` and ``limit`` in seconds.

    Returns:
        ``slot_seconds``, ``late`` and ``processor`` in seconds, ``duration``, the count of ``rescales``, and the
        ``errors`` that passes ended in, by text.

    Raises:
        SystemExit: Nothing can be run with the options; it says why.
    """
    configuration = {PREFIX + key: value for key, value in case["options"].items()}
    plugins = installed_plugins()
    if case["options"]["policy"] not in plugins.policies and (problem := configuration_problem(configuration)):
        sys.exit(problem)
    workload = Workload("study", case["step"], tuple(map(tuple, case["rows"])))
    began = time.process_time()
    result = run(
        Simulation(
            study_job(workload),
            workload,
            configuration,
            plugins,
            terms=RescaleParams(case["outage"], replay=REPLAY),
            slo_lag=case["limit"],
        )
    )
    return {
        "slot_seconds": result.trace.slot_seconds,
        "late": result.measures.over_slo,
        "rescales": result.measures.rescales,
        "duration": result.measures.duration,
        "processor": round(time.process_time() - began, 2),
        "errors": dict(result.errors),
    }
