"""What to do when Spark does not know, or does not find, the file system of a path."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

_CONFIGURATION: Final = "HADOOP_CONF_DIR"

_HADOOP_MODULES: Final = {
    "s3a": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "wasb": "hadoop-azure",
    "wasbs": "hadoop-azure",
    "oss": "hadoop-aliyun",
    "cosn": "hadoop-cos",
    "obs": "hadoop-huaweicloud",
}
"""Modules of Hadoop that are not in Spark's distribution, by scheme; each has the version of Hadoop itself."""

_OTHER_PACKAGES: Final = {"gs": "com.google.cloud.bigdataoss:gcs-connector (a version for Hadoop 3)"}
_OLD_SCHEMES: Final = frozenset({"s3", "s3n"})
_NO_CLASS: Final = ("ClassNotFoundException", "NoClassDefFoundError", "No FileSystem for scheme")
_NO_HOST: Final = "UnknownHostException"
_PLACE: Final = " in autoscaler.engine.spark-config (Spark Connect: of the server)"


def advice(path: str, problem: str, *, hadoop: str | None = None) -> str | None:
    """Return what to do about a path that Spark cannot reach; None where the problem is another one.

    Args:
        path: With its scheme.
        problem: What Hadoop said.
        hadoop: Version of the Hadoop that said it; None where that is not known.
    """
    scheme = urlsplit(path).scheme.lower()
    if any(text in problem for text in _NO_CLASS):
        return _package(scheme, hadoop or "<version of Hadoop there>")
    if _NO_HOST in problem and scheme == "hdfs" and not os.environ.get(_CONFIGURATION):
        return f"if that is a name service, set {_CONFIGURATION} to the folder with the hdfs-site.xml that knows it"
    return None


def _package(scheme: str, hadoop: str) -> str | None:
    if scheme in _OLD_SCHEMES:
        return f"Hadoop has no {scheme}:// any more, write s3a://"
    module = _HADOOP_MODULES.get(scheme)
    package = f"org.apache.hadoop:{module}:{hadoop}" if module else _OTHER_PACKAGES.get(scheme)
    if package is None:
        return f"Spark has no file system for {scheme}://; add the jar that brings one to spark.jars{_PLACE}"
    return f"Spark has no file system for {scheme}://; add the package {package} to spark.jars.packages{_PLACE}"
