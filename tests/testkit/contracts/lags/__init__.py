"""What every place that knows lag has to keep to."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.ports.lag_sources import LagQuery, LagSource


class LagSourceContract:
    """Subclass it, with fixtures ``source``, ``known`` (a query with an answer) and ``unknown`` (one without)."""

    def test_lags_are_numbers_by_name(self, source: LagSource, known: LagQuery) -> None:
        found = source.lags(known)

        assert found
        assert all(isinstance(name, str) and math.isfinite(lag) and lag >= 0 for name, lag in found.items())

    def test_asking_again_gives_the_same(self, source: LagSource, known: LagQuery) -> None:
        assert dict(source.lags(known)) == dict(source.lags(known))

    def test_it_may_be_asked_by_several_threads(self, source: LagSource, known: LagQuery) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(source.lags, [known] * 8))

        assert all(dict(answer) == dict(answers[0]) for answer in answers)

    def test_what_is_unknown_is_an_error_of_ours_and_never_a_zero(self, source: LagSource, unknown: LagQuery) -> None:
        with pytest.raises(AutoscalerError):
            source.lags(unknown)

    def test_it_may_be_closed_twice(self, source: LagSource) -> None:
        source.close()
        source.close()
