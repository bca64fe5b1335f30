"""The switches of what is done better than the reference does it; ``compat`` turns all of them."""

from __future__ import annotations

from enum import StrEnum

from flink_autoscaler.core.options.declare import improvement, one_of, option
from flink_autoscaler.core.options.option import OptionSet


class Compat(StrEnum):
    """Whether to follow the reference to the letter or with the named improvements."""

    REFERENCE = "reference"
    IMPROVED = "improved"


class ImprovementOptions(OptionSet):
    """One switch per improvement; unset, it is on unless ``compat`` is ``reference``."""

    compat = option(
        "compat",
        one_of(Compat),
        "improved",
        "reference: behave like the Java autoscaler to the letter; improved: with the improvements of the guide.",
    )

    unknown_when_incomplete = improvement(
        "unknown-when-incomplete",
        "Counters of a vertex whose subtasks have not all reported, and values that were not answered, are unknown; "
        "unknown never lowers anything.",
    )
    source_partition_cap = improvement(
        "source-partition-cap", "A source is never scaled beyond the number of its partitions."
    )
    undefined_scalability_is_one = improvement(
        "undefined-scalability-is-one", "A scalability coefficient that cannot be computed is 1.0, not an error."
    )
    no_stale_scale_down = improvement(
        "no-stale-scale-down", "A delayed scale-down that exceeds the current parallelism is dropped."
    )
    expected_of_decision = improvement(
        "expected-of-decision",
        "What is expected of a delayed scale-down is the rate with the parallelism that is decided on.",
    )
    exact_quota = improvement(
        "exact-quota",
        "Quotas count unchanged vertices, round TaskManagers up, and limit a scale-up instead of refusing it.",
    )
    thresholds_after_evaluator = improvement(
        "thresholds-after-evaluator", "Rate thresholds are computed after a custom evaluator has changed the metrics."
    )
    saturated_vertex_guard = improvement(
        "saturated-vertex-guard",
        "A vertex that is fed by others and busier than the target utilization is not scaled down for their ratio.",
    )
    bottleneck_limit = improvement(
        "bottleneck-limit", "A bottleneck that cannot grow limits what the rest of the job is scaled to."
    )
    stable_window = improvement(
        "stable-window", "A metric window that was full stays full when passes jitter by less than one interval."
    )
    counter_reset = improvement(
        "counter-reset", "Counters that went back without a restart start a new rate instead of a negative one."
    )
    possible_values_only = improvement(
        "possible-values-only",
        "A value that cannot be is unknown: not finite, negative, beyond 2^53, or faster than any subtask.",
    )
    sample_doubt = improvement(
        "sample-doubt",
        "A rescale that would be another one without a single sample of the window waits for the next pass.",
    )
    tracked_decisions_only = improvement(
        "tracked-decisions-only", "No restart time is recorded for a decision that the history has forgotten."
    )
    forget_when_disabled = improvement(
        "forget-when-disabled", "Disabling the autoscaler for a job forgets its metric samples at once."
    )
    consistent_answers = improvement(
        "consistent-answers",
        "Answers about one job that contradict each other wait for the next pass, they are not mixed.",
    )
    fresh_samples = improvement(
        "fresh-samples",
        "Flink is asked to gather metrics before they are read, and what it gathered before a quiet time is no sample.",
    )
    first_minute = improvement(
        "first-minute",
        "What Flink has not measured yet is unknown: busy shares for 10 s after a start and while tasks initialize, "
        "and rates for a minute.",
    )
    bounded_observed_rate = improvement(
        "bounded-observed-rate",
        "A rate observed at a source with lag is no less than half of what its busy share in the same sample says.",
    )
    unknown_cluster_facts = improvement(
        "unknown-cluster-facts",
        "Slots, heap and garbage collection that a cluster does not tell are unknown; its jobs are evaluated without.",
    )
    cached_metric_names = improvement(
        "cached-metric-names",
        "Metric names are remembered for all vertices and read again every five minutes, and the details of a job "
        "until it changes.",
    )

    problem_events = improvement(
        "problem-events",
        "A plug-in that cannot be used and configuration that cannot be applied are events, not only lines of the log.",
    )
    errors_once = improvement("errors-once", "The same error of a job is told once per event interval.")

    def improves(self, switch: bool | None) -> bool:
        """Tell whether an improvement is on: by its own option, else by ``compat``."""
        return self.compat is Compat.IMPROVED if switch is None else switch
