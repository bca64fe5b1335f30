"""Two daemons of two versions on one database: a rolling upgrade, and a rolling way back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import Pair
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.upgrading import Version, known_revision, said

pytestmark = [pytest.mark.suite(name="upgrade"), pytest.mark.parametrize("settings", ["postgresql"], indirect=True)]

TTL = 5.0
OLD, NEW = 0, 1
"""Numbers of the daemons of the two versions."""


@pytest.fixture
def pair(tmp_path: Path, settings: DatabaseSettings, old: Version, new: Version) -> Iterator[Pair]:
    """Give a daemon of each version, none of them started, and a database with the schema of the older one."""
    nobody = DaemonProcess(tmp_path, "schema", database=settings, cluster_url="http://127.0.0.1:1", program=old.program)
    said(nobody.call("db", "upgrade"))
    port = int(settings.url.rpartition(":")[2].partition("/")[0])
    with ExitStack() as parts:
        yield Pair(tmp_path, settings, port, parts, programs=(old.program, new.program), ttl=TTL)


def test_rolling_upgrade_and_way_back_never_have_two_leaders(pair: Pair) -> None:
    seconds = {}
    pair.daemons[OLD].start()
    assert pair.wait_for_leader() == OLD
    upgrade_under(pair, OLD)
    seconds["upgrade, the older one stopped"] = take_turns(pair, OLD, "stop")

    refusal = refused(pair.daemons[OLD])
    said(pair.daemons[NEW].call("db", "downgrade", known_revision(refusal)))
    pair.cluster.wait_for_puts(2)
    seconds["way back, the newer one stopped"] = take_turns(pair, NEW, "stop")

    upgrade_under(pair, OLD)
    seconds["upgrade, the older one killed"] = take_turns(pair, OLD, "kill")
    assert pair.daemons[NEW].stop() == 0

    report(pair, seconds)
    tokens = [lease.token for lease in pair.history.leases()]
    assert tokens == sorted(tokens)
    assert (pair.foreign_puts(), pair.foreign_writes()) == ([], [])
    assert all(daemon.lines("state_quarantined", "state_set_aside") == [] for daemon in pair.daemons)


def upgrade_under(pair: Pair, leader: int) -> None:
    """Upgrade the schema while a daemon of the older version leads, which goes on."""
    assert "upgraded from" in said(pair.daemons[NEW].call("db", "upgrade"))
    pair.cluster.wait_for_puts(2)
    assert pair.leader() == leader
    assert pair.daemons[leader].lines("store_unavailable", "store_away") == []


def take_turns(pair: Pair, leader: int, fault: str) -> float:
    """Start the other daemon, end the one that leads, and return the seconds until the other one has the lease."""
    pair.daemons[1 - leader].start()
    pair.wait_for_standby(1 - leader)
    hit_at = time.time()
    pair.hit(fault, leader)
    return pair.wait_for_take_over(leader, since=hit_at) - hit_at


def refused(daemon: DaemonProcess) -> str:
    """Start a daemon that must refuse to work, and return its error."""
    daemon.start(wait=False)
    assert daemon.exit_code() == 2
    (error,) = [line for line in daemon.text().splitlines() if line.startswith("error: ")]
    return error


def report(pair: Pair, seconds: dict[str, float]) -> None:
    """Print the figures."""
    terms = len({lease.token for lease in pair.history.leases()})
    print(
        f"\nrolling, PostgreSQL: {terms} terms, {len(pair.cluster.puts())} PUTs, {len(pair.history.states())} writes:"
        f" {len(pair.foreign_puts())} PUTs and {len(pair.foreign_writes())} writes without the lease"
    )
    for what, each in seconds.items():
        print(f"  {what}: the other one led after {each:.2f} s; time to live {TTL:g} s")
