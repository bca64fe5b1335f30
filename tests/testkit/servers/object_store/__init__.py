"""An object store for tests: moto's S3 server on a free port of the loopback, and Hadoop's client for Spark.

Needs Maven, once, for the client's jars.
"""

from testkit.servers.object_store.jars import NoMavenError, s3_jars
from testkit.servers.object_store.store import BUCKET, KEY_ID, SECRET, ObjectStore, spark_options

__all__ = ["BUCKET", "KEY_ID", "SECRET", "NoMavenError", "ObjectStore", "s3_jars", "spark_options"]
