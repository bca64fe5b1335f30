"""A long name, made to take time wherever it is looked at, delays no other cluster and no page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from flink_autoscaler.standalone.settings.secrets import mask_secrets
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = pytest.mark.suite(name="hostile")

LENGTH = 65_400
NAMES = {
    "beginnings of URLs": "://" * (LENGTH // 3) + "@",
    "users without an end": "://:" * (LENGTH // 4) + "@",
    "users on lines of their own": ("://:" * 250 + "\n@") * (LENGTH // 1002),
    "names of secrets": "token" * (LENGTH // 5),
    "secrets without values": "password   " * (LENGTH // 11),
    "headers without values": "Basic " * (LENGTH // 6),
}


@pytest.fixture
def flinks() -> Iterator[tuple[FakeFlink, FakeFlink]]:
    with FakeFlink() as healthy, FakeFlink() as sick:
        healthy.add_job("orders", chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        for name in NAMES.values():
            sick.add_job(name, chain(sources=1, vertices=2), start_ms=1, running_at_ms=1, obeys=True)
        yield healthy, sick


@pytest.mark.guard
def test_long_names_delay_no_other_cluster(tmp_path: Path, flinks: tuple[FakeFlink, FakeFlink]) -> None:
    with DaemonProcess(tmp_path) as daemon:
        daemon.configure({"healthy": flinks[0].url, "sick": flinks[1].url})
        daemon.start()
        (line,) = daemon.lines("http_listening")
        with httpx.Client(base_url=line["url"], timeout=60, trust_env=False) as client:
            wait_until("all jobs", lambda: client.get("/api/v1/about").json()["jobs"] == 1 + len(NAMES), 300)
            before = passes(client)
            for _ in range(3):
                for path in ("/", "/events", "/api/v1/jobs", "/api/v1/clusters"):
                    assert client.get(path).status_code == 200
                wait_until("passes over the sick cluster", lambda: passes(client)["sick"] > before["sick"] + 2, 300)
            after = passes(client)

    # Each has its schedule of 100 ms: neither waits for the other's names.
    assert after["healthy"] - before["healthy"] >= 0.5 * (after["sick"] - before["sick"])


def passes(client: httpx.Client) -> dict[str, float]:
    """Return how many passes over each cluster have ended."""
    found = dict.fromkeys(("healthy", "sick"), 0.0)
    for line in client.get("/metrics").text.splitlines():
        for name in found:
            if line.startswith("flink_autoscaler_passes_total") and f'cluster="{name}"' in line:
                found[name] += float(line.split()[-1])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_masked_in_time_in_proportion_to_its_length(name: str) -> None:
    # A plain text of the same length, and of the same kind, is the measure.
    plain = seconds("word@host token " * (LENGTH // 16))

    assert seconds(NAMES[name]) < 20 * plain


def seconds(text: str) -> float:
    """Return the processor time that masking a text takes, at best."""
    took = []
    for _ in range(5):
        began = time.process_time()
        mask_secrets(text)
        took.append(time.process_time() - began)
    return min(took)
