"""The first hour of a new user, on a real session cluster of twelve slots with three jobs, in a quarter of an hour."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset

from testkit.clusters.flink.job import WORK_VERTEX
from testkit.scenarios.hour import ORDERS, PAYMENTS, PAYMENTS_RATE, QUIET_SECONDS, Site, daemon, opened, widths

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.suite(name="long")]

KEPT = Path(__file__).parents[2] / "build" / "hour"
"""Where the diary, the log and the report stay."""


def test_the_first_hour_of_a_new_user(tmp_path: Path) -> None:
    try:
        with opened(tmp_path) as site:
            the_configuration_is_checked(site)
            nobody_asks_for_a_while(site)
            with daemon(site) as process:
                the_first_rate_is_true(site)
                a_pin_is_checked(site)
                an_unpin_does_not_jump(site)
                an_edit_by_hand_is_seen_everywhere(site)
                a_rise_is_followed(site)
                a_rollback_is_told_when_it_is_true(site)
                a_fall_is_followed(site)
                a_lost_taskmanager_starves_nobody(site)
                assert process.stop() == 0
            the_log_can_be_read(site)
            slots_come_together(site)
            an_idle_source_stays_narrow(site)
            the_words_are_true(site)
            a_short_history_says_what_is_missing(site)
            the_report_says_what_flink_says(site)
    finally:
        shutil.rmtree(KEPT, ignore_errors=True)
        shutil.copytree(tmp_path, KEPT, ignore=shutil.ignore_patterns("state"))


def the_configuration_is_checked(site: Site) -> None:
    site.diary.say("check-config finds what run would find")
    database = ("--set", "autoscaler.standalone.state-store.type=JDBC")
    wrong = site.diary.run(
        "check-config", *database, "--set", "autoscaler.standalone.jdbc.url=jdbc:sqlit:/x.db", is_shown=False
    )
    site.diary.write(wrong.err)
    right = site.diary.run("check-config", "--connect", is_shown=False)

    assert (wrong.code, right.code) == (2, 0), right.err
    assert "sqlit" in wrong.err


def nobody_asks_for_a_while(site: Site) -> None:
    site.diary.say(f"three jobs run, and nobody asks them anything for {QUIET_SECONDS:.0f} s")

    def are_old() -> bool:
        # The overview does not make the JobManager gather metrics.
        entries = site.cluster.rest.get("/jobs/overview")["jobs"]
        return all(each["duration"] > 1000 * QUIET_SECONDS for each in entries)

    site.wait_until("the jobs have run unseen", are_old, 2 * QUIET_SECONDS)


def the_first_rate_is_true(site: Site) -> None:
    site.diary.say("the daemon begins; the first rate that it writes down is the rate that arrives")
    rate = site.wait_until("the first rate of payments", lambda: arriving(site.explained(PAYMENTS)))

    site.diary.say(f"payments: {rate:.0f} records/s, where {PAYMENTS_RATE:.0f} arrive")
    assert rate == pytest.approx(PAYMENTS_RATE, rel=0.15)


def arriving(document: dict[str, Any]) -> float:
    """Return what arrives at the source, records/s, by what explains a pass; 0 where that has none."""
    for vertex in document.get("vertices", []):
        if vertex["name"].startswith("Source"):
            return float(vertex["measured"].get("TARGET_DATA_RATE") or 0)
    return 0.0


def a_pin_is_checked(site: Site) -> None:
    site.diary.say("a pin that the cluster cannot hold, and one for a vertex that does not exist")
    reason = ("--reason", "trying it out")
    wide = site.diary.run("pin", PAYMENTS, f"{WORK_VERTEX}=999", *reason)
    unknown = site.diary.run("pin", PAYMENTS, "wrok=2", *reason)

    assert (wide.code, unknown.code) == (1, 1)
    assert "'work' may have 1 to 12 (vertex.max-parallelism), not 999" in wide.err
    assert "did you mean 'work'" in unknown.err


def an_unpin_does_not_jump(site: Site) -> None:
    site.diary.say("pinned to 2, and let go: it stays until load says otherwise")
    assert site.diary.run("pin", PAYMENTS, f"{WORK_VERTEX}=2", "--reason", "trying it out").code == 0
    site.wait_until("payments runs as pinned", lambda: site.runs(PAYMENTS) and site.work(PAYMENTS) == 2)
    site.diary.run("unpin", PAYMENTS)
    site.after_passes(4)

    assert site.work(PAYMENTS) == 2


def an_edit_by_hand_is_seen_everywhere(site: Site) -> None:
    site.diary.say("somebody changes by hand what the autoscaler has asked for payments to have")
    site.cluster.rest.require(site.ids[PAYMENTS], {WORK_VERTEX: 3})
    site.wait_until("the log says so", lambda: f"session/{PAYMENTS}" in suspended(site.log))
    jobs, orders = site.diary.run("jobs"), site.diary.run("commands")

    assert "edited" in orders.out
    assert "SUSPENDED" in jobs.out
    assert site.diary.run("resume", PAYMENTS).code == 0


def suspended(log: str) -> str:
    """Return the lines about jobs that are suspended."""
    return "\n".join(line for line in log.splitlines() if "job_scaling_suspended" in line)


def a_rise_is_followed(site: Site) -> None:
    site.diary.say("orders: 200 records/s rise to 2,600, of which a subtask sustains 1,000")
    site.wait_until("orders has three subtasks or more", lambda: site.runs(ORDERS) and site.work(ORDERS) >= 3, 360)
    site.diary.say(f"orders runs with {site.work(ORDERS)}")
    explained = site.diary.run("explain", f"session/{ORDERS}")
    report = site.event(ORDERS, "ScalingReport")

    assert report is not None
    assert re.search(r"UTC, \d+ s ago", explained.out)
    assert "100%" not in explained.out


def a_rollback_is_told_when_it_is_true(site: Site) -> None:
    site.diary.say("the last rescale is rolled back, by order")
    now = site.work(ORDERS)
    assert site.diary.run("rollback", ORDERS, "--reason", "trying it out").code == 0
    site.wait_until("it is told that it is rolled back", lambda: site.event(ORDERS, "RolledBack"), 300)
    after = site.work(ORDERS)

    site.diary.say(f"told: rolled back; Flink runs {after} where {now} ran")
    told = site.event(ORDERS, "RolledBack")
    assert after != now
    assert told is not None
    assert f"{WORK_VERTEX} {after}" in told["message"]
    assert site.diary.run("resume", ORDERS).code == 0


def a_fall_is_followed(site: Site) -> None:
    site.diary.say("orders: the load is still there, so it goes up again; after the peak one subtask is enough")
    site.wait_until("orders has three subtasks or more", lambda: site.runs(ORDERS) and site.work(ORDERS) >= 3, 300)
    site.diary.say(f"orders runs with {site.work(ORDERS)}")
    site.wait_until("orders has two subtasks or fewer", lambda: site.runs(ORDERS) and 1 <= site.work(ORDERS) <= 2, 600)
    site.diary.run("events", "--job", f"session/{ORDERS}")


def a_lost_taskmanager_starves_nobody(site: Site) -> None:
    site.diary.say("orders is pinned to seven slots, and one of the two TaskManagers dies")
    site.wait_until("eight free slots", lambda: site.cluster.rest.get("/overview")["slots-available"] >= 8)
    site.after_passes(2)
    assert site.diary.run("pin", ORDERS, f"{WORK_VERTEX}=7", "--reason", "trying it out").code == 0
    # Told, not only true: what no pass has seen was not reached, and a size reached in part is void after the unpin.
    site.wait_until("it is told that orders runs with seven", lambda: "-> 7" in told(site, ORDERS, "RescaleReached"))
    assert site.diary.run("unpin", ORDERS).code == 0
    site.after_passes(1)
    site.cluster.taskmanagers[0].kill()
    begun = time.monotonic()
    site.wait_until("six slots are left", lambda: site.cluster.rest.get("/overview")["slots-total"] == 6)
    site.wait_until("all jobs run in six slots", lambda: all(map(site.runs, site.ids)), 300)

    site.diary.say(f"all three run again after {time.monotonic() - begun:.0f} s")
    site.after_passes(4)
    jobs = site.diary.run("jobs")
    assert all(map(site.runs, site.ids))
    assert f"work {site.work(ORDERS)} → 7" in jobs.out
    assert sum(site.work(name) for name in site.ids) <= 6


def told(site: Site, job: str, reason: str) -> str:
    """Return what the last event of a job with this reason says; nothing where there is none."""
    event = site.event(job, reason)
    return str(event["message"]) if event else ""


def the_log_can_be_read(site: Site) -> None:
    assert "Traceback" not in site.log
    assert widths(site.log) == {}


def slots_come_together(site: Site) -> None:
    """Load takes each step at once: one slot at a time would be an outage for each of them."""
    steps = [(int(before), int(after)) for before, after in _BY_LOAD.findall(flat(site.log))]
    rises = [after - before for before, after in steps if after > before]

    site.diary.say(f"by load: {', '.join(f'{before} → {after}' for before, after in steps)}")
    assert rises
    assert min(rises) > 1


def an_idle_source_stays_narrow(site: Site) -> None:
    """Sources that are busy for 2 % of the time are never wanted wider, however short the window is."""
    wanted = {int(text) for text in re.findall(r"Source: orders: needs [^;]*?, wanted (\d+)", flat(site.log))}
    planned = [each["message"] for name in site.ids for each in site.events(name) if each["reason"] == "ScalingReport"]

    assert wanted == {1}
    assert all(len(_VERTICES.findall(message)) == 1 for message in planned)


def the_words_are_true(site: Site) -> None:
    """A report promises as much more capacity as there are more subtasks; no instant is the beginning of time."""
    messages = [each["message"] for name in site.ids for each in site.events(name) if each["reason"] == "ScalingReport"]
    reports = [list(map(float, found)) for message in messages for found in _VERTICES.findall(message)]

    assert reports
    assert all(after / before == pytest.approx(to / width, rel=0.01) for width, to, before, after in reports)
    assert "1970-01-01" not in site.log + site.diary.text


def a_short_history_says_what_is_missing(site: Site) -> None:
    site.diary.say("what would another configuration have come to? Too early to say, and that is said at once")
    ran = site.diary.run("tune")

    assert ran.code != 0
    assert re.search(r"\d+ minutes are recorded, and a backtest needs 60", ran.err)


def flat(log: str) -> str:
    """Return a log for people as one line: texts that were broken to fit are whole again."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", log).split())


