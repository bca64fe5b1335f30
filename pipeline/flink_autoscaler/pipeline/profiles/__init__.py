"""Load profiles from the metric history: a Spark job for every night.

Importing this package imports neither Spark nor Arrow. The job is in :mod:`flink_autoscaler.pipeline.profiles.job`,
and with a session of its own in :mod:`flink_autoscaler.pipeline.profiles.run`.
"""

from flink_autoscaler.pipeline.profiles.settings import ProfileSettings

__all__ = ["ProfileSettings"]
