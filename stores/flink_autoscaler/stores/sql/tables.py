"""The tables: two shared with the Java process, and our own, whose names begin with ``fa_``.

The shared ones have the columns, types and keys of the Java process's own scripts, with one exception: where we create
them in MySQL or MariaDB, job keys are compared byte by byte, as in the other databases.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import VARCHAR
from sqlalchemy.schema import SchemaItem

from flink_autoscaler.stores.sql.columns import (
    ID,
    LONG_TEXT,
    MYSQL_TABLE,
    exact_key,
    exact_text,
    is_not_postgresql,
    text_or,
)

JOB_KEY_LENGTH = 191
"""Characters that fit into a unique index of the oldest MySQL supported."""

METADATA = MetaData()

_JOB_KEY = exact_key(JOB_KEY_LENGTH)


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, METADATA, *items, **MYSQL_TABLE, **options)


STATE = _table(
    "t_flink_autoscaler_state_store",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("update_time", DateTime, nullable=False),
    Column("job_key", text_or(exact_text(JOB_KEY_LENGTH)), nullable=False),
    Column("state_type", text_or(VARCHAR(100)), nullable=False),
    Column("state_value", LONG_TEXT, nullable=False),
    UniqueConstraint("job_key", "state_type", name="un_job_state_type_inx").ddl_if(callable_=is_not_postgresql),
    UniqueConstraint("job_key", "state_type").ddl_if(dialect="postgresql"),
)
"""One row per job and kind of state, shared with the Java process."""

EVENTS = _table(
    "t_flink_autoscaler_event_handler",
    Column("id", ID, Identity(always=True), primary_key=True),
    Column("create_time", DateTime, nullable=False),
    Column("update_time", DateTime, nullable=False),
    Column("job_key", _JOB_KEY, nullable=False),
    Column("reason", String(500).with_variant(VARCHAR(191), "mysql"), nullable=False),
    Column("event_type", String(100), nullable=False),
    Column("message", LONG_TEXT, nullable=False),
    Column("event_count", Integer, nullable=False),
    Column("event_key", String(100), nullable=False),
    Index("job_key_reason_event_key_idx", "job_key", "reason", "event_key"),
    Index("job_key_reason_create_time_idx", "job_key", "reason", "create_time"),
    sqlite_autoincrement=True,
)
"""One row per event and interval, shared with the Java process."""

JOBS = _table(
    "fa_job",
    Column("job_key", _JOB_KEY, primary_key=True),
    Column("cluster", String(JOB_KEY_LENGTH), nullable=False),
    Column("job_id", String(100)),
    Column("own_state", LONG_TEXT),
    Column("writer", String(JOB_KEY_LENGTH), nullable=False),
    Column("updated_at", DateTime, nullable=False),
)
"""One row per job: what the Java process has no column for.

``cluster`` is empty where job keys do not name one, ``own_state`` is JSON, ``writer`` names the installation.
"""

SET_ASIDE = _table(
    "fa_set_aside",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("job_key", _JOB_KEY, nullable=False),
    Column("state_type", String(100), nullable=False),
    Column("state_value", LONG_TEXT, nullable=False),
    Column("problem", String(500), nullable=False),
    Column("set_aside_at", DateTime, nullable=False),
    Index("fa_set_aside_job_key_idx", "job_key"),
)
"""State values that could not be read, to the letter."""

LEASE = _table(
    "fa_lease",
    Column("name", _JOB_KEY, primary_key=True),
    Column("owner", String(JOB_KEY_LENGTH), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger, nullable=False),
)
"""One row per group of daemons of which one leads; times are epoch milliseconds by the database's clock."""

TOMBSTONES = _table(
    "fa_tombstone",
    Column("job_key", _JOB_KEY, primary_key=True),
    Column("cluster", String(JOB_KEY_LENGTH), nullable=False),
    Column("gone_at_ms", BigInteger, nullable=False),
)
"""Jobs that are not listed any more, and since when."""

ORDERS = _table(
    "fa_order",
    Column("job_key", _JOB_KEY, primary_key=True),
    Column("cluster", _JOB_KEY, nullable=False),
    Column("orders", LONG_TEXT, nullable=False),
    Column("version", BigInteger, nullable=False),
    Index("fa_order_cluster_version_idx", "cluster", "version"),
)
"""One row per job with orders of people, as JSON.

``version`` is the instant of the last change, epoch milliseconds by the database's clock, and grows with every change.
"""

