"""Passes that a policy brings forward, where passes are evaluated on Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anxious_policy
import pytest
from fake_flink import FakeFlink, chain
from watching.process import DaemonProcess

from flink_cluster.waiting import wait_until

pytestmark = pytest.mark.spark

START_SECONDS = 120.0
"""A busy machine takes its time to start Spark."""


def on_spark(daemon: DaemonProcess) -> bool:
    """Tell whether two passes were evaluated on Spark, so that it has started."""
    pattern = r'flink_autoscaler_passes_total\{cluster="main",engine="spark",result="succeeded"\} (\S+)'
    found = re.search(pattern, daemon.page("/metrics"))
    return found is not None and float(found[1]) >= 2


def shown(daemon: DaemonProcess, path: str) -> Any:
    return json.loads(daemon.page(f"/api/v1/{path}"))


def is_early_on_spark(daemon: DaemonProcess) -> bool:
    """Tell whether the last pass was early and was evaluated on Spark."""
    codes = {each["code"] for each in shown(daemon, "job?job=main/orders").get("reasons", ())}
    (cluster,) = shown(daemon, "clusters")["clusters"]
    return {"EARLY_PASS", "LOOKS_AGAIN"} <= codes and cluster["engine"] == "spark"


def test_what_a_policy_asks_for_on_spark_brings_a_pass_forward_that_spark_evaluates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))  # the processes of the daemon and of Spark have the same path
    options = {
        "autoscaler__engine__kind": "spark",
        "autoscaler__log__level": "info",
        "autoscaler__standalone__control-loop.interval": "8 s",
        "job__autoscaler__early-pass__delay": "5 s",
        "job__autoscaler__policy": anxious_policy.install(tmp_path),
    }
    with FakeFlink() as flink, DaemonProcess(tmp_path) as daemon:
        flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
        daemon.configure({"main": flink.url}, **options)
        daemon.start(wait=False)

        wait_until("its pages", lambda: daemon.lines("http_listening"), START_SECONDS, context=daemon.text)
        wait_until("passes on Spark", lambda: on_spark(daemon), START_SECONDS, context=daemon.text)
        wait_until("an early one", lambda: is_early_on_spark(daemon), 60.0, interval=0.05, context=daemon.text)
        code = daemon.stop()

    assert any(line["asked_by"] == "anxious of main/orders" for line in daemon.lines("pass_brought_forward"))
    assert code == 0
