"""A second daemon comes to the database of a running one under another name of its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")


@pytest.mark.parametrize(
    "link",
    [
        pytest.param(Path.symlink_to, id="symbolic link"),
        pytest.param(Path.hardlink_to, id="hard link", marks=pytest.mark.guard),
    ],
)
def test_one_daemon_acts_under_two_names_of_the_file(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    path, other = tmp_path / "autoscaler.db", tmp_path / "other.db"
    with BusyCluster(tmp_path, addresses=2) as cluster:
        first = DaemonProcess(tmp_path, database=DatabaseSettings(f"jdbc:sqlite:{path}"), cluster_url=cluster.urls[0])
        second = DaemonProcess(
            tmp_path, "second", database=DatabaseSettings(f"jdbc:sqlite:{other}"), cluster_url=cluster.urls[1]
        )
        with first, second:
            first.start()
            link(other, path)
            second.start(wait=False)
            code = second.exit_code()
            cluster.wait_for_puts(1)

    assert code == 2
    assert f"(process {first.pid} on " in second.text()
    assert {put.address for put in cluster.puts()} == {0}
