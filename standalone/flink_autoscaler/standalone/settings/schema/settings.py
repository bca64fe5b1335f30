"""The settings of the daemon: its options, declared once, and every cluster with its own values worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.load_profile import BUCKET
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.history import Partition
from flink_autoscaler.standalone.settings.schema.clusters import (
    ClusterSettings,
    EngineKind,
    KafkaSettings,
    NotificationSettings,
    NumberSettings,
)
from flink_autoscaler.standalone.settings.schema.types import (
    AUTO,
    Choice,
    ClusterName,
    Count,
    Flag,
    MemorySize,
    OldKeys,
    OptionSection,
    PluginName,
    PluginNames,
    Schedule,
    Seconds,
    Syntax,
    Text,
    TextMap,
    Texts,
    TimeZone,
    option,
)


class HttpSettings(OptionSection):
    """The HTTP endpoint with health, metrics and status."""

    enabled: Flag = option(True, "Whether there is an HTTP endpoint.")
    host: Text = option("127.0.0.1", "Address to listen on; anything but loopback shows job names to the network.")
    port: Count = option(8484, "Port to listen on; 0 takes any free one.", ge=0, le=65535)
    allowed_hosts: Texts = option(
        (),
        "Host names under which the page is reached, besides loopback; '*' for any. Others are refused, so that no "
        "foreign site can lead a browser here. Of no account for /healthz, /readyz and /metrics.",
    )
    viewer_token_file: Text | None = option(
        None, "File whose first line lets its bearer see page and API; without any token everybody may look."
    )
    viewer_token_env_variable: Text | None = option(None, "Name of the environment variable with the viewers' token.")
    operator_token_file: Text | None = option(
        None, "File whose first line lets its bearer give orders; without it nobody may over HTTP."
    )
    operator_token_env_variable: Text | None = option(
        None, "Name of the environment variable with the operators' token."
    )
    user_header: Text | None = option(
        None, "Header in which a trusted proxy hands on the name of the user, such as X-Forwarded-User."
    )
    trusted_proxies: Texts = option(("127.0.0.1", "::1"), "Addresses or networks whose user-header is believed.")
    operators: Texts = option((), "Users of user-header who may give orders; the others may look.")
    tls_cert_file: Text | None = option(None, "Certificate chain, PEM; with tls-key-file the endpoint speaks HTTPS.")
    tls_key_file: Text | None = option(None, "Private key of the certificate, PEM.")
    metrics_max_jobs: Count = option(
        10_000, "Jobs that /metrics shows with series of their own; those that come later are only counted.", ge=0
    )
    metrics_max_vertices: Count = option(
        20_000, "Vertices that /metrics shows; the jobs whose vertices would exceed it are shown without them.", ge=0
    )


HEAP = "heap"
"""Name of the plug-in that keeps states in memory."""

JDBC = "jdbc"
"""Name of the plug-ins that keep states and events in the database of the settings."""

LOGGING = "logging"
"""Name of the plug-in that writes events to the log."""

ONLY_CLUSTER = "default"
"""Name of the cluster that is given by host and port."""


class JobKeyMode(Choice):
    """What a job is known by."""

    NAME = "name"
    JOB_ID = "job-id"


class LogFormat(Choice):
    """How log lines look."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(Choice):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class EngineSettings(OptionSection):
    """Where and how jobs are evaluated."""

    kind: EngineKind = option(
        EngineKind.SPARK,
        "spark: as Spark jobs, embedded or on a cluster; inline: in the daemon process, without Java; auto: on Spark "
        "from engine.spark-min-jobs jobs on.",
    )
    spark_master: Text = option("local[*]", "Master URL of Spark; forecast build alone takes sc:// as well.")
    spark_config: TextMap = option({}, "Further Spark settings, such as spark.ui.enabled.")
    python_files: Texts = option(
        (),
        "Archives of our code for the executors of a Spark cluster, build/pyfiles.zip first, then those of plug-ins; "
        "unset packs what the daemon runs. Libraries have to be there.",
    )
    driver_memory: MemorySize = option(480 << 20, "Heap of the embedded Spark driver.", ge=450 << 20)
    spark_min_jobs: Count = option(
        100, "Jobs to be read, of the whole daemon, from which the engine auto takes Spark.", ge=1
    )
    job_deadline: Seconds = option(30.0, "Time that one job may take in a pass.", gt=0)
    pass_deadline: Seconds = option(300.0, "Time that one pass over a cluster may take.", gt=0)


