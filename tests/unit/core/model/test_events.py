"""Figures whose names are held once are the pairs that they stand for."""

from __future__ import annotations

import pickle

import pytest

from flink_autoscaler.core.model.events import NamedFigures, Reason

PAIRS = (("factor", 1.5), ("wanted", 3.0))


def test_named_figures_are_pairs() -> None:
    figures = NamedFigures(("factor", "wanted"), (1.5, 3.0))

    assert tuple(figures) == PAIRS
    assert dict(figures) == dict(PAIRS)
    assert (len(figures), figures[1], figures[-1:]) == (2, PAIRS[1], PAIRS[1:])
    assert tuple(pickle.loads(pickle.dumps(figures))) == PAIRS
    assert Reason("SIZED", "text", figures=figures) == Reason("SIZED", "text")


def test_as_many_values_as_names_are_needed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        dict(NamedFigures(("factor", "wanted"), (1.5,)))
