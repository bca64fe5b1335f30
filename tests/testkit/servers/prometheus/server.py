"""One Prometheus process, with a data folder and a port of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.waiting import wait_until

INTERVAL: Final = "500ms"
"""From one scrape, and from one evaluation of the rules, to the next."""
_START_TIMEOUT: Final = 60.0


def missing() -> str | None:
    """Return which programs this machine lacks; None where they are there."""
    lacking = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed (Debian: prometheus)" if lacking else None


def require() -> None:
    """Skip the test where Prometheus is not installed, except in CI, which installs it."""
    reason = missing()
    if reason is not None and "CI" in os.environ:
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Prometheus:
    """Scrapes one daemon while open.

    Args:
        folder: For configuration, data and log.
        target: Host and port of the daemon's pages, or several of them.
        rules: A file of rules, as values.
        interval: From one scrape to the next, and what a scrape may take: one that takes longer makes all series stale.
        more: Targets that are scraped besides, each with labels for its series.
    """

    def __init__(
        self,
        folder: Path,
        *,
        target: str | Sequence[str],
        rules: dict[str, Any],
        interval: str = INTERVAL,
        more: Sequence[tuple[str, dict[str, str]]] = (),
    ) -> None:
        self._folder = folder / "prometheus"
        self._folder.mkdir()
        self._port = free_port()
        self._log = self._folder / "log"
        (self._folder / "rules.yml").write_text(json.dumps(rules))
        targets = [target] if isinstance(target, str) else list(target)
        groups = [{"targets": targets}, *({"targets": [each], "labels": labels} for each, labels in more)]
        scrape = {"job_name": "flink-autoscaler", "static_configs": groups}
        every = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
        # JSON is YAML.
        config = {"global": every, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
        (self._folder / "prometheus.yml").write_text(json.dumps(config))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._guard = Guard()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def stop(self) -> None:
        """End the process; what it knows stays in its folder."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)
        self._guard.forget(self._process.pid)

    def restart(self) -> None:
        """Start the process again, at the same place with the same data."""
        self._start()

    def _start(self) -> None:
        command = [
            str(shutil.which("prometheus")),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._guard.add(self._process.pid)
        wait_until("Prometheus is ready", self._is_ready, _START_TIMEOUT, context=self._log.read_text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._guard.close()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid

    def queries_served(self) -> int:
        """Return how many instant queries it has answered over HTTP so far."""
        with self._opener.open(f"{self.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        counts = (
            line for line in lines if line.startswith("prometheus_http_requests_total{") and 'api/v1/query"' in line
        )
        return round(sum(float(line.rpartition(" ")[2]) for line in counts))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression gives now, each with ``metric`` and ``value``."""
        data = self._get("/api/v1/query", query=expression)
        result: list[dict[str, Any]] = data["result"]
        return result

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Return the alerts of a rule that wait or fire, with labels and annotations."""
        return [each for each in self._get("/api/v1/alerts")["alerts"] if each["labels"]["alertname"] == name]

    def firing(self, name: str, **labels: str) -> list[dict[str, Any]]:
        """Return those that fire and have these labels."""
        wanted = labels.items()
        return [each for each in self.alerts(name) if each["state"] == "firing" and wanted <= each["labels"].items()]

    def rule_errors(self) -> list[str]:
        """Return what rules failed with at their last evaluation."""
        groups = self._get("/api/v1/rules")["groups"]
        return [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")]

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with self._opener.open(url, timeout=30) as answer:
                data: dict[str, Any] = json.loads(answer.read())["data"]
                return data
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def _is_ready(self) -> bool:
        try:
            with self._opener.open(f"http://127.0.0.1:{self._port}/-/ready", timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False
