"""The options of what is reached over the network: clusters, what knows lag beside Flink, and who is told."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.standalone.settings.schema.types import (
    BaseUrls,
    Choice,
    ClusterName,
    Count,
    Flag,
    MemorySize,
    OneOf,
    OptionSection,
    PluginName,
    Seconds,
    Syntax,
    Text,
    TextMap,
    Texts,
    write_list,
)


class Growth(Choice):
    """Growth of a cluster: whether it gets more TaskManagers by itself when its jobs need more slots."""

    AUTO = "auto"
    FIXED = "fixed"
    ELASTIC = "elastic"


class EngineKind(Choice):
    """Engine that evaluates jobs."""

    SPARK = "spark"
    AUTO = "auto"
    INLINE = "inline"


class TlsSettings(OptionSection):
    """Certificates and keys for https."""

    ca_file: Text | None = None
    certificate_file: Text | None = None
    key_file: Text | None = None
    key_password_env_variable: Text | None = None
    key_password_file: Text | None = None
    verify_host: Flag = True


class AuthSettings(OptionSection):
    """Identity of the daemon and its proof in requests: one class per kind, with the options of that kind alone."""


class NoAuth(AuthSettings):
    """Nobody in particular."""

    kind: OneOf[Literal["none"]] = "none"


class BasicAuth(AuthSettings):
    """A user with a password."""

    kind: OneOf[Literal["basic"]] = "basic"
    username: Text | None = None
    password_env_variable: Text | None = None
    password_file: Text | None = None


class BearerAuth(AuthSettings):
    """Whoever has the token."""

    kind: OneOf[Literal["bearer"]] = "bearer"
    token_env_variable: Text | None = None
    token_file: Text | None = None


class SimpleAuth(AuthSettings):
    """A user whom Hadoop takes at his word."""

    kind: OneOf[Literal["simple"]] = "simple"
    username: Text | None = None


class KerberosAuth(AuthSettings):
    """A principal of Kerberos, from a keytab or from the cache of tickets."""

    kind: OneOf[Literal["kerberos"]] = "kerberos"
    principal: Text | None = None
    keytab: Text | None = None
    service_host: Text | None = None


def _kind_of(auth: Any) -> str:
    return str(auth.get("kind", "none") if isinstance(auth, dict) else auth.kind).lower()


_BY_KIND: Final = Field(discriminator=Discriminator(_kind_of))
_None = Annotated[NoAuth, Tag("none")]
_Basic = Annotated[BasicAuth, Tag("basic")]
_Bearer = Annotated[BearerAuth, Tag("bearer")]
WebAuth = Annotated[_None | _Basic | _Bearer, _BY_KIND]
"""Who the daemon is to a service that is no part of a cluster."""

Auth = Annotated[
    _None | _Basic | _Bearer | Annotated[SimpleAuth, Tag("simple")] | Annotated[KerberosAuth, Tag("kerberos")],
    _BY_KIND,
]


def auth_kinds_with(option: str) -> list[str]:
    """Return the kinds of authentication that have an option, such as ``token-file``."""
    kinds = AuthSettings.__subclasses__()
    return [kind.model_fields["kind"].default for kind in kinds if option.replace("-", "_") in kind.model_fields]


class AccessSettings(OptionSection):
    """Access to a service; part of clusters and of their ResourceManagers."""

    auth: Auth = NoAuth()
    tls: TlsSettings = TlsSettings()
    headers: TextMap = Field(default_factory=dict)
    headers_env: TextMap = Field(default_factory=dict)
    headers_file: TextMap = Field(default_factory=dict)


class YarnSettings(AccessSettings):
    """The ResourceManagers of a cluster of type yarn, and which of their applications are managed."""

    url: BaseUrls = ()
    types: Texts = ("Apache Flink",)
    queues: Texts = ()
    users: Texts = ()
    tags: Texts = ()
    names: Texts = ()
    access: OneOf[Literal["auto", "direct", "proxy"]] = "auto"
    approve_proxy: Flag = False
    trusted_hosts: Texts = ()
    headroom: Flag = True
    delegation_token_env_variable: Text | None = None
    delegation_token_file: Text | None = None


class PrometheusSettings(AccessSettings):
    """A server with the HTTP API of Prometheus."""

    auth: WebAuth = NoAuth()
    url: BaseUrls = ()
    timeout: Seconds = Field(default=10.0, gt=0)
    max_response_bytes: MemorySize = Field(default=64 << 20, ge=1 << 10, le=1 << 30)
    max_age: Seconds = Field(default=120.0, ge=1, le=3600)
    preset: OneOf[Literal["reporter", "kubernetes-operator", "pushgateway"]] = "reporter"
    selector: TextMap = Field(default_factory=dict)
    names: TextMap = Field(default_factory=dict)
    labels: TextMap = Field(default_factory=dict)
    replica_labels: Texts | None = None


class MetricsSettings(OptionSection):
    """Source of the metrics of a cluster's jobs."""

    source: OneOf[Literal["rest", "prometheus"]] = "rest"
    prometheus: PrometheusSettings = PrometheusSettings()


