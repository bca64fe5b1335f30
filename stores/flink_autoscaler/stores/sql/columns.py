"""Column types and options that mean the same in every database, for the tables and for their revisions.

Revisions that were released rest on them, so they never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Dialect, Integer, String, Text
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR
from sqlalchemy.types import TypeEngine

ID: Final = BigInteger().with_variant(Integer(), "sqlite")
LONG_TEXT: Final = Text().with_variant(LONGTEXT(), "mysql")
MYSQL_TABLE: Final[Mapping[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_general_ci",
}


def text_or(mysql: TypeEngine[str]) -> TypeEngine[str]:
    """Make the type of a text that only MySQL wants to know the length of."""
    return Text().with_variant(mysql, "mysql")


def exact_text(length: int) -> VARCHAR:
    """Make MySQL's type of a text that is compared byte by byte."""
    return VARCHAR(length, collation="utf8mb4_bin")


def exact_key(length: int) -> TypeEngine[str]:
    """Make the type of a key that is compared byte by byte in every database."""
    return String(length).with_variant(exact_text(length), "mysql")


def is_not_postgresql(*_: object, dialect: Dialect, **__: object) -> bool:
    """Tell whether the key of the state table has a name, in the form that ``ddl_if`` asks for it."""
    return dialect.name != "postgresql"
