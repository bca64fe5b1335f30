"""The page on a real Flink: a pause stops the next rescale, and what a what-if says is what the daemon then does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pictures.browser import chromium, text_of, type_into
from selenium.webdriver import Chrome

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long"), pytest.mark.browser]

TOKEN = "operators-token"
KEY = "e2e/paused-on-the-page"
OPTIONS = {
    "autoscaler__standalone__control-loop__interval": "1 s",
    "job__autoscaler__metrics__window": "10 s",
    "job__autoscaler__stabilization__interval": "2 s",
    "job__autoscaler__scale-down__interval": "1 h",
    "job__autoscaler__restart__time": "3 s",
    "job__autoscaler__catch-up__duration": "10 min",
    "job__autoscaler__vertex__max-parallelism": "6",
    "job__autoscaler__metrics__busy-time__aggregator": "AVG",
}
BEFORE = {"job__autoscaler__utilization__target": "0.7", "job__autoscaler__utilization__max": "0.9"}

# One subtask of "work" takes 1 ms per record: 1,300 records/s need two of them at a target of 0.7.
STEADY = job.ScalingJob(name="paused-on-the-page", curve="0:1300", cost_micros=1000, splits=8)

# 700 records/s are 0.7 of one subtask: nothing waits, and there are 3.5 of them at a target of 0.2.
LIGHT = job.ScalingJob(name="asked-on-the-page", curve="0:700", cost_micros=1000, splits=8)
ASKED = {"utilization.target": "0.2", "utilization.max": "0.3"}


@pytest.fixture
def cluster(flink_session_cluster: Callable[[str], FlinkCluster]) -> FlinkCluster:
    return flink_session_cluster("2.3")


@pytest.fixture
def job_id(cluster: FlinkCluster) -> Iterator[str]:
    submitted = job.submit(cluster, STEADY)
    yield submitted
    cluster.cancel(submitted)


@pytest.fixture
def light_job_id(cluster: FlinkCluster) -> Iterator[str]:
    submitted = job.submit(cluster, LIGHT)
    yield submitted
    cluster.cancel(submitted)


class Watched:
    """The daemon as the page and the API show it."""

    def __init__(self, daemon: DaemonProcess, url: str, client: httpx.Client) -> None:
        self.daemon = daemon
        self.url = url
        self.client = client

    def reasons(self) -> set[str]:
        """Return the codes of the last decision; none where the job is not there yet."""
        answer = self.client.get("/api/v1/job", params={"job": KEY})
        return {reason["code"] for reason in answer.json().get("reasons", ())}


def parallelism(cluster: FlinkCluster, job_id: str) -> int:
    """Return the parallelism of ``work``; 0 while not all tasks run."""
    return cluster.rest.parallelism(job_id)[job.WORK_VERTEX] if cluster.rest.all_tasks_running(job_id) else 0


def order(page: Chrome, watched: Watched, name: str, *keys: str) -> None:
    """Give an order on the page of the job, by keyboard."""
    page.get(f"{watched.url}/job?job={KEY}")
    type_into(page, f"form[data-order={name}] {'[name=reason]' if keys else 'button'}", *keys, "\n")
    wait_until("the answer", lambda: len(text_of(page, f"form[data-order={name}] output")) > 1, 300)


def test_a_pause_stops_the_next_rescale_until_the_job_is_resumed(
    cluster: FlinkCluster, job_id: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    rights = {
        "autoscaler__http__operator-token-file": str(tmp_path / "token"),
        "autoscaler__http__user-header": "X-User",
        "autoscaler__http__operators": "ann",
    }
    with DaemonProcess(tmp_path) as daemon, chromium() as page:
        daemon.configure({"e2e": cluster.rest_url}, **OPTIONS, **rights, **BEFORE)
        daemon.start()
        (line,) = daemon.lines("http_listening")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=line["url"], timeout=30, trust_env=False, headers=headers) as client:
            watched = Watched(daemon, line["url"], client)
            page.execute_cdp_cmd("Network.enable", {})
            page.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"X-User": "ann"}})
            wait_until("the job on the page", watched.reasons, 300)
            order(page, watched, "pause", "release 7")
            wait_until("a decision that the pause holds back", lambda: "PAUSED" in watched.reasons(), 300)
            while_paused = parallelism(cluster, job_id), daemon.lines("job_rescale_requested")

            order(page, watched, "resume")
            wait_until("the rescale", lambda: parallelism(cluster, job_id) > 1, 300)
            after = parallelism(cluster, job_id)

    assert while_paused == (1, [])
    assert after > 1


def would_be(client: httpx.Client) -> int:
    """Return the parallelism of ``work`` that the last recorded pass would have come to; 0 where there is none yet."""
    answer = client.post("/api/v1/what-if", json={"job_key": f"e2e/{LIGHT.name}", "options": ASKED})
    found = answer.json().get("vertices", ()) if answer.is_success else ()
    return max((each["would_be"] or 0 for each in found if each["name"] == "work"), default=0)


def test_what_a_what_if_says_is_what_the_daemon_does_with_that_option(
    cluster: FlinkCluster, light_job_id: str, tmp_path: Path
) -> None:
    usual = {**OPTIONS, "job__autoscaler__utilization__target": "0.75", "job__autoscaler__utilization__max": "0.95"}
    with DaemonProcess(tmp_path) as daemon:
        daemon.configure({"e2e": cluster.rest_url}, **usual, autoscaler__records__interval="1 s")
        daemon.start()
        (line,) = daemon.lines("http_listening")
        with httpx.Client(base_url=line["url"], timeout=30, trust_env=False) as client:
            wait_until("an answer", lambda: would_be(client) > 1, 300)
            before, said = parallelism(cluster, light_job_id), would_be(client)

            asked = {f"job__autoscaler__{key.replace('.', '__')}": value for key, value in ASKED.items()}
            daemon.configure({"e2e": cluster.rest_url}, **usual | asked, autoscaler__records__interval="1 s")
            daemon.reload()
            wait_until("the rescale", lambda: parallelism(cluster, light_job_id) > 1, 300)

            assert before == 1
            assert said == parallelism(cluster, light_job_id)
