"""A real Spark cluster for tests: a standalone master with workers, and a Spark Connect server, on loopback ports.

All of it is in the ``pyspark`` package; executors run a Python of their own, see :func:`equipped_python`.
``spark_cluster.version_server`` has a Spark Connect server of any version that does nothing,
``spark_cluster.commands`` runs our command line beside it.
"""

from spark_cluster.cluster import SparkCluster
from spark_cluster.connect import ConnectServer
from spark_cluster.launch import spark_home
from spark_cluster.pyfiles import make_pyfiles
from spark_cluster.python import equipped_python, executor_python
from spark_cluster.recorded import Recorded, comparables, evaluate_while

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
