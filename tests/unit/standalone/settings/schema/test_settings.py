"""Options of the history that contradict what it is for."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.service.registry import applicable_settings, restart_keys
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings


def settings_of(**values: str) -> Settings:
    overrides = [f"autoscaler.history.{name.replace('_', '-')}={text}" for name, text in values.items()]
    return SettingsLoader(overrides=overrides, environment={}).read()


@pytest.mark.parametrize(("text", "seconds"), [("0 s", 0.0), ("90 s", 90.0), ("5 min", 300.0), ("15 min", 900.0)])
def test_interval_may_be_up_to_a_quarter_hour(text: str, seconds: float) -> None:
    assert settings_of(interval=text).history.interval == seconds


def test_longer_interval_is_refused_with_the_key_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(interval="1 h")

    assert str(caught.value) == (
        "autoscaler.history.interval = '1 h' (--set): expected a duration such as '10 s', '1.5 min' or "
        "'1h 30min', at least 0 s, at most 15 min"
    )


def test_every_option_of_the_history_waits_for_a_restart_and_is_named() -> None:
    values = {
        "enabled": "true",
        "path": "/elsewhere",
        "partition": "date",
        "interval": "5 min",
        "flush_interval": "1 min",
        "flush_rows": "1000",
        "spill_directory": "/spill",
        "retention": "1 d",
        "compaction_interval": "1 h",
    }
    running, wanted = Settings(), settings_of(**values)

    waiting = restart_keys(applicable_settings(running, wanted), wanted)

    assert applicable_settings(running, wanted).history == running.history
    assert list(waiting) == [f"autoscaler.history.{name.replace('_', '-')}" for name in values]
