"""A real YARN with Flink on it, and a real HDFS, for tests.

Hadoop's own ResourceManager and NodeManager, NameNode and DataNode as local processes on the loopback. Needs
Linux, bash, a JDK 17, pip (for Flink) and, once, Maven Central.
"""

from yarn_cluster.application import YarnApplication
from yarn_cluster.cluster import YarnCluster
from yarn_cluster.deployment import FlinkOnYarn
from yarn_cluster.distribution import MavenUnreachableError
from yarn_cluster.hdfs import HdfsCluster

__all__ = ["FlinkOnYarn", "HdfsCluster", "MavenUnreachableError", "YarnApplication", "YarnCluster"]
