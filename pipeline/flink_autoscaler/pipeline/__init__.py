"""The data pipeline: live evaluation of a fleet of jobs, in this process or as a Spark job.

Importing this package imports neither Spark nor Arrow.
The Spark engine is in :mod:`flink_autoscaler.pipeline.spark.live`, its session in
:mod:`flink_autoscaler.pipeline.spark.session`.
"""

from flink_autoscaler.pipeline.inline.engine import ClientCache, InlineEngine

__all__ = ["ClientCache", "InlineEngine"]
