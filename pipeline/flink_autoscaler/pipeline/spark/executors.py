"""Work on executors: what they are is asked once per session, so that what they lack is shipped or said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StringType, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from flink_autoscaler.pipeline.spark.archive import LIBRARIES
from flink_autoscaler.pipeline.spark.supply import SparkLostError, bounded

OLDEST_ARROW: Final = 18
"""Major version of pyarrow that executors need at least, as this process does."""


OUTCOMES_TYPE: Final = (
    StructType()
    .add("position", IntegerType())
    .add("outcome", BinaryType())
    .add("problem", StringType())
    .add("seconds", DoubleType())
)
"""The rows of ``frames.OUTCOMES`` as Spark calls them: a schema as text would need a JVM of this process."""

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Executor:
    """What one executor runs with.

    Attributes:
        host: Where it is.
        python: Path of its interpreter.
        spark: Version of the pyspark that it imports.
        arrow: Version of pyarrow, None where there is none.
        missing: Import names of ``LIBRARIES`` that it lacks.
    """

    host: str
    python: str
    spark: str
    arrow: str | None
    missing: tuple[str, ...]


def surveyed(spark: Any, udf: Callable[..., Any], tasks: int, *, timeout: float) -> list[Executor]:
    """Ask the executors in a Spark job, which needs nothing of ours and no pyarrow there.

    Args:
        spark: A session of a driver or of Spark Connect.
        udf: The function of that name that belongs to the kind of session.
        tasks: Of the job, at least 1.
        timeout: Seconds until executors are given up.

    Raises:
        SparkLostError: No executor answered in time. Beside that raises what Spark raises.
    """
    ask = udf(_question(tuple(LIBRARIES.values())), StringType(), useArrow=False)
    asking = spark.range(0, tasks, 1, tasks).select(ask("id"))
    try:
        answers = [json.loads(row[0]) for row in bounded(timeout, asking.collect)]
    except TimeoutError:
        raise SparkLostError(
            f"no executor of Spark ran a task within {timeout:.3g} s: see whether the cluster has free cores and "
            "memory, and whether its machines reach this one (spark.driver.host)"
        ) from None
    return list({Executor(**answer | {"missing": tuple(answer["missing"])}) for answer in answers})


def lacking(executors: Sequence[Executor], *, spark_version: str) -> set[str]:
    """Return the libraries that some executor lacks and that can be shipped.

    Raises:
        SparkLostError: An executor cannot do our work; the message says what to install where.
    """
    for executor in executors:
        _require_arrow(executor)
        if minor(executor.spark) != minor(spark_version):
            raise SparkLostError(
                f"executors on {executor.host} run PySpark {executor.spark}, the driver Spark {spark_version}: "
                "use the same version on the cluster and here"
            )
    return {name for executor in executors for name in executor.missing}


def minor(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, such as (4, 1) for 4.1.0-SNAPSHOT; fewer where it has fewer."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _require_arrow(executor: Executor) -> None:
    if executor.arrow is None or minor(executor.arrow) < (OLDEST_ARROW,):
        has = "no pyarrow" if executor.arrow is None else f"pyarrow {executor.arrow}"
        raise SparkLostError(
            f"the Python of Spark's executors, {executor.python} on {executor.host}, has {has}: install "
            f"pyarrow>={OLDEST_ARROW} there, or name an interpreter that has it as spark.pyspark.python in "
            "autoscaler.engine.spark-config (Spark Connect: PYSPARK_PYTHON of the server)"
        )


def _question(libraries: Sequence[str]) -> Callable[[int], str]:
    """Return the function that executors run. It is not at the top of a module, so that it travels as a whole."""

    def answer(_: int) -> str:
        import json  # noqa: PLC0415 - whatever it needs is imported over there
        import socket  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415

        import pyspark  # noqa: PLC0415

        try:
            import pyarrow  # noqa: PLC0415
        except ImportError:
            arrow = None
        else:
            arrow = pyarrow.__version__
        facts = {"host": socket.gethostname(), "python": sys.executable, "spark": pyspark.__version__, "arrow": arrow}
        return json.dumps({**facts, "missing": [name for name in libraries if find_spec(name) is None]})

    return answer


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """Do what ``DataFrame.mapInArrow`` does, which insists on pandas without using it."""
    if not hasattr(frame, "_jdf"):
        return frame.mapInArrow(function, schema)
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column = UserDefinedFunction(function, returnType=schema, evalType=kind)(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
