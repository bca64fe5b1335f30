"""Command lines of Hadoop's own JVMs."""

from collections.abc import Sequence
from pathlib import Path

from testkit.clusters.flink.java import MODULE_OPTIONS, SLIM_OPTIONS, tool


def hadoop_jvm(name: str, directory: Path, class_path: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return what starts a main class of Hadoop, which is to follow.

    Args:
        name: Of the process and its log.
        directory: Of the cluster; has the folders ``log`` and ``tmp``.
        class_path: Folders and jars.
        options: Further ones of the JVM.
    """
    places = [
        f"-Dlog.file={directory / 'log' / name}.log",
        f"-Dhadoop.log.dir={directory / 'log'}",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
    ]
    every = [*SLIM_OPTIONS, "-Xmx256m", *MODULE_OPTIONS, *options, *places]
    return [str(tool("java")), *every, "-cp", ":".join(class_path)]
