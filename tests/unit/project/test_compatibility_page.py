"""The page about compatibility names exactly the improvements that are declared."""

import re
from pathlib import Path

from flink_autoscaler.core.options.job import AutoscalerOptions

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "compatibility.md"
PREFIX = "job.autoscaler.improvement."


def test_every_improvement_is_explained() -> None:
    declared = {option.key.removeprefix(PREFIX) for option in AutoscalerOptions.declared() if PREFIX in option.key}

    explained = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE))

    assert explained == declared
