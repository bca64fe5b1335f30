from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml
from demo.daemon import DEFAULT_ENGINE, DaemonPages, DaemonProcess, configuration
from demo.plan import plan_for

from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.http import HttpServer, create_app
from flink_autoscaler.standalone.settings.schema.settings import Settings
from testkit.builders.forked_command import run_command
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until

NOBODY = "http://127.0.0.1:{}"


@contextmanager
def served(gauges: Gauges) -> Iterator[str]:
    """Serve the pages of a daemon; give their URL."""
    app = create_app(gauges=gauges, health=Health({}), is_alive=lambda: True)
    with closing(HttpServer(app, host="127.0.0.1", port=0)) as server:
        server.start()
        yield server.url


@pytest.mark.parametrize("engine", ["spark", "inline"])
def test_daemon_finds_nothing_wrong_with_its_configuration(engine: str, tmp_path: Path) -> None:
    config = configuration("http://127.0.0.1:8081", plan_for(150).options, engine)
    file = tmp_path / "autoscaler.yaml"
    file.write_text(yaml.safe_dump(config))

    result = run_command(["check-config", "--config", str(file)], os.environ)

    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stdout


def test_daemon_of_the_demo_takes_its_own_engine() -> None:
    config = configuration("http://127.0.0.1:8081", plan_for(150).options, DEFAULT_ENGINE)

    assert not [key for key in config if key.startswith("autoscaler.engine.")]
    assert Settings().engine.kind == DEFAULT_ENGINE


def test_pages_tell_passes_by_engine() -> None:
    gauges = Gauges()
    for cluster, engine in (("a", "spark"), ("b", "spark"), ("b", "inline")):
        gauges.record_pass(cluster, 0.1, succeeded=True, engine=engine)
    with served(gauges) as url:
        totals = DaemonPages(url).totals()

    assert totals["flink_autoscaler_passes_total"] == 3.0
    assert totals["flink_autoscaler_passes_total on spark"] == 2.0
    assert totals["flink_autoscaler_passes_total on inline"] == 1.0


def test_daemon_runs_until_it_is_stopped(tmp_path: Path) -> None:
    unreachable = NOBODY.format(free_ports(1)[0])

    with DaemonProcess(configuration(unreachable, {}, "inline"), tmp_path) as daemon:
        wait_until("the daemon writes its log", daemon.log_file.read_text, 300)
        was_running = daemon.is_running

    assert (was_running, daemon.is_running) == (True, False)


def test_daemon_that_ended_on_its_own_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    with DaemonProcess({"autoscaler.nonsense": "1"}, tmp_path) as daemon:
        wait_until("the daemon has ended", lambda: not daemon.is_running, 300)

        with pytest.raises(HarnessError, match=r"ended with code (?s:.*)nonsense"):
            daemon.require_running()


def test_pages_of_a_daemon_that_is_gone_say_so() -> None:
    pages = DaemonPages(NOBODY.format(free_ports(1)[0]))

    assert (pages.is_ready(), pages.totals()) == (False, {})
