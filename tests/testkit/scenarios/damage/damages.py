"""What can be wrong with one value in a row: SQLite takes anything in any column."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Table

from flink_autoscaler.stores.sql.migrations import VERSION_TABLE
from flink_autoscaler.stores.sql.tables import METADATA

VALUES: Final[Mapping[str, str]] = {
    "null": "NULL",
    "nothing": "''",
    "junk": "'junk'",
    "bytes": "x'00ff'",
    "not UTF-8": "CAST(x'7bff7d' AS TEXT)",
    "NUL": "'a' || char(0) || 'b'",
    "minus one": "-1",
    "zero": "0",
    "largest": "9223372036854775807",
    "smallest": "-9223372036854775808",
    "huge": "1e300",
    "infinity": "9e999",
    "not a number": "'NaN'",
    "a fraction": "0.5",
    "an object": "'{}'",
    "a list": "'[]'",
    "JSON null": "'null'",
    "an object with a list": """'{"supervision":[],"policies":[1],"forecast":"x","waited":7,"incomplete":{"a":1}}'""",
    "instants out of range": (
        """'{"supervision":{"since_ms":-900000000000000000,"obeyed_ms":900000000000000000},"""
        """"pause":{"signed":{"who":"a","reason":"b","at_ms":900000000000000000}}}'"""
    ),
    "metrics that cannot be": (
        """'{"2026-01-01T00:00:00Z":{"vertexMetrics":{"a":{"LOAD":"Infinity","NUM_RECORDS_IN":1e308}}}}'"""
    ),
    "deep": "'" + "[" * 5_000 + "'",
    "long": "CAST(zeroblob(2000000) AS TEXT)",
    "no date": "'2026-99-99 99:99:99'",
    "before the first year": "'-712-01-01 00:00:00.000000'",
}
"""Expressions of SQL by what they are."""

_OF_NO_JOB: Final = frozenset({VERSION_TABLE})


class Unwanted(Exception):  # noqa: N818 - no error: there is no such state
    """The database itself refuses this."""


@dataclass(frozen=True)
class Damage:
    """One value in the row of a job, or of all rows of a table that are no job's."""

    table: str
    column: str
    what: str
    condition: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.what}"

    def do(self, path: Path) -> None:
        """Damage a database.

        Raises:
            Unwanted: It refuses.
        """
        with closing(sqlite3.connect(path)) as connection:
            try:
                statement = f"UPDATE {self.table} SET {self.column} = {VALUES[self.what]} WHERE {self.condition}"
                changed = connection.execute(statement).rowcount
            except sqlite3.IntegrityError as error:
                raise Unwanted(str(error)) from error
            connection.commit()
        assert changed, f"{self}: there is no such row"


def damages(job_key: str, *, seed: int) -> list[Damage]:
    """Return every damage, in an order of which every beginning is a fair sample."""
    found = [
        Damage(table.name, column.name, what, _condition(table, job_key))
        for table in METADATA.sorted_tables
        for column in table.columns
        for what in VALUES
        if not column.primary_key or column.name != "id"
    ]
    random.Random(seed).shuffle(found)
    return found


def _condition(table: Table, job_key: str) -> str:
    return f"job_key = '{job_key}'" if "job_key" in table.columns else "1"
