"""The few REST calls that tests need to look at a cluster from outside.

Independent of the client of the product on purpose: a test should not see the
cluster through the code it tests.
"""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from testkit.clusters.flink.errors import HarnessError

Json = Any


class FlinkRest:
    """Flink's REST API at one address."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        """Remember ``url``, such as ``http://127.0.0.1:8081``, and for ``https`` whom to trust; nothing is sent."""
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=30.0, trust_env=False, verify=tls or False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **params: str) -> Json:
        """Return the answer to a GET."""
        return _answer(self._client.get(path, params=params))

    def put(self, path: str, body: Json) -> Json:
        """Return the answer to a PUT with a JSON body."""
        return _answer(self._client.put(path, json=body))

    def reachable(self, path: str) -> Json | None:
        """Return the answer to a GET, or ``None`` while there is no usable one."""
        try:
            response = self._client.get(path, timeout=5.0)
            return response.json() if response.is_success else None
        except (httpx.HTTPError, ValueError):
            return None

    def upload(self, jar: Path) -> str:
        """Upload a jar; return its id in the cluster."""
        with jar.open("rb") as content:
            files = {"jarfile": (jar.name, content, "application/x-java-archive")}
            return Path(_answer(self._client.post("/jars/upload", files=files))["filename"]).name

    def run(self, jar_id: str, body: Mapping[str, Json]) -> str:
        """Run an uploaded jar; return the job id."""
        return str(_answer(self._client.post(f"/jars/{jar_id}/run", json=dict(body)))["jobid"])

    def cancel(self, job_id: str) -> None:
        """Ask for the cancellation of a job; a job that has ended stays as it is."""
        response = self._client.patch(f"/jobs/{job_id}", params={"mode": "cancel"})
        if response.status_code not in (404, 409):
            _answer(response)

    def job_state(self, job_id: str) -> str:
        """Return the state in the overview, such as ``RUNNING``; ``MISSING`` if unknown."""
        jobs = self.get("/jobs/overview")["jobs"]
        return next((str(job["state"]) for job in jobs if job["jid"] == job_id), "MISSING")

    def all_tasks_running(self, job_id: str) -> bool:
        """Whether the job runs and every one of its subtasks does."""
        jobs = self.get("/jobs/overview")["jobs"]
        for job in jobs:
            if job["jid"] == job_id and job["state"] == "RUNNING":
                return bool(0 < job["tasks"]["total"] == job["tasks"]["running"])
        return False

    def vertices(self, job_id: str) -> dict[str, Json]:
        """Return the vertices of a job by name, as in the job details."""
        return {vertex["name"]: vertex for vertex in self.get(f"/jobs/{job_id}")["vertices"]}

    def parallelism(self, job_id: str) -> dict[str, int]:
        """Return the parallelism of every vertex, by vertex name."""
        return {name: int(vertex["parallelism"]) for name, vertex in self.vertices(job_id).items()}

    def vertex_metrics(self, job_id: str, vertex_id: str, names: Sequence[str] = ()) -> dict[str, Json]:
        """Return aggregates by metric name; without ``names`` all names, with no values.

        Empty while Flink has not fetched any, and also when one name is unknown.
        """
        params = {"get": ",".join(names)} if names else {}
        rows = self.get(f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", **params)
        return {str(row["id"]): row for row in rows}

    def require(self, job_id: str, upper_bounds: Mapping[str, int]) -> None:
        """Set the wanted parallelism of some vertices, by vertex name; keep the others."""
        path = f"/jobs/{job_id}/resource-requirements"
        body = self.get(path)
        for name, vertex in self.vertices(job_id).items():
            if name in upper_bounds:
                body[vertex["id"]] = {"parallelism": {"lowerBound": 1, "upperBound": upper_bounds[name]}}
        self.put(path, body)


def _answer(response: httpx.Response) -> Json:
    if response.is_success:
        return response.json()
    raise HarnessError(f"{response.request.method} {response.request.url}: {response.status_code} {_reason(response)}")


def _reason(response: httpx.Response) -> str:
    try:
        errors: Iterable[Json] = response.json()["errors"]
    except (ValueError, KeyError):
        return response.text[:2000]
    return "\n".join(str(error) for error in errors)[:4000]
