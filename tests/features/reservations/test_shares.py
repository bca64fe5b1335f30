"""Slots that jobs of a cluster share: who has them is told, and who has too many gives some back."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from testkit.builders.slots import FULL, SharedCluster, held
from testkit.fakes.flink import FakeJob
from testkit.scenarios.runner import LogLines


def announce(cluster: SharedCluster) -> None:
    """Log every pass so far, as the daemon does."""
    announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}))
    for report in cluster.reports:
        announcer.report(report)


# --- who has the slots


def test_a_scale_up_without_room_says_who_has_the_slots_and_what_would_help() -> None:
    with SharedCluster(12) as cluster:
        cluster.add("payments", 7)
        cluster.add("orders", 4, load=430.0)
        cluster.add("fraud", 1)

        cluster.run(FULL)

        assert cluster.texts("orders")["HEADROOM_REACHED"] == (
            "cluster main: 12 slots, none free (payments 7, orders 4, fraud 1): work stays at 4 instead of 8; "
            "4 slots are missing: 2 more TaskManagers of 2 slots would do, or slots that other jobs release"
        )


def test_a_job_that_waits_for_slots_says_how_many_are_missing() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6, options={"dry-run": "true"})
        cluster.submit("orders", 3)

        cluster.run(2)

        assert cluster.report("orders").outcome.phase is PassPhase.NOT_RUNNING
        assert cluster.texts("orders")["SLOTS_MISSING"] == (
            "it needs 1 slot at least to run, 1 is missing; cluster main: 6 slots, none free (payments 6); "
            "no other job can release any"
        )


# --- one slot at a time

WAITING = "WAITS_FOR_MORE_SLOTS"


def test_a_scale_up_for_which_one_slot_is_free_waits_until_more_come_together() -> None:
    with SharedCluster(8) as cluster:
        cluster.add("orders", 7, load=5_000.0)

        cluster.run(FULL + 1)
        is_waiting = WAITING in cluster.texts("orders")
        before = cluster.asked("orders")
        cluster.slots = 10
        cluster.run()

        assert before == []
        assert is_waiting
        assert cluster.asked("orders") == [10]


# --- those who have too many give


def test_a_job_that_has_all_slots_is_asked_down_to_its_share_within_two_passes() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6)
        first, second = cluster.submit("orders", 3), cluster.submit("fraud", 3)

        took = cluster.run_until(lambda: bool(cluster.asked("payments")), 3)
        cluster.run_until(lambda: {first.state, second.state} == {"RUNNING"}, 8)
        cluster.run(5)

        running = [held(job_of(cluster, name)) for name in ("payments", "orders", "fraud")]
        assert (took, cluster.asked("payments")) == (2, [2])
        assert sum(running) == 6
        assert min(running) > 0


def test_the_log_says_that_a_job_gives_its_share_to_another(lines: LogLines) -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6)
        cluster.submit("orders", 3)

        cluster.run_until(lambda: bool(cluster.asked("payments")), 3)
        announce(cluster)

    (line,) = lines.of("job_rescale_requested", job_key="main/payments")
    assert (line["cause"], line["text"]) == ("share", "work 6 → 3")


def test_the_one_that_has_nothing_says_what_it_lacks_and_who_gives() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6)
        cluster.submit("orders", 3)

        cluster.run()
        text = cluster.texts("orders")["SLOTS_MISSING"]
        cluster.run()

        assert text == (
            "it needs 1 slot at least to run, 1 is missing; cluster main: 6 slots, none free (payments 6); "
            "payments is to shrink to 3"
        )
        assert cluster.texts("payments")["GIVES_SLOTS"] == "the job releases 3 of its 6 slots for orders"
        assert cluster.told.of("orders", "SlotsMissing") == [f"The job has too few slots: {text}"]
        assert cluster.told.of("payments", "GivesSlots") == [
            "Other jobs have too few slots: the job releases 3 of its 6 slots for orders"
        ]


def test_slots_that_were_given_are_not_taken_back_before_the_other_one_has_them() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6, load=5_000.0)
        cluster.run(FULL)
        orders = cluster.submit("orders", 3)

        cluster.run_until(lambda: orders.state == "RUNNING", 8)
        cluster.run(FULL)

        assert cluster.asked("payments") == [3]


def test_a_job_that_lost_its_slots_during_a_rescale_does_not_miss_those_that_the_rescale_takes() -> None:
    with SharedCluster(6) as cluster:
        orders = cluster.add("orders", 3, load=5_000.0, options={"rescale.lower-bound": "target"})
        cluster.add("payments", 1)
        orders.obeys = False
        cluster.run_until(lambda: bool(cluster.asked("orders")), FULL + 1)
        cluster.stop(orders)
        cluster.dealing = False

        cluster.run(3)

        assert cluster.asked("orders") == [5]
        assert orders.requirements[orders.vertices[1].vertex_id] == (5, 5)
        assert cluster.told.of("orders", "SlotsMissing") == []


def test_slots_that_flink_has_handed_over_are_not_asked_for_again_while_the_job_starts() -> None:
    with SharedCluster(8) as cluster:
        cluster.handing_over = 4
        cluster.add("payments", 8)
        orders = cluster.submit("orders", 3)

        cluster.run_until(lambda: orders.state == "RUNNING", 12)
        cluster.run(2)

        assert cluster.asked("payments") == [5]
        assert held(orders) == 3


def test_a_job_whose_own_scale_up_cannot_come_true_gives_as_soon_as_others_do() -> None:
    with SharedCluster(12) as cluster:
        orders, payments = cluster.add("orders", 5, load=5_000.0), cluster.add("payments", 1)
        orders.obeys = False
        cluster.run_until(lambda: bool(cluster.asked("orders")), FULL + 1)
        cluster.slots = 5
        cluster.stop(payments)
        orders.obeys = True

        took = cluster.run_until(lambda: len(cluster.asked("orders")) > 1, 3)
        cluster.run_until(lambda: payments.state == "RUNNING", 2)

        assert (took, cluster.asked("orders")) == (2, [8, 4])
        (superseded,) = cluster.report("orders").outcome.state.supervision.past
        assert superseded.reason == "another rescale was decided"


def test_a_job_whose_scale_down_is_under_way_is_not_asked_again_while_its_slots_come_free() -> None:
    with SharedCluster(6) as cluster:
        orders = cluster.add("orders", 6)
        orders.obeys = False
        cluster.submit("payments", 3)
        cluster.run_until(lambda: bool(cluster.asked("orders")), 3)

        cluster.run(4)

        assert cluster.asked("orders") == [3]


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        pytest.param({"dry-run": "true"}, 1, id="nothing is to be changed"),
        pytest.param({"vertex.bounds": "work=6.."}, 1, id="its bounds"),
        pytest.param({"slots.fair-shares.enabled": "false"}, 1, id="it takes no part"),
        pytest.param({"slots.priority": "1"}, 1, id="it comes first"),
        pytest.param({"compat": "reference"}, 1, id="as in the reference"),
        pytest.param({}, 7, id="no cluster of this size has what the other one needs"),
    ],
)
def test_a_job_that_is_not_to_give_keeps_its_slots(options: dict[str, str], needed: int) -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 6, options=options)
        orders = cluster.submit("orders", 8)
        orders.requirements = dict.fromkeys(orders.requirements, (needed, 8))

        cluster.run(4)

        assert cluster.asked("payments") == []
        assert cluster.texts("orders")["SLOTS_MISSING"].endswith("; no other job can release any")


def test_a_job_below_its_least_parallelism_is_given_what_it_lacks() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 5)
        orders = cluster.add("orders", 1, options={"vertex.bounds": "work=2.."})
        work = orders.vertices[1].vertex_id
        orders.requirements[work] = (1, 4)
        cluster.remember("orders", {work: 4})

        cluster.run_until(lambda: bool(cluster.asked("payments")), 3)

        assert cluster.asked("payments") == [4]


def test_slots_that_flink_keeps_for_a_rescale_that_waits_are_not_missing() -> None:
    with SharedCluster(6) as cluster:
        cluster.add("payments", 4)
        orders = cluster.add("orders", 1, load=200.0, options={"vertex.bounds": "work=2..2"})
        orders.obeys = False
        cluster.run_until(lambda: bool(cluster.asked("orders")), FULL + 2)
        cluster.aside = 1

        cluster.run(4)

        assert "SLOTS_MISSING" not in cluster.texts("orders")
        assert (cluster.asked("orders"), cluster.asked("payments")) == ([2], [])


def job_of(cluster: SharedCluster, name: str) -> FakeJob:
    return next(job for job in cluster.flink.jobs.values() if job.name == name)
