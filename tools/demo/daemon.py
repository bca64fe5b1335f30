"""The daemon as its users start it: a process of its own with a configuration file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from demo.stop_signals import StoppedError
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.guard import Guard

_STOP_TIMEOUT = 20.0
_HURRY_TIMEOUT = 4.0
"""For who pressed Ctrl-C; Spark may take 10 s to stop, and its JVM ends with the daemon anyway."""
_OWN_VARIABLES = ("AUTOSCALER__", "JOB__AUTOSCALER__", "FLINK_CONF_DIR")


DEFAULT_ENGINE = "spark"
"""What the daemon takes where nothing is configured."""

PASSES = "flink_autoscaler_passes_total"
"""Its counter of passes, as in :meth:`DaemonPages.totals`."""


def configuration(rest_url: str, options: Mapping[str, str], engine: str) -> dict[str, object]:
    """Return the configuration of a daemon that manages one cluster; of its own engine nothing is said."""
    chosen = {} if engine == DEFAULT_ENGINE else {"autoscaler.engine.kind": engine}
    return {
        "autoscaler.clusters": [{"name": "demo", "url": rest_url}],
        **chosen,
        "autoscaler.http.port": 0,
        "autoscaler.log.format": "json",
        "autoscaler.log.level": "debug",  # what every pass came to, not only what changed
        "autoscaler.loop.shutdown-grace": "5 s",
        "autoscaler.standalone.control-loop.interval": "3 s",
        **options,
    }


class DaemonProcess:
    """``flink-autoscaler run``; a context manager.

    Attributes:
        log_file: JSON lines.
        config_file: What it was started with.
    """

    def __init__(self, config: Mapping[str, object], directory: Path) -> None:
        self.log_file = directory / "daemon.log"
        self.config_file = directory / "autoscaler.yaml"
        self._directory = directory
        self._config = config

    def __enter__(self) -> Self:
        self.config_file.write_text(yaml.safe_dump(dict(self._config), sort_keys=False))
        command = [sys.executable, "-m", "flink_autoscaler.standalone", "run", "--config", str(self.config_file)]
        self._guard = Guard()
        with self.log_file.open("ab") as log, (self._directory / "daemon.out").open("ab") as out:
            # A session of its own: Ctrl-C is for the demo, which stops everything in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                cwd=self._directory,
                env=_environment(self._directory),
                start_new_session=True,
            )
        self._guard.add(self._process.pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_HURRY_TIMEOUT if isinstance(error, StoppedError) else _STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._guard.forget(self._process.pid)
        self._guard.close()

    @property
    def is_running(self) -> bool:
        """True until the daemon has ended."""
        return self._process.poll() is None

    def require_running(self) -> None:
        """Raise with the end of the log if the daemon has ended on its own."""
        if not self.is_running:
            tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-12:])
            raise HarnessError(f"the daemon ended with code {self._process.returncode}\n{tail}")


def _environment(directory: Path) -> dict[str, str]:
    """Return the environment without what would configure the daemon differently."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
    return {**kept, "SPARK_LOCAL_DIRS": str(directory / "spark"), "STATE_DIRECTORY": str(directory / "state")}


class DaemonPages:
    """The daemon's HTTP endpoint.

    Attributes:
        url: Where it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        """Tell whether a pass over the cluster has succeeded lately."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def totals(self) -> dict[str, float]:
        """Return the sum of every series by name, and by name and engine, such as ``passes_total on spark``.

        It is empty when the daemon does not answer.
        """
        try:
            text = httpx.get(f"{self.url}/metrics", timeout=5.0, trust_env=False).raise_for_status().text
        except httpx.HTTPError:
            return {}
        totals: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                engine = sample.labels.get("engine")
                for name in (sample.name, *([] if engine is None else [f"{sample.name} on {engine}"])):
                    totals[name] = totals.get(name, 0.0) + sample.value
        return totals
