"""The passes of the daemon against a real cluster, with everything that they tell about rescales.

Tests of what happens to rescales when things go wrong::

    with SupervisedPasses(cluster, {"job.autoscaler.metrics.window": "6 s"}) as passes:
        passes.until_told("Scaling")
        cluster.taskmanagers[0].kill()
        passes.until_told("RescaleReached")
        assert passes.reasons() == ["Scaling", "RescaleReached"]
"""

from testkit.scenarios.rescue.jobmanager_log import logged
from testkit.scenarios.rescue.passes import FAST_OPTIONS, ONLY_WORK, SupervisedPasses
from testkit.scenarios.rescue.telling import Told

__all__ = ["FAST_OPTIONS", "ONLY_WORK", "SupervisedPasses", "Told", "logged"]
