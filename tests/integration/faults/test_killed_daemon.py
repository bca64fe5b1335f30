"""A daemon that is killed at random instants while its job is being rescaled."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.schema import upgrade_schema
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from testkit.scenarios.faults import BusyCluster, History, Put, StateChange, rounds
from testkit.scenarios.runner.process import DaemonProcess
from testkit.servers.databases import DatabaseServer

pytestmark = pytest.mark.faults

JOB = "main/orders"
KILLS = rounds(200, short=5)
LONGEST_LIFE = 2.0
"""Seconds from the first pass to the kill, at most: a few rescales."""


@pytest.fixture
def database(postgresql_server: DatabaseServer) -> Iterator[Database]:
    database = Database(postgresql_server.new_database())
    upgrade_schema(database)
    yield database
    database.close()


def load(database: Database) -> JobState:
    """Load as a new process would; a value that cannot be read fails the test."""
    store = SqlStateStore(database)
    state = store.load(JOB)
    assert store.quarantined_count == 0
    return state


def instants(value: str | None) -> list[datetime]:
    """Return the instants that are the keys of a stored map. As texts they do not sort: a fraction may be left out."""
    return [datetime.fromisoformat(at) for at in json.loads(value or "{}")]


def newest(changes: Sequence[StateChange]) -> Iterator[tuple[datetime, datetime]]:
    """Give the newest instant of each version and of the one before."""
    yield from itertools.pairwise(max(found) for change in changes if (found := instants(change.value)))


def is_recorded_before(put: Put, decisions: Sequence[StateChange]) -> bool:
    text = ",".join(f"{vertex}:{parallelism}" for vertex, parallelism in sorted(put.wanted.items()))
    recorded = (change for change in decisions if change.at <= put.at and change.value)
    return any(",".join(sorted((change.value or "").split(","))) == text for change in recorded)


def test_killing_the_daemon_loses_no_recorded_state_and_repeats_no_request(
    tmp_path: Path, database: Database, postgresql_server: DatabaseServer
) -> None:
    history = History(database)
    settings = postgresql_server.settings(database.engine.url.database or "")
    chance = random.Random(4)
    started = time.monotonic()
    with (
        BusyCluster(tmp_path) as cluster,
        DaemonProcess(tmp_path, database=settings, cluster_url=cluster.urls[0]) as daemon,
    ):
        for number in range(KILLS):
            daemon.start()
            if number == 0:
                cluster.wait_for_puts(1)  # on a busy machine no life may be long enough for one
            time.sleep(chance.uniform(0.0, LONGEST_LIFE))  # a random time before its end: nothing to wait for
            daemon.kill()
            load(database)
        puts = cluster.puts()

    decisions, samples = history.states("parallelismOverrides"), history.states("collectedMetrics")
    repeated = [put for before, put in itertools.pairwise(puts) if put.wanted == before.wanted]
    unrecorded = [put for put in puts if not is_recorded_before(put, decisions)]
    went_back = [pair for pair in newest(samples) if pair[1] < pair[0]]
    print(
        f"\n{KILLS} kills in {time.monotonic() - started:.0f} s: {len(puts)} PUTs, {len(decisions)} recorded decisions,"
        f" {len(samples)} recorded windows; {len(repeated)} repeated PUTs, {len(unrecorded)} PUTs without a record,"
        f" {len(went_back)} windows that went back"
    )
    lost = lost_decisions(history.states("scalingHistory"))
    assert puts
    assert (repeated, unrecorded, went_back, lost) == ([], [], [], [])


def lost_decisions(changes: Sequence[StateChange]) -> list[tuple[str, datetime]]:
    """Return decisions that a later version lacks, although it still has an older one of that vertex."""
    lost = []
    for before, after in itertools.pairwise(map(decisions_of, changes)):
        for vertex, decided in before.items():
            kept = after.get(vertex, set())
            oldest_kept = min(kept, default=datetime.min.replace(tzinfo=UTC))
            lost += [(vertex, at) for at in decided - kept if at > oldest_kept]
    return lost


def decisions_of(change: StateChange) -> dict[str, set[datetime]]:
    return {vertex: set(instants(json.dumps(each))) for vertex, each in json.loads(change.value or "{}").items()}
