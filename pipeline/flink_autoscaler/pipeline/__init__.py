"""The data pipeline: live evaluation of a fleet of jobs, in this process or as a Spark job, history and backtests.

Importing this package imports nothing else. The engines are in :mod:`flink_autoscaler.pipeline.engine.inline` and
:mod:`flink_autoscaler.pipeline.spark.live`, Spark's sessions in :mod:`flink_autoscaler.pipeline.spark.session`.
"""
