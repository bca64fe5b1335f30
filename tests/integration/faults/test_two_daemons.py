"""Two daemons on one database: the leader is killed, paused, cut off and stopped, again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.schema import upgrade_schema
from testkit.scenarios.faults import Pair, Put, rounds
from testkit.scenarios.faults.pair import TTL
from testkit.servers.databases import DatabaseServer

pytestmark = pytest.mark.faults

ONE_PASS = 0.1
SLACK = 5.0
"""Seconds that a machine with more to do than this test may add to a take-over."""
FAULTS = ("kill", "pause", "cut", "stop")
ROUNDS = rounds(40, short=4)


@pytest.fixture
def pair(tmp_path: Path, postgresql_server: DatabaseServer) -> Iterator[Pair]:
    settings = postgresql_server.new_database()
    database = Database(settings)
    upgrade_schema(database)
    database.close()
    with ExitStack() as parts:
        yield Pair(tmp_path, settings, postgresql_server.port, parts)


def test_at_no_instant_two_daemons_act(pair: Pair) -> None:
    seconds: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    for daemon in pair.daemons:
        daemon.start()
    for number in range(ROUNDS):
        fault = FAULTS[number % len(FAULTS)]
        leader = pair.wait_for_pair()
        hit_at = time.time()
        mend = pair.hit(fault, leader)
        taken_at = pair.wait_for_take_over(leader, since=hit_at)
        seconds[fault].append(taken_at - hit_at)
        mend()
    pair.wait_for_pair()
    for daemon in pair.daemons:
        assert daemon.stop() == 0

    leases, puts = pair.history.leases(), pair.cluster.puts()
    tokens = [lease.token for lease in leases]
    foreign_puts, writes, foreign_writes = pair.foreign_puts(), pair.history.states(), pair.foreign_writes()
    report(pair, seconds, puts, writes, foreign_puts, foreign_writes)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) > ROUNDS
    assert foreign_puts == []
    assert foreign_writes == []
    assert max(max(each, default=0.0) for each in seconds.values()) < TTL + ONE_PASS + SLACK


def report(
    pair: Pair,
    seconds: dict[str, list[float]],
    puts: Sequence[Put],
    writes: Sequence[object],
    foreign_puts: Sequence[Put],
    foreign_writes: Sequence[object],
) -> None:
    """Print the figures."""
    changes = len({lease.token for lease in pair.history.leases()})
    print(
        f"\n{ROUNDS} faults, {changes} terms, {len(puts)} PUTs, {len(writes)} writes: {len(foreign_puts)} PUTs and"
        f" {len(foreign_writes)} writes by a daemon without the lease; time to live {TTL:g} s"
    )
    for fault, each in seconds.items():
        if each:
            print(f"  {fault}: the other took over within {max(each):.2f} s, on average {sum(each) / len(each):.2f} s")
