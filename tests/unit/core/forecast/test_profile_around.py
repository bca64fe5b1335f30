from __future__ import annotations

import math
import pickle
import zlib
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.forecast.guard import SourceState, issue
from flink_autoscaler.core.forecast.online import Bucket, Horizons, source_forecast
from flink_autoscaler.core.forecast.pass_forecast import profiles_around
from flink_autoscaler.core.model.load_profile import BUCKET, DAY, LoadProfile, ProfileResult, bucket_start
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.options.forecast import ForecastSettings

SHARES = tuple(1.5 + math.sin(number) for number in range(672))
WHOLE = LoadProfile(
    q50=SHARES, q90=tuple(2 * share for share in SHARES), weeks=5, level=100.0, growth=1.01, asof=0.0, wape=0.1
)
SETTINGS = ForecastSettings()


@given(
    now=st.floats(0.0, 5e8),
    catch_up=st.floats(0.0, 3 * DAY),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_a_pass_comes_to_the_same_with_the_part_around_it(now: float, catch_up: float, timezone: str) -> None:
    profile = replace(WHOLE, timezone=timezone)
    horizons = Horizons.of(Outage(30.0, 60.0), catch_up)
    recent = tuple(Bucket(bucket_start(now) - number * BUCKET, 150.0) for number in (4, 3, 2, 1))
    state = SourceState(recent=recent)

    part = profile.around(now)

    assert source_forecast(part, recent, now, horizons, SETTINGS) == source_forecast(
        profile, recent, now, horizons, SETTINGS
    )
    assert issue(state, part, now, SETTINGS) == issue(state, profile, now, SETTINGS)


def test_the_part_around_a_pass_is_small() -> None:
    part = WHOLE.around(1e9)

    assert sum(share is not None for share in part.q90) < 110
    assert len(zlib.compress(pickle.dumps(part, 5), 1)) < 2_500
    assert len(zlib.compress(pickle.dumps(WHOLE, 5), 1)) > 7_000


def test_a_profile_of_a_time_zone_that_is_not_known_here_is_left_to_the_pass() -> None:
    result = ProfileResult("main/orders", "source", 0.0, replace(WHOLE, timezone="Mars/Base"))

    assert profiles_around({"source": result}, 0.0) == {"source": result}
