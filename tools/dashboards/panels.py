"""Panels, rows and variables of a dashboard, in the JSON of Grafana 10 and 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA: Final = 39
"""Version of Grafana's JSON: that of Grafana 10.4 and 11."""
WIDTH: Final = 24
TAG: Final = "flink-autoscaler"

GREEN_FROM_ONE: Final = ((None, "red"), (1, "green"))
RED_FROM_ONE: Final = ((None, "green"), (1, "red"))
ORANGE_FROM_ONE: Final = ((None, "green"), (1, "orange"))
PLAIN: Final = ((None, "blue"),)
YES_AND_NO: Final = {"0": "no", "1": "yes"}


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        description: What it shows, and what to look for.
        queries: Text of the legend, ``{{label}}`` in it, to the expression. A table has one query.
        unit: By Grafana's name: ``s``, ``short``, ``percentunit``, ``bytes``, ``none``.
        kind: ``timeseries``, ``stat`` or ``table``.
        width: Of 24.
        steps: From which value on which colour holds; of a stat.
        texts: What is shown instead of a value; of a stat.
        hidden: Columns that are left out; of a table.
    """

    title: str
    description: str
    queries: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    steps: Sequence[tuple[float | None, str]] = PLAIN
    texts: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ("Time", "__name__", "job")

    @property
    def height(self) -> int:
        """In Grafana's units."""
        return 4 if self.kind == "stat" else 8

    def to_json(self, number: int, x: int, y: int) -> Json:
        """Return the panel at a place."""
        shown: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "datasource": SOURCE,
            "targets": [self._target(index, *query) for index, query in enumerate(self.queries.items())],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
        }
        if self.kind == "table":
            hidden = dict.fromkeys(self.hidden, True)
            shown["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
        return shown

    def _target(self, index: int, legend: str, expression: str) -> Json:
        is_instant = self.kind != "timeseries"
        return {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "instant": is_instant,
            "range": not is_instant,
            "format": "table" if self.kind == "table" else "time_series",
        }

    def _defaults(self) -> Json:
        defaults: Json = {"unit": self.unit}
        if self.kind == "timeseries":
            defaults |= {"min": 0, "custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8}}
        if self.kind == "stat":
            defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": v, "color": c} for v, c in self.steps]}
            options = {value: {"text": text} for value, text in self.texts.items()}
            defaults["mappings"] = [{"type": "value", "options": options}] if options else []
        return defaults

    def _options(self) -> Json:
        if self.kind == "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        if self.kind == "stat":
            return {"colorMode": "value", "graphMode": "none", "textMode": "auto", "reduceOptions": {"calcs": ["last"]}}
        return {"showHeader": True}


def variable(name: str, query: str, *, label: str, is_multi: bool) -> Json:
    """Return a variable whose values are those of a label; with ``is_multi`` several, all of them at first."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": is_multi,
        "includeAll": is_multi,
        "allValue": ".*" if is_multi else None,
    }


def dashboard(
    uid: str, title: str, description: str, variables: Sequence[Json], rows: Mapping[str, Sequence[Panel]]
) -> Json:
    """Return a dashboard: rows by title, the panels of each from left to right."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    links = {"title": "flink-autoscaler", "type": "dashboards", "tags": [TAG], "asDropdown": False, "keepTime": True}
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "links": [links],
        "annotations": {"list": []},
        "templating": {"list": [source, *variables]},
        "panels": _placed(rows),
    }


def _placed(rows: Mapping[str, Sequence[Panel]]) -> list[Json]:
    """Put rows below each other; within a row a panel that does not fit begins a new line."""
    placed: list[Json] = []
    y = 0
    for title, panels in rows.items():
        head = {"h": 1, "w": WIDTH, "x": 0, "y": y}
        placed.append({"id": len(placed) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": head})
        x, y, lowest = 0, y + 1, y + 1
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, lowest
            placed.append(panel.to_json(len(placed) + 1, x, y))
            x, lowest = x + panel.width, max(lowest, y + panel.height)
        y = lowest
    return placed
