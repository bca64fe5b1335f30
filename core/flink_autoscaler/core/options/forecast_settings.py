"""How forecasts are made and when they are trusted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """How forecasts are made and when they are trusted.

    Attributes:
        tau: Seconds in which the correction fades to 1/e.
        k_bounds: Least and greatest correction.
        wape_enable: Error up to which a forecast is (again) trusted.
        wape_disable: Error above which it is not any more.
    """

    tau: float = 7200.0
    k_bounds: tuple[float, float] = (0.5, 2.0)
    wape_enable: float = 0.20
    wape_disable: float = 0.25
