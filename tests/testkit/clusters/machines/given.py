"""What containers of tests are given: options, configurations, files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from testkit.clusters.machines.engine import Engine
from testkit.clusters.machines.errors import MachineError
from testkit.fakes.flink import FakeFlink

CONFIGURATION: Final = "/etc/flink-autoscaler/autoscaler.yaml"
AS_IN_THE_GUIDE: Final = ("--network", "host", "--init", "--read-only", "--tmpfs", "/tmp:exec")


def write_configuration(engine: Engine, name: str, sections: Mapping[str, Any]) -> tuple[str, ...]:
    """Write a configuration, with sections below ``autoscaler``; return the options of a container that reads it."""
    file = engine.shared / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"autoscaler": dict(sections), "job.autoscaler.enabled": True}))
    return (*AS_IN_THE_GUIDE, "--volume", f"{file}:{CONFIGURATION}:ro")


def for_containers(engine: Engine, path: Path) -> str:
    """Return the path of a copy of a file that every user of a container can read."""
    target = engine.shared / path.name
    shutil.copy(path, target)
    target.chmod(0o644)
    return str(target)


def clusters(flink: FakeFlink) -> list[dict[str, str]]:
    """Return what a configuration says of a cluster that is looked at every second."""
    return [{"name": "main", "url": flink.url, "interval": "1 s"}]


def fetch_page(engine: Engine, path: str) -> str:
    """Return a page of the daemon in the network of the engine; empty while there is none, or it is not well."""
    try:
        return engine.get(f"http://127.0.0.1:8484{path}")
    except MachineError:
        return ""
