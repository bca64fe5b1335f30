"""Every option of the core, declared once."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.declare import (
    choice,
    count,
    duration,
    flag,
    listed,
    number,
    one_of,
    option,
    ratio,
    unset,
)
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.core.options.lag import LagOptions
from flink_autoscaler.core.options.policies import PolicyOptions
from flink_autoscaler.core.options.safety import SafetyOptions


class BusyTimeAggregator(StrEnum):
    """Which subtask stands for a vertex when busy time is aggregated."""

    AVG = "AVG"
    MAX = "MAX"
    MIN = "MIN"


class LegacyAlignmentMode(StrEnum):
    """The deprecated alignment modes."""

    EVENLY_SPREAD = "EVENLY_SPREAD"
    MAXIMIZE_UTILISATION = "MAXIMIZE_UTILISATION"


class RestartTimeSource(StrEnum):
    """Where the assumed duration of a restart comes from."""

    MEASURED = "measured"
    OPTION = "option"


class AutoscalerOptions(ForecastOptions, PolicyOptions, SafetyOptions, LagOptions):
    """The options of the autoscaler core for one job."""

    enabled = flag("enabled", "false", "Whether the job is looked after at all.")
    scaling_enabled = flag("scaling.enabled", "true", "Off: everything is computed and reported, nothing changed.")
    metrics_window = duration("metrics.window", "15 min", "Length of the window of samples that is evaluated.")
    stabilization_interval = duration(
        "stabilization.interval",
        "5 min",
        "Time after the job's last switch to RUNNING whose samples do not count toward the window.",
    )
    excluded_periods = listed(
        "excluded.periods",
        "",
        "Periods without changes: '22:00-6:00', a Quartz cron expression, or both joined by '&&'; in the time zone of "
        "the daemon, or in one named at the end: '9:00-24:00 in Europe/Berlin'; or as in schedule.plans: "
        "'days=mon-fri, from=22:00, to=6:00'. Under compat: reference without midnight, zone and names.",
        allowed="daily ranges and Quartz cron expressions",
    )
    utilization_target = option(
        "utilization.target",
        syntax.parse_double,
        "0.7",
        "Utilization that the computed parallelism aims for.",
        fallback=(
            "kubernetes.operator.job.autoscaler.utilization.target",
            "kubernetes.operator.job.autoscaler.target.utilization",
        ),
        deprecated=("job.autoscaler.target.utilization",),
        allowed="[0.0, 1.0]",
    )
    utilization_boundary = number(
        "target.utilization.boundary",
        "0.3",
        "Deprecated. Half-width of the tolerated band where utilization.max or .min is unset.",
        allowed="[0.0, +Infinity]",
    )
    utilization_max = unset(
        "utilization.max",
        syntax.parse_double,
        "Upper limit of the tolerated utilization; above it a scale-up is due.",
        allowed="[utilization.target, 1.0]",
    )
    utilization_min = unset(
        "utilization.min",
        syntax.parse_double,
        "Lower limit of the tolerated utilization; below it a scale-down is due.",
        allowed="[0.0, utilization.target]",
    )
    scale_down_interval = option(
        "scale-down.interval",
        syntax.parse_duration,
        "1 h",
        "Time that a scale-down has to stay advisable before it is done; 0 for at once.",
        fallback=(
            "kubernetes.operator.job.autoscaler.scale-up.grace-period",
            "kubernetes.operator.job.autoscaler.scale-down.interval",
        ),
        deprecated=("job.autoscaler.scale-up.grace-period",),
    )
    min_parallelism = count("vertex.min-parallelism", "1", "Lower limit of the computed parallelism.")
    max_parallelism = count("vertex.max-parallelism", "200", "Upper limit of the computed parallelism.")
    scale_down_max_factor = number(
        "scale-down.max-factor",
        "0.6",
        "Largest relative reduction in one step; 0.6 never goes below 40 % of the current parallelism.",
        allowed="[0.0, +Infinity]",
    )
    scale_up_max_factor = number(
        "scale-up.max-factor",
        "100000",
        "Largest relative increase in one step; 2.0 goes to at most three times the current parallelism.",
        allowed="[0.0, +Infinity]",
    )
    catch_up_duration = duration(
        "catch-up.duration",
        "30 min",
        "Time in which a backlog should be gone after a rescale; 0 plans nothing extra for it.",
    )
    restart_time = duration("restart.time", "5 min", "Assumed duration of a restart where none was measured.")
    restart_time_source = unset(
        "restart.time-source",
        one_of(RestartTimeSource),
        "Where the assumed duration of a restart comes from: measured takes the median of the outages of followed "
        "rescales once three of the job, or three jobs of its cluster until then, were measured, and restart.time "
        "before that; option always takes restart.time. restart.time-tracking.enabled goes before both. Unset: "
        "measured unless compat is reference.",
    )
    restart_time_tracking = flag(
        "restart.time-tracking.enabled",
        "false",
        "Use the longest measured restart, from the decision to the end of the outage, instead of restart.time.",
    )
    restart_time_limit = duration("restart.time-tracking.limit", "15 min", "Cap of the measured restart time.")
    backlog_lag_threshold = duration(
        "backlog-processing.lag-threshold",
        "5 min",
        "A source with more lag than this, in seconds of input, puts the job in backlog mode: no scale-down.",
    )
    observed_rate_lag_threshold = duration(
        "observed-true-processing-rate.lag-threshold",
        "30 s",
        "Least lag, in seconds of input, at which a source's processing rate is measured directly.",
    )
    observed_rate_switch_threshold = number(
        "observed-true-processing-rate.switch-threshold",
        "0.15",
        "Relative excess of the rate from busy time over the measured one at which the measured one is used.",
    )
    observed_rate_min_observations = count(
        "observed-true-processing-rate.min-observations",
        "2",
        "Samples needed before a measured processing rate counts.",
    )
    effectiveness_detection = flag(
        "scaling.effectiveness.detection.enabled",
        "false",
        "Block a further scale-up of a vertex whose last one had too little effect.",
    )
    effectiveness_threshold = ratio(
        "scaling.effectiveness.threshold", "0.1", "Least achieved share of the expected gain."
    )
    gc_pressure_threshold = ratio(
        "memory.gc-pressure.threshold",
        "1.0",
        "No scaling while a TaskManager spends more than this share of its time in garbage collection.",
    )
    heap_usage_threshold = ratio(
        "memory.heap-usage.threshold",
        "1.0",
        "No scaling while the average heap usage of the fullest TaskManager is above this share.",
    )
    memory_tuning = flag("memory.tuning.enabled", "false", "Store tuned TaskManager memory settings.")
    memory_tuning_compensation = flag(
        "memory.tuning.scale-down-compensation.enabled",
        "true",
        "Enlarge the tuned heap when the number of TaskManagers shrinks.",
    )
    memory_tuning_overhead = ratio("memory.tuning.overhead", "0.2", "Head-room added to measured heap and metaspace.")
    memory_tuning_maximize_managed = flag(
        "memory.tuning.maximize-managed-memory",
        "false",
        "Give all memory freed elsewhere to managed memory, where managed memory is used.",
    )
    history_max_count = count(
        "history.max.count", "3", "Scaling history entries kept per vertex, and tracking records."
    )
    history_max_age = duration("history.max.age", "24 h", "Longest time that both are kept.")
    busy_time_aggregator = choice(
        BusyTimeAggregator, "metrics.busy-time.aggregator", "MAX", "Which subtask's busy time stands for the vertex."
    )
    greatest_rate = number(
        "metrics.max-rate-per-subtask",
        "1e8",
        "Records/s that no subtask can process; a rate above it is no rate, but a value that cannot be, and unknown.",
        least=1.0,
    )
    vertex_exclude_ids = listed("vertex.exclude.ids", "", "Ids of vertices that are never scaled.")
    scaling_event_interval = duration(
        "scaling.event.interval", "30 min", "A repeated event is reported once in this time."
    )
    rest_client_timeout = duration("flink.rest-client.timeout", "10 s", "Timeout of a request to the JobManager.")
    quota_memory = unset("quota.memory", syntax.parse_memory, "Most memory that all TaskManagers of the job may take.")
    quota_cpu = unset("quota.cpu", syntax.parse_double, "Most CPUs that all TaskManagers of the job may take.")
    resource_check = option(
        "resource-check",
        str,
        "",
        "Asked whether the cluster can hold a plan: free-slots or the name of a plug-in. Unset: nothing is asked.",
    )
    legacy_alignment_mode = choice(
        LegacyAlignmentMode,
        "scaling.key-group.partitions.adjust.mode",
        "EVENLY_SPREAD",
        "Deprecated. Alignment where scaling.parallelism-alignment.mode is unset and this is set.",
    )
    alignment_mode = option(
        "scaling.parallelism-alignment.mode",
        str,
        "BALANCED",
        "How a target is aligned to key groups or partitions: BALANCED, EVENLY_SPREAD, OFF or a custom mode's name.",
    )
    alignment_max_increase = number(
        "scaling.parallelism-alignment.max-increase",
        "0.33",
        "The share of a target by which the built-in modes of alignment may raise it, so that key groups or partitions "
        "are spread evenly; where it takes more than that and than one subtask, the target stays. Unset, compat: "
        "reference knows no limit.",
        least=0,
    )
    observed_scalability = flag(
        "observed-scalability.enabled",
        "false",
        "Correct the scale factor by the scalability observed in the scaling history.",
    )
    observed_scalability_min_observations = count(
        "observed-scalability.min-observations", "3", "Least history entries for that correction."
    )
    observed_scalability_min = number(
        "observed-scalability.coefficient-min", "0.5", "Least scalability coefficient.", allowed="[0.01, 1.0]"
    )
    custom_evaluators = listed(
        "metrics.custom-evaluators",
        "",
        "Names of custom metric evaluators; the first is used. Each needs metrics.custom-evaluator.<name>.class.",
    )
    custom_executors = listed(
        "scaling.custom-executors",
        "",
        "Names of custom scaling executors. Each needs scaling.custom-executor.<name>.class.",
    )

    @property
    def measures_restarts(self) -> bool:
        """Whether measured outages replace ``restart.time``."""
        source = self.restart_time_source
        return self.is_improved if source is None else source is RestartTimeSource.MEASURED
