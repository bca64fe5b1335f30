"""Conditions that mean the same in every database."""

from __future__ import annotations

from sqlalchemy import Column, ColumnElement, Connection, LargeBinary, String, and_, cast, func, literal, literal_column

from flink_autoscaler.core.model.job import JobKey


def same_key(connection: Connection, column: Column[str], job_key: JobKey | ColumnElement[str]) -> ColumnElement[bool]:
    """Compare a job key to the letter.

    In MySQL a column of the Java process's own schema takes ``job`` and ``JOB``, and any column ``job`` and ``job``
    with a blank after it, for equal. The plain comparison stays for the index.
    """
    key = literal(job_key, String) if isinstance(job_key, str) else job_key
    plain = column == key
    if connection.dialect.name not in ("mysql", "mariadb"):
        return plain
    stored = func.convert(column.op("USING")(literal_column("utf8mb4")))
    return and_(plain, cast(stored, LargeBinary) == cast(key, LargeBinary))
