"""Extras of the project by library, for what is not installed: one table for commands and daemon."""

from __future__ import annotations

from typing import Final

EXTRA_OF: Final = {
    **dict.fromkeys(("pyspark", "py4j"), "spark"),
    **dict.fromkeys(("grpc", "google", "numpy", "pandas"), "connect"),
    "pyarrow": "history",
    "apprise": "notifications",
    **dict.fromkeys(("gssapi", "krb5"), "kerberos"),
    "psycopg": "postgresql",
    "pymysql": "mysql",
}
"""The smallest extra with a library, by the name that is imported."""


_ALWAYS_THERE: Final = frozenset({"alembic", "sqlalchemy"})
"""Libraries of every installation without which commands are told what is missing."""


def missing_library(error: ImportError) -> str | None:
    """Return what is missing and how to install it; None where the library is not one of ours.

    Args:
        error: Of an import that failed.
    """
    library = (error.name or "").partition(".")[0]
    if library in _ALWAYS_THERE:
        return f"{library} is not installed: pip install flink-autoscaler"
    extra = EXTRA_OF.get(library)
    return None if extra is None else f"{library} is not installed: pip install 'flink-autoscaler[{extra}]'"
