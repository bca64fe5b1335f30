"""The expressions of a dashboard's file, with its variables filled in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def panels(path: Path) -> list[dict[str, Any]]:
    """Return the panels of a dashboard that show something; rows do not."""
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


def expressions(path: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the title of a panel and each of its expressions, with values in place of ``$name``."""
    for panel in panels(path):
        for target in panel["targets"]:
            expression = str(target["expr"])
            # The longer name first: one may begin with another.
            for name in sorted(variables, key=len, reverse=True):
                expression = expression.replace(f"${name}", variables[name])
            yield panel["title"], expression
