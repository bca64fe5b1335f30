"""The chapters of the options of the daemon and its clusters."""

from __future__ import annotations

from typing import Final

from reference_pages.chapters import OptionChapter

_CLUSTER: Final = "autoscaler.clusters.<n>."


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
            "autoscaler.state-retention.",
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
    - {targets: [on-call], severities: [warning], clusters: ["prod-*"]}
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
autoscaler.external-metrics:
  - name: queue
    url: https://queue.example.com
    path: /queues/{queue}
    json-pointer: /waiting
""",
        ("autoscaler.kafka", "autoscaler.external-metrics"),
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
