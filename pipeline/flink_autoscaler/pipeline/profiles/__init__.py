"""Load profiles from the metric history: a Spark job for every night.

Importing this package imports neither Spark nor Arrow. The job is in :mod:`flink_autoscaler.pipeline.profiles.job`,
and with a session of its own in :mod:`flink_autoscaler.pipeline.profiles.run`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from flink_autoscaler.core.model.load_profile import WEEK, bucket_start
from flink_autoscaler.core.options.forecast import ForecastOptions, ForecastSettings, forecast_settings

BACKTEST_WEEKS: Final = 1
"""Over which forecasts are tested."""


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """Settings for building profiles.

    Attributes:
        asof: End of the history, epoch seconds, at a quarter hour.
        weeks: Weeks of history per profile at most.
        quantile: The upper quantile.
        timezone: IANA name; the week is counted in it.
        growth_bounds: Least and greatest growth per week.
        excluded: Days, in ``timezone``, that nothing is learned from.
        online: How forecasts are corrected, for the backtest.
    """

    asof: int
    weeks: int = 8
    quantile: float = 0.9
    timezone: str = "UTC"
    growth_bounds: tuple[float, float] = (0.8, 1.25)
    excluded: tuple[date, ...] = ()
    online: ForecastSettings = field(default_factory=ForecastSettings)

    @classmethod
    def of(cls, options: ForecastOptions, asof: float) -> ProfileSettings:
        """Make settings of the options; the quarter hour that ``asof`` lies in does not count any more.

        Raises:
            ConfigError: An option cannot be read.
        """
        return cls(
            asof=bucket_start(asof),
            weeks=options.forecast_weeks,
            quantile=options.forecast_quantile,
            timezone=options.forecast_timezone,
            growth_bounds=options.forecast_growth_bounds,
            excluded=options.forecast_exclude,
            online=forecast_settings(options),
        )

    @property
    def begin(self) -> int:
        """The first instant that matters: the oldest fit of the backtest looks back as far as the profile does."""
        return self.asof - round((self.weeks + BACKTEST_WEEKS) * WEEK)
