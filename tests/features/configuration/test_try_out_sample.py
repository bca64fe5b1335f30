"""The configuration to try out can be used as it is, and what is left of it for production is made of defaults."""

from __future__ import annotations

import re
from pathlib import Path

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.options import daemon_keys, job_keys
from flink_autoscaler.standalone.settings.schema.settings import Settings

TEXT = (Path(__file__).parents[3] / "conf" / "try-out.yaml").read_text(encoding="utf-8")
PRODUCTION, WAITS = TEXT.split("## Part 2.")


def settings_of(text: str, directory: Path) -> tuple[Settings, tuple[str, ...]]:
    file = directory / "autoscaler.yaml"
    file.write_text(text, encoding="utf-8")
    settings, configuration = SettingsLoader(file, environment={}).load()
    return settings, configuration.warnings


def test_it_can_be_used_as_it_is_with_economics_and_history(tmp_path: Path) -> None:
    settings, warnings = settings_of(TEXT, tmp_path)

    options = AutoscalerOptions(settings.job_defaults)
    assert warnings == ()
    assert (options.enabled, options.economics_enabled, options.rollback_enabled) == (True, True, True)
    assert settings.history.enabled


def test_what_is_removed_for_production_says_its_true_defaults() -> None:
    rows = re.findall(r"^([\w.-]+): (.+?)  # default (.+)$", WAITS, re.MULTILINE)
    defaults = {key: option.default_text for key, option in job_keys().items()}
    defaults |= {key: option.default_text for key, option in daemon_keys().items()}

    assert len(rows) == len(re.findall(r"^[a-z]", WAITS, re.MULTILINE)) > 5
    assert [(key, said) for key, _, said in rows if defaults[key] != said] == []


def test_what_is_left_for_production_works_with_the_waits_of_production(tmp_path: Path) -> None:
    settings, warnings = settings_of(PRODUCTION, tmp_path)

    options = AutoscalerOptions(settings.job_defaults)
    assert warnings == ()
    assert options.enabled
    assert options.metrics_window == AutoscalerOptions({}).metrics_window
    assert options.scale_down_interval == AutoscalerOptions({}).scale_down_interval
