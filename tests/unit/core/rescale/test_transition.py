"""Transitions are values: they add up, change nothing that they were given, and are those of the picture."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from flink_autoscaler.core.rescale import following


def test_every_function_in_the_picture_of_the_machine_is_one_of_the_room() -> None:
    room = Path(following.__file__).parent
    modules = [import_module(f"{following.__package__}.{path.stem}") for path in room.glob("[a-z]*.py")]
    known = {name for module in modules for name in vars(module)}

    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", following.__doc__ or ""))

    assert {"track_request", "apply_orders", "watch_rollback", "watch_pause"} <= named <= known
