"""The life of a real cluster's processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.clusters.flink import FlinkApplicationCluster, FlinkCluster, HarnessError, job
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.job import ScalingJob
from testkit.clusters.flink.waiting import wait_until

pytestmark = pytest.mark.e2e

both_versions = pytest.mark.parametrize("version", [pytest.param("1.20", marks=pytest.mark.suite(name="long")), "2.3"])

STARTS_A_CLUSTER_AND_WAITS = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from testkit.clusters.flink import FlinkCluster
cluster = FlinkCluster("2.3", slots=1).start()
print(cluster.directory, cluster.jobmanager.pid, *(each.pid for each in cluster.taskmanagers), flush=True)
signal.pause()
"""


def is_alive(pid: int) -> bool:
    """Whether a process exists and is more than an entry that nobody has collected."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.suite(name="long")
@both_versions
def test_taskmanagers_and_jobmanager_come_and_go(version: str) -> None:
    with FlinkCluster(version, slots=2) as cluster:
        processes = [cluster.jobmanager, *cluster.taskmanagers, cluster.add_taskmanager()]
        cluster.wait_for_slots(4)
        cluster.taskmanagers[0].stop()
        cluster.wait_for_slots(2)
        cluster.taskmanagers[1].kill()
        cluster.wait_for_slots(0)
        address = cluster.rest_url

        cluster.restart_jobmanager()
        processes += [cluster.jobmanager, cluster.add_taskmanager()]

        assert cluster.rest_url == address
        cluster.wait_for_slots(2)
        directory = cluster.directory

    assert not any(is_alive(process.pid) for process in processes)
    assert not directory.exists()


def test_cluster_ends_with_a_killed_parent() -> None:
    tests = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_CLUSTER_AND_WAITS, tests], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        directory, *pids = parent.stdout.readline().split()
        assert len(pids) == 2
        assert all(is_alive(int(pid)) for pid in pids)

        parent.send_signal(signal.SIGKILL)

        wait_until("JVMs gone", lambda: not any(is_alive(int(pid)) for pid in pids), timeout=300)
        wait_until("directory gone", lambda: not Path(directory).exists(), timeout=300)


@both_versions
def test_start_tells_why_it_failed_and_leaves_nothing(version: str, tmp_path: Path) -> None:
    cluster = FlinkCluster(version, config={"jobmanager.rpc.port": "no number"}, directory=tmp_path)

    with pytest.raises(HarnessError, match="no number"):
        cluster.start()

    assert not is_alive(cluster.jobmanager.pid)


@pytest.mark.suite(name="long")
@both_versions
def test_start_takes_other_ports_when_its_own_are_contested(version: str) -> None:
    rest, rpc, other_rest, other_rpc = free_ports(4)
    drawn = iter([[rest, rpc], [rest, other_rpc], [other_rest, rpc], [other_rest, other_rpc]])

    with (
        FlinkCluster(version, taskmanagers=0, choose_ports=lambda _: next(drawn)) as first,
        FlinkCluster(version, taskmanagers=0, choose_ports=lambda _: next(drawn)) as second,
    ):
        assert first.rest_url.endswith(str(rest))
        assert second.rest_url.endswith(str(other_rest))


@pytest.mark.suite(name="long")
@both_versions
def test_application_cluster_takes_all_slots_in_reactive_mode(version: str) -> None:
    cluster = FlinkApplicationCluster(
        version,
        jar=job.build(version),
        entry_class=job.ENTRY_CLASS,
        args=ScalingJob(curve="0:100").arguments(),
        config={"scheduler-mode": "reactive"},
        slots=2,
    )
    with cluster:
        cluster.wait_for_running(cluster.job_id)
        assert set(cluster.rest.parallelism(cluster.job_id).values()) == {2}

        cluster.add_taskmanager()

        cluster.wait_until("parallelism 4", lambda: set(cluster.rest.parallelism(cluster.job_id).values()) == {4})
