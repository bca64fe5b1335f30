"""Names that users see, programs parse and configurations hold stay what they were, or are refused with a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flink_autoscaler.standalone.settings.removals import (
    removed_command_problem,
    removed_key_problem,
    removed_plugins,
    renamed,
)
from testkit.contracts.visible_names import names, texts

PINNED: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "visible-names.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("group", ["daemon options", "job options", "metrics", "entry points", "commands"])
def test_no_name_is_lost_without_a_word(group: str) -> None:
    plugins = {f"{entry_points}: {name}" for entry_points, names in removed_plugins().items() for name in names}
    lost = set(PINNED[group]) - set(names()[group]) - plugins - set(renamed("metrics"))

    assert not {
        name for name in lost if removed_key_problem(name) is None and removed_command_problem(name.split()[1:]) is None
    }


@pytest.mark.parametrize("group", ["reasons and events", "log lines"])
def test_every_reason_event_and_log_line_still_stands_in_the_sources(group: str) -> None:
    assert not set(PINNED[group]) - texts() - set(renamed("log-events"))


def test_what_names_were_renamed_to_is_there() -> None:
    assert set(renamed("log-events").values()) <= texts()
    parts = {part for text in texts() for part in (text, f"flink_autoscaler_{text}", f"flink_autoscaler_job_{text}")}
    assert {
        name for name in renamed("metrics").values() if name not in parts and name not in names()["metrics"]
    } == set()
    known = [name.removeprefix("flink-autoscaler ") for name in names()["commands"]]
    assert not [new for new in renamed("commands").values() if not any(each.startswith(new) for each in known)]
