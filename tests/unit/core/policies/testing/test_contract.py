"""The policies that size by true rates keep the contract."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.policy_values import DemandForecast, JobObservation, SourceForecast
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.testing.contract import ScalingPolicyContract
from flink_autoscaler.core.ports.plugins import ScalingPolicy


class TestCapacityPolicy(ScalingPolicyContract):
    patience = 2

    def make_policy(self) -> ScalingPolicy:
        return CapacityPolicy()


class TestCapacityPolicyWithoutCatchUp(TestCapacityPolicy):
    def config(self) -> Mapping[str, str]:
        return {
            "job.autoscaler.catch-up.duration": "0",
            "job.autoscaler.scaling.effectiveness.detection.enabled": "true",
            "job.autoscaler.scale-up.max-factor": "0.8",
            "job.autoscaler.utilization.target": "0.9",
        }


class TestCapacityPolicyWithForecast(TestCapacityPolicy):
    def demand(self, obs: JobObservation) -> DemandForecast | None:
        sources = (vertex for vertex in obs.vertices.values() if vertex.is_source)
        return {each.vertex_id: SourceForecast(5_000.0, 8_000.0, 3_000.0) for each in sources}
