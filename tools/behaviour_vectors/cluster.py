"""A Flink cluster that answers from a behaviour vector: a transport for the REST client."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flink_autoscaler.core.errors import RefusedError

Json = Mapping[str, Any]

_AGGREGATES: Final = ("min", "max", "avg", "sum")
_JOB: Final = r"/jobs/(?P<job>[0-9a-f]{32})"


class VectorCluster:
    """One job on one cluster, as a scenario describes it, at the instant of a tick.

    Attributes:
        url: Shown in messages.
        put: What the last PUT of this tick asked for, vertex to ``[lower, upper]``; None without one.
    """

    url = "vector"

    def __init__(self, scenario: Json) -> None:
        self._scenario = scenario
        self._configuration: Json = scenario["conf"]
        self._tick: Json = {}
        self.put: dict[str, list[int]] | None = None
        self._routes: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Sequence[str] | None], object]], ...] = (
            (re.compile("/jobs/overview"), lambda *_: {"jobs": self._overview()}),
            (re.compile(f"{_JOB}/jobmanager/config"), lambda *_: self._job_configuration()),
            (re.compile(f"{_JOB}/resource-requirements"), lambda *_: self._requirements()),
            (re.compile(f"{_JOB}/vertices/(?P<vertex>[0-9a-f]{{32}})/subtasks/metrics"), self._vertex_metrics),
            (re.compile(_JOB), lambda *_: self._details()),
            (re.compile("/taskmanagers/metrics"), lambda _, names: _aggregates(self._tick.get("tm", {}), names or ())),
            (re.compile("/jobmanager/metrics"), lambda _, names: self._jobmanager_metrics(names or ())),
        )

    def show(self, tick: Json) -> None:
        """Go on to another instant."""
        self._tick = tick
        self._configuration = tick.get("conf") or self._configuration
        self.put = None

    async def get_json(
        self, path: str, *, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> object:
        """Answer a GET as the cluster would at this instant."""
        del timeout
        self._refuse_failing(path)
        names = params["get"].split(",") if params and "get" in params else None
        for pattern, answer in self._routes:
            match = pattern.fullmatch(path)
            if match:
                return answer(match, names)
        raise RefusedError(f"GET {path}: 404 Not Found", 404)

    async def get_all_json(
        self, asked: Sequence[tuple[str, Mapping[str, str]]], *, timeout: float | None = None
    ) -> list[object]:
        """Answer several GETs."""
        return [await self.get_json(path, params=params, timeout=timeout) for path, params in asked]

    async def put_json(self, path: str, body: object, *, timeout: float | None = None) -> object:
        """Accept and remember new requirements."""
        del timeout
        self._refuse_failing(path)
        assert isinstance(body, Mapping)
        bounds = {vertex_id: entry["parallelism"] for vertex_id, entry in body.items()}
        self.put = {vertex_id: [bound["lowerBound"], bound["upperBound"]] for vertex_id, bound in bounds.items()}
        return {}

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""

    def _refuse_failing(self, path: str) -> None:
        if any(part in path for part in self._tick.get("fail", ())):
            raise RefusedError(f"{path}: 500 Internal Server Error", 500)

    def _overview(self) -> list[Json]:
        if self._tick.get("absent"):
            return []
        tasks: dict[str, int] = {"total": 0}
        for vertex in self._tick["v"].values():
            state = vertex["st"].lower()
            tasks[state] = tasks.get(state, 0) + vertex["p"]
            tasks["total"] += vertex["p"]
        return [{"jid": self._scenario["jid"], "name": "job", "state": self._tick["state"], "tasks": tasks}]

    def _job_configuration(self) -> list[Json]:
        return [{"key": key, "value": value} for key, value in self._configuration.items()]

    def _requirements(self) -> Json:
        return {
            vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
            for vertex_id, (lower, upper) in self._tick["req"].items()
        }

    def _details(self) -> Json:
        vertices = self._scenario["vertices"]
        return {
            "jid": self._scenario["jid"],
            "name": "job",
            "state": self._tick["state"],
            "timestamps": {"RUNNING": self._tick["run"]},
            "vertices": [self._vertex(vertex) for vertex in vertices],
            "plan": {"nodes": [self._node(vertex) for vertex in vertices]},
        }

    def _vertex(self, vertex: Json) -> Json:
        now = self._tick["v"][vertex["id"]]
        return {
            "id": vertex["id"],
            "name": vertex["name"],
            "parallelism": now["p"],
            "maxParallelism": vertex["maxp"],
            "status": now["st"],
            "slotSharingGroupId": vertex["ssg"],
            "metrics": {
                "read-records": now["in"],
                "write-records": now["out"],
                "accumulated-busy-time": now["busy"],
            },
        }

    def _node(self, vertex: Json) -> Json:
        inputs = [{"id": vertex_id, "ship_strategy": strategy} for vertex_id, strategy in vertex["inputs"]]
        return {"id": vertex["id"], "parallelism": self._tick["v"][vertex["id"]]["p"], "inputs": inputs}

    def _vertex_metrics(self, match: re.Match[str], names: Sequence[str] | None) -> object:
        vertex = next((v for v in self._scenario["vertices"] if v["id"] == match["vertex"]), None)
        if vertex is None:
            return []
        metrics = self._tick["v"][vertex["id"]].get("m", {})
        if names is not None:
            return _aggregates(metrics, names)
        partitions = [text.replace("{i}", str(i)) for text, count in vertex.get("parts", ()) for i in range(count)]
        return [{"id": name} for name in (*metrics, *partitions)]

    def _jobmanager_metrics(self, names: Sequence[str]) -> list[Json]:
        values = self._tick.get("jm", {})
        return [{"id": name, "value": values[name]} for name in names if name in values]


def _aggregates(metrics: Json, names: Sequence[str]) -> list[Json]:
    """Answer with aggregates, or with nothing at all when one name is unknown, as Flink does."""
    if any(name not in metrics for name in names):
        return []
    return [{"id": name, **dict(zip(_AGGREGATES, metrics[name], strict=False))} for name in names]
