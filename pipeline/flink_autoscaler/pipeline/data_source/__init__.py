"""A Spark data source of live jobs, vertices and metrics: ``spark.read.format("flink_metrics")``.

``spark.dataSource.register(FlinkMetrics)`` makes it known to a session. It needs PySpark 4 and asks the clusters
anew whenever Spark evaluates the DataFrame.
"""

from flink_autoscaler.pipeline.data_source.read_options import endpoint_options
from flink_autoscaler.pipeline.data_source.source import FlinkMetrics

__all__ = ["FlinkMetrics", "endpoint_options"]
