"""Takes out of an environment what an image does not need: tests, sources of compiled modules, jars of other features.

``python3 trim.py /opt/flink-autoscaler``, standard library only. ``make suite NAME=docker`` evaluates and backtests
with what is left.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

JARS_OF_OTHER_FEATURES = (
    # State of streaming queries and Spark's own history server; nothing here streams or serves.
    *("rocksdbjni-*", "leveldbjni-*", "spark-streaming_*", "spark-ganglia*"),
    # The server of Spark Connect: an image is at most its client, which is Python.
    *("spark-connect_*", "spark-connect-*"),
    # Machine learning and graphs.
    *(
        "spark-mllib*",
        "spark-graphx*",
        "breeze*",
        "spire*",
        "cats-kernel*",
        "algebra_*",
        "JTransforms*",
        "JLargeArrays*",
    ),
    *("arpack*", "lapack*", "blas*", "dev.ludovic*", "pmml-model*", "commons-math3*", "scala-collection-compat*"),
    # Hive and its database: the catalogue is in memory.
    *("hive-*", "spark-hive*", "derby*", "datanucleus*", "bonecp*", "HikariCP*", "jdo-api*", "javax.jdo*", "ST4*"),
    *(
        "libfb303*",
        "libthrift*",
        "jpam*",
        "transaction-api*",
        "antlr-runtime-*",
        "stax-api*",
        "opencsv*",
        "JLargeArrays*",
    ),
    # Kubernetes.
    *("kubernetes-*", "spark-kubernetes*", "vertx-*", "snakeyaml-engine*", "zjsonpatch*", "logging-interceptor*"),
    # The shell.
    *("spark-repl*", "scala-compiler-*", "jline-*"),
    # Native libraries of other systems.
    *("netty-*-osx-*", "netty-*-windows-*", "netty-*-kqueue-*"),
)

IN_PACKAGES = (
    # Sources and headers of compiled modules, and what only a type checker reads.
    *("**/*.pyi", "**/*.pyx", "**/*.pxd", "**/*.pxi", "**/*.c", "**/*.h", "**/*.hpp", "**/*.cc", "**/*.a"),
    *("**/tests", "**/_tests", "**/testing/data"),
    # Of what shows tables on a terminal, the colours of source texts; test suites of libraries.
    *("pygments/lexers/[a-z]*.py", "sqlalchemy/testing", "alembic/testing"),
    # Translations of messages that go to developers of plug-ins.
    *("apprise/i18n/[a-z]*", "apprise/assets/themes"),
    # Examples, data and scripts of Spark, of which a driver needs bin/ and jars/.
    *("pyspark/examples", "pyspark/data", "pyspark/licenses", "pyspark/ml", "pyspark/mllib", "pyspark/pandas"),
    *("pyspark/python/pyspark.zip", "pyspark/sbin", "pyspark/pipelines"),
    *("pyspark/jars/connect-repl",),
    # Arrow's servers and headers.
    *("pyarrow/include", "pyarrow/src", "pyarrow/libarrow_flight*", "pyarrow/_flight*"),
    *("pyarrow/_substrait*", "pyarrow/libarrow_python_flight*", "pyarrow/includes", "pyarrow/libarrow_python.so"),
    # A second copy under its full version, and object stores, which Spark reads and Arrow never does.
    *("pyarrow/lib*.so.*.*.*", "pyarrow/libarrow_s3*", "pyarrow/_s3fs*"),
)


def main(environment: Path) -> None:
    """Remove, and say how much."""
    before = size(environment)
    for packages in environment.glob("lib/python3*/site-packages"):
        for pattern in IN_PACKAGES:
            for each in sorted(packages.glob(pattern)):
                remove(each)
        for pattern in JARS_OF_OTHER_FEATURES:
            for each in sorted(packages.glob(f"pyspark/jars/{pattern}.jar")):
                remove(each)
    sys.stdout.write(f"{environment}: {before >> 20} MB, {size(environment) >> 20} MB after trimming\n")


def remove(path: Path) -> None:
    """Remove a file or a folder; it may be gone with another one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.lstat().st_size for path in folder.rglob("*"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
