"""Backtests: what a policy would have done to a job, with the very objects that decide in production.

A job is modelled as a fluid (:mod:`.model`), rescaled with delays and outages (:mod:`.rescales`), reports the metrics
that Flink would (:mod:`.metrics`, by its :mod:`.meters`) under a recorded or made-up workload (:mod:`.workloads`), and
every simulated minute the pass of the daemon decides about it (:mod:`.run`). :mod:`.measures` says how well that went,
:mod:`.bounds` how well it could have gone.
"""

from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.metrics import ReportSettings
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.rescales import RescaleParams
from flink_autoscaler.pipeline.simulator.run import BacktestResult, Simulation, run
from flink_autoscaler.pipeline.simulator.workloads import WORKLOADS, Workload

__all__ = [
    "WORKLOADS",
    "BacktestResult",
    "JobModel",
    "Measures",
    "ReportSettings",
    "RescaleParams",
    "Simulation",
    "VertexModel",
    "Workload",
    "run",
]
