"""A real YARN with Flink on it, and a real HDFS, for tests.

Hadoop's own ResourceManager and NodeManager, NameNode and DataNode as local processes on the loopback. Needs
Linux, bash, a JDK 17, pip (for Flink) and, once, Maven Central.
"""

from testkit.clusters.yarn.application import YarnApplication
from testkit.clusters.yarn.cluster import YarnCluster
from testkit.clusters.yarn.deployment import FlinkOnYarn
from testkit.clusters.yarn.distribution import MavenUnreachableError
from testkit.clusters.yarn.hdfs import HdfsCluster

__all__ = ["FlinkOnYarn", "HdfsCluster", "MavenUnreachableError", "YarnApplication", "YarnCluster"]
