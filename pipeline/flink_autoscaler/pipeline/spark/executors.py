"""Requirements of executors: our own code, which is shipped to them, and the libraries, which have to be there.

Libraries are installed on the nodes, or come with the interpreter that ``venv-pack`` packs and ``--archives`` ships:
what is compiled does not import from a zip.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePath
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

import flink_autoscaler
from flink_autoscaler.pipeline.spark.supply import SparkLostError, bounded

DISTRIBUTION: Final = "flink-autoscaler"

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_COMPILED: Final = frozenset({".so", ".pyd", ".pyc", ".pyx", ".pxd", ".c", ".h"})
_DESCRIPTION: Final = ("METADATA", "entry_points.txt")


def pack_ours(archive: Path) -> Path:
    """Pack our own packages, and the list of our plug-ins, as ``make pyfiles`` does. Returns the archive.

    Folders have entries of their own: before Python 3.14 zipimport sees a namespace package only by them.
    """
    # Of two roots with the same file the first one counts, as for imports.
    roots = [Path(root) for root in reversed(list(flink_autoscaler.__path__))]
    paths = {PurePath(root.name) / path.relative_to(root): path for root in roots for path in [root, *root.rglob("*")]}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for place, path in sorted(paths.items()):
            if "__pycache__" not in place.parts and place.suffix not in _COMPILED:
                target.write(path, place)
        for name, text in _description():
            target.writestr(name, text)
    return archive


def require_executors(spark: Any, tasks: int, *, timeout: float) -> None:
    """Run a first Spark job, whose tasks import what our work needs.

    Args:
        spark: A session of a driver or of Spark Connect, which has our code.
        tasks: Of the job, at least 1.
        timeout: Seconds until executors are given up.

    Raises:
        SparkLostError: No executor ran a task in time. Beside that raises what Spark raises, a library that an executor
            lacks included: ``reason_of`` says which.
    """
    trial = map_in_arrow(spark.range(0, tasks, 1, tasks), imports, "id long")
    try:
        bounded(timeout, trial.collect)
    except TimeoutError:
        raise SparkLostError(
            f"no executor of Spark ran a task within {timeout:.3g} s: see whether the cluster has free cores and "
            "memory, and whether its machines reach this one (spark.driver.host)"
        ) from None


def imports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import what a pass runs, and hand rows through (a function of ``mapInArrow``)."""
    import flink_autoscaler.pipeline.spark.task  # noqa: F401, PLC0415 - over there, where it may be missing

    yield from batches


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """Do what ``DataFrame.mapInArrow`` does, which insists on pandas without using it."""
    if not hasattr(frame, "_jdf"):
        return frame.mapInArrow(function, schema)
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column = UserDefinedFunction(function, returnType=schema, evalType=kind)(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def _description() -> Iterator[tuple[str, str]]:
    """Give what names our plug-ins, as the distribution has it; a bare checkout has nothing."""
    try:
        ours = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return
    folder = f"{DISTRIBUTION.replace('-', '_')}-{ours.version}.dist-info"
    for name in _DESCRIPTION:
        text = ours.read_text(name)
        if text is not None:
            yield f"{folder}/{name}", text
