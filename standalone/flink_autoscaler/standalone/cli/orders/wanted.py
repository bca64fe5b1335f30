"""What is wanted of the vertices of jobs: by the load, as the last recorded pass saw it, by pins and by orders."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Vector
from flink_autoscaler.standalone.cli.command import GivenSettings
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.records.codec import PassRecord, decode
from flink_autoscaler.standalone.records.explain import wanted_of
from flink_autoscaler.standalone.settings.schema.settings import JDBC
from flink_autoscaler.stores.sql.known_jobs import supervisions_of
from flink_autoscaler.stores.sql.records import SqlRecordStore
from flink_autoscaler.stores.sql.schema import require_current


def wanted_now(given: GivenSettings, job_keys: Collection[JobKey]) -> dict[JobKey, Vector]:
    """Return what is wanted of jobs, as far as the database of the daemon tells; nothing without a database.

    Raises:
        AutoscalerError: The database could not be read.
    """
    prepared = given.prepare_stored()
    if prepared.standalone.state_store != JDBC or prepared.standalone.jdbc_url is None:
        return {}
    clusters = [cluster.name for cluster in prepared.effective_clusters()]
    with closing(open_database(prepared)) as database:
        require_current(database, upgrades_at_start=False)
        supervisions = supervisions_of(database, writer=prepared.ha.name, clusters=clusters)
        records = SqlRecordStore(database)
        newest = {key: _newest(records, key) for key in job_keys}
        return {
            key: wanted_of(supervisions.get(key, NO_SUPERVISION), None if record is None else record.outcome)
            for key, record in newest.items()
        }


def _newest(records: SqlRecordStore, job_key: JobKey) -> PassRecord | None:
    """Return the newest record of a job; None where there is none, or none that can be read."""
    newest = records.latest(job_key)
    if newest is None:
        return None
    try:
        return decode(newest.text)
    except StoreError:
        return None
