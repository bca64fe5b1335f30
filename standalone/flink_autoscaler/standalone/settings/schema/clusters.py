"""The options of what is reached over the network: clusters, what knows lag beside Flink, and who is told."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.standalone.settings.schema.types import (
    BaseUrls,
    Choice,
    ClusterName,
    Count,
    Flag,
    MemorySize,
    OldKeys,
    OptionSection,
    PluginName,
    Seconds,
    Syntax,
    Text,
    TextMap,
    Texts,
    option,
    write_list,
)


class AuthKind(Choice):
    """How requests prove who sends them."""

    NONE = "none"
    BASIC = "basic"
    BEARER = "bearer"
    SIMPLE = "simple"
    KERBEROS = "kerberos"


class Growth(Choice):
    """Whether a cluster gets more TaskManagers by itself when its jobs need more slots."""

    AUTO = "auto"
    FIXED = "fixed"
    ELASTIC = "elastic"


class JobManagerAccess(Choice):
    """On which way the JobManager of a YARN application is reached."""

    AUTO = "auto"
    DIRECT = "direct"
    PROXY = "proxy"


class EngineKind(Choice):
    """Where jobs are evaluated."""

    SPARK = "spark"
    AUTO = "auto"
    INLINE = "inline"


class TlsSettings(OptionSection):
    """Certificates and keys for https."""

    ca_file: Text | None = option(None, "Certificates to trust, PEM; unset trusts the system's.")
    certificate_file: Text | None = option(
        None, "Certificate that the daemon shows, with its chain, PEM; may hold the key, too."
    )
    key_file: Text | None = option(None, "Key of that certificate, PEM.")
    key_password_env_variable: Text | None = option(
        None, "Name of the environment variable with the password of the key."
    )
    key_password_file: Text | None = option(None, "File whose first line is the key's password.")
    verify_host: Flag = option(True, "Whether the certificate has to name the host of the URL.")


class AuthSettings(OptionSection):
    """Who the daemon is."""

    kind: AuthKind = option(
        AuthKind.NONE,
        "basic: user and password; bearer: a token; simple: Hadoop's user.name; kerberos: SPNEGO, needs the extra "
        "flink-autoscaler[kerberos].",
    )
    username: Text | None = option(None, "User of basic and simple authentication.")
    password_env_variable: Text | None = option(
        None, "Name of the environment variable with the password of basic authentication."
    )
    password_file: Text | None = option(None, "File whose first line is the password of basic authentication.")
    token_env_variable: Text | None = option(None, "Name of the environment variable with the bearer token.")
    token_file: Text | None = option(None, "File whose first line is the bearer token; read again in every pass.")
    principal: Text | None = option(None, "Kerberos principal; unset takes the one of the ticket cache.")
    keytab: Text | None = option(None, "Keytab with the key of the principal; unset takes the ticket cache.")
    service_host: Text | None = option(
        None, "Host in the server's principal HTTP/host; unset takes the host of the URL."
    )


class AccessSettings(OptionSection):
    """How a service is reached; part of clusters and of their ResourceManagers."""

    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    headers: TextMap = option({}, "Value of a header sent with every request.")
    headers_env: TextMap = option({}, "Name of the environment variable with the value of a header.")
    headers_file: TextMap = option({}, "File whose first line is the value of a header; read again in every pass.")


class YarnSettings(AccessSettings):
    """The ResourceManagers of a cluster of type yarn, and which of their applications are looked after."""

    url: BaseUrls = option((), "URL of the ResourceManager's web service, such as http://rm:8088; several with HA.")
    types: Texts = option(("Apache Flink",), "Application types that are looked after.")
    queues: Texts = option((), "Queues by path or last name; empty takes all.")
    users: Texts = option((), "Users who own the applications; empty takes all.")
    tags: Texts = option((), "Tags of which an application needs one; empty takes all.")
    names: Texts = option((), "Patterns for application names such as 'prod-*'; empty takes all.")
    access: JobManagerAccess = option(
        JobManagerAccess.AUTO,
        "direct: to the node where the JobManager runs; proxy: through the web proxy of YARN; auto: direct where that "
        "works, else proxy.",
    )
    approve_proxy: Flag = option(
        False, "Confirm the warning that the web proxy shows to others than the application's owner."
    )
    trusted_hosts: Texts = option(
        (),
        "Patterns such as '*.example.com' of hosts that credentials may go to, besides ResourceManagers, their web "
        "proxy and the nodes that they list.",
    )
    headroom: Flag = option(True, "Hold scale-ups within what the queue and the nodes can still give.")
    delegation_token_env_variable: Text | None = option(
        None, "Name of the environment variable with a delegation token of the ResourceManager."
    )
    delegation_token_file: Text | None = option(
        None, "File whose first line is a delegation token; read again in every pass."
    )


class SourceKind(Choice):
    """Where the metrics of a cluster's jobs come from."""

    REST = "rest"
    PROMETHEUS = "prometheus"