class ForecastSettings(OptionSection):
    """The load profiles that forecasts rest on, made by the daemon itself."""

    build_schedule: Schedule = option(
        AUTO,
        "When profiles are made from the history, as in cron; auto: 10 3 * * * where a history is kept and "
        "job.autoscaler.forecast.enabled is true for all jobs or for those of a cluster, else off; off leaves it to "
        "flink-autoscaler forecast build.",
    )
    build_timezone: TimeZone = option("UTC", "Time zone of the schedule.")


class HaSettings(OptionSection):
    """Several daemons of which one acts."""

    enabled: Flag = option(
        False,
        "Whether other daemons may look after the same clusters: one leads, the others stand by. Needs "
        "state-store.type JDBC.",
    )
    name: ClusterName = option(
        "flink-autoscaler",
        "Name of the group of daemons, also when it has one member. Groups that share a database leave the jobs of "
        "each other alone.",
    )
    ttl: Seconds = option(
        30.0,
        "Time after which a leader that is not heard of is replaced; at least the interval of every cluster plus "
        "twice the timeout of its requests.",
        ge=1,
    )


class HistorySettings(OptionSection):
    """Metrics, decisions and rescales that are kept as Parquet files, for profiles, backtests and reports."""

    enabled: Flag = option(False, "Whether a history is kept.")
    path: Text | None = option(
        None,
        "Folder of the history: local, written in the daemon process, or a URL that Spark reaches and writes, such as "
        "hdfs://nameservice1/history.",
    )
    partition: Annotated[Partition, Syntax("cluster or date", lambda text: syntax.parse_enum(text, Partition))] = (
        option(Partition.CLUSTER, "cluster: a folder per day and cluster; date: one per day, for many small clusters.")
    )
    interval: Seconds = option(
        60.0,
        "While nothing is decided, one pass over a job is kept in this time, or in metrics.window of the job where "
        "that is less; 0 keeps every pass. Profiles are made of quarter hours, so it cannot be longer.",
        ge=0,
        le=BUCKET,
    )
    flush_interval: Seconds = option(900.0, "Time for which rows are gathered before they are written as files.", ge=1)
    flush_rows: Count = option(
        50_000, "Rows that are written before that time; four times as many wait at most.", ge=100
    )
    spill_directory: Text | None = option(
        None,
        "Local folder in which rows that are not written yet survive the end of the daemon; unset takes _pending in a "
        "history on a local path, and memory alone for other paths.",
    )
    retention: Seconds = option(90 * 86_400.0, "Age after which whole days are removed; 0 keeps them.", ge=0)
    compaction_interval: Seconds = option(
        6 * 3600.0,
        "Time between two compactions, which also remove what is too old; 0 leaves both to flink-autoscaler history "
        "compact.",
        ge=0,
    )


class JobsGoneSettings(OptionSection):
    """What happens to the state of jobs that are gone."""

    grace: Seconds = option(
        3600.0, "Time for which the state of a job is kept after the job has left its cluster; 0 deletes at once.", ge=0
    )
    retention: Seconds = option(
        30 * 86_400.0,
        "Time since a job was last seen after which its state is deleted, where the job went while no daemon ran; 0 "
        "keeps it.",
        ge=0,
    )


class LogSettings(OptionSection):
    """The log."""

    format: LogFormat = option(LogFormat.AUTO, "auto: console when standard error is a terminal, else json.")
    level: LogLevel = option(LogLevel.INFO, "The least severity that is logged.")


