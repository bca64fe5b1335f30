"""The same through the Spark engine, and through a ResourceManager of YARN that lies about one application."""

from __future__ import annotations

import copy
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import Canned, FakeFlink
from testkit.fakes.yarn import FakeApplication, FakeYarn
from testkit.scenarios.hostile_flink.cluster import HostileCluster
from testkit.scenarios.hostile_flink.daemon import RunningDaemon, settings_of
from testkit.scenarios.hostile_flink.lies import catalogue, chosen
from testkit.scenarios.hostile_flink.running import Plan, confirmed, run_lies
from testkit.scenarios.hostile_flink.server import Servers
from testkit.scenarios.hostile_flink.values import MISSING, VALUES, changed, places, text_of

SPARK = {"autoscaler.engine.kind": "spark", "job.autoscaler.metrics.window": "8 s"}
ON_SPARK = Plan(slots=24, interval=2.0, options=SPARK, seconds=240.0, steps_every=10**9, engine="spark")


@pytest.mark.spark
@pytest.mark.suite(name="long")
def test_a_liar_harms_only_itself_on_spark() -> None:
    config = [lie for lie in catalogue() if lie.endpoint in {"details", "entry", "values-0", "user-config", "config"}]

    figures = confirmed(run_lies(chosen(40, 5, config), ON_SPARK), ON_SPARK)

    print(figures.examples(), figures.table(), sep="\n")
    assert [str(verdict) for verdict in figures.failed] == []
    assert sum(bool(verdict.told) for verdict in figures.verdicts) >= 38
    assert figures.engines["spark"] > figures.engines["inline"]


class _JobManager:
    """What an application of the fake YARN needs of a Flink cluster."""

    def __init__(self, url: str) -> None:
        self.url = url


def a_job_manager(url: str) -> FakeFlink:
    return cast("FakeFlink", _JobManager(url))


LIES = 140


class YarnLiar:
    """Tells one lie per pass about an application, or about what the ResourceManager says of the whole cluster.

    Attributes:
        told: Every lie with what came of the healthy job in that pass; empty when it was evaluated.
    """

    def __init__(self, yarn: FakeYarn, healthy_key: str, sick: FakeApplication) -> None:
        self.told: list[tuple[str, str]] = []
        self._yarn = yarn
        self._key = healthy_key
        self._right = sick.json(yarn.managers[0].url)
        self._sick = sick
        self._known = dict(yarn.answers)
        self._lies = self._all()
        self._lie = ""
        self._is_warm = False
        self.is_done = threading.Event()

    def _all(self) -> Iterator[tuple[str, Callable[[], None]]]:
        lies: list[tuple[str, Callable[[], None]]] = [
            (f"apps {place} {value}", lambda place=place, value=value: self._tell(place, value))  # type: ignore[misc]
            for place in places(self._right)
            for value in VALUES
        ]
        for path, answer in self._known.items():
            right = json.loads(answer)
            for place, value in itertools.product(places(right), VALUES):
                lies.append((f"{path} {place} {value}", self._about(path, right, place, value)))
        random.Random(4).shuffle(lies)
        yield from lies[:LIES]

    def _tell(self, place: str, value: str) -> None:
        lied = changed(self._right, place, value)
        others = [each.json(f"{self._yarn.urls[0]}/proxy/{each.id}/") for each in self._yarn.applications]
        apps = [lied if each["id"] == self._right["id"] else each for each in others]
        body = {"apps": {"app": [app for app in apps if app is not MISSING]}}
        self._yarn.managers[0].fault("/ws/v1/cluster/apps", Canned(text_of(body, other_id=str(others[0]["id"]))))

    def _about(self, path: str, right: Any, place: str, value: str) -> Callable[[], None]:
        def tell() -> None:
            self._yarn.answers[path] = text_of(changed(copy.deepcopy(right), place, value), other_id="x")

        return tell

    def after_pass(self, report: PassReport) -> None:
        problem = self._problem(report)
        if self._lie:
            self.told.append((self._lie, problem))
        self._is_warm = self._is_warm or not problem
        self._yarn.managers[0].clear_faults()
        self._yarn.answers = dict(self._known)
        if not self._is_warm:
            return
        self._lie, tell = next(self._lies, ("", self.is_done.set))
        tell()

    def _problem(self, report: PassReport) -> str:
        if report.error is not None:
            return str(report.error)
        found = report.reports.get(self._key)
        return str(report.failures.get(self._key, report.gaps)) if found is None else "; ".join(map(str, found.errors))


@pytest.fixture
def yarn() -> Iterator[FakeYarn]:
    with FakeYarn() as fake:
        yield fake


def test_a_lie_about_one_application_harms_no_other(yarn: FakeYarn, tmp_path: Path) -> None:
    tracebacks: list[str] = []
    clusters = [HostileCluster(name, [], limit=60.0, on_verdict=lambda _: None) for name in ("one", "two")]
    clusters[1].healthy.name = "sick"
    with Servers() as servers:
        apps = [yarn.add(each.name, a_job_manager(servers.serve(each.respond))) for each in clusters]
        liar = YarnLiar(yarn, "main/healthy", apps[1])
        entry = {"type": "yarn", "yarn.url": yarn.urls[0]}
        with RunningDaemon(
            settings_of({"main": entry}, tmp_path, {"autoscaler.standalone.control-loop.interval": "150 ms"}),
            on_report=liar.after_pass,
            on_traceback=lambda *told: tracebacks.append(" ".join(told)),
        ):
            wait_until("the end of all lies", liar.is_done.is_set, 300)

    assert (tracebacks, [(lie, problem) for lie, problem in liar.told if problem]) == ([], [])
    assert len(liar.told) == LIES
