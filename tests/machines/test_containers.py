"""Containers in bad places: a clear message, no restart for ever, nothing lost."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.machines.engine import Engine
from testkit.clusters.machines.given import clusters, fetch_page, write_configuration
from testkit.clusters.machines.images import INLINE, WITH_SPARK
from testkit.fakes.flink import FakeFlink

pytestmark = pytest.mark.suite(name="docker")

NEEDED = (INLINE, WITH_SPARK)

AWAY = ("run", "--set", "autoscaler.clusters.0.name=main", "--set", "autoscaler.clusters.0.url=http://127.0.0.1:1")
ALONE = ("--network", "none", "--read-only", "--tmpfs", "/tmp:exec")
RESTARTED = ("--restart", "on-failure:5")
BOTH = pytest.mark.parametrize("image", [INLINE, WITH_SPARK])


def test_the_small_image_is_ready_after_its_first_pass(engine: Engine, flink: FakeFlink) -> None:
    options = write_configuration(engine, "first", {"clusters": clusters(flink)})
    started = time.monotonic()

    with engine.start(INLINE, *options) as container:
        wait_until("a pass", lambda: fetch_page(engine, "/readyz"), 300, interval=0.1, context=container.log)
        seconds = time.monotonic() - started

    print(f"start to first pass, inline: {seconds:.1f} s")


@BOTH
def test_cluster_that_is_away_at_the_start_is_told_and_waited_for(engine: Engine, image: str) -> None:
    with engine.start(image, *ALONE, *RESTARTED, command=AWAY) as container:
        wait_until("the failure is told", lambda: "cluster_failed" in container.log(), 300, context=container.log)
        wait_until("healthy", container.is_healthy, 300, interval=0.5, context=container.log)

        assert (container.state()["Running"], container.restarts()) == (True, 0)
        assert "Traceback" not in container.log()


def test_state_directory_that_cannot_be_written_is_told_and_the_daemon_goes_on(engine: Engine) -> None:
    volume = ("--volume", "state:/var/lib/flink-autoscaler:ro")
    with engine.start(INLINE, *ALONE, *RESTARTED, *volume, command=AWAY) as container:
        wait_until("it is told", lambda: "autoscaler.db cannot be written" in container.log(), 300)
        wait_until("healthy", container.is_healthy, 300, interval=0.5, context=container.log)

        assert (container.state()["Running"], container.restarts()) == (True, 0)


def test_spark_in_the_image_without_java_is_given_up_and_the_way_out_is_named(engine: Engine) -> None:
    command = (*AWAY, "--set", "autoscaler.engine.kind=spark")
    with engine.start(INLINE, *ALONE, *RESTARTED, command=command) as container:
        wait_until(
            "given up", lambda: container.state()["Status"] == "exited", 300, interval=0.5, context=container.log
        )

        assert (container.state()["ExitCode"], container.restarts() <= 5) == (2, True)
        assert "autoscaler.engine.kind: inline" in container.log()
        assert "Traceback" not in container.log()


def test_small_image_runs_in_256_megabytes(engine: Engine) -> None:
    with engine.start(INLINE, *ALONE, *RESTARTED, "--memory", "256m", command=AWAY) as container:
        wait_until("healthy", container.is_healthy, 300, interval=0.5, context=container.log)

        assert (container.state()["OOMKilled"], container.restarts()) == (False, 0)


def test_image_with_spark_in_256_megabytes_is_given_up_and_the_way_out_is_named(engine: Engine) -> None:
    with engine.start(WITH_SPARK, *ALONE, *RESTARTED, "--memory", "256m", command=AWAY) as container:
        wait_until(
            "given up", lambda: container.state()["Status"] == "exited", 300, interval=0.5, context=container.log
        )

        state = container.state()
        assert (state["ExitCode"], state["OOMKilled"], container.restarts() <= 5) == (2, False, True)
        assert "this process may take 256 MB of memory" in container.log()
        assert "autoscaler.engine.kind: inline" in container.log()
        assert "Traceback" not in container.log()


@BOTH
def test_log_has_instants_in_utc_whatever_the_time_zone(engine: Engine, image: str) -> None:
    with engine.start(image, *ALONE, "--env", "TZ=Pacific/Auckland", command=AWAY) as container:
        wait_until("the failure is told", lambda: "cluster_failed" in container.log(), 300, context=container.log)
        said = container.log()

    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    ages = [(datetime.now(UTC) - datetime.fromisoformat(line["timestamp"])).total_seconds() for line in lines]
    assert lines
    assert all(0 <= age < 120 for age in ages)