class ProviderSettings(AccessSettings):
    """Provider that starts and stops a standalone cluster's TaskManagers; access, headers and TLS are those of http."""

    type: PluginName = "none"
    min_taskmanagers: Count = Field(default=0, ge=0)
    max_taskmanagers: Count = Field(default=10, ge=0)
    headroom_taskmanagers: Count = Field(default=0, ge=0)
    other_taskmanagers: Count = Field(default=0, ge=0)
    slots_per_taskmanager: Count | None = Field(default=None, ge=1)
    typical_startup: Seconds = Field(default=30.0, ge=0)
    ready_timeout: Seconds = Field(default=600.0, gt=0)
    slot_warmup: Seconds = Field(default=10.0, ge=0)
    checkpoint_max_intervals: Count = Field(default=3, ge=0)
    idle_timeout: Seconds = Field(default=60.0, ge=0)
    command: Texts = ()
    describe_command: Texts = ()
    command_timeout: Seconds = Field(default=300.0, gt=0)
    timeout: Seconds = Field(default=10.0, gt=0)
    url: BaseUrls = ()
    service: Text | None = None
    parameters: TextMap = Field(default_factory=dict)


class ClusterSettings(AccessSettings):
    """One Flink cluster, or the Flink applications of one YARN cluster."""

    name: ClusterName
    type: PluginName = "flink"
    url: BaseUrls = ()
    timeout: Seconds | None = Field(default=None, gt=0)
    max_connections: Count = Field(default=16, ge=1, le=1024)
    max_response_bytes: MemorySize = Field(default=8 << 20, ge=1 << 10, le=1 << 30)
    interval: Seconds | None = Field(default=None, ge=0.1)
    engine: EngineKind | None = None
    include: Texts = ()
    exclude: Texts = ()
    job_user_config: Flag = True
    slots: Growth = Growth.AUTO
    options: TextMap = Field(default_factory=dict)
    parameters: TextMap = Field(default_factory=dict)
    yarn: YarnSettings = YarnSettings()
    provider: ProviderSettings = ProviderSettings()
    metrics: MetricsSettings = MetricsSettings()


class KafkaSettings(OptionSection):
    """A Kafka cluster that knows how far consumer groups are behind."""

    name: ClusterName
    bootstrap_servers: Texts = ()
    properties: TextMap = Field(default_factory=dict)
    properties_env: TextMap = Field(default_factory=dict)
    properties_file: TextMap = Field(default_factory=dict)
    timeout: Seconds = Field(default=5.0, gt=0, le=60)


class ExternalMetricSettings(AccessSettings):
    """A service that answers with a number: the lag of a job's source, what arrives there, or a least parallelism."""

    name: ClusterName
    type: PluginName = "http"
    url: BaseUrls = ()
    path: Text = "/"
    json_pointer: Text | None = None
    query: Text | None = None
    timeout: Seconds = Field(default=5.0, gt=0, le=60)
    parameters: TextMap = Field(default_factory=dict)


EXTERNAL_METRIC_TYPES: Final = ("http", "promql")
"""The services that come along; others are plug-ins."""

_SEVERITIES: Final = {kind.value.lower(): kind for kind in EventType}


def parse_severities(text: str) -> tuple[str, ...]:
    """Read a list of severities. May raise ValueError."""
    words = tuple(word.strip().lower() for word in syntax.parse_list(text))
    if unknown := [word for word in words if word not in _SEVERITIES]:
        raise ValueError(f"no severity {unknown[0]!r}")
    return words


Severities = Annotated[tuple[str, ...], Syntax(f"a list of {' and '.join(_SEVERITIES)}", parse_severities, write_list)]


class TargetSettings(AccessSettings):
    """Somebody who is told: a service that Apprise knows, or a webhook."""

    auth: WebAuth = NoAuth()
    name: ClusterName
    type: OneOf[Literal["webhook", "apprise"]] = "webhook"
    url: Text | None = Field(default=None, repr=False)
    url_env_variable: Text | None = None
    url_file: Text | None = None
    key_env_variable: Text | None = None
    key_file: Text | None = None
    timeout: Seconds = Field(default=10.0, gt=0, le=300)


class RuleSettings(OptionSection):
    """Rule that sends events to targets. An empty list takes all."""

    targets: Texts = ()
    reasons: Texts = ()
    severities: Severities = ()
    jobs: Texts = ()
    clusters: Texts = ()


class NotificationSettings(OptionSection):
    """People and services that are told about events."""

    targets: tuple[TargetSettings, ...] = ()
    rules: tuple[RuleSettings, ...] = ()
    retry_for: Seconds = Field(default=86_400.0, gt=0)
