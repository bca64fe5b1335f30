"""The same half hour in the simulator, with what the recorded history says about the job."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.compute as pc
from pyarrow import dataset

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.pipeline.backtest.fitting import FittedModel, Records, fit_model
from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, read_records
from flink_autoscaler.pipeline.simulator import ReportSettings, RescaleParams, Simulation
from flink_autoscaler.pipeline.simulator.workloads import Workload, from_shape
from flink_autoscaler.pipeline.tables.files import open_files
from testkit.scenarios.agreement import plan
from testkit.scenarios.agreement.recording import HISTORY, Recording

STEP: Final = 5.0
"""Seconds for which the simulator takes the arrivals as constant."""

DT: Final = 1.0
"""Longest step of the simulator, seconds."""

JITTER: Final = 0.1
"""Seconds by which a pass of the daemon is late at most."""

SEEDS: Final = range(5)
"""Of simulations that differ in how late their passes are: what hangs on chance is told by their mean."""

METER_WINDOW: Final = 60.0
"""Seconds over which Flink's own meters are means."""


def job_key(policy: str) -> str:
    """Return the key of the job of a policy."""
    return f"{policy}/{policy}"


def fitted(recording: Recording) -> dict[str, FittedModel]:
    """Return what the history says about the job of each policy."""
    now = recording.start + 2 * plan.SECONDS
    return {policy: fit_model(records, now) for policy, records in _records(recording).items()}


def _records(recording: Recording) -> dict[str, Records]:
    with open_files(str(recording.folder / HISTORY)) as storage:
        found, _ = read_records(storage, BacktestFilter())
    return {policy: next(each for each in found if each.job_key == job_key(policy)) for policy in plan.POLICIES}


def rows(recording: Recording, table: str, policy: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the history about the job of a policy, oldest first."""
    read = dataset.dataset(recording.folder / HISTORY / table, partitioning="hive").to_table()
    return list(read.filter(pc.field("job_key") == job_key(policy)).sort_by("ts").to_pylist())


def begin(recording: Recording, policy: str) -> float:
    """Return the second of the curve at which the simulation begins: an interval before the first pass.

    What is counted in minutes by a policy begins with its first pass.
    """
    first = min(row["ts"] for row in rows(recording, "decisions", policy))
    return float(first.timestamp()) - recording.start - plan.INTERVAL


def workload(since: float) -> Workload:
    """Return the curve from a second on as arrivals of the simulator."""

    def shape(second: float) -> float:
        return plan.CURVE.rate(second + STEP / 2)

    return from_shape("agreement", shape, plan.SECONDS - since, step=STEP, since=since)


def simulation(found: FittedModel, policy: str, since: float, *, seed: int = 0) -> Simulation:
    """Return the same options over the same curve, from one slot on; the daemon had never rescaled anything.

    Args:
        found: What the history says about the job.
        policy: Whose job it is.
        since: Second of the curve at which it begins.
        seed: Of how late passes are.
    """
    return Simulation(
        found.model,
        workload(since),
        plan.options(policy),
        plugins=installed_plugins(),
        terms=RescaleParams(delay=plan.RESCALE_DELAY, replay=plan.REPLAY, outages=found.outages),
        reports=ReportSettings(seed=seed, meter_window=METER_WINDOW, checkpoint_interval=plan.REPLAY),
        initial={vertex.vertex_id: 1 for vertex in found.model.vertices},
        interval=plan.INTERVAL,
        jitter=JITTER,
        dt=DT,
        slo_lag=plan.LATE[policy],
        outages=(),
    )
