"""The dashboard of all daemons, clusters and jobs."""

from __future__ import annotations

from typing import Final

from dashboards.panels import (
    GREEN_FROM_ONE,
    ORANGE_FROM_ONE,
    RED_FROM_ONE,
    YES_AND_NO,
    Json,
    Panel,
    dashboard,
    variable,
)

_LATENESS: Final = (
    'max by (cluster, job_key) (flink_autoscaler_vertex_lag{cluster=~"$cluster"} '
    '/ (flink_autoscaler_vertex_target_data_rate{cluster=~"$cluster"} > 0))'
)

_NOW: Final = (
    Panel(
        "State can be written",
        "No: nothing is scaled until the database works again.",
        {"{{instance}}": "flink_autoscaler_store_up"},
        kind="stat",
        width=4,
        steps=GREEN_FROM_ONE,
        texts=YES_AND_NO,
    ),
    Panel(
        "Leads",
        "Which daemon acts. One that is alone always does.",
        {"{{instance}}": "flink_autoscaler_leader"},
        kind="stat",
        width=4,
        texts=YES_AND_NO,
    ),
    Panel(
        "Cluster answers",
        "Whether the last pass could list the jobs of the cluster.",
        {"{{cluster}}": 'max by (cluster) (flink_autoscaler_cluster_up{cluster=~"$cluster"})'},
        kind="stat",
        width=8,
        steps=GREEN_FROM_ONE,
        texts=YES_AND_NO,
    ),
    Panel(
        "Jobs that do not run",
        "Jobs whose last pass found that not all tasks run.",
        {
            "jobs": 'count(flink_autoscaler_job_pass_phase{cluster=~"$cluster", phase="not_running"}) '
            'or 0 * count(flink_autoscaler_cluster_up{cluster=~"$cluster"})'
        },
        unit="none",
        kind="stat",
        width=4,
        steps=RED_FROM_ONE,
    ),
    Panel(
        "Jobs paused after a rollback",
        "A person has to repair the cause and to resume them.",
        {
            "jobs": 'count(flink_autoscaler_job_rescale_phase{cluster=~"$cluster", phase="paused"}) '
            'or 0 * count(flink_autoscaler_cluster_up{cluster=~"$cluster"})'
        },
        unit="none",
        kind="stat",
        width=4,
        steps=ORANGE_FROM_ONE,
    ),
    Panel(
        "Alerts that fire",
        "Those of conf/prometheus/alerts.yml; the guide says what to do about each.",
        {"": 'ALERTS{alertname=~"FlinkAutoscaler.*", alertstate="firing"}'},
        kind="table",
        width=24,
        hidden=("Time", "__name__", "job", "alertstate", "Value"),
    ),
)

