"""The settings of the daemon: its options, declared once, and every cluster with its own values worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.load_profile import BUCKET
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.pipeline.tables import Partition
from flink_autoscaler.standalone.settings.schema.clusters import (
    ClusterSettings,
    EngineKind,
    ExternalMetricSettings,
    KafkaSettings,
    NotificationSettings,
)
from flink_autoscaler.standalone.settings.schema.types import (
    AUTO,
    Choice,
    ClusterName,
    Count,
    Flag,
    MemorySize,
    OldKeys,
    OneOf,
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
)


class HttpSettings(OptionSection):
    """The HTTP endpoint with health, metrics and status."""

    enabled: Flag = True
    host: Text = "127.0.0.1"
    port: Count = Field(default=8484, ge=0, le=65535)
    allowed_hosts: Texts = ()
    viewer_token_file: Text | None = None
    viewer_token_env_variable: Text | None = None
    operator_token_file: Text | None = None
    operator_token_env_variable: Text | None = None
    user_header: Text | None = None
    trusted_proxies: Texts = ("127.0.0.1", "::1")
    operators: Texts = ()
    teams: TextMap = Field(default_factory=dict)
    tls_cert_file: Text | None = None
    tls_key_file: Text | None = None
    metrics_max_jobs: Count = Field(default=10_000, ge=0)
    metrics_max_vertices: Count = Field(default=20_000, ge=0)


HEAP = "heap"
"""Name of the plug-in that keeps states in memory."""

JDBC = "jdbc"
"""Name of the plug-ins that keep states and events in the database of the settings."""

LOGGING = "logging"
"""Name of the plug-in that writes events to the log."""

ONLY_CLUSTER = "default"
"""Name of the cluster that is given by host and port."""


class JobKeyMode(Choice):
    """Identity of a job."""

    NAME = "name"
    JOB_ID = "job-id"


class EngineSettings(OptionSection):
    """Engine that evaluates jobs, and its limits."""

    kind: EngineKind = EngineKind.SPARK
    spark_master: Text = "local[*]"
    spark_config: TextMap = Field(default_factory=dict)
    python_files: Texts = ()
    driver_memory: MemorySize = Field(default=480 << 20, ge=450 << 20)
    spark_min_jobs: Count = Field(default=100, ge=1)
    job_deadline: Seconds = Field(default=30.0, gt=0)
    pass_deadline: Seconds = Field(default=300.0, gt=0)


class ProfileBuildSettings(OptionSection):
    """The load profiles that forecasts rest on, made by the daemon itself."""

    build_schedule: Schedule = AUTO
    build_timezone: TimeZone = "UTC"


class HaSettings(OptionSection):
    """Several daemons of which one acts."""

    enabled: Flag = False
    name: ClusterName = "flink-autoscaler"
    ttl: Seconds = Field(default=30.0, ge=1)


class HistorySettings(OptionSection):
    """Metrics, decisions and rescales that are kept as Parquet files, for profiles, backtests and reports."""

    enabled: Flag = False
    path: Text | None = None
    partition: Annotated[Partition, Syntax("cluster or date", lambda text: syntax.parse_enum(text, Partition))] = (
        Partition.CLUSTER
    )
    interval: Seconds = Field(default=60.0, ge=0, le=BUCKET)
    flush_interval: Seconds = Field(default=900.0, ge=1)
    flush_rows: Count = Field(default=50_000, ge=100)
    spill_directory: Text | None = None
    retention: Seconds = Field(default=90 * 86_400.0, ge=0)
    compaction_interval: Seconds = Field(default=6 * 3600.0, ge=0)


class StateRetentionSettings(OptionSection):
    """Retention of the state of jobs that are gone."""

    grace_period: Seconds = Field(default=3600.0, ge=0)
    max_age: Seconds = Field(default=30 * 86_400.0, ge=0)


class LogSettings(OptionSection):
    """The log."""

    format: OneOf[Literal["auto", "console", "json"]] = "auto"
    level: OneOf[Literal["debug", "info", "warning", "error"]] = "info"


class LoopSettings(OptionSection):
    """Limits of the daemon's loop and of its end."""

    shutdown_grace: Seconds = Field(default=20.0, ge=0)
    stale_after_intervals: Count = Field(default=3, ge=1)


