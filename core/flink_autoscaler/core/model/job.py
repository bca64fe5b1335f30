"""A job and its cluster: keys, status, how the JobManager is reached, what there is and what can still be given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId

JobKey = str
"""Identity of a job within the daemon: ``<cluster>/<job name>`` by default."""

SHARED_JOB_ID: Final = "0" * 32
"""Id that older Flink versions give to the job of every application cluster with high availability."""

_JOB_ID_SUFFIX: Final = re.compile(r"#[0-9a-f]{32}(@[^#/]+)?\Z")


@dataclass(frozen=True, slots=True)
class Restriction:
    """What must not be done to a job in one pass, for what others know or do not know: nobody has configured it.

    Attributes:
        may_scale_down: Whether everything is known that was asked for; else nothing is scaled down.
        fixed: Vertices that stay as they are.
        floors: Least parallelism of vertices, at most what people allow.
    """

    may_scale_down: bool = True
    fixed: frozenset[VertexId] = frozenset()
    floors: Mapping[VertexId, int] = field(default_factory=dict)


UNRESTRICTED: Final = Restriction()


def cluster_of(job_key: JobKey) -> str:
    """Return the cluster that a job key names; empty when it is a mere job id."""
    cluster, slash, _ = job_key.partition("/")
    return cluster if slash else ""


def name_key(job_key: JobKey) -> JobKey:
    """Return the key of the name alone, for a job whose key has its id besides because another one has its name.

    A key that was too long to be kept whole is returned as it is.
    """
    return _JOB_ID_SUFFIX.sub("", job_key)


class JobStatus(StrEnum):
    """Status of a Flink job; UNKNOWN for one that this version does not know."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, text: str) -> JobStatus:
        """Read a status; a word of a later Flink version is UNKNOWN."""
        return cls.__members__.get(text.upper(), cls.UNKNOWN)

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never run again under this id."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)


def effective_status(state: str, tasks: Mapping[str, int]) -> JobStatus:
    """Return the status that counts for scaling.

    Args:
        state: ``state`` of the job overview.
        tasks: Task counts of the job overview by lower-case state, and ``total``.

    Returns:
        CREATED instead of RUNNING while not all tasks run or have finished; else the status as it is.
    """
    status = JobStatus.of(state)
    settled = tasks.get("running", 0) + tasks.get("finished", 0)
    if status is JobStatus.RUNNING and tasks.get("total", 0) != settled:
        return JobStatus.CREATED
    return status


@dataclass(frozen=True, slots=True)
class Tls:
    """How the other side of an ``https`` connection is trusted, and how this side proves who it is.

    Attributes:
        ca_file: Certificates to trust, PEM; None trusts those of the system.
        certificate_file: Certificate chain of this side, PEM; may hold the key, too. None sends none.
        key_file: Key of the certificate, PEM; None takes it from the certificate file.
        key_password: Of an encrypted key.
        verify_host: Whether the certificate has to name the host that is called.
        version: Another text whenever the content of one of the files has changed, so that it is read anew.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify_host: bool = True
    version: str = ""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """How this side proves who it is where SPNEGO is asked for.

    Attributes:
        principal: Who to be; None takes the default principal of the credentials that are found.
        keytab: File with the key of the principal; None takes the ticket cache of the process.
        service: First part of the service principal.
        host: Second part of the service principal; None takes the host of the URL as it is written.
    """

    principal: str | None = None
    keytab: str | None = None
    service: str = "HTTP"
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how the JobManager of a cluster, or another HTTP service, is reached.

    Attributes:
        url: Base URL, scheme to path prefix, without a slash at the end.
        timeout: Seconds that one request may take in all.
        max_connections: Requests under way at the same time, for the whole cluster.
        max_response_bytes: Longest answer that is read.
        headers: Sent with every request; values may be secret.
        tls: For ``https``.
        kerberos: For services that ask for SPNEGO; None never answers such a question.
        user_name: Sent as ``user.name`` in the query, Hadoop's simple authentication; None sends none.
        put_url: Base URL for a PUT that ``url`` answers with 405, as YARN's older web proxies do; None has no other.
        approves_proxy: Whether to confirm the warning page that YARN's web proxy shows to others than the owner.
        prometheus: Where the metrics of the cluster's jobs are, when it is not asked for them itself; None asks it.
    """

    url: str
    timeout: float = 10.0
    max_connections: int = 16
    max_response_bytes: int = 8 << 20
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls = Tls()
    kerberos: Kerberos | None = None
    user_name: str | None = None
    put_url: str | None = None
    approves_proxy: bool = False
    prometheus: PrometheusSource | None = None


