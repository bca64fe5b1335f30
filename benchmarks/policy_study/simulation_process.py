"""A process for one simulation of the study: the case as JSON on standard input, its figures on standard output."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any


def set_constants(changes: Mapping[str, Any]) -> None:
    """Change constants of the policy ``slo``; a tuple arrives as a list. Nothing that reads them may be loaded before.

    Raises:
        SystemExit: There is no such constant.
    """
    module = importlib.import_module("flink_autoscaler.core.policies.slo.constants")
    if unknown := [name for name in changes if not hasattr(module.CONSTANTS, name)]:
        sys.exit(f"slo has no constant {unknown[0]}")
    changed = {name: tuple(each) if isinstance(each, list) else each for name, each in changes.items()}
    module.CONSTANTS = replace(module.CONSTANTS, **changed)  # type: ignore[attr-defined]


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    if asked["constants"]:
        set_constants(asked["constants"])
    # Modules read constants while they are loaded, as defaults of their fields: only now may they be.
    json.dump(importlib.import_module("benchmarks.policy_study.simulate").simulate(asked), sys.stdout)
