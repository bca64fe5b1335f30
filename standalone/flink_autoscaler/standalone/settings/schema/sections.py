"""The daemon's options, declared once: one frozen model per section, one field per option."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from flink_autoscaler.standalone.settings.schema.access_settings import AccessSettings
from flink_autoscaler.standalone.settings.schema.fields import (
    BaseUrls,
    ClusterName,
    Count,
    Flag,
    MemorySize,
    OldKeys,
    OptionalFlag,
    OptionalSeconds,
    OptionalText,
    PluginName,
    Seconds,
    Syntax,
    Text,
    TextMap,
    Texts,
    member_of,
)
from flink_autoscaler.standalone.settings.schema.history_settings import HistorySettings
from flink_autoscaler.standalone.settings.schema.provider_settings import ProviderSettings
from flink_autoscaler.standalone.settings.schema.records_settings import RecordSettings
from flink_autoscaler.standalone.settings.schema.section import Section

_LOWEST_MEMORY = 450 << 20


class Growth(StrEnum):
    """Whether a cluster gets more TaskManagers by itself when its jobs need more slots."""

    AUTO = "auto"
    FIXED = "fixed"
    ELASTIC = "elastic"


class JobManagerAccess(StrEnum):
    """On which way the JobManager of a YARN application is reached."""

    AUTO = "auto"
    DIRECT = "direct"
    PROXY = "proxy"


class JobKeyMode(StrEnum):
    """What a job is known by."""

    NAME = "name"
    JOB_ID = "job-id"


class EngineKind(StrEnum):
    """Where jobs are evaluated."""

    SPARK = "spark"
    INLINE = "inline"


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


KeyMode = Annotated[JobKeyMode, member_of(JobKeyMode), Syntax("name or job-id")]
Engine = Annotated[EngineKind, member_of(EngineKind), Syntax("spark or inline")]
OptionalEngine = Annotated[EngineKind | None, member_of(EngineKind), Syntax("spark or inline")]
GrowthOf = Annotated[Growth, member_of(Growth), Syntax("auto, fixed or elastic")]
Way = Annotated[JobManagerAccess, member_of(JobManagerAccess), Syntax("auto, direct or proxy")]
Format = Annotated[LogFormat, member_of(LogFormat), Syntax("auto, console or json")]
Level = Annotated[LogLevel, member_of(LogLevel), Syntax("debug, info, warning or error")]


class YarnSettings(AccessSettings):
    """The ResourceManagers of a cluster of type yarn, and which of their applications are looked after."""

    url: BaseUrls = Field(
        default=(), description="URL of the ResourceManager's web service, such as http://rm:8088; several with HA."
    )
    types: Texts = Field(default=("Apache Flink",), description="Application types that are looked after.")
    queues: Texts = Field(default=(), description="Queues by path or last name; empty takes all.")
    users: Texts = Field(default=(), description="Users who own the applications; empty takes all.")
    tags: Texts = Field(default=(), description="Tags of which an application needs one; empty takes all.")
    names: Texts = Field(default=(), description="Patterns for application names such as 'prod-*'; empty takes all.")
    access: Way = Field(
        default=JobManagerAccess.AUTO,
        description="direct: to the node where the JobManager runs; proxy: through the web proxy of YARN; auto: direct "
        "where that works, else proxy.",
    )
    approve_proxy: Flag = Field(
        default=False,
        description="Confirm the warning that the web proxy shows to others than the application's owner.",
    )
    headroom: Flag = Field(
        default=True, description="Hold scale-ups within what the queue and the nodes can still give."
    )
    delegation_token_env_variable: OptionalText = Field(
        default=None, description="Name of the environment variable with a delegation token of the ResourceManager."
    )
    delegation_token_file: OptionalText = Field(
        default=None, description="File whose first line is a delegation token; read again in every pass."
    )


class ClusterSettings(AccessSettings):
    """One Flink cluster, or the Flink applications of one YARN cluster."""

    name: ClusterName = Field(description="Name of the cluster, unique; part of job keys, logs and metrics.")
    type: PluginName = Field(
        default="flink", description="How jobs are found: flink, yarn, or the name of another fetcher plug-in."
    )
    url: BaseUrls = Field(
        default=(),
        description="URL of the JobManager's REST endpoint, a path prefix is fine; several with JobManager high "
        "availability.",
    )
    timeout: OptionalSeconds = Field(
        default=None,
        gt=0,
        description="Timeout of one request; unset takes job.autoscaler.flink.rest-client.timeout.",
    )
    max_connections: Count = Field(default=16, ge=1, le=1024, description="Requests under way at the same time.")
    max_response_bytes: MemorySize = Field(
        default=8 << 20, ge=1 << 10, le=1 << 30, description="Longest answer that is read."
    )
    interval: OptionalSeconds = Field(
        default=None,
        ge=0.1,
        description="Pause between passes over this cluster; unset takes the interval of the control loop.",
    )
    engine: OptionalEngine = Field(
        default=None, description="Where jobs of this cluster are evaluated; unset takes autoscaler.engine.kind."
    )
    include: Texts = Field(
        default=(), description="Patterns such as 'orders-*' for names of jobs that are looked after; empty takes all."
    )
    exclude: Texts = Field(
        default=(), description="Patterns for names of jobs that are left alone; goes before include."
    )
    job_user_config: Flag = Field(
        default=True,
        description="Whether job.autoscaler.* keys in a job's own global job parameters count for that job.",
    )
    capacity: GrowthOf = Field(
        default=Growth.AUTO,
        description="fixed: jobs ask only for slots that are there, in fair shares; elastic: TaskManagers are added "
        "when slots are short; auto: elastic on YARN and native Kubernetes, else fixed.",
    )
    options: TextMap = Field(
        default_factory=dict, description="Defaults for jobs of this cluster, such as job.autoscaler.metrics.window."
    )
    parameters: TextMap = Field(default_factory=dict, description="Settings of a fetcher that is a plug-in of others.")
    yarn: YarnSettings = YarnSettings()
    provider: ProviderSettings = ProviderSettings()


class EngineSettings(Section):
    """Where and how jobs are evaluated."""

    kind: Engine = Field(
        default=EngineKind.SPARK,
        description="spark: as a Spark job, embedded or on a cluster; inline: in the daemon process.",
    )
    spark_master: Text = Field(default="local[*]", description="Master URL of Spark, or sc:// for Spark Connect.")
    spark_config: TextMap = Field(default_factory=dict, description="Further Spark settings, such as spark.ui.enabled.")
    python_files: Texts = Field(
        default=(),
        description="Archives for the executors of a Spark cluster, build/pyfiles.zip first, then those of plug-ins; "
        "unset packs what the daemon runs with.",
    )
    driver_memory: MemorySize = Field(
        default=480 << 20, ge=_LOWEST_MEMORY, description="Heap of the embedded Spark driver."
    )
    spark_min_jobs: Count = Field(
        default=100,
        ge=1,
        description="Jobs to be read that make a pass worth a Spark job; passes with fewer run in the daemon process.",
    )
    job_deadline: Seconds = Field(default=30.0, gt=0, description="Time that one job may take in a pass.")
    pass_deadline: Seconds = Field(default=300.0, gt=0, description="Time that one pass over a cluster may take.")


class HttpSettings(Section):
    """The HTTP endpoint with health, metrics and status."""

    enabled: Flag = Field(default=True, description="Whether there is an HTTP endpoint.")
    host: Text = Field(
        default="127.0.0.1", description="Address to listen on; anything but loopback shows job names to the network."
    )
    port: Count = Field(default=8484, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")


class LogSettings(Section):
    """The log."""

    format: Format = Field(
        default=LogFormat.AUTO, description="auto: console when standard error is a terminal, else json."
    )
    level: Level = Field(default=LogLevel.INFO, description="The least severity that is logged.")


class LoopSettings(Section):
    """How the daemon runs and stops."""

    shutdown_grace: Seconds = Field(
        default=20.0, ge=0, description="Time that running passes get to finish after SIGTERM."
    )
    stale_after_intervals: Count = Field(
        default=3, ge=1, description="Intervals without a completed pass after which a cluster counts as not ready."
    )


class HaSettings(Section):
    """Several daemons of which one acts."""

    enabled: Flag = Field(
        default=False,
        description="Whether other daemons may look after the same clusters: one leads, the others stand by. Needs "
        "state-store.type JDBC.",
    )
    name: ClusterName = Field(
        default="flink-autoscaler",
        description="Name of the group of daemons, also when it has one member. Groups that share a database leave "
        "the jobs of each other alone.",
    )
    ttl: Seconds = Field(
        default=30.0,
        ge=1,
        description="Time after which a leader that is not heard of is replaced; at least the interval of every "
        "cluster plus twice the timeout of its requests.",
    )


class JobsGoneSettings(Section):
    """What happens to the state of jobs that are gone."""

    grace: Seconds = Field(
        default=3600.0,
        ge=0,
        description="Time for which the state of a job is kept after the job has left its cluster; 0 deletes at once.",
    )
    retention: Seconds = Field(
        default=30 * 86_400.0,
        ge=0,
        description="Time since a job was last seen after which its state is deleted, where the job went while no "
        "daemon ran; 0 keeps it.",
    )


class StandaloneSettings(Section):
    """The options of the Java standalone autoscaler."""

    control_loop_interval: Annotated[Seconds, OldKeys(("scalingInterval",))] = Field(
        default=10.0,
        ge=0.1,
        validation_alias="control-loop.interval",
        description="Pause between the end of one pass and the start of the next.",
    )
    control_loop_parallelism: Count = Field(
        default=100, ge=1, validation_alias="control-loop.parallelism", description="Jobs handled at the same time."
    )
    host: Annotated[Text, OldKeys(("flinkClusterHost",))] = Field(
        default="localhost",
        validation_alias="fetcher.flink-cluster.host",
        description="Host of the only cluster, where autoscaler.clusters is empty.",
    )
    port: Annotated[Count, OldKeys(("flinkClusterPort",))] = Field(
        default=8081,
        ge=1,
        le=65535,
        validation_alias="fetcher.flink-cluster.port",
        description="REST port of the only cluster, where autoscaler.clusters is empty.",
    )
    state_store: PluginName = Field(
        default="heap",
        validation_alias="state-store.type",
        description="Where state lives: MEMORY or the name of a plug-in.",
    )
    event_handler: PluginName = Field(
        default="logging",
        validation_alias="event-handler.type",
        description="Where events go: LOGGING or the name of a plug-in.",
    )
    jdbc_url: OptionalText = Field(
        default=None, validation_alias="jdbc.url", description="JDBC URL of the database.", repr=False
    )
    jdbc_username: OptionalText = Field(default=None, validation_alias="jdbc.username", description="Database user.")
    jdbc_password_env_variable: Text = Field(
        default="JDBC_PWD",
        validation_alias="jdbc.password-env-variable",
        description="Name of the environment variable that holds the database password.",
    )
    jdbc_password_file: OptionalText = Field(
        default=None,
        validation_alias="jdbc.password-file",
        description="File whose first line is the database password; goes before the environment variable.",
    )
    jdbc_upgrade_at_start: OptionalFlag = Field(
        default=None,
        validation_alias="jdbc.upgrade-at-start",
        description="Whether the daemon upgrades the schema of the database when it starts; unset does so for SQLite "
        "only. The other way is flink-autoscaler db upgrade.",
    )
    jdbc_event_handler_ttl: Seconds = Field(
        default=90 * 86_400.0,
        ge=0,
        validation_alias="jdbc.event-handler.ttl",
        description="Age after which event rows are removed; 0 keeps them.",
    )


class DaemonSettings(Section):
    """Every option of the daemon, below ``autoscaler.``."""

    clusters: tuple[ClusterSettings, ...] = Field(default=(), description="The clusters to look after.")
    dry_run: Flag = Field(default=False, description="Decide and report, but change nothing on any cluster.")
    job_key: KeyMode = Field(
        default=JobKeyMode.NAME,
        description="What jobs are known by: name keeps what was learned when a job is submitted again; job-id is "
        "what the Java process uses.",
    )
    realizer: PluginName = Field(default="rescale-api", description="How decisions are applied: a plug-in's name.")
    engine: EngineSettings = EngineSettings()
    ha: HaSettings = HaSettings()
    history: HistorySettings = HistorySettings()
    http: HttpSettings = HttpSettings()
    jobs_gone: JobsGoneSettings = JobsGoneSettings()
    log: LogSettings = LogSettings()
    loop: LoopSettings = LoopSettings()
    records: RecordSettings = RecordSettings()
    standalone: StandaloneSettings = StandaloneSettings()