class LoopSettings(OptionSection):
    """How the daemon runs and stops."""

    shutdown_grace: Seconds = option(20.0, "Time that running passes get to finish after SIGTERM.", ge=0)
    stale_after_intervals: Count = option(
        3, "Intervals without a completed pass after which a cluster counts as not ready.", ge=1
    )


class RecordSettings(OptionSection):
    """Decisions that are kept with everything that led to them, for explain and replay."""

    enabled: Flag = option(True, "Whether they are kept, where there is a database.")
    interval: Seconds = option(
        600.0, "While nothing changes, one pass over a job is recorded in this time; 0 records every pass.", ge=0
    )
    retention: Seconds = option(7 * 86_400.0, "Age after which records are removed.", gt=0)
    max_per_job: Count = option(500, "Records of one job that are kept, the newest ones.", ge=1)
    max_size: MemorySize = option(
        512 << 20, "What all records may take in the database; beyond that the oldest are removed.", ge=1 << 20
    )


class StandaloneSettings(OptionSection):
    """The options of the Java standalone autoscaler."""

    control_loop_interval: Annotated[Seconds, OldKeys(("scalingInterval",))] = option(
        10.0,
        "Time from the start of one pass over a cluster to the start of the next, however long the pass takes. What "
        "was due while one was still running is left out.",
        ge=0.1,
        key="control-loop.interval",
    )
    control_loop_parallelism: Count = option(
        100, "Jobs handled at the same time.", ge=1, key="control-loop.parallelism"
    )
    host: Annotated[Text, OldKeys(("flinkClusterHost",))] = option(
        "localhost", "Host of the only cluster, where autoscaler.clusters is empty.", key="fetcher.flink-cluster.host"
    )
    port: Annotated[Count, OldKeys(("flinkClusterPort",))] = option(
        8081,
        "REST port of the only cluster, where autoscaler.clusters is empty.",
        ge=1,
        le=65535,
        key="fetcher.flink-cluster.port",
    )
    state_store: PluginName | None = option(
        None,
        "Where state lives: MEMORY, JDBC for the database of jdbc.url, or the name of a plug-in. Unset, and without "
        "jdbc.url, the daemon keeps it in SQLite, in STATE_DIRECTORY, else XDG_STATE_HOME/flink-autoscaler, else "
        "~/.local/state/flink-autoscaler.",
        key="state-store.type",
    )
    event_handler: PluginName = option(
        "logging",
        "Where events go besides the log, which always has them: LOGGING for nowhere else, JDBC for the database, or "
        "the name of a plug-in.",
        key="event-handler.type",
    )
    jdbc_url: Text | None = Field(
        default=None, validation_alias="jdbc.url", description="JDBC URL of the database.", repr=False
    )
    jdbc_username: Text | None = option(None, "Database user.", key="jdbc.username")
    jdbc_password_env_variable: Text = option(
        "JDBC_PWD",
        "Name of the environment variable that holds the database password.",
        key="jdbc.password-env-variable",
    )
    jdbc_password_file: Text | None = option(
        None,
        "File whose first line is the database password; goes before the environment variable.",
        key="jdbc.password-file",
    )
    jdbc_upgrade_at_start: Flag | None = option(
        None,
        "Whether the daemon upgrades the schema of the database when it starts; unset does so for SQLite only. The "
        "other way is flink-autoscaler db upgrade.",
        key="jdbc.upgrade-at-start",
    )
    jdbc_event_handler_ttl: Seconds = option(
        90 * 86_400.0, "Age after which event rows are removed; 0 keeps them.", ge=0, key="jdbc.event-handler.ttl"
    )