_JOBS: Final = (
    Panel(
        "Jobs",
        "Listed: all of a cluster. Unreadable and stuck ones are not scaled.",
        {"{{cluster}} {{kind}}": 'max by (cluster, kind) (flink_autoscaler_jobs{cluster=~"$cluster"})'},
        unit="none",
    ),
    Panel(
        "How far passes came",
        "Jobs by the phase of their last pass; executed ones are scaled, the words are explained by `glossary`.",
        {"{{phase}}": 'count by (phase) (flink_autoscaler_job_pass_phase{cluster=~"$cluster"})'},
        unit="none",
    ),
    Panel(
        "Reasons of the last decisions",
        "The ten that most jobs have; `flink-autoscaler glossary CODE` explains one.",
        {"{{code}}": 'topk(10, count by (code) (flink_autoscaler_job_reason{cluster=~"$cluster"}))'},
        unit="none",
    ),
    Panel(
        "Subtasks",
        "Parallelism of all vertices, as it is and as it is recommended.",
        {
            "{{cluster}} present": 'sum by (cluster) (flink_autoscaler_vertex_parallelism{cluster=~"$cluster"})',
            "{{cluster}} recommended": "sum by (cluster) "
            '(flink_autoscaler_vertex_recommended_parallelism{cluster=~"$cluster"} >= 0)',
        },
        unit="none",
    ),
    Panel(
        "Rescales that ended",
        "Within the interval shown by a point. Refused ones did not happen.",
        {
            "{{stage}}": "sum by (stage) "
            '(increase(flink_autoscaler_job_rescales_total{cluster=~"$cluster"}[$__rate_interval]))'
        },
        unit="none",
    ),
    Panel(
        "Rollbacks",
        "Rescales that a job did not survive, and that are undone.",
        {
            "{{job_key}}": "sum by (job_key) "
            '(increase(flink_autoscaler_job_rollbacks_total{cluster=~"$cluster"}[$__rate_interval]))'
        },
        unit="none",
    ),
    Panel(
        "Latest jobs",
        "How long the arriving records of the ten latest jobs have to wait: records that wait, over what arrives.",
        {"{{job_key}}": f"topk(10, {_LATENESS})"},
        unit="s",
    ),
    Panel(
        "Jobs with errors",
        "Errors per second of the ten jobs that have most.",
        {
            "{{job_key}}": "topk(10, sum by (job_key) "
            '(rate(flink_autoscaler_job_errors_total{cluster=~"$cluster"}[$__rate_interval])))'
        },
        unit="cps",
    ),
    Panel(
        "Jobs evaluated longest ago",
        "Jobs that are not evaluated are not scaled.",
        {
            "{{job_key}}": "topk(10, max by (job_key) "
            '(flink_autoscaler_job_last_evaluation_age_seconds{cluster=~"$cluster"}))'
        },
        unit="s",
    ),
    Panel(
        "Jobs whose scaling is suspended",
        "By people, by rollbacks, or because somebody changed them by hand; `flink-autoscaler commands` has more.",
        {"": 'flink_autoscaler_job_scaling_suspended{cluster=~"$cluster"}'},
        kind="table",
        width=24,
        hidden=("Time", "__name__", "job", "instance", "Value"),
    ),
)

_PASSES: Final = (
    Panel(
        "Passes",
        "Per second, by result and by the engine that evaluated the jobs.",
        {
            "{{cluster}} {{result}} {{engine}}": "sum by (cluster, result, engine) "
            '(rate(flink_autoscaler_passes_total{cluster=~"$cluster"}[$__rate_interval]))'
        },
        unit="cps",
    ),
    Panel(
        "Duration of a pass",
        "95 of 100 passes are shorter. Should be well below the interval of passes.",
        {
            "{{cluster}}": "histogram_quantile(0.95, sum by (cluster, le) "
            '(rate(flink_autoscaler_pass_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))'
        },
        unit="s",
    ),
    Panel(
        "Duration of a stage",
        "95 of 100 jobs are faster: collecting waits for the JobManager, the other stages compute.",
        {
            "{{stage}}": "histogram_quantile(0.95, sum by (stage, le) "
            '(rate(flink_autoscaler_stage_seconds_bucket{cluster=~"$cluster"}[$__rate_interval])))'
        },
        unit="s",
    ),
    Panel(
        "Last good pass",
        "Time since; it grows while a cluster does not answer, or a pass hangs.",
        {"{{cluster}}": 'min by (cluster) (flink_autoscaler_cluster_last_success_age_seconds{cluster=~"$cluster"})'},
        unit="s",
    ),
    Panel(
        "Passes left out",
        "They were due while the one before was still running.",
        {
            "{{cluster}}": "sum by (cluster) "
            '(increase(flink_autoscaler_pass_overruns_total{cluster=~"$cluster"}[$__rate_interval]))'
        },
        unit="none",
    ),
    Panel(
        "Parts that cannot be listed",
        "JobManagers or YARN applications that do not answer; no job of the cluster counts as gone meanwhile.",
        {"{{cluster}}": 'max by (cluster) (flink_autoscaler_list_gaps{cluster=~"$cluster"})'},
        unit="none",
    ),
)

