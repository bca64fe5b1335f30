"""The dashboard of one job."""

from __future__ import annotations

from typing import Final

from dashboards.panels import Json, Panel, dashboard, variable

_JOB: Final = '{cluster=~"$cluster", job_key="$job"}'
_VERTEX: Final = "{{vertex_name}}"


def _of(metric: str) -> str:
    return f"flink_autoscaler_{metric}{_JOB}"


def _per_vertex(metric: str) -> str:
    return f"max by (vertex_id, vertex_name) ({_of(metric)})"


_NOW: Final = (
    Panel(
        "Who it is",
        "Flink's id of the job, and its YARN application where it has one.",
        {"": _of("job_info")},
        kind="table",
        width=24,
        hidden=("Time", "__name__", "job", "instance", "Value"),
    ),
    Panel(
        "Last pass",
        "How far it came; `flink-autoscaler glossary WORD` explains the word.",
        {"{{phase}}": _of("job_pass_phase")},
        unit="none",
        kind="stat",
        width=4,
        texts={"1": "now"},
    ),
    Panel(
        "After the last rescale",
        "Stable, on probation, rolling back, or paused after a rollback.",
        {"{{phase}}": _of("job_rescale_phase")},
        unit="none",
        kind="stat",
        width=4,
        texts={"1": "now"},
    ),
    Panel(
        "Last evaluated",
        "Time since metrics were last evaluated.",
        {"age": f"min({_of('job_last_evaluation_age_seconds')})"},
        unit="s",
        kind="stat",
        width=4,
        steps=((None, "green"), (600, "orange"), (1800, "red")),
    ),
    Panel(
        "Rescale under way for",
        "0 where none is.",
        {"time": f"max({_of('job_rescale_under_way_seconds')})"},
        unit="s",
        kind="stat",
        width=4,
        steps=((None, "green"), (300, "orange"), (900, "red")),
    ),
    Panel(
        "Subtasks",
        "Parallelism of all vertices.",
        {"subtasks": f"sum({_per_vertex('vertex_parallelism')})"},
        unit="none",
        kind="stat",
        width=4,
    ),
    Panel(
        "Late by",
        "How long arriving records have to wait, by the source that is worst.",
        {"time": f"max({_of('vertex_lag')} / ({_of('vertex_target_data_rate')} > 0))"},
        unit="s",
        kind="stat",
        width=4,
        steps=((None, "green"), (60, "orange"), (600, "red")),
    ),
)

_SIZES: Final = (
    Panel(
        "Parallelism",
        "As it is, per vertex.",
        {_VERTEX: _per_vertex("vertex_parallelism")},
        unit="none",
    ),
    Panel(
        "Recommended parallelism",
        "What the policy advises, before bounds of the cluster and delays.",
        {_VERTEX: _per_vertex("vertex_recommended_parallelism")},
        unit="none",
    ),
    Panel(
        "Greatest parallelism",
        "Key groups of a vertex, and partitions of a source; 0 partitions: not known.",
        {
            f"{_VERTEX} key groups": _per_vertex("vertex_max_parallelism"),
            f"{_VERTEX} partitions": _per_vertex("vertex_num_source_partitions"),
        },
        unit="none",
    ),
)

_LOAD: Final = (
    Panel(
        "Load",
        "Share of its time that a vertex is busy, over the metric window. At 1 it holds its upstream up.",
        {_VERTEX: _per_vertex("vertex_load")},
        unit="percentunit",
    ),
    Panel(
        "Can do and has to do",
        "Records/s: what a vertex could process if always busy, and what it has to sustain.",
        {
            f"{_VERTEX} can": _per_vertex("vertex_true_processing_rate"),
            f"{_VERTEX} has to": _per_vertex("vertex_target_data_rate"),
        },
        unit="cps",
    ),
    Panel(
        "Bounds of tolerated rates",
        "Records/s of processing below which a vertex goes up, and above which it goes down.",
        {
            f"{_VERTEX} up below": _per_vertex("vertex_scale_up_rate_threshold"),
            f"{_VERTEX} down above": _per_vertex("vertex_scale_down_rate_threshold"),
        },
        unit="cps",
    ),
    Panel(
        "Lag",
        "Records waiting at a source.",
        {_VERTEX: _per_vertex("vertex_lag")},
        unit="short",
    ),
    Panel(
        "Lag in time",
        "Records waiting, over what arrives, beside what slo.lag calls acceptable.",
        {
            _VERTEX: f"max by (vertex_id, vertex_name) ({_of('vertex_lag')} / ({_of('vertex_target_data_rate')} > 0))",
            "acceptable": f"max({_of('job_lag_limit_seconds')})",
        },
        unit="s",
    ),
    Panel(
        "Catch-up",
        "Further records/s to drain the backlog in time.",
        {_VERTEX: _per_vertex("vertex_catch_up_data_rate")},
        unit="cps",
    ),
)

_DECISIONS: Final = (
    Panel(
        "Reasons",
        "Of the last decision; `flink-autoscaler glossary CODE` explains one, `explain` has the figures.",
        {"{{code}}": f"max by (code) ({_of('job_reason')})", "at its bounds": f"max({_of('job_at_bounds')})"},
        unit="none",
        width=12,
    ),
    Panel(
        "Decisions",
        "Per second: to rescale, and that the job is fine as it is.",
        {
            "rescale": f"sum(rate({_of('job_scalings_total')}[$__rate_interval]))",
            "fine": f"sum(rate({_of('job_balanced_total')}[$__rate_interval]))",
        },
        unit="cps",
        width=12,
    ),
    Panel(
        "Rescales that ended",
        "Within the interval shown by a point.",
        {"{{stage}}": f"sum by (stage) (increase({_of('job_rescales_total')}[$__rate_interval]))"},
        unit="none",
    ),
    Panel(
        "Rescale under way",
        "Time since the rescale that is under way was decided; 0 where none is.",
        {"under way": f"max({_of('job_rescale_under_way_seconds')})"},
        unit="s",
    ),
    Panel(
        "Errors and rollbacks",
        "Errors of passes over the job, and rescales that it did not survive.",
        {
            "errors": f"sum(increase({_of('job_errors_total')}[$__rate_interval]))",
            "rollbacks": f"sum(increase({_of('job_rollbacks_total')}[$__rate_interval]))",
        },
        unit="none",
    ),
    Panel(
        "Suspended",
        "What suspends the scaling of the job; `flink-autoscaler commands` says who and until when.",
        {"{{what}}": f"max by (what) ({_of('job_scaling_suspended')})"},
        unit="none",
        width=24,
    ),
)


def job() -> Json:
    """Return the dashboard."""
    variables = (
        variable("cluster", "label_values(flink_autoscaler_cluster_up, cluster)", label="Cluster", is_multi=True),
        variable(
            "job", 'label_values(flink_autoscaler_job_info{cluster=~"$cluster"}, job_key)', label="Job", is_multi=False
        ),
    )
    rows = {"Now": _NOW, "Size": _SIZES, "Load": _LOAD, "Decisions": _DECISIONS}
    text = "One job of flink-autoscaler. See docs/guide/dashboards.md."
    return dashboard("flink-autoscaler-job", "flink-autoscaler: job", text, variables, rows)