class DaemonSettings(OptionSection):
    """Every option of the daemon, below ``autoscaler.``."""

    clusters: tuple[ClusterSettings, ...] = option((), "The clusters to look after.")
    dry_run: Flag = option(False, "Decide and report, but change nothing on any cluster.")
    job_key: JobKeyMode = option(
        JobKeyMode.NAME,
        "What jobs are known by: name keeps what was learned when a job is submitted again; job-id is what the Java "
        "process uses.",
    )
    event_handlers: PluginNames = option(
        (), "Where events and scaling reports go besides the log: plug-ins, such as jdbc for the database."
    )
    realizer: PluginName = option("rescale-api", "How decisions are applied: a plug-in's name.")
    engine: EngineSettings = EngineSettings()
    forecast: ForecastSettings = ForecastSettings()
    ha: HaSettings = HaSettings()
    history: HistorySettings = HistorySettings()
    http: HttpSettings = HttpSettings()
    jobs_gone: JobsGoneSettings = JobsGoneSettings()
    kafka: tuple[KafkaSettings, ...] = option((), "Kafka clusters that know the lag of jobs.")
    log: LogSettings = LogSettings()
    loop: LoopSettings = LoopSettings()
    notifications: NotificationSettings = NotificationSettings()
    numbers: tuple[NumberSettings, ...] = option((), "Services that answer with the lag of jobs.")
    records: RecordSettings = RecordSettings()
    standalone: StandaloneSettings = StandaloneSettings()


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster with everything that holds for it; nothing is left to look up elsewhere.

    Attributes:
        name: Unique name.
        endpoint: The first JobManager and the limits of requests, without credentials (see
            :mod:`flink_autoscaler.standalone.fetchers.access`); its URL is empty where JobManagers are found elsewhere.
        interval: Seconds from the start of one pass to the start of the next.
        engine: Where its jobs are evaluated.
        job_defaults: Configuration of its jobs before what the cluster reports, flat, as text.
        settings: Everything else, as it was configured.
    """

    name: str
    endpoint: Endpoint
    interval: float
    engine: EngineKind
    job_defaults: Mapping[str, str] = field(repr=False)
    settings: ClusterSettings = field(repr=False)

    @property
    def shown_url(self) -> str:
        """Where it is, for people."""
        return ", ".join(self.settings.url or self.settings.yarn.url) or self.settings.type


class Settings(BaseSettings, DaemonSettings):
    """Everything the daemon needs to know when it starts.

    ``Settings()`` holds the defaults. Build one from files and variables with
    :func:`flink_autoscaler.standalone.settings.loading.load_settings`.
    """

    model_config = SettingsConfigDict(validate_default=False)

    job_defaults: Mapping[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="What was set for jobs of all clusters: job.autoscaler.* and Flink's own keys, flat, as text.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - inherited
        init_settings: PydanticBaseSettingsSource,
        *_: Any,
        **__: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take the merged layers alone: they know of every value where it was set, which no source here could tell."""
        return (init_settings,)

    def effective_clusters(self) -> tuple[Cluster, ...]:
        """Return the configured clusters, or the one given by host and port where none is."""
        return tuple(self._effective(cluster) for cluster in self.clusters or (self._only_cluster(),))

    @property
    def event_handler_names(self) -> tuple[str, ...]:
        """The plug-ins that are told about events: the log always, then those that were named, each once."""
        return tuple(dict.fromkeys((LOGGING, self.standalone.event_handler, *self.event_handlers)))

    def _only_cluster(self) -> ClusterSettings:
        host = self.standalone.host
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return ClusterSettings(name=ONLY_CLUSTER, url=(f"http://{shown}:{self.standalone.port}",))

    def _effective(self, cluster: ClusterSettings) -> Cluster:
        job_defaults = {**self.job_defaults, **cluster.options}
        endpoint = Endpoint(
            url=cluster.url[0] if cluster.url else "",
            timeout=cluster.timeout or AutoscalerOptions(job_defaults).rest_client_timeout.exact_seconds,
            max_connections=cluster.max_connections,
            max_response_bytes=cluster.max_response_bytes,
        )
        return Cluster(
            name=cluster.name,
            endpoint=endpoint,
            interval=cluster.interval or self.standalone.control_loop_interval,
            engine=cluster.engine or self.engine.kind,
            job_defaults=job_defaults,
            settings=cluster,
        )


def needs_database(settings: Settings) -> bool:
    """Tell whether the settings name something that is in the database."""
    return settings.ha.enabled or JDBC in (settings.standalone.state_store, *settings.event_handler_names)
