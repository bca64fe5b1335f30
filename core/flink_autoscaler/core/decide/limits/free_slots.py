"""The built-in resource check: a plan has to fit into the slots that are free."""

from __future__ import annotations

from flink_autoscaler.core.decide.limits.slots import free_slots
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.plugins import ResourceRequest


class FreeSlotsCheck:
    """Holds back plans for which a cluster of fixed size has no free slots; shrinking is always possible."""

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        """Tell whether the free slots suffice; when their number is unknown, only a plan that needs none fits."""
        return request.more_slots <= 0 or request.more_slots <= (free_slots(cluster) or 0)
