"""Real Flink clusters for tests and the demo.

Needs Python's pip, a JDK 17 and, once, the network.
"""

from flink_cluster.application import FlinkApplicationCluster
from flink_cluster.cluster import FlinkCluster
from flink_cluster.errors import HarnessError
from flink_cluster.process import FlinkProcess

__all__ = ["FlinkApplicationCluster", "FlinkCluster", "FlinkProcess", "HarnessError"]
