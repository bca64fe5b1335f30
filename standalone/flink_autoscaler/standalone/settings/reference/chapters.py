"""The chapters of the reference of options: what belongs together, and an example of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CLUSTER: Final = "autoscaler.clusters.<n>."
_JOB: Final = "job.autoscaler."


@dataclass(frozen=True, slots=True)
class OptionChapter:
    """Options that are looked up together.

    Attributes:
        title: Its heading.
        text: What they are for, and the pages that tell more; Markdown.
        example: YAML that works as it is.
        prefixes: Beginnings of keys; of all chapters the one with the longest that fits has an option.
    """

    title: str
    text: str
    example: str
    prefixes: tuple[str, ...]


def _job(*names: str) -> tuple[str, ...]:
    return tuple(_JOB + name for name in names)


def _cluster(*names: str) -> tuple[str, ...]:
    return tuple(_CLUSTER + name for name in names)


DAEMON_CHAPTERS: Final = (
    OptionChapter(
        "Clusters",
        "Which clusters there are, and which of their jobs. Guide: [Clusters](../guide/clusters.md).",
        """\
autoscaler.clusters:
  - name: production
    url: [http://jobmanager-1:8081, http://jobmanager-2:8081]
    include: ["orders-*", payments]
    options:
      job.autoscaler.enabled: true
      job.autoscaler.vertex.max-parallelism: 32
""",
        (_CLUSTER,),
    ),
    OptionChapter(
        "Access to clusters",
        "Authentication, certificates and headers; secrets are never in the configuration itself, only where they are. "
        "Guides: [TLS](../guide/tls.md), [Kerberos](../guide/kerberos.md).",
        """\
autoscaler.clusters:
  - name: production
    url: https://flink.example.com
    auth:
      kind: bearer
      token-file: /run/secrets/flink-token
    tls:
      verify-host: false
    headers:
      X-Team: streaming
""",
        _cluster("auth.", "tls.", "headers"),
    ),
    OptionChapter(
        "YARN",
        "The Flink applications of a YARN cluster. Guide: [YARN](../guide/yarn.md).",
        """\
autoscaler.clusters:
  - name: hadoop
    type: yarn
    yarn:
      url: [http://rm1.example.com:8088, http://rm2.example.com:8088]
      queues: [streaming]
""",
        _cluster("yarn."),
    ),
    OptionChapter(
        "Metrics from Prometheus",
        "Where the metrics of a cluster's jobs are, when it is not asked for them itself. "
        "Guide: [Metrics from Prometheus](../guide/prometheus-source.md).",
        """\
autoscaler.clusters:
  - name: production
    url: http://jobmanager:8081
    metrics:
      source: prometheus
      prometheus:
        url: http://prometheus:9090
        selector: {namespace: flink-production}
""",
        _cluster("metrics."),
    ),
    OptionChapter(
        "TaskManagers",
        "Who starts and stops TaskManagers. Guide: [Reactive mode and TaskManagers](../guide/reactive-mode.md).",
        """\
autoscaler.realizer: auto
autoscaler.clusters:
  - name: reactive
    url: http://jobmanager:8081
    provider:
      type: compose
      service: taskmanager
      max-taskmanagers: 8
""",
        (*_cluster("provider."), "autoscaler.realizer"),
    ),
    OptionChapter(
        "One cluster, and the keys of the Java autoscaler",
        "Where no list of clusters is given. Guide: [Coming from the Java autoscaler](../guide/compatibility.md).",
        """\
autoscaler.standalone.fetcher.flink-cluster.host: jobmanager
autoscaler.standalone.fetcher.flink-cluster.port: 8081
autoscaler.standalone.control-loop.interval: 10 s
""",
        ("autoscaler.standalone.fetcher.", "autoscaler.standalone.control-loop."),
    ),
    OptionChapter(
        "Daemon",
        "How it behaves, logs and stops. Guide: [Operating](../guide/operating.md).",
        """\
autoscaler.dry-run: true
autoscaler.log.format: json
autoscaler.http.port: 8484
""",
        (
            "autoscaler.dry-run",
            "autoscaler.job-key",
            "autoscaler.http.",
            "autoscaler.jobs-gone.",
            "autoscaler.log.",
            "autoscaler.loop.",
        ),
    ),
    OptionChapter(
        "State, events and high availability",
        "Where state is kept, and who leads. Guides: [Database](../guide/database.md), "
        "[High availability](../guide/high-availability.md).",
        """\
autoscaler.standalone.state-store.type: jdbc
autoscaler.standalone.event-handler.type: jdbc
autoscaler.standalone.jdbc.url: jdbc:postgresql://db.example.com/autoscaler
autoscaler.standalone.jdbc.username: autoscaler
autoscaler.standalone.jdbc.password-file: /run/secrets/autoscaler-db
autoscaler.ha.enabled: true
""",
        (
            "autoscaler.standalone.state-store.",
            "autoscaler.standalone.event-handler.",
            "autoscaler.standalone.jdbc.",
            "autoscaler.event-handlers",
            "autoscaler.ha.",
        ),
    ),
    OptionChapter(
        "Notifications",
        "Who is told about events, and about which. Guide: [Notifications](../guide/notifications.md).",
        """\
autoscaler.notifications:
  targets:
    - name: audit
      url: https://hooks.example.com/flink
      key-file: /run/secrets/webhook-key
    - name: on-call
      type: apprise
      url: mailtos://mail.example.com/on-call@example.com?from=autoscaler@example.com
  rules:
    - {targets: [on-call], severities: [warning], clusters: ["prod-*"], quiet-hours: ["22:00-6:00"]}
    - {targets: [audit]}
""",
        ("autoscaler.notifications.",),
    ),
    OptionChapter(
        "Lag from outside of Flink",
        "Kafka clusters and services that know how far jobs are behind. Guide: [Lag](../guide/lag-sources.md).",
        """\
autoscaler.kafka:
  - name: orders-kafka
    bootstrap-servers: ["broker-1:9093", "broker-2:9093"]
    properties:
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: flink-autoscaler
    properties-file:
      sasl.password: /run/secrets/kafka
autoscaler.numbers:
  - name: queue
    url: https://queue.example.com
    path: /queues/{queue}
    json-pointer: /waiting
""",
        ("autoscaler.kafka", "autoscaler.numbers"),
    ),
    OptionChapter(
        "Engine",
        "Where jobs are evaluated: Spark, or the process of the daemon.",
        """\
autoscaler.engine.kind: inline
autoscaler.engine.job-deadline: 20 s
""",
        ("autoscaler.engine.",),
    ),
    OptionChapter(
        "History, forecasts and records",
        "What is kept for reports, backtests, forecasts and `explain`. Guides: [Metric history](../guide/history.md), "
        "[Forecasts](../guide/forecast.md), [Explain](../guide/explain.md).",
        """\
autoscaler.history.enabled: true
autoscaler.history.path: /var/lib/flink-autoscaler/history
autoscaler.history.retention: 90 d
autoscaler.forecast.build-schedule: "10 3 * * *"
""",
        ("autoscaler.history.", "autoscaler.forecast.", "autoscaler.records."),
    ),
)

JOB_CHAPTERS: Final = (
    OptionChapter(
        "Whether a job is scaled",
        "Guide: [First steps](../guide/first-steps.md).",
        """\
job.autoscaler.enabled: true
job.autoscaler.excluded.periods: "8:00-10:00"
job.autoscaler.scale-down.enabled: false
""",
        _job("enabled", "scaling.enabled", "dry-run", "scale-up.enabled", "scale-down.enabled", "excluded."),
    ),
    OptionChapter(
        "How soon",
        "The waits: what a decision looks back on, and how long less has to be enough.",
        """\
job.autoscaler.stabilization.interval: 2 min
job.autoscaler.metrics.window: 10 min
job.autoscaler.scale-down.interval: 30 min
""",
        _job(
            "metrics.",
            "stabilization.",
            "scale-down.interval",
            "restart.",
            "catch-up.",
            "history.",
            "scaling.event.",
            "flink.rest-client.",
        ),
    ),
    OptionChapter(
        "How large",
        "What utilization is aimed for, and how a backlog counts.",
        """\
job.autoscaler.utilization.target: 0.6
job.autoscaler.utilization.max: 0.8
job.autoscaler.utilization.min: 0.4
""",
        _job(
            "utilization.",
            "target.utilization.",
            "backlog-processing.",
            "observed-true-processing-rate.",
            "observed-scalability.",
            "scaling.effectiveness.",
            "scaling.key-group.",
            "scaling.parallelism-alignment.",
            "scaling.custom-executors",
        ),
    ),
    OptionChapter(
        "Limits",
        "Of vertices, of a job, of one step. Slots: how jobs of a cluster of fixed size share them.",
        """\
job.autoscaler.vertex.max-parallelism: 64
job.autoscaler.vertex.bounds: "Source: *=1..8;enrich=2..32"
job.autoscaler.vertex.exclude.names: "Sink: *"
job.autoscaler.quota.cpu: 40
job.autoscaler.slots.priority: 1
""",
        _job(
            "vertex.",
            "scale-up.",
            "scale-down.",
            "quota.",
            "resource-check",
            "slots.",
            "network-precheck.",
        ),
    ),
    OptionChapter(
        "Rescales: few, followed and paying",
        "How often, what a scale-down has to bring, and what becomes of a rescale.",
        """\
job.autoscaler.rescale.budget.per-day: 12
job.autoscaler.rescale.respect-edits: 2 h
job.autoscaler.scale-down.economics.factor: 3.0
job.autoscaler.slo.lag: 30 s
""",
        _job("rescale.", "scale-down.economics.", "slo."),
    ),
    OptionChapter(
        "Rollback",
        "Undoing what a job does not survive. Guide: [Rollback on memory](../guide/memory-rollback.md).",
        """\
job.autoscaler.rollback.memory.enabled: true
job.autoscaler.rollback.pause: 2 h
""",
        _job("rollback."),
    ),
    OptionChapter(
        "Memory",
        "When memory is too short to scale, and tuned memory settings.",
        """\
job.autoscaler.memory.gc-pressure.threshold: 0.3
job.autoscaler.memory.tuning.enabled: true
""",
        _job("memory."),
    ),
    OptionChapter(
        "Policies",
        "What says how much a job needs. `capacity`, the default, compares what vertices can process with what "
        "arrives. Guides: [Policies](../guide/policies.md), [Policies compared](../guide/policies-compared.md).",
        """\
job.autoscaler.policies: capacity;schedule
job.autoscaler.schedule.plans:
  - {days: mon-fri, from: 07:00, to: 19:00, timezone: Europe/Berlin, min-parallelism: 8}
""",
        _job("policies", "early-pass.", "capacity.", "proactive.", "schedule.", "threshold.", "backlog-time."),
    ),
    OptionChapter(
        "Lag and other numbers",
        "Who is asked for the lag of sources, for what arrives there, and for floors. Guide: "
        "[Lag](../guide/lag-sources.md).",
        """\
job.autoscaler.lag.sources: flink
job.autoscaler.lag.kafka.group: orders
job.autoscaler.lag.max-age: 2 min
""",
        _job("lag.", "arrival-rate.", "floor."),
    ),
    OptionChapter(
        "Policy ds2",
        "DS2, as published and hardened.",
        """\
job.autoscaler.policies: ds2
job.autoscaler.ds2.activation-intervals: 3
""",
        _job("ds2."),
    ),
    OptionChapter(
        "Policy hpa",
        "The algorithm of Kubernetes' HorizontalPodAutoscaler, per vertex or per job.",
        """\
job.autoscaler.policies: hpa
job.autoscaler.hpa.scale-down.window: 10 min
""",
        _job("hpa."),
    ),
    OptionChapter(
        "Policy varga",
        "After Varga, Balassi and Kiss: utilization and lag of the whole job.",
        """\
job.autoscaler.policies: varga
job.autoscaler.varga.lag-threshold: 100000
""",
        _job("varga."),
    ),
    OptionChapter(
        "Forecasts",
        "Being there before the load is. Guide: [Forecasts](../guide/forecast.md).",
        """\
job.autoscaler.policies: proactive
job.autoscaler.forecast.enabled: true
job.autoscaler.forecast.timezone: Europe/Berlin
""",
        _job("forecast."),
    ),
    OptionChapter(
        "Like the Java autoscaler, or better",
        "Every improvement over the reference has a switch. Guide: "
        "[Coming from the Java autoscaler](../guide/compatibility.md).",
        """\
job.autoscaler.compat: reference
job.autoscaler.improvement.exact-quota: true
""",
        _job("compat", "improvement."),
    ),
)


def chapter_of(key: str, chapters: tuple[OptionChapter, ...]) -> OptionChapter:
    """Return the chapter that has an option.

    Raises:
        LookupError: None has; its key belongs into one.
    """
    fitting = [(len(p), each) for each in chapters for p in each.prefixes if key.startswith(p)]
    if not fitting:
        raise LookupError(f"no chapter of the reference has {key}")
    return max(fitting, key=lambda pair: pair[0])[1]
