from __future__ import annotations

import math

import pytest

from flink_autoscaler.core.model.notifications import NotificationBatch
from flink_autoscaler.standalone.notifications.delivery import Outbox
from flink_autoscaler.stores.outbox import HeapOutbox
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.lease import Lease, LeaseFence
from flink_autoscaler.stores.sql.outbox import SqlOutbox
from flink_autoscaler.stores.sql.tables import NOTIFICATIONS
from testkit.contracts.stores.outbox import CLAIM, OutboxContract, a_notice, claimed
from testkit.servers.databases import every_database, rows_of

OURS = "our installation"


class TestHeapOutbox(OutboxContract):
    def make_outbox(self, *, max_waiting: int = 100) -> Outbox:
        return HeapOutbox(max_waiting=max_waiting)


@every_database
class TestSqlOutbox(OutboxContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_outbox(self, *, max_waiting: int = 100) -> Outbox:
        return SqlOutbox(self.database, writer=OURS, max_waiting=max_waiting)


def test_what_was_settled_long_ago_is_forgotten_in_memory() -> None:
    now = [0.0]
    outbox = HeapOutbox(clock=lambda: now[0])
    outbox.add([a_notice(1, identity="same", interval=200_000.0)])
    outbox.ack(claimed(outbox).claim)

    now[0] = 100_000.0
    outbox.expire(3600.0)
    outbox.add([a_notice(2, identity="same")])
    still_known = outbox.lease("audit", CLAIM)
    now[0] = 200_001.0
    outbox.expire(3600.0)
    outbox.add([a_notice(3, identity="same")])

    assert still_known == math.inf
    assert isinstance(outbox.lease("audit", CLAIM), NotificationBatch)


def test_notices_outlive_the_process(database: Database) -> None:
    SqlOutbox(database, writer=OURS).add([a_notice(1)])

    assert claimed(SqlOutbox(database, writer=OURS)).texts == ("text 1",)


def test_notices_of_another_group_of_daemons_are_left_alone(database: Database) -> None:
    outbox = SqlOutbox(database, writer=OURS)
    outbox.add([a_notice(1)])
    other = SqlOutbox(database, writer="theirs")

    assert other.lease("audit", CLAIM) == math.inf
    assert other.expire(0.0) == {}
    assert len(rows_of(database, NOTIFICATIONS)) == 1


def test_who_does_not_lead_adds_and_claims_nothing_and_may_note_what_was_sent(database: Database) -> None:
    lease = Lease(database, name="group", owner="a", ttl=30.0)
    assert lease.acquire()
    fenced = SqlOutbox(database, writer=OURS, fence=LeaseFence(lease, lambda: lease.token))
    fenced.add([a_notice(1)])
    batch = claimed(fenced)
    lease.release()

    with pytest.raises(LeaseLostError):
        fenced.add([a_notice(2)])
    fenced.ack(batch.claim)

    plain = SqlOutbox(database, writer=OURS)
    assert plain.lease("audit", CLAIM) == math.inf
    plain.add([a_notice(3)])
    with pytest.raises(LeaseLostError):
        fenced.lease("audit", CLAIM)


@every_database
def test_texts_come_back_as_they_were(database: Database) -> None:
    outbox = SqlOutbox(database, writer=OURS)
    notice = a_notice(1)
    text = "Größe 東京 🚀 '; DROP TABLE fa_notification; --" + "x" * 100_000

    outbox.add([type(notice)(notice.notice_id, "audit", "i", 0.0, text)])

    assert claimed(outbox).texts == (text,)
