"""The data pipeline: live evaluation of a fleet of jobs, in this process or as a Spark job.

Importing this package does not import Spark.
"""

from flink_autoscaler.pipeline.engine import ClientCache, InlineEngine
from flink_autoscaler.pipeline.live import SparkEngine
from flink_autoscaler.pipeline.session import SparkSettings, open_session
from flink_autoscaler.pipeline.supply import SessionSupply, SparkLostError

__all__ = [
    "ClientCache",
    "InlineEngine",
    "SessionSupply",
    "SparkEngine",
    "SparkLostError",
    "SparkSettings",
    "open_session",
]
