"""The example of the guide on a real Flink, with rescales that fail: it is the same program as the daemon."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Origin, Stage, SupervisionPhase
from testkit.clusters.flink import FlinkCluster, HarnessError, job
from testkit.scenarios.rescue import FAST_OPTIONS, ONLY_WORK

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "embedding.md"
ON_BOTH = pytest.mark.parametrize("version", ["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])

# One subtask of "work" does 1,000 records/s: this wants far more than there are slots for.
FLOODED = job.ScalingJob(
    name="flooded", curve="0:20000", cost_micros=1000, splits=8, parallelism_work=2, payload_bytes=20
)
OPTIONS = {**{key: value for key, value in FAST_OPTIONS.items() if key.startswith("job.")}, **ONLY_WORK}

TOO_MUCH = {
    **OPTIONS,
    "job.autoscaler.vertex.max-parallelism": "24",
    "job.autoscaler.slots.fair-shares.enabled": "false",
    "job.autoscaler.rescale.timeout": "8 s",
    "job.autoscaler.stabilization.interval": "5 s",
}
"""Sixteen slots are there: what is asked for never comes true."""

# 32 buffers: with a parallelism of 2 the job runs, with 8 its tasks do not get the buffers that they need at least.
LITTLE_MEMORY = {
    "taskmanager.memory.network.min": "1m",
    "taskmanager.memory.network.max": "1m",
    "taskmanager.memory.segment-size": "32kb",
    "taskmanager.network.memory.exclusive-buffers-request-timeout-ms": "3000",
}
UNCHECKED = {
    **OPTIONS,
    "job.autoscaler.vertex.max-parallelism": "8",
    "job.autoscaler.network-precheck.enabled": "false",
    "job.autoscaler.slots.fair-shares.enabled": "false",
}


@dataclass
class Example:
    """The program of the guide, with options for a job that is to rescale within seconds."""

    namespace: dict[str, Any]
    job_id: str
    passes: int = 0

    def state(self) -> JobState:
        """Return what the program remembers about the job."""
        found: JobState = self.namespace["store"].load(self.job_id)
        return found

    def until(self, description: str, is_reached: Callable[[], object], *, timeout: float = 300.0) -> None:
        """Do a pass every second until a condition holds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            next_pass = time.monotonic() + 1.0
            self.namespace["one_pass"]()
            self.passes += 1
            while True:
                if is_reached():
                    return
                if time.monotonic() >= next_pass:
                    break
                time.sleep(0.05)
        raise HarnessError(f"not within {timeout:g} s: {description}; {self.state().supervision}")


@pytest.fixture
def example_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[FlinkCluster, str, Mapping[str, str]], Example]]:
    """Give what starts the program of the guide for a cluster."""
    [text] = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    started: list[dict[str, Any]] = []

    def start(cluster: FlinkCluster, job_id: str, options: Mapping[str, str]) -> Example:
        monkeypatch.setenv("FLINK_URL", cluster.rest_url)
        namespace: dict[str, Any] = {"__name__": "example"}
        exec(compile(text, "embedding.md", "exec"), namespace)
        namespace["options"].update(options)
        started.append(namespace)
        return Example(namespace, job_id)

    yield start
    for namespace in started:
        namespace["close"]()


@ON_BOTH
def test_a_rescale_that_never_comes_true_is_decided_once_and_taken_back(
    flink_session_cluster: Callable[[str], FlinkCluster],
    example_of: Callable[[FlinkCluster, str, Mapping[str, str]], Example],
    version: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = flink_session_cluster(version)
    job_id = job.submit(cluster, FLOODED)
    try:
        example = example_of(cluster, job_id, TOO_MUCH)
        example.until("a decision", lambda: example.state().overrides)
        decided = example.passes
        example.until("the end of the rescale", lambda: is_settled(example.state()))
        state = example.state()
    finally:
        cluster.cancel(job_id)

    current = state.supervision.current
    assert current is not None
    assert current.stage is Stage.PARTIALLY_REACHED
    assert sum(current.target.values()) > 16
    assert max(state.overrides.values()) == max(current.reached.values()) <= 16
    assert {len(entries) for entries in state.history.values()} == {1}
    assert example.passes - decided >= 5
    assert "RESCALE_UNDER_WAY" in capsys.readouterr().out


def is_settled(state: JobState) -> bool:
    current = state.supervision.current
    return current is not None and current.stage.is_final


@ON_BOTH
def test_a_rescale_that_the_job_does_not_survive_is_undone(
    example_of: Callable[[FlinkCluster, str, Mapping[str, str]], Example], version: str
) -> None:
    with FlinkCluster(version, slots=8, config=LITTLE_MEMORY) as cluster:
        job_id = job.submit(cluster, FLOODED)
        example = example_of(cluster, job_id, UNCHECKED)
        example.until(
            "the rollback is over", lambda: example.state().supervision.phase is SupervisionPhase.PAUSED, timeout=240
        )
        is_running = cluster.rest.all_tasks_running(job_id)

    failed, undone = example.state().supervision.past[-2:]
    assert is_running
    assert failed.reverted
    assert (undone.origin, undone.stage) == (Origin.ROLLBACK, Stage.REACHED)
    assert len(example.state().supervision.quarantine) == 1
