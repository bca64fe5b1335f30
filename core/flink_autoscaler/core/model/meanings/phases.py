"""The phases of passes and jobs, the stages of rescales, and what is found out about whether a job can be scaled."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.meanings.meaning import Chapter, Kind, Meaning

_PASSES: Final = Chapter(
    Kind.PHASE,
    "Phases of a pass",
    "How far the last pass over a job came: `job_phase` in the log, `once`, `explain`.",
    (
        Meaning("disabled", "The job is not looked after.", "`enabled: true`."),
        Meaning("invalid_config", "An option of the job cannot be used.", "Correct what the sentence names."),
        Meaning("not_running", "Not all tasks run.", "Often more slots."),
        Meaning("not_ready", "Something is not there yet; the next pass tries again."),
        Meaning("error", "The pass ended with an error.", "The reason says which."),
        Meaning("collecting", "The first sample of this execution was taken."),
        Meaning("window_filling", "Samples are taken; the metric window is not full yet.", "Wait."),
        Meaning("executed", "The window is full, and the pass decided: to rescale, or that nothing is to be done."),
    ),
)

_JOBS: Final = Chapter(
    Kind.JOB_PHASE,
    "Phases of a job after a rescale",
    "Whether a job is trusted to be fine after its last rescale; `explain` shows it.",
    (
        Meaning("stable", "No rescale has to be proved."),
        Meaning(
            "probation",
            "The job runs with its last rescale and has to prove itself: signs that it does not survive are looked "
            "for, and undo it. Decisions go on meanwhile.",
            "Nothing; it lasts `rollback.observation-window`.",
        ),
        Meaning("rolling back", "The last rescale is being undone."),
        Meaning("paused", "It was undone, and the job is left alone.", "Repair the cause, then `resume`."),
    ),
)

_STAGES: Final = Chapter(
    Kind.RESCALE_STAGE,
    "Stages of a rescale",
    "What has come of a rescale.",
    (
        Meaning("requested", "It was sent; the cluster has not been seen to have it."),
        Meaning("pending", "The cluster has it; the job does not run with it yet."),
        Meaning("reached", "The job runs with it."),
        Meaning("partially reached", "The job runs with less, for want of slots.", "More slots, if it needs them."),
        Meaning("refused", "It did not happen.", "The event `RescaleRefused` says why."),
        Meaning("superseded", "Something else overtook it."),
    ),
)

_FINDINGS: Final = Chapter(
    Kind.FINDING,
    "Findings: can this job be scaled?",
    "What `once` and `init` say about clusters and jobs: needed, a limit, or good to know.",
    (
        Meaning("FLINK_TOO_OLD", "Before 1.18 Flink cannot rescale a job that runs.", "Upgrade Flink."),
        Meaning(
            "SCHEDULER_NOT_ADAPTIVE",
            "Only the adaptive scheduler changes the parallelism of a job that runs.",
            "Flink: `jobmanager.scheduler: adaptive`.",
        ),
        Meaning(
            "REACTIVE_MODE",
            "The parallelism follows the TaskManagers and cannot be requested.",
            "A provider, and `autoscaler.realizer` auto.",
        ),
        Meaning("METRICS_OFF", "Flink gathers no metrics.", "Flink: `metrics.fetcher.update-interval: 10000`."),
        Meaning("NO_TASKMANAGERS", "No TaskManager is registered, so that no job can run.", "Start TaskManagers."),
        Meaning(
            "NO_FREE_SLOTS",
            "No job can grow before there are more slots.",
            "More TaskManagers, or Flink: `taskmanager.numberOfTaskSlots`.",
        ),
        Meaning(
            "MIN_INCREASE",
            "Flink scales a job up by a minimum of subtasks of a vertex only; smaller rescales wait or ask for more.",
            "Flink: `jobmanager.adaptive-scheduler.min-parallelism-increase`.",
        ),
        Meaning("FREE_SLOTS", "By how much the jobs of the cluster can grow together."),
        Meaning("CLUSTER_GROWS", "TaskManagers are added when jobs ask for more slots."),
        Meaning("NOT_ENABLED", "The job is not to be scaled.", "`enabled: true`, where the output says."),
        Meaning("ADVICE_ONLY", "Decisions about the job are advice.", "`scaling.enabled: true`."),
        Meaning("EXCLUDED_PERIODS", "Decisions are advice while an excluded period lasts.", "`excluded.periods`."),
        Meaning("INVALID_CONFIG", "An option of the job cannot be used.", "What the sentence says."),
        Meaning("NOT_RUNNING", "Not all tasks run.", "Often more slots."),
        Meaning("BATCH_JOB", "Only streaming jobs are scaled."),
        Meaning("RESCALE_REFUSED", "The cluster refuses to rescale this job.", "What the sentence says."),
        Meaning("METRIC_MISSING", "A vertex does not report what is needed.", "What the sentence says."),
        Meaning("METRICS_NOT_YET", "Not all subtasks have reported yet.", "Ask again in a minute."),
        Meaning(
            "BUSY_UNKNOWN",
            "Flink reports NaN for the busy time of a vertex.",
            "For a source: one of the new Source API.",
        ),
        Meaning(
            "LAG_UNKNOWN",
            "A backlog is invisible, and none is assumed.",
            "A connector that reports `pendingRecords`: Kafka's and Pulsar's do.",
        ),
        Meaning(
            "NO_CHECKPOINTS",
            "Every rescale starts the job with empty state.",
            "Flink: `execution.checkpointing.interval: 30s`.",
        ),
        Meaning(
            "MAX_PARALLELISM_REACHED",
            "The vertex has as many subtasks as key groups.",
            "Start the job with a higher `pipeline.max-parallelism` and new state.",
        ),
        Meaning(
            "UPPER_LIMIT_REACHED", "The vertex has reached the autoscaler's own limit.", "`vertex.max-parallelism`."
        ),
        Meaning("PARTITIONS_REACHED", "The source has a subtask for every partition.", "More partitions."),
        Meaning("ALWAYS_ONE", "A vertex can run with parallelism 1 only."),
        Meaning(
            "FEW_DIVISORS",
            "Few parallelisms spread the key groups evenly.",
            "A max parallelism with many divisors, such as 120, when the job is first started.",
        ),
        Meaning("VERTEX_EXCLUDED", "The vertex is never scaled.", "`vertex.exclude.ids`."),
        Meaning("JUST_STARTED", "The job has run for seconds only: its numbers have not settled yet."),
        Meaning("FIRST_DECISION", "When the first decision comes.", "`stabilization.interval`, `metrics.window`."),
    ),
)

PHASES: Final = (_PASSES, _JOBS, _STAGES)
FINDINGS: Final = (_FINDINGS,)
