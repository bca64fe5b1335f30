"""A real YARN with Flink on it, for tests.

Hadoop's own ResourceManager and NodeManager as local processes on the loopback. Needs
Linux, bash, a JDK 17, pip (for Flink) and, once, Maven Central.
"""

from yarn_cluster.application import YarnApplication
from yarn_cluster.cluster import YarnCluster
from yarn_cluster.deployment import FlinkOnYarn
from yarn_cluster.distribution import MavenUnreachableError

__all__ = ["FlinkOnYarn", "MavenUnreachableError", "YarnApplication", "YarnCluster"]
