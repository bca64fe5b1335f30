"""Everything that a PostgreSQL database committed about state and lease, written down by triggers."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from flink_autoscaler.stores.sql.database.database import Database

_TRIGGERS = """
CREATE TABLE test_state_history (
    number BIGSERIAL PRIMARY KEY, at DOUBLE PRECISION, job_key TEXT, state_type TEXT, value TEXT, writer TEXT
);
CREATE TABLE test_lease_history (
    number BIGSERIAL PRIMARY KEY, at DOUBLE PRECISION, owner TEXT, token BIGINT, expires_at DOUBLE PRECISION
);
CREATE FUNCTION test_note_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO test_state_history (at, job_key, state_type, value, writer)
        SELECT EXTRACT(EPOCH FROM clock_timestamp()), COALESCE(NEW.job_key, OLD.job_key),
        COALESCE(NEW.state_type, OLD.state_type), NEW.state_value, session_user;
    RETURN NULL;
END $$;
CREATE FUNCTION test_note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO test_lease_history (at, owner, token, expires_at)
        SELECT EXTRACT(EPOCH FROM clock_timestamp()), NEW.owner, NEW.token, NEW.expires_at / 1000.0;
    RETURN NULL;
END $$;
CREATE TRIGGER test_state AFTER INSERT OR UPDATE OR DELETE ON t_flink_autoscaler_state_store
    FOR EACH ROW EXECUTE FUNCTION test_note_state();
CREATE TRIGGER test_lease AFTER INSERT OR UPDATE ON fa_lease FOR EACH ROW EXECUTE FUNCTION test_note_lease();
"""


@dataclass(frozen=True)
class StateChange:
    """A committed value of one kind of state, None where the row was deleted, and the database user that wrote it."""

    at: float
    job_key: str
    state_type: str
    value: str | None
    writer: str


@dataclass(frozen=True)
class LeaseChange:
    """A committed version of the lease; times are epoch seconds by the database's clock."""

    at: float
    owner: str
    token: int
    expires_at: float

    @property
    def pid(self) -> int:
        """Process id in the owner's name."""
        return int(self.owner.split(":")[1])


class History:
    """Writes down from now on; the tables of the daemon have to be there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.transaction() as connection:
            connection.execute(text(_TRIGGERS))

    def states(self, state_type: str | None = None) -> list[StateChange]:
        """Return the versions of one kind of state, or of all, oldest first."""
        query = text("SELECT at, job_key, state_type, value, writer FROM test_state_history ORDER BY number")
        with self._database.transaction(read_only=True) as connection:
            changes = [StateChange(*row) for row in connection.execute(query)]
        return [change for change in changes if state_type in (None, change.state_type)]

    def leases(self) -> list[LeaseChange]:
        """Return the versions of the lease, oldest first."""
        query = text("SELECT at, owner, token, expires_at FROM test_lease_history ORDER BY number")
        with self._database.transaction(read_only=True) as connection:
            return [LeaseChange(*row) for row in connection.execute(query)]
