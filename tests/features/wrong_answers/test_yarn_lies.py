"""An application of YARN that lies about where it is, or what it is, in whole passes of the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.flink.load import keep_counting
from testkit.fakes.yarn import FakeApplication, FakeYarn
from testkit.scenarios.runner.wired import IN_MEMORY, INLINE, settings_of, started

EVALUATED = {PassPhase.COLLECTING, PassPhase.WINDOW_FILLING, PassPhase.EXECUTED}
WELL = "main/well"
NODES = b'{"nodes": {"node": [{"nodeHostName": "127.0.0.1"}]}}'
FOREIGN = "localhost"
"""The name by which the host of the stranger is known: no node of the cluster, and not the ResourceManager's."""


class Site:
    """A ResourceManager with an application that works, and one whose JobManager is a stranger's server."""

    def __init__(self, parts: ExitStack) -> None:
        self.yarn = parts.enter_context(FakeYarn())
        self.yarn.answers["/nodes"] = NODES
        self.own, self.stranger = parts.enter_context(FakeFlink()), parts.enter_context(FakeFlink())
        self.well = self.own.add_job("well", chain(sources=1, vertices=2))
        self.stranger.add_job("sick", chain(sources=1, vertices=2))
        self.yarn.add("good", self.own)
        self.bad = self.yarn.add("bad", self.stranger)
        self._parts = parts

    def run(self, passes: int = 3, **options: str) -> list[PassReport]:
        """Run passes with credentials for JobManagers and for ResourceManagers."""
        entry = {
            "name": "main",
            "type": "yarn",
            "timeout": "30 s",
            "yarn.url": self.yarn.urls[0],
            "auth.kind": "bearer",
            "auth.token-env-variable": "JM_TOKEN",
            "yarn.auth.kind": "bearer",
            "yarn.auth.token-env-variable": "RM_TOKEN",
            **{f"yarn.{key}": value for key, value in options.items()},
        }
        values = {f"autoscaler.clusters.0.{key}": value for key, value in entry.items()}
        reports = []
        _, cluster_pass = self._parts.enter_context(started(settings_of({**INLINE, **IN_MEMORY, **values})))
        for _ in range(passes):
            keep_counting(self.well)
            reports.append(cluster_pass.run())
        return reports


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("JM_TOKEN", "jm-secret")
    monkeypatch.setenv("RM_TOKEN", "rm-secret")
    with ExitStack() as parts:
        yield Site(parts)


def assert_harms_only_itself(reports: list[PassReport], bad: FakeApplication) -> None:
    assert [report.error for report in reports] == [None] * len(reports)
    assert [report.reports[WELL].outcome.phase in EVALUATED for report in reports] == [True] * len(reports)
    assert [bad.id in report.gaps for report in reports] == [True] * len(reports)


@pytest.mark.parametrize("access", ["auto", "direct", "proxy"])
@pytest.mark.parametrize(
    "lie",
    [
        pytest.param({"amRPCAddress": "{place}", "trackingUrl": "http://{place}/proxy/{id}/"}, id="all elsewhere"),
        pytest.param({"amRPCAddress": "{place}", "trackingUrl": None}, id="address elsewhere"),
        pytest.param({"amRPCAddress": None, "trackingUrl": "http://{place}/proxy/{id}/"}, id="proxy elsewhere"),
        pytest.param({"amRPCAddress": None, "trackingUrl": "http://127.0.0.1@{place}/proxy/{id}/"}, id="user in it"),
        pytest.param(
            {"amRPCAddress": None, "trackingUrl": "http://{place}/proxy/{id}/", "unmanagedApplication": True},
            id="unmanaged",
        ),
    ],
)
def test_credentials_never_reach_a_host_that_nobody_vouches_for(
    site: Site, access: str, lie: dict[str, object]
) -> None:
    place = f"{FOREIGN}:{urlsplit(site.stranger.url).port}"
    site.bad.extra = {
        name: value.format(place=place, id=site.bad.id) if isinstance(value, str) else value
        for name, value in lie.items()
    }

    reports = site.run(access=access)

    assert_harms_only_itself(reports, site.bad)
    assert site.stranger.requests == []
    assert {"bearer jm-secret", "bearer rm-secret"} & {
        request.headers.get("authorization", "").lower()
        for request in (*site.own.requests, *site.yarn.managers[0].requests)
    }


def test_nobody_is_told_the_credentials_of_the_other_side(site: Site) -> None:
    site.run(access="direct")

    assert {request.headers["authorization"] for request in site.own.requests} == {"Bearer jm-secret"}
    assert {request.headers["authorization"] for request in site.yarn.managers[0].requests} == {"Bearer rm-secret"}


@pytest.mark.parametrize("value", [{"a": ["b"]}, []], ids=str)
@pytest.mark.parametrize("field", ["amRPCAddress", "trackingUrl", "name", "user", "queue", "applicationTags", "state"])
def test_application_with_a_field_of_another_type_harms_no_other(site: Site, field: str, value: object) -> None:
    site.bad.extra = {field: value}

    reports = site.run()

    assert [report.error for report in reports] == [None] * 3
    assert [report.reports[WELL].outcome.phase in EVALUATED for report in reports] == [True] * 3
    if isinstance(value, dict):
        assert [bad for report in reports for bad in report.gaps] == [site.bad.id] * 3
