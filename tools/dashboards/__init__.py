"""The Grafana dashboards of ``conf/grafana``, written down once, as rows of panels.

``python -m dashboards`` writes the files; a test keeps them equal.
"""

from __future__ import annotations

import json
from pathlib import Path

from dashboards.fleet import fleet
from dashboards.job import job

FOLDER = Path(__file__).parents[2] / "conf" / "grafana"


def files() -> dict[Path, str]:
    """Return the dashboards as they are to stand in their files."""
    made = {"fleet.json": fleet(), "job.json": job()}
    return {FOLDER / name: json.dumps(dashboard, indent=2) + "\n" for name, dashboard in made.items()}


__all__ = ["FOLDER", "files"]