class ReporterForm(Choice):
    """In which form Flink's metrics come to Prometheus."""

    REPORTER = "reporter"
    KUBERNETES_OPERATOR = "kubernetes-operator"
    PUSHGATEWAY = "pushgateway"


class PrometheusSettings(AccessSettings):
    """A server with the HTTP API of Prometheus."""

    url: BaseUrls = option((), "prometheus: URL of the server, before /api/v1/query; of Thanos, Mimir or such.")
    timeout: Seconds = option(10.0, "Time that one query may take.", gt=0)
    max_response_bytes: MemorySize = option(64 << 20, "Longest answer that is read.", ge=1 << 10, le=1 << 30)
    max_age: Seconds = option(
        120.0,
        "Age of a job's oldest scrape from which on its metrics are unknown; at least twice the scrape interval.",
        ge=1,
        le=3600,
    )
    preset: ReporterForm = option(
        ReporterForm.REPORTER,
        "reporter: Flink's PrometheusReporter is scraped; kubernetes-operator: the same by Prometheus Operator's "
        "PodMonitor; pushgateway: Flink's PrometheusPushGatewayReporter.",
    )
    selector: TextMap = option(
        {}, "Value of a label that tells the series of this cluster from others; a pattern where it begins with ~."
    )
    names: TextMap = option({}, "Name under which a metric of Flink's reporter is stored, where that is another one.")
    labels: TextMap = option({}, "The same of a label: job_id, task_id, operator_name, topic, partition or job.")
    replica_labels: Texts | None = option(
        None, "Labels by which replicas of a Prometheus differ; unset takes those that the preset has."
    )


class MetricsSettings(OptionSection):
    """Where the metrics of the jobs of a cluster come from."""

    source: SourceKind = option(
        SourceKind.REST,
        "rest: every vertex is asked for over Flink's REST API; prometheus: a few queries for all jobs.",
    )
    prometheus: PrometheusSettings = PrometheusSettings()


