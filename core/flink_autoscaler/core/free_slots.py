"""The built-in resource check: a plan has to fit into the slots that are free."""

from __future__ import annotations

import math

from flink_autoscaler.core.extensions import ResourceRequest
from flink_autoscaler.core.metric_names import SLOTS_AVAILABLE
from flink_autoscaler.core.reading import ClusterReading


class FreeSlotsCheck:
    """Holds back plans for which a cluster of fixed size has no free slots; shrinking is always possible."""

    def try_schedule(self, request: ResourceRequest, cluster: ClusterReading) -> bool:
        """Tell whether the free slots suffice; when their number is unknown, only a plan that needs none fits."""
        return request.more_slots <= 0 or request.more_slots <= _free_slots(cluster)


def _free_slots(cluster: ClusterReading) -> float:
    try:
        free = float(cluster.jobmanager.get(SLOTS_AVAILABLE, "nan"))
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(free) else free