@dataclass(frozen=True, slots=True)
class PrometheusSource:
    """A server with the HTTP API of Prometheus that has the metrics of a Flink cluster.

    Attributes:
        endpoint: The server, to which ``/api/v1/query`` is added, with the limits of requests.
        max_age: Seconds since the oldest scrape of a job's tasks after which its metrics are unknown.
        selector: Labels that the series of this cluster have, and their values; ``~`` in front makes one a pattern.
        names: Metrics that are stored under another name than Flink's reporter gives, and that name.
        labels: The same of labels.
        replica_labels: Labels in which the same series differ when several servers have scraped it.
        is_pushed: Whether a gateway is scraped that Flink pushes to, so that ``push_time_seconds`` tells how old a
            series is, and not the instant of the scrape.
    """

    endpoint: Endpoint
    max_age: float = 120.0
    selector: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    replica_labels: tuple[str, ...] = ("prometheus_replica", "replica")
    is_pushed: bool = False


@dataclass(frozen=True, slots=True)
class Headroom:
    """What can still be given to a job beyond what it has.

    Slots of TaskManagers that are there come first; CPU, memory and TaskManagers limit what can be added to those.

    Attributes:
        source: Who says so, for people, such as ``YARN queue root.streaming``.
        cpu: CPUs; None where they do not count.
        memory: Bytes; None where it does not count.
        taskmanagers: TaskManagers; None where their number does not count.
        slots: Free slots of TaskManagers that are there; None takes those that the cluster reports free.
        memory_step: Bytes; a TaskManager gets a multiple of this, at least what its configuration asks for.
        total: Slots of all TaskManagers that are there; None where their number does not count.
        holders: Who has how many of them, for people, most first; the last one may stand for many.
    """

    source: str
    cpu: float | None = None
    memory: int | None = None
    taskmanagers: int | None = None
    slots: int | None = None
    memory_step: int = 1
    total: int | None = None
    holders: tuple[tuple[str, int], ...] = ()

    @property
    def held_text(self) -> str:
        """Who has the slots, for people, such as ``payments 7, orders 4``; empty where that is not known."""
        return ", ".join(f"{name} {slots}" for name, slots in self.holders)


@dataclass(frozen=True, slots=True)
class SlotShare:
    """The slots that a job may keep, because others have too few.

    Attributes:
        slots: Of all its slot sharing groups.
        claimants: Who gets what it has more, for people.
    """

    slots: int
    claimants: str


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The slots that a job needs, as it asks for them and is bounded.

    Attributes:
        least: With fewer it does not start.
        most: It takes no more.
    """

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The TaskManagers that a cluster has, in figures.

    Attributes:
        slots: Of all TaskManagers.
        free_slots: Those that no job holds.
        slots_per_taskmanager: Of the TaskManager that has the most.
        network_memory: Bytes of the TaskManager that has the least; None when not told.
        is_fixed: Whether nobody adds TaskManagers when a job asks for more slots than there are.
        lost: TaskManagers that went away in the last minutes and have not come back.
    """

    taskmanagers: int
    slots: int
    free_slots: int
    slots_per_taskmanager: int
    network_memory: int | None = None
    is_fixed: bool = False
    lost: int = 0
