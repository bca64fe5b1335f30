"""The tests that every book of orders has to pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseScope
from flink_autoscaler.core.model.supervision import NO_SUPERVISION
from flink_autoscaler.core.ports.order_store import Command, CommandResult, OrderStore
from flink_autoscaler.core.rescale import operator_commands
from flink_autoscaler.core.rescale.operator_commands import KEPT_MS

_HOUR_MS = 3_600_000
_PEOPLE = 8


def pausing(who: str = "alice", *, lasts_ms: int | None = None) -> Command:
    """Make the command that pauses a job in both directions."""

    def command(orders: Orders, now_ms: int) -> CommandResult:
        signed = AuditStamp(who, "deployment", now_ms)
        return operator_commands.pause_order(orders, signed, direction=PauseScope.BOTH, lasts_ms=lasts_ms)

    return command


def pinning(pattern: str, parallelism: int = 4) -> Command:
    """Make the command that pins a vertex."""
    return lambda orders, now_ms: operator_commands.pin_order(
        orders, AuditStamp("bob", "test", now_ms), {pattern: parallelism}
    )


def resuming(orders: Orders, now_ms: int) -> CommandResult:
    """Resume a job."""
    return operator_commands.resume_order(orders, AuditStamp("carol", "", now_ms))


def resetting(orders: Orders, now_ms: int) -> CommandResult:
    """Have everything forgotten about a job."""
    return operator_commands.reset_order(orders, AuditStamp("dave", "fresh start", now_ms), NO_SUPERVISION)


class OrderStoreContract(ABC):
    """What every :class:`OrderStore` does."""

    @abstractmethod
    def make_book(self) -> OrderStore:
        """Make one without any orders. Called once per test."""

    @pytest.fixture
    def book(self) -> OrderStore:
        return self.make_book()

    def test_nothing_is_ordered_at_first(self, book: OrderStore) -> None:
        assert book.orders("main") == {}

    def test_an_order_is_in_the_book_at_once(self, book: OrderStore) -> None:
        ordered = book.change("main/a", pausing("alice"))

        pause = book.orders("main")["main/a"].pause
        assert pause is not None
        assert pause == ordered.orders.pause
        assert (pause.signed.who, pause.signed.reason, pause.until_ms) == ("alice", "deployment", None)

    def test_orders_are_those_of_the_cluster(self, book: OrderStore) -> None:
        book.change("main/a", pausing())
        book.change("other/a", pausing())

        assert set(book.orders("main")) == {"main/a"}
        assert set(book.orders("other")) == {"other/a"}
        assert book.orders("main2") == {}

    def test_a_key_that_names_no_cluster_may_be_in_any(self, book: OrderStore) -> None:
        book.change("ab" * 16, pausing())

        assert set(book.orders("main")) == {"ab" * 16}

    def test_every_part_of_orders_is_kept(self, book: OrderStore) -> None:
        book.change("main/a", pinning("Source: *", 2))
        book.change("main/a", pausing(lasts_ms=_HOUR_MS))
        book.change(
            "main/a",
            lambda orders, now_ms: operator_commands.dry_run_order(orders, AuditStamp("x", "y", now_ms), is_on=True),
        )
        ordered = book.change("main/a", resetting)

        assert book.orders("main") == {"main/a": ordered.orders}
        assert None not in (ordered.orders.pause, ordered.orders.dry_run, ordered.orders.reset)

    def test_a_later_change_builds_on_the_earlier_one(self, book: OrderStore) -> None:
        book.change("main/a", pinning("x", 2))
        book.orders("main")
        book.change("main/a", pinning("y", 3))

        assert [pin.pattern for pin in book.orders("main")["main/a"].pins] == ["x", "y"]

    def test_a_change_back_is_seen(self, book: OrderStore) -> None:
        book.change("main/a", pausing())
        book.orders("main")
        book.change("main/a", resuming)

        orders = book.orders("main")["main/a"]

        assert orders.pause is None
        assert orders.resumed_ms is not None

    def test_a_refused_command_changes_nothing(self, book: OrderStore) -> None:
        before = book.change("main/a", pinning("x")).orders

        refused = book.change(
            "main/a", lambda orders, now_ms: operator_commands.unpin_order(orders, AuditStamp("bob", "", now_ms), ["y"])
        )

        assert refused.is_refused
        assert book.orders("main") == {"main/a": before}

    def test_orders_that_order_nothing_are_not_kept(self, book: OrderStore) -> None:
        book.change("main/a", pinning("x"))
        book.change(
            "main/a", lambda orders, now_ms: operator_commands.unpin_order(orders, AuditStamp("bob", "", now_ms))
        )

        assert book.orders("main") == {}

    def test_one_that_is_made_again_is_seen(self, book: OrderStore) -> None:
        book.change("main/a", pinning("x"))
        book.orders("main")
        book.change(
            "main/a", lambda orders, now_ms: operator_commands.unpin_order(orders, AuditStamp("bob", "", now_ms))
        )
        book.change("main/a", pinning("y"))

        assert [pin.pattern for pin in book.orders("main")["main/a"].pins] == ["y"]

    def test_the_same_command_twice_is_later_the_second_time(self, book: OrderStore) -> None:
        first = book.change("main/a", resetting).orders.reset
        second = book.change("main/a", resetting).orders.reset

        assert first is not None
        assert second is not None
        assert second.at_ms > first.at_ms

    def test_what_people_order_at_the_same_time_is_all_kept(self, book: OrderStore) -> None:
        patterns = [f"vertex-{number}" for number in range(_PEOPLE)]
        with ThreadPoolExecutor(_PEOPLE) as people:
            list(people.map(lambda pattern: book.change("main/a", pinning(pattern)), patterns))

        assert sorted(pin.pattern for pin in book.orders("main")["main/a"].pins) == patterns

    def test_what_is_over_is_tidied_away(self, book: OrderStore) -> None:
        over = book.change("main/over", pausing(lasts_ms=_HOUR_MS)).orders.pause
        book.change("main/pinned too", pausing(lasts_ms=_HOUR_MS))
        book.change("main/pinned too", pinning("x"))
        book.change("main/lasting", pausing())
        book.orders("main")
        assert over is not None

        book.tidy("main", over.signed.at_ms + 2 * _HOUR_MS)

        left = book.orders("main")
        assert set(left) == {"main/pinned too", "main/lasting"}
        assert left["main/pinned too"].pause is None
        assert len(left["main/pinned too"].pins) == 1

    def test_what_is_in_force_is_not_tidied_away(self, book: OrderStore) -> None:
        book.change("main/a", pausing(lasts_ms=_HOUR_MS))
        resumed = book.change("main/b", resuming)
        book.change("main/b", pausing())
        resumed = book.change("main/b", resuming)
        before = book.orders("main")
        assert resumed.orders.resumed_ms is not None

        book.tidy("main", resumed.orders.resumed_ms + _HOUR_MS // 2)

        assert book.orders("main") == before

    def test_what_nobody_did_for_long_is_tidied_away(self, book: OrderStore) -> None:
        reset = book.change("main/a", resetting).orders.reset
        book.orders("main")
        assert reset is not None

        book.tidy("main", reset.at_ms + KEPT_MS + 1)

        assert book.orders("main") == {}

    def test_tidying_a_cluster_that_was_never_read_does_nothing(self, book: OrderStore) -> None:
        book.tidy("main", 0)

        assert book.orders("main") == {}

    def test_the_orders_of_forgotten_jobs_are_gone(self, book: OrderStore) -> None:
        for job_key in ("main/a", "main/b", "main/c"):
            book.change(job_key, pausing())
        book.orders("main")

        book.forget(["main/a", "main/c", "main/unknown"])
        book.forget([])

        assert set(book.orders("main")) == {"main/b"}

    def test_clusters_may_be_read_at_the_same_time(self, book: OrderStore) -> None:
        clusters = [f"cluster-{number}" for number in range(_PEOPLE)]
        for cluster in clusters:
            book.change(f"{cluster}/a", pausing())

        with ThreadPoolExecutor(_PEOPLE) as threads:
            found = list(threads.map(partial(_keys, book), clusters))

        assert found == [{f"{cluster}/a"} for cluster in clusters]


def _keys(book: OrderStore, cluster: str) -> set[str]:
    return {job_key for job_key, orders in book.orders(cluster).items() if orders != NO_ORDERS}
