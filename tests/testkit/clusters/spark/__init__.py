"""A real Spark cluster for tests: a standalone master with workers, and a Spark Connect server, on loopback ports.

All of it is in the ``pyspark`` package; executors run a Python of their own, see :func:`equipped_python`.
``testkit.clusters.spark.version_server`` has a Spark Connect server of any version that does nothing,
``testkit.clusters.spark.commands`` runs our command line beside it.
"""

from testkit.clusters.spark.cluster import SparkCluster
from testkit.clusters.spark.connect import ConnectServer
from testkit.clusters.spark.launch import spark_home
from testkit.clusters.spark.pyfiles import make_pyfiles
from testkit.clusters.spark.python import equipped_python, executor_python
from testkit.clusters.spark.recorded import Recorded, comparables, evaluate_while

__all__ = [
    "ConnectServer",
    "Recorded",
    "SparkCluster",
    "comparables",
    "equipped_python",
    "evaluate_while",
    "executor_python",
    "make_pyfiles",
    "spark_home",
]