_PROCESSES: Final = (
    Panel(
        "Memory",
        "Of each daemon, without the JVM that Spark runs in.",
        {"{{instance}}": "flink_autoscaler_process_resident_memory_bytes"},
        unit="bytes",
    ),
    Panel(
        "CPU",
        "Cores that each daemon is busy with.",
        {"{{instance}}": "rate(flink_autoscaler_process_cpu_seconds_total[$__rate_interval])"},
        unit="none",
    ),
    Panel(
        "Up since",
        "Time since the start of each daemon.",
        {"{{instance}}": "time() - flink_autoscaler_process_start_time_seconds"},
        unit="s",
    ),
    Panel(
        "Spark",
        "Passes meant for Spark that ran in the daemon.",
        {"{{instance}}": "increase(flink_autoscaler_spark_fallbacks_total[$__rate_interval])"},
        unit="none",
    ),
    Panel(
        "Values quarantined",
        "Stored values that could not be read, since the start.",
        {"{{instance}}": "flink_autoscaler_values_quarantined"},
        unit="none",
    ),
    Panel(
        "Load profiles",
        "Nightly runs that made them and that failed, since the start.",
        {
            "{{instance}} made": "flink_autoscaler_forecast_build_successes_total",
            "{{instance}} failed": "flink_autoscaler_forecast_build_failures_total",
        },
        unit="none",
    ),
)

_NOTIFICATIONS: Final = (
    Panel(
        "Notifications sent",
        "Events per second that each target took.",
        {"{{target}}": "sum by (target) (rate(flink_autoscaler_notifications_sent_total[$__rate_interval]))"},
        unit="cps",
    ),
    Panel(
        "Notifications that wait",
        "For the next message, or for a target that does not take any.",
        {"{{target}}": "sum by (target) (flink_autoscaler_notifications_waiting)"},
        unit="none",
    ),
    Panel(
        "Notifications not taken",
        "Within the interval shown by a point: messages that failed and that were sent again, events given up.",
        {
            "{{target}} failed": "sum by (target) "
            "(increase(flink_autoscaler_notifications_failed_total[$__rate_interval]))",
            "{{target}} again": "sum by (target) "
            "(increase(flink_autoscaler_notifications_retried_total[$__rate_interval]))",
            "{{target}} dropped": "sum by (target) "
            "(increase(flink_autoscaler_notifications_dropped_total[$__rate_interval]))",
        },
        unit="none",
    ),
)

_HISTORY: Final = (
    Panel(
        "History: rows written",
        "Per second. Empty where no history is kept.",
        {"{{instance}}": "rate(flink_autoscaler_history_rows_written_total[$__rate_interval])"},
        unit="cps",
    ),
    Panel(
        "History: rows that wait",
        "On their way to a file; they grow while the path cannot be written.",
        {"{{instance}}": "flink_autoscaler_history_rows_waiting"},
        unit="none",
    ),
    Panel(
        "History: given up",
        "Rows and passes lost for want of space, since the start.",
        {
            "{{instance}} rows": "flink_autoscaler_history_rows_lost_total",
            "{{instance}} passes": "flink_autoscaler_history_passes_lost_total",
        },
        unit="none",
    ),
)


def fleet() -> Json:
    """Return the dashboard."""
    cluster = variable("cluster", "label_values(flink_autoscaler_cluster_up, cluster)", label="Cluster", is_multi=True)
    rows = {
        "Now": _NOW,
        "Jobs": _JOBS,
        "Passes": _PASSES,
        "Daemons": _PROCESSES,
        "Notifications": _NOTIFICATIONS,
        "Metric history": _HISTORY,
    }
    text = "All daemons, clusters and jobs of flink-autoscaler. See docs/guide/dashboards.md."
    return dashboard("flink-autoscaler-fleet", "flink-autoscaler: fleet", text, (cluster,), rows)
