"""Load profiles in the database of a daemon: they reach the passes, and go with their job."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.fetchers.listing import chosen_clusters
from flink_autoscaler.standalone.settings.schema.settings import Settings
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.watching.wired import settings_of

KEY = "main/orders"
ASOF = 1_769_860_800.0


def a_site(flink: FakeFlink, folder: Path) -> Settings:
    values = {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": "20 s",
        "job.autoscaler.forecast.enabled": "true",
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "JDBC",
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{folder / 'autoscaler.db'}",
        "autoscaler.jobs-gone.grace": "0 s",
    }
    return settings_of(values)


def test_profiles_reach_the_passes_of_their_job_and_go_with_it(tmp_path: Path) -> None:
    with FakeFlink() as flink, ExitStack() as parts:
        job = flink.add_job("orders")
        settings = a_site(flink, tmp_path)
        wiring = parts.enter_context(Wiring(settings))
        passes = wiring.cluster_pass(chosen_clusters(settings, None)[0])
        wiring.storage.start()
        source = job.vertices[0].vertex_id
        profile = LoadProfile((1.0,) * 672, (1.2,) * 672, 5, level=100.0, growth=1.0, asof=ASOF)
        wiring.storage.forecasts.save([ProfileResult(KEY, source, ASOF, profile)])

        reports = [passes.run() for _ in range(3)]
        outcome = reports[-1].reports[KEY].outcome
        before = wiring.storage.forecasts.revisions()
        flink.jobs.clear()
        passes.run()
        after = wiring.storage.forecasts.revisions()

    [(_, f50, f90)] = outcome.state.forecast["sources"][source]["issued"]
    assert (f50, f90) == (100.0, 120.0)
    assert (set(before), after) == ({KEY}, {})