class ProviderSettings(AccessSettings):
    """Who starts and stops the TaskManagers of a standalone cluster; access, headers and TLS are those of http."""

    type: PluginName = option(
        "none",
        "none; command: commands of yours; http: a service of yours; "
        "compose: a service of Docker Compose; or the name of another plug-in.",
    )
    min_taskmanagers: Count = option(0, "Never fewer TaskManagers than this.", ge=0)
    max_taskmanagers: Count = option(10, "Never more TaskManagers than this.", ge=0)
    spare_taskmanagers: Count = option(0, "TaskManagers beyond what is needed.", ge=0)
    other_taskmanagers: Count = option(
        0,
        "TaskManagers of the cluster that somebody else looks after; where the provider tells the ids of its own, they "
        "are told apart without this.",
        ge=0,
    )
    slots_per_taskmanager: Count | None = option(
        None, "Slots of one TaskManager; unset takes what the cluster says.", ge=1
    )
    typical_startup: Seconds = option(30.0, "Time that it takes until a new TaskManager offers its slots.", ge=0)
    ready_timeout: Seconds = option(
        600.0,
        "Time after which to go on with the TaskManagers that have come, and to stop waiting for the others.",
        gt=0,
    )
    settle: Seconds = option(10.0, "Time for which new slots must have been there to count.", ge=0)
    checkpoint_patience: Count = option(
        3,
        "Checkpoint intervals for which stopping TaskManagers of a reactive cluster waits for a completed checkpoint.",
        ge=0,
    )
    idle_time: Seconds = option(
        60.0,
        "Time that a TaskManager must have been without work before it is stopped, outside of reactive mode.",
        ge=0,
    )
    command: Texts = option(
        (),
        "Program and arguments, as a list, no shell. command: makes a count come true, {n} stands for it, an argument "
        "{victims} for the ids of those to stop. compose: Docker Compose with its own options.",
    )
    describe_command: Texts = option(
        (), "command: program and arguments that write how many TaskManagers there are, as a number or JSON."
    )
    command_timeout: Seconds = option(300.0, "command, compose: time that the command may take.", gt=0)
    timeout: Seconds = option(10.0, "Time that one request of http may take, or the describing command.", gt=0)
    url: BaseUrls = option((), "http: the service, which answers GET and PUT there.")
    service: Text | None = option(None, "compose: name of the service that runs TaskManagers.")
    parameters: TextMap = option({}, "Settings of a provider that is a plug-in of others.")


class ClusterSettings(AccessSettings):
    """One Flink cluster, or the Flink applications of one YARN cluster."""

    name: ClusterName = Field(description="Name of the cluster, unique; part of job keys, logs and metrics.")
    type: PluginName = option("flink", "How jobs are found: flink, yarn, or the name of another fetcher plug-in.")
    url: BaseUrls = option(
        (), "URL of the JobManager's REST endpoint, a path prefix is fine; several with JobManager high availability."
    )
    timeout: Seconds | None = option(
        None, "Timeout of one request; unset takes job.autoscaler.flink.rest-client.timeout.", gt=0
    )
    max_connections: Count = option(16, "Requests under way at the same time.", ge=1, le=1024)
    max_response_bytes: MemorySize = option(8 << 20, "Longest answer that is read.", ge=1 << 10, le=1 << 30)
    interval: Seconds | None = option(
        None,
        "Time from the start of one pass over this cluster to the next; unset takes the interval of the control loop.",
        ge=0.1,
    )
    engine: EngineKind | None = option(
        None, "Where jobs of this cluster are evaluated; unset takes autoscaler.engine.kind."
    )
    include: Texts = option((), "Patterns such as 'orders-*' for names of jobs that are looked after; empty takes all.")
    exclude: Texts = option((), "Patterns for names of jobs that are left alone; goes before include.")
    job_user_config: Flag = option(
        True, "Whether job.autoscaler.* keys in a job's own global job parameters count for that job."
    )
    slots: Annotated[Growth, OldKeys(("autoscaler.clusters.<n>.capacity",))] = option(
        Growth.AUTO,
        "fixed: jobs ask only for slots that are there, in fair shares; elastic: TaskManagers are added when slots "
        "are short; auto: elastic on YARN and native Kubernetes, else fixed.",
    )
    options: TextMap = option({}, "Defaults for jobs of this cluster, such as job.autoscaler.metrics.window.")
    parameters: TextMap = option({}, "Settings of a fetcher that is a plug-in of others.")
    yarn: YarnSettings = YarnSettings()
    provider: ProviderSettings = ProviderSettings()
    metrics: MetricsSettings = MetricsSettings()


class NumberType(Choice):
    """How services are asked."""

    HTTP = "http"
    PROMQL = "promql"


class KafkaSettings(OptionSection):
    """A Kafka cluster that knows how far consumer groups are behind."""

    name: ClusterName = Field(description="Name of the Kafka cluster, unique; job.autoscaler.lag.sources names it.")
    bootstrap_servers: Texts = option((), "host:port of brokers; jobs cannot name others.")
    properties: TextMap = option(
        {}, "Properties of librdkafka, such as security.protocol, sasl.mechanism or ssl.ca.location."
    )
    properties_env: TextMap = option({}, "Name of the environment variable with the value of a property.")
    properties_file: TextMap = option({}, "File whose first line is the value of a property.")
    timeout: Seconds = option(5.0, "Time that one question may take.", gt=0, le=60)


