"""An engine with all images, for all tests that take one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from machines import missing_tools
from machines.engine import Engine, docker_engine
from machines.images import build_images, docker_data, scratch


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Return an engine in a network of its own; below ``engine.shared`` are the files that containers see."""
    if reason := missing_tools():
        pytest.skip(reason)
    started = time.monotonic()
    build_images()
    print(f"images built in {time.monotonic() - started:.0f} s")
    shared = scratch("shared")
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    with docker_engine(docker_data(), scratch("engine"), shared, alone=True) as running:
        yield running
