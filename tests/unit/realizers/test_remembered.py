from __future__ import annotations

from flink_autoscaler.realizers.remembered import BoundedMemory


def test_nothing_is_remembered_at_first() -> None:
    assert BoundedMemory[str, int]().get("a") is None


def test_put_returns_what_was_there() -> None:
    remembered: BoundedMemory[str, int] = BoundedMemory()

    assert remembered.put("a", 1) is None
    assert remembered.put("a", 2) == 1
    assert remembered.get("a") == 2


def test_what_was_put_first_is_forgotten_when_full() -> None:
    remembered: BoundedMemory[str, int] = BoundedMemory(capacity=2)
    remembered.put("a", 1)
    remembered.put("b", 2)
    remembered.put("a", 3)

    remembered.put("c", 4)

    assert [remembered.get(key) for key in "abc"] == [3, None, 4]
