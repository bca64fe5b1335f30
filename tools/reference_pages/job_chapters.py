"""The chapters of the options of a job."""

from __future__ import annotations

from typing import Final

from reference_pages.chapters import OptionChapter

_JOB: Final = "job.autoscaler."


def _job(*names: str) -> tuple[str, ...]:
    return tuple(_JOB + name for name in names)


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
job.autoscaler.policy: capacity
job.autoscaler.schedule.plans:
  - {days: mon-fri, from: 07:00, to: 19:00, timezone: Europe/Berlin, min-parallelism: 8}
""",
        _job("policy", "schedule."),
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
        "Policy varga",
        "After Varga, Balassi and Kiss: utilization and lag, followed as a HorizontalPodAutoscaler does it.",
        """\
job.autoscaler.policy: varga
job.autoscaler.varga.lag-threshold: 100000
job.autoscaler.varga.scale-down.window: 10 min
""",
        _job("varga."),
    ),
    OptionChapter(
        "Forecasts",
        "Being there before the load is. Guide: [Forecasts](../guide/forecast.md).",
        """\
job.autoscaler.forecast.enabled: true
job.autoscaler.forecast.timezone: Europe/Berlin
""",
        _job("forecast."),
    ),
    OptionChapter(
        "Like the Java autoscaler, or better",
        "One option says which; three parts have switches of their own. Guide: "
        "[Coming from the Java autoscaler](../guide/compatibility.md).",
        """\
job.autoscaler.compat: reference
job.autoscaler.sample-check.enabled: true
""",
        _job("compat", "supervised-rescales.", "rescale-filters.", "sample-check."),
    ),
)
