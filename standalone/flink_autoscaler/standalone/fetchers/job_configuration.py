"""The layers of a job's configuration: defaults, what the cluster reports, and options among its global parameters.

Before a job is deployed, and between two executions of it, Flink (1.20 and 2.3, adaptive scheduler) answers with a
stand-in for the job whose global parameters are empty, whatever they are. It may go on doing so for some seconds,
because answers about a job come from a cache (``web.refresh-interval``, 3 s). Taking that at face value would disable
the autoscaler of a job that enables it itself, and a disabled autoscaler deletes what it knows about the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError, ResponseError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.lag import GROUP_PARAMETERS, LagOptions
from flink_autoscaler.standalone.settings.schema.options import JOB_PREFIXES, job_keys
from flink_autoscaler.standalone.settings.secrets import MASK
from flink_autoscaler.standalone.settings.sources.layer import SURROGATE

CACHED_FOR_MS: Final = 60_000
"""Time after a change of a job for which the cache is distrusted: far more than its usual life."""

MAX_OPTIONS: Final = 5_000
MAX_CHARACTERS: Final = 1 << 20
"""Of what a job says about itself, keys and values together: the list of options of Flink has some hundreds."""

_TABLE_GROUP: Final = "properties.group.id"
"""Option of a table of Flink's Kafka connector."""

_PLACEHOLDER_STATES: Final = (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RECONCILING, JobStatus.SUSPENDED)


def merge_reported(defaults: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str]:
    """Put what a JobManager reports over the defaults, key by key, as the Java process does.

    Flink shows secrets as asterisks: those would overwrite the real values.

    Raises:
        ResponseError: The configuration is larger than one that is read.
    """
    return {**defaults, **_limit_size({key: value for key, value in reported.items() if value != MASK})}


def autoscaler_options(user_config: Mapping[str, str]) -> dict[str, str]:
    """Return what of a job's global parameters are options of the autoscaler or name its consumer group, unmasked.

    Raises:
        ResponseError: They are more than are read.
    """
    return _limit_size({key: value for key, value in user_config.items() if _is_relevant_key(key) and value != MASK})


def _is_relevant_key(key: str) -> bool:
    return key.startswith(JOB_PREFIXES) or key in GROUP_PARAMETERS


def _limit_size(texts: Mapping[str, str]) -> dict[str, str]:
    """Return what a job says, as text that can be written down; of much, only what may be read of it.

    It is kept for every job, recorded with every pass and sent to Spark. What no option of ours or of Flink that is
    read here has gets lost first: a job may bring along what it likes, such as a query of megabytes.
    """
    if _is_small(texts):
        return {_replace_surrogates(key): _replace_surrogates(value) for key, value in texts.items()}
    known = {key: value for key, value in texts.items() if _is_relevant_key(key) or key in _known_flink_keys()}
    if _is_small(known):
        return _limit_size(known)
    raise ResponseError(
        f"the configuration of the job has {len(known)} options of {_size(known)} characters, of which at most"
        f" {MAX_OPTIONS} of {MAX_CHARACTERS} characters are read"
    )


def _is_small(texts: Mapping[str, str]) -> bool:
    return len(texts) <= MAX_OPTIONS and _size(texts) <= MAX_CHARACTERS


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in texts.items())


def _replace_surrogates(text: str) -> str:
    """Return a text without halves of characters, which JSON can escape and nobody can store."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


@cache
def _known_flink_keys() -> frozenset[str]:
    return frozenset(key for option in FlinkOptions.all_options() for key in option.keys)


def merge_job_options(configuration: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Put options of a job over a configuration; by whichever of its keys an option is set, this one counts."""
    if not own:
        return configuration
    hidden = {other for key in own if key in job_keys() for other in job_keys()[key].keys}
    return {**{key: value for key, value in configuration.items() if key not in hidden}, **own}


def is_placeholder(state: str) -> bool:
    """Tell whether Flink has no more than a stand-in for a job in this state."""
    return JobStatus.of(state) in _PLACEHOLDER_STATES


class JobOptions(NamedTuple):
    """The options of a job; ``is_complete`` tells whether they are all of them, or may just not be known yet."""

    options: Mapping[str, str]
    is_complete: bool = True


class JobOptionsReader:
    """Reads what jobs bring along.

    Args:
        is_wanted: Whether it counts; else nothing is asked.
        defaults: Options of all jobs.
        now_ms: Milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        is_wanted: bool,
        defaults: Mapping[str, str] = MappingProxyType({}),
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._is_wanted = is_wanted
        self._defaults = defaults
        self._now_ms = now_ms

    async def read(self, client: FlinkRestClient, job: JobOverview, before: Mapping[str, str]) -> JobOptions:
        """Return the options of a job.

        Args:
            client: Of the JobManager.
            job: The job.
            before: What was read last, empty when nothing was. A job never changes what it brings along.

        Raises:
            FlinkRestError: The JobManager did not tell.
        """
        if not self._is_wanted:
            return JobOptions({})
        own = await self._fetch(client, job, before)
        if not _lacks_consumer_group({**self._defaults, **own.options}):
            return own
        return own._replace(options={**own.options, **await _table_consumer_group(client, job)})

    async def _fetch(self, client: FlinkRestClient, job: JobOverview, before: Mapping[str, str]) -> JobOptions:
        if options := await _read_user_config(client, job):
            return JobOptions(options)
        if JobStatus.of(job.state).is_terminal:
            return JobOptions(before)
        if is_placeholder(job.state):
            return JobOptions(before, is_complete=False)
        if self._now_ms() - job.last_modification_ms >= CACHED_FOR_MS:
            return JobOptions({})
        return await self._fetch_with_details(client, job, before)

    async def _fetch_with_details(
        self, client: FlinkRestClient, job: JobOverview, before: Mapping[str, str]
    ) -> JobOptions:
        """Find out whether an empty answer was about the job itself: the details come from the same cache."""
        details = await client.job_details(job.job_id)
        if is_placeholder(details.state):
            return JobOptions(before, is_complete=False)
        return JobOptions(await _read_user_config(client, job))


async def _read_user_config(client: FlinkRestClient, job: JobOverview) -> Mapping[str, str]:
    return autoscaler_options(await client.job_user_config(job.job_id))


def _lacks_consumer_group(configuration: Mapping[str, str]) -> bool:
    """Tell whether lag is asked for, and nobody names a consumer group."""
    asks = any(configuration.get(key) for key in LagOptions.lag_sources.keys)
    return asks and not any(configuration.get(key) for key in (*LagOptions.lag_kafka_group.keys, *GROUP_PARAMETERS))


async def _table_consumer_group(client: FlinkRestClient, job: JobOverview) -> Mapping[str, str]:
    """Return the consumer group that all tables with a hint name alike; nothing where that cannot be told."""
    try:
        tables = await client.hinted_options(job.job_id)
    except FlinkRestError:  # the pass will tell what is wrong
        return {}
    groups = {table[_TABLE_GROUP] for table in tables if table.get(_TABLE_GROUP)}
    return _limit_size({_TABLE_GROUP: groups.pop()}) if len(groups) == 1 else {}
