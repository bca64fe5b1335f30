import pytest

from flink_autoscaler.core.last import keeping_last


@keeping_last
def listed(*given: object) -> list[object]:
    return list(given)


def test_what_was_made_of_the_same_objects_is_kept() -> None:
    name = ["a"]

    assert listed(name, 1) is listed(name, 1)


def test_equal_objects_are_not_the_same() -> None:
    assert listed(["a"]) is not listed(["a"])


def test_more_objects_are_not_the_same() -> None:
    assert listed(1) == [1]
    assert listed(1, 1) == [1, 1]


def test_an_error_is_raised_every_time() -> None:
    made, text = keeping_last(int), "no number"

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            made(text)
