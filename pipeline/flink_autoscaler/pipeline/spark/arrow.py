"""``mapInArrow`` without pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: str) -> DataFrame:
    """Do what ``DataFrame.mapInArrow`` does, which insists on pandas without using it.

    Args:
        frame: Of a driver in this process, or of a Spark Connect server; the latter's client has pandas anyway.
        function: Takes and gives the batches of a partition.
        schema: Of its rows, as DDL.
    """
    if not hasattr(frame, "_jdf"):
        return frame.mapInArrow(function, schema)
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column = UserDefinedFunction(function, returnType=schema, evalType=kind)(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