DECISIONS = _table(
    "fa_decision",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("job_key", _JOB_KEY, nullable=False),
    Column("cluster", String(JOB_KEY_LENGTH), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("phase", String(40), nullable=False),
    Column("decision", String(20), nullable=False),
    Column("writer", String(JOB_KEY_LENGTH), nullable=False),
    Column("record", LONG_TEXT, nullable=False),
    Index("fa_decision_job_key_at_idx", "job_key", "at_ms"),
    Index("fa_decision_at_idx", "at_ms"),
)
"""One row per recorded pass over a job: when, how far it came, and with what it was decided.

``at_ms`` is the instant of the pass by the clock of the daemon, ``record`` is compressed JSON.
"""

FORECAST_META = _table(
    "fa_forecast_meta",
    Column("job_key", _JOB_KEY, primary_key=True),
    Column("source_id", _JOB_KEY, primary_key=True),
    Column("asof_ms", BigInteger, nullable=False),
    Column("level", Double),
    Column("growth", Double),
    Column("weeks", Integer),
    Column("missing", Double),
    Column("wape", Double),
    Column("exceed", Double),
    Column("timezone", String(64)),
    Column("version", Integer, nullable=False),
    Column("problem", LONG_TEXT),
    Column("revision", String(16)),
)
"""One row per source: what the nightly job came to. Without a profile ``problem`` says why and ``level`` is null.

``revision`` is a check sum of the result; null where a version without it has saved it.
"""

FORECAST_PROFILE = _table(
    "fa_forecast_profile",
    Column("job_key", _JOB_KEY, primary_key=True),
    Column("source_id", _JOB_KEY, primary_key=True),
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    Column("q50", Double, nullable=False),
    Column("q90", Double, nullable=False),
    Column("weeks", Integer, nullable=False),
)
"""One row per source and known quarter hour of the week: quantiles of the load relative to the level."""

SCALINGS = _table(
    "fa_scaling",
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("vertex_id", _JOB_KEY, primary_key=True),
    Column("job_key", _JOB_KEY, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("is_executed", SmallInteger, nullable=False),
    Column("vertex_name", LONG_TEXT, nullable=False),
    Column("current_parallelism", Integer, nullable=False),
    Column("new_parallelism", Integer, nullable=False),
    Column("capacity", Double),
    Column("expected_capacity", Double),
    Column("target_rate", Double),
    Index("fa_scaling_job_key_at_idx", "job_key", "at_ms"),
)
"""One row per vertex of a scaling report: what its event says as text. Rates in records/s, null where not known.

``event_id`` is the id of the row of the event, ``at_ms`` its last occurrence, ``is_executed`` 1 or 0.
"""

EVENT_FIGURES = _table(
    "fa_event_figure",
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(100), primary_key=True),
    Column("value", Double),
)
"""One row per number behind another event; null where it is not known or infinite."""

NOTIFICATIONS = _table(
    "fa_notification",
    Column("id", ID, primary_key=True, autoincrement=True),
    Column("notice_id", exact_key(36), nullable=False),
    Column("writer", _JOB_KEY, nullable=False),
    Column("target", exact_key(64), nullable=False),
    Column("identity", exact_key(40), nullable=False),
    Column("added_ms", BigInteger, nullable=False),
    Column("repeat_until_ms", BigInteger, nullable=False),
    Column("claim", exact_key(36), nullable=False),
    Column("claimed_until_ms", BigInteger, nullable=False),
    Column("settled_ms", BigInteger, nullable=False),
    Column("notice", LONG_TEXT, nullable=False),
    Index("fa_notification_notice_idx", "notice_id", "writer", "target", unique=True),
    Index("fa_notification_waiting_idx", "writer", "target", "settled_ms"),
    Index("fa_notification_identity_idx", "identity"),
    Index("fa_notification_claim_idx", "claim"),
)
"""One row per event and target that is told; instants are epoch milliseconds by the database's clock.

``settled_ms`` is 0 while the event waits, ``claim`` is empty until somebody has begun to send it, ``notice`` is JSON.
"""