class NumberSettings(AccessSettings):
    """A service that answers with a number: the lag of a job's source, what arrives there, or a least parallelism."""

    name: ClusterName = Field(
        description="Name of the service, unique; lag.sources, arrival-rate.sources and floor.sources of jobs name it."
    )
    type: PluginName = option(
        "http", "http: a JSON document; promql: Prometheus or what speaks like it; or the name of a plug-in."
    )
    url: BaseUrls = option((), "URL of the service; one. Jobs cannot name others.")
    path: Text = option(
        "/", "http: path below the URL, with words such as {job}, {group} or those of job.autoscaler.lag.parameters."
    )
    json_pointer: Text | None = option(None, "http: where the number is, such as /queue/waiting; unset: the document.")
    query: Text | None = option(None, "promql: the query, with the same words inside of its strings; gives one sample.")
    timeout: Seconds = option(5.0, "Time that one request may take.", gt=0, le=60)
    parameters: TextMap = option({}, "Settings of a plug-in of others.")


_SEVERITIES: Final = {kind.value.lower(): kind for kind in EventType}


class TargetType(Choice):
    """How a target is told."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"


def parse_severities(text: str) -> tuple[str, ...]:
    """Read a list of severities. May raise ValueError."""
    words = tuple(word.strip().lower() for word in syntax.parse_list(text))
    if unknown := [word for word in words if word not in _SEVERITIES]:
        raise ValueError(f"no severity {unknown[0]!r}")
    return words


Severities = Annotated[tuple[str, ...], Syntax(f"a list of {' and '.join(_SEVERITIES)}", parse_severities, write_list)]


class TargetSettings(AccessSettings):
    """Somebody who is told: a service that Apprise knows, or a webhook."""

    name: ClusterName = Field(description="Name of the target, unique; rules, logs and notify --target name it.")
    type: TargetType = option(
        TargetType.WEBHOOK,
        "webhook: a POST with CloudEvents 1.0 as JSON; apprise: a chat, mail or another service of Apprise, needs the "
        "extra flink-autoscaler[notifications].",
    )
    url: Text | None = Field(
        default=None,
        repr=False,
        description="Where to: http:// or https:// for a webhook, else a URL of Apprise. It is shown nowhere; better "
        "point to it.",
    )
    url_env_variable: Text | None = option(None, "Name of the environment variable with the URL.")
    url_file: Text | None = option(None, "File whose first line is the URL; read again for every message.")
    key_env_variable: Text | None = option(
        None, "webhook: name of the environment variable with the key that bodies are signed with (HMAC-SHA256)."
    )
    key_file: Text | None = option(None, "webhook: file whose first line is that key; read again for every message.")
    timeout: Seconds = option(10.0, "Time that sending one message may take.", gt=0, le=300)


class RuleSettings(OptionSection):
    """Which events are told to which targets. An empty list takes all."""

    targets: Texts = option((), "Names of targets; empty takes all.")
    reasons: Texts = option(
        (), "Reasons of events such as 'RolledBack', or patterns such as 'Rollback*'; empty takes all."
    )
    severities: Severities = option((), "normal, warning; empty takes both.")
    jobs: Texts = option((), "Patterns such as 'orders-*' for names or keys of jobs; empty takes all.")
    clusters: Texts = option(
        (), "Patterns for names of clusters; empty takes all, and what is told about the daemon itself."
    )


class NotificationSettings(OptionSection):
    """People and services that are told about events."""

    targets: tuple[TargetSettings, ...] = option((), "Who is told.")
    rules: tuple[RuleSettings, ...] = option((), "Which events are told; without a rule every warning, to all targets.")
    retry_for: Seconds = option(
        86_400.0, "Time for which it is tried to send an event, with growing pauses, before it is given up.", gt=0
    )