_BY_LOAD = re.compile(rf"job_rescale_requested job_key=session/{ORDERS} cause=load text='work (\d+) → (\d+)'")
_VERTICES = re.compile(r"Parallelism (\d+) -> (\d+) \| Processing capacity ([\d.]+) -> ([\d.]+)")


def reached_by_history(site: Site) -> int:
    """Return how many rescales of orders came true by the history that reports are made from."""
    table = dataset.dataset(site.folder / "history" / "rescales", partitioning="hive").to_table()
    rows = table.select(["job_key", "stage", "decided_at"]).to_pylist()
    return len(
        {row["decided_at"] for row in rows if (row["job_key"], row["stage"]) == (f"session/{ORDERS}", "reached")}
    )


def reached_by_events(site: Site) -> int:
    """Return how many of them were told."""
    return sum(each["count"] for each in site.events(ORDERS) if each["reason"] == "RescaleReached")


def the_report_says_what_flink_says(site: Site) -> None:
    site.diary.say("a report of it all")
    page = site.folder / "report.html"
    ran = site.diary.run("report", "--since", "30min", "--output", str(page), "--no-forecast")
    site.diary.say(f"written in {ran.took:.0f} s")

    assert ran.code == 0, ran.err
    assert "Warning" not in ran.err
    assert reached_by_history(site) >= reached_by_events(site) > 0
