"""How long a cluster may keep others waiting in a Spark job that they share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.spark import live_spark_settings

FIRST = ("0.name=first", "0.url=http://a:1")
SECOND = ("1.name=second", "1.url=http://b:1")
YARN = ("0.name=yarn", "0.type=yarn", "0.yarn.url=http://rm:1")


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        pytest.param(FIRST, 30.0, id="one endpoint keeps nobody waiting"),
        pytest.param((*FIRST, *SECOND), 3.0, id="half of the shortest interval"),
        pytest.param(YARN, 3.0, id="a pass over many endpoints"),
    ],
)
def test_a_cluster_has_a_time_out_where_others_wait_for_it(clusters: Sequence[str], expected: float) -> None:
    overrides = ["autoscaler.standalone.control-loop.interval=6 s"]
    overrides += [f"autoscaler.clusters.{each}" for each in clusters]
    settings = SettingsLoader(overrides=overrides, environment={}).read()

    assert live_spark_settings(settings).cut_after == expected
