"""Every option of the core, declared once."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.options.declare import (
    choice,
    count,
    decimal,
    duration,
    flag,
    one_of,
    option,
    optional_option,
    ratio,
    text_list,
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

    enabled = flag("enabled", "false")
    scaling_enabled = flag("scaling.enabled", "true")
    metrics_window = duration("metrics.window", "15 min")
    stabilization_interval = duration("stabilization.interval", "5 min")
    excluded_periods = text_list("excluded.periods", "", allowed="daily ranges and Quartz cron expressions")
    utilization_target = option(
        "utilization.target",
        syntax.parse_double,
        "0.7",
        fallback=(
            "kubernetes.operator.job.autoscaler.utilization.target",
            "kubernetes.operator.job.autoscaler.target.utilization",
        ),
        deprecated=("job.autoscaler.target.utilization",),
        allowed="[0.0, 1.0]",
    )
    utilization_boundary = decimal("target.utilization.boundary", "0.3", allowed="[0.0, +Infinity]")
    utilization_max = optional_option("utilization.max", syntax.parse_double, allowed="[utilization.target, 1.0]")
    utilization_min = optional_option("utilization.min", syntax.parse_double, allowed="[0.0, utilization.target]")
    scale_down_interval = option(
        "scale-down.interval",
        syntax.parse_duration,
        "1 h",
        fallback=(
            "kubernetes.operator.job.autoscaler.scale-up.grace-period",
            "kubernetes.operator.job.autoscaler.scale-down.interval",
        ),
        deprecated=("job.autoscaler.scale-up.grace-period",),
    )
    min_parallelism = count("vertex.min-parallelism", "1")
    max_parallelism = count("vertex.max-parallelism", "200")
    scale_down_max_factor = decimal("scale-down.max-factor", "0.6", allowed="[0.0, +Infinity]")
    scale_up_max_factor = decimal("scale-up.max-factor", "100000", allowed="[0.0, +Infinity]")
    catch_up_duration = duration("catch-up.duration", "30 min")
    restart_time = duration("restart.time", "5 min")
    restart_time_source = optional_option("restart.time-source", one_of(RestartTimeSource))
    restart_time_tracking = flag("restart.time-tracking.enabled", "false")
    restart_time_limit = duration("restart.time-tracking.limit", "15 min")
    backlog_lag_threshold = duration("backlog-processing.lag-threshold", "5 min")
    observed_rate_lag_threshold = duration("observed-true-processing-rate.lag-threshold", "30 s")
    observed_rate_switch_threshold = decimal("observed-true-processing-rate.switch-threshold", "0.15")
    observed_rate_min_observations = count("observed-true-processing-rate.min-observations", "2")
    effectiveness_detection = flag("scaling.effectiveness.detection.enabled", "false")
    effectiveness_threshold = ratio("scaling.effectiveness.threshold", "0.1")
    gc_pressure_threshold = ratio("memory.gc-pressure.threshold", "1.0")
    heap_usage_threshold = ratio("memory.heap-usage.threshold", "1.0")
    memory_tuning = flag("memory.tuning.enabled", "false")
    memory_tuning_compensation = flag("memory.tuning.scale-down-compensation.enabled", "true")
    memory_tuning_overhead = ratio("memory.tuning.overhead", "0.2")
    memory_tuning_maximize_managed = flag("memory.tuning.maximize-managed-memory", "false")
    history_max_count = count("history.max.count", "3")
    history_max_age = duration("history.max.age", "24 h")
    busy_time_aggregator = choice(BusyTimeAggregator, "metrics.busy-time.aggregator", "MAX")
    max_rate = decimal("metrics.max-rate-per-subtask", "1e8", least=1.0)
    vertex_exclude_ids = text_list("vertex.exclude.ids", "")
    scaling_event_interval = duration("scaling.event.interval", "30 min")
    rest_client_timeout = duration("flink.rest-client.timeout", "10 s")
    quota_memory = optional_option("quota.memory", syntax.parse_memory)
    quota_cpu = optional_option("quota.cpu", syntax.parse_double)
    resource_check = option("resource-check", str, "")
    legacy_alignment_mode = choice(LegacyAlignmentMode, "scaling.key-group.partitions.adjust.mode", "EVENLY_SPREAD")
    alignment_mode = option("scaling.parallelism-alignment.mode", str, "BALANCED")
    alignment_max_increase = decimal("scaling.parallelism-alignment.max-increase", "0.33", least=0)
    observed_scalability = flag("observed-scalability.enabled", "false")
    observed_scalability_min_observations = count("observed-scalability.min-observations", "3")
    observed_scalability_min = decimal("observed-scalability.coefficient-min", "0.5", allowed="[0.01, 1.0]")
    custom_evaluators = text_list("metrics.custom-evaluators", "")
    custom_executors = text_list("scaling.custom-executors", "")

    @cached_property
    def measures_restarts(self) -> bool:
        """Whether measured outages replace ``restart.time``."""
        source = self.restart_time_source
        return self.is_improved if source is None else source is RestartTimeSource.MEASURED