class RecordSettings(OptionSection):
    """Decisions that are kept with everything that led to them, for explain and replay."""

    enabled: Flag = True
    interval: Seconds = Field(default=600.0, ge=0)
    retention: Seconds = Field(default=7 * 86_400.0, gt=0)
    max_per_job: Count = Field(default=500, ge=1)
    max_size: MemorySize = Field(default=512 << 20, ge=1 << 20)


class StandaloneSettings(OptionSection):
    """The options of the Java standalone autoscaler."""

    control_loop_interval: Annotated[Seconds, OldKeys(("scalingInterval",))] = Field(
        default=10.0, ge=0.1, validation_alias="control-loop.interval"
    )
    control_loop_parallelism: Count = Field(default=100, ge=1, validation_alias="control-loop.parallelism")
    host: Annotated[Text, OldKeys(("flinkClusterHost",))] = Field(
        default="localhost", validation_alias="fetcher.flink-cluster.host"
    )
    port: Annotated[Count, OldKeys(("flinkClusterPort",))] = Field(
        default=8081, ge=1, le=65535, validation_alias="fetcher.flink-cluster.port"
    )
    state_store: PluginName | None = Field(default=None, validation_alias="state-store.type")
    event_handler: PluginName = Field(default="logging", validation_alias="event-handler.type")
    jdbc_url: Text | None = Field(default=None, validation_alias="jdbc.url", repr=False)
    jdbc_username: Text | None = Field(default=None, validation_alias="jdbc.username")
    jdbc_password_env_variable: Text = Field(default="JDBC_PWD", validation_alias="jdbc.password-env-variable")
    jdbc_password_file: Text | None = Field(default=None, validation_alias="jdbc.password-file")
    jdbc_upgrade_at_start: Flag | None = Field(default=None, validation_alias="jdbc.upgrade-at-start")
    jdbc_event_handler_ttl: Seconds = Field(default=90 * 86_400.0, ge=0, validation_alias="jdbc.event-handler.ttl")


class DaemonSettings(OptionSection):
    """Every option of the daemon, below ``autoscaler.``."""

    clusters: tuple[ClusterSettings, ...] = ()
    dry_run: Flag = False
    job_key: JobKeyMode = JobKeyMode.NAME
    event_handlers: PluginNames = ()
    realizer: PluginName = "rescale-api"
    engine: EngineSettings = EngineSettings()
    forecast: ProfileBuildSettings = ProfileBuildSettings()
    ha: HaSettings = HaSettings()
    history: HistorySettings = HistorySettings()
    http: HttpSettings = HttpSettings()
    state_retention: StateRetentionSettings = StateRetentionSettings()
    kafka: tuple[KafkaSettings, ...] = ()
    log: LogSettings = LogSettings()
    loop: LoopSettings = LoopSettings()
    notifications: NotificationSettings = NotificationSettings()
    external_metrics: tuple[ExternalMetricSettings, ...] = ()
    records: RecordSettings = RecordSettings()
    standalone: StandaloneSettings = StandaloneSettings()


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster with everything that holds for it; nothing is left to look up elsewhere.

    Attributes:
        name: Unique name.
        endpoint: The first JobManager and the limits of requests, without credentials (see
            :mod:`flink_autoscaler.standalone.settings.credentials`); its URL is empty where JobManagers are found
            elsewhere.
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
    def display_url(self) -> str:
        """URL of the cluster, for people."""
        return ", ".join(self.settings.url or self.settings.yarn.url) or self.settings.type


class Settings(BaseSettings, DaemonSettings):
    """Everything the daemon needs to know when it starts.

    ``Settings()`` holds the defaults; those of files and variables come from
    :class:`flink_autoscaler.standalone.settings.loading.SettingsLoader`.
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
        return tuple(self._effective_cluster(cluster) for cluster in self.clusters or (self._only_cluster(),))

    @property
    def event_handler_names(self) -> tuple[str, ...]:
        """The plug-ins that are told about events: the log always, then those that were named, each once."""
        return tuple(dict.fromkeys((LOGGING, self.standalone.event_handler, *self.event_handlers)))

    def _only_cluster(self) -> ClusterSettings:
        host = self.standalone.host
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return ClusterSettings(name=ONLY_CLUSTER, url=(f"http://{shown}:{self.standalone.port}",))

    def _effective_cluster(self, cluster: ClusterSettings) -> Cluster:
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
