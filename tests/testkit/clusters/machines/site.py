"""The compose file, brought up in an engine, and what is asked of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from testkit.clusters.machines.engine import Engine
from testkit.clusters.machines.errors import MachineError
from testkit.clusters.machines.images import PROJECT

DAEMON: Final = "http://127.0.0.1:8484"
FLINK: Final = "http://127.0.0.1:8081"
_SUBMIT_TIMEOUT: Final = 180.0


@dataclass(frozen=True)
class ComposeSetup:
    """A folder with the compose file and the configuration that it mounts, and the engine that it runs in."""

    engine: Engine
    folder: Path

    @property
    def configuration(self) -> Path:
        """The file that the container of the daemon sees; to be written in place, since it is mounted as such."""
        return self.folder / "autoscaler.yaml"

    def configure(self, sections: Mapping[str, Any], jobs: Mapping[str, str]) -> None:
        """Add to the configuration: sections below ``autoscaler``, and options below ``job.autoscaler``."""
        whole = yaml.safe_load(self.configuration.read_text())
        whole["autoscaler"] |= sections
        whole |= {f"job.autoscaler.{key}": value for key, value in jobs.items()}
        self.configuration.write_text(yaml.safe_dump(whole))

    def take_image(self, image: str) -> None:
        """Let the daemon run from another image than the one that the compose file names."""
        override = {"services": {"autoscaler": {"image": image}}}
        (self.folder / "override.yml").write_text(yaml.safe_dump(override))

    def compose(self, *words: object, timeout: float = 300.0) -> str:
        """Run docker compose; raises :class:`MachineError`."""
        files = [self.folder / "docker-compose.yml", self.folder / "override.yml"]
        named = [word for file in files if file.exists() for word in ("--file", file)]
        return self.engine.docker("compose", *named, *words, timeout=timeout)

    def up(self) -> None:
        """Start everything and return once it is healthy."""
        self.compose("up", "--detach", "--no-build", "--wait", timeout=400)

    def daemon(self) -> dict[str, Any]:
        """Return what the engine knows of the daemon's container."""
        [container] = self.compose("ps", "--all", "--quiet", "autoscaler").split()
        return self.engine.inspect(container)

    def execute(self, *words: object, timeout: float = 300.0) -> str:
        """Run a program in the daemon's container; return what it printed on either stream."""
        return self.engine.docker("exec", self.daemon()["Id"], *words, timeout=timeout)

    def command(self, *words: object) -> str:
        """Run a command of the program in the daemon's container."""
        return self.execute("flink-autoscaler", *words, "--config", "/etc/flink-autoscaler/autoscaler.yaml")

    def log(self) -> str:
        """Return what the daemon has said."""
        return self.engine.docker("logs", self.daemon()["Id"])

    def submit(self, curve: str) -> None:
        """Run the test job; a subtask of its vertex ``work`` does 500 records/s."""
        words = [sys.executable, "-m", "testkit.clusters.machines.submitting", FLINK, curve]
        environment = {"PYTHONPATH": f"{PROJECT}/tools:{PROJECT}/tests", "PATH": "/usr/bin:/bin:/usr/sbin"}
        inside = ["nsenter", "--target", str(self.engine.pid), "--net", *words]
        subprocess.run(inside, env=environment, check=True, timeout=_SUBMIT_TIMEOUT)

    def parallelism(self) -> int:
        """Return that of the vertex that works; 0 while it is not known."""
        try:
            jobs = json.loads(self.engine.get(f"{FLINK}/jobs/overview"))["jobs"]
            job = json.loads(self.engine.get(f"{FLINK}/jobs/{jobs[0]['jid']}"))
        except (MachineError, IndexError):
            return 0
        return max(int(vertex["parallelism"]) for vertex in job["vertices"] if vertex["name"].startswith("work"))

    def metrics(self) -> str:
        """Return what ``/metrics`` says."""
        return self.engine.get(f"{DAEMON}/metrics")

    def passes(self, engine: str) -> float:
        """Return how many passes an engine has evaluated since the start."""
        found = re.findall(rf'flink_autoscaler_passes_total\{{[^}}]*engine="{engine}"[^}}]*\}} (\S+)', self.metrics())
        return sum(map(float, found))
