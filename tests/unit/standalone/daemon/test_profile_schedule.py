"""When the daemon makes load profiles, as the settings say it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import zone_named
from flink_autoscaler.standalone.daemon.profile_schedule import NIGHTLY, effective_schedule
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.types import OFF, cron_trigger

KEPT = ("autoscaler.history.enabled=true", "autoscaler.history.path=/var/lib/history")
WANTED = ("job.autoscaler.forecast.enabled=true",)
OF_ONE_CLUSTER = (
    "autoscaler.clusters.0.name=main",
    "autoscaler.clusters.0.url=http://main:8081",
    "autoscaler.clusters.1.name=other",
    "autoscaler.clusters.1.url=http://other:8081",
    "autoscaler.clusters.1.options.job.autoscaler.forecast.enabled=true",
)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)


def schedule(*overrides: str) -> str:
    return effective_schedule(SettingsLoader(None, overrides).read(sets_log=True))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param((), OFF, id="no history"),
        pytest.param(KEPT, OFF, id="a history, and nobody who wants forecasts"),
        pytest.param(WANTED, OFF, id="forecasts, and no history"),
        pytest.param((*KEPT, *WANTED), NIGHTLY, id="a history and forecasts"),
        pytest.param((*KEPT, *OF_ONE_CLUSTER), NIGHTLY, id="forecasts for the jobs of one cluster"),
        pytest.param((*KEPT, *WANTED, "autoscaler.forecast.build-schedule=off"), OFF, id="switched off"),
        pytest.param((*KEPT, "autoscaler.forecast.build-schedule=0  4 * * 1"), "0 4 * * 1", id="as somebody wants it"),
    ],
)
def test_profiles_are_made_every_night_where_they_can_be_and_are_wanted(
    overrides: tuple[str, ...], expected: str
) -> None:
    assert schedule(*overrides) == expected


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        pytest.param("0 0 * * 0", [6], id="0 is Sunday"),
        pytest.param("0 0 * * 7", [6], id="so is 7"),
        pytest.param("0 0 * * 1-5", [0, 1, 2, 3, 4], id="a range"),
        pytest.param("0 0 * * 0-6/3", [2, 5, 6], id="every third"),
        pytest.param("0 0 * * sat,1", [0, 5], id="names and numbers"),
        pytest.param("0 0 * * *", [0, 1, 2, 3, 4, 5, 6], id="every day"),
    ],
)
def test_days_of_the_week_are_counted_as_cron_counts_them(expression: str, days: list[int]) -> None:
    trigger = cron_trigger(expression, UTC)

    runs = [trigger.get_next_fire_time(None, MONDAY + timedelta(days=day, minutes=-1)) for day in range(7)]

    assert sorted({run.weekday() for run in runs if run < MONDAY + timedelta(days=7)}) == days


def test_schedule_is_of_its_time_zone() -> None:
    trigger = cron_trigger("10 3 * * *", zone_named("Europe/Berlin"))

    assert trigger.get_next_fire_time(None, MONDAY).astimezone(UTC) == MONDAY + timedelta(hours=2, minutes=10)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        pytest.param("autoscaler.forecast.build-schedule=nightly", "such as '10 3 * * *'", id="a word"),
        pytest.param("autoscaler.forecast.build-schedule=61 * * * *", "such as '10 3 * * *'", id="no such minute"),
        pytest.param("autoscaler.forecast.build-schedule=0 0 1 * 1", "such as '10 3 * * *'", id="two kinds of days"),
        pytest.param("autoscaler.forecast.build-timezone=Mars", "a time zone", id="no such zone"),
        pytest.param(
            "autoscaler.forecast.build-schedule=0 4 * * *", "expected autoscaler.history.path", id="no history"
        ),
    ],
)
def test_schedule_that_cannot_be_kept_is_a_mistake(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("*", r"\*")):
        SettingsLoader(None, (override,)).read(sets_log=True)
