"""The kinds of events: what happened to a job that a person may want to know."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.meanings.meaning import Chapter, Kind, Meaning

_RESCALES: Final = Chapter(
    Kind.EVENT,
    "Events: rescales",
    "Decided, requested, followed until something came of them: `events` shows them, the log has `autoscaler_event`.",
    (
        Meaning("ScalingReport", "A change was decided, or is advice: what each vertex can do before and after."),
        Meaning("Scaling", "Flink was asked for new bounds of the parallelism, and accepted the request."),
        Meaning("RescaleReached", "The job runs with what was asked for."),
        Meaning(
            "RescaleConfirmed",
            "The job has been well on probation, and is better off than before its rescale as far as that is known.",
        ),
        Meaning(
            "RescaleIneffective",
            "The job survives its rescale, but is no better off: more records wait than before it and they do not "
            "become fewer, or a vertex that was scaled up is as busy as it was.",
            "Find what limits the job: a hot key, the system behind a sink, too few partitions.",
        ),
        Meaning(
            "RescalePartiallyReached",
            "The job runs with less than was asked for, for want of slots; the rest is not asked for any more.",
            "More slots, if it needs them.",
        ),
        Meaning(
            "RescaleRefused",
            "The cluster did not carry the rescale out; what was before is asked for again.",
            "The text says why; the next try waits longer each time.",
        ),
        Meaning(
            "TaskManagerLost",
            "TaskManagers of the cluster went away; a job that ran there starts again with the slots that are left.",
            "Look at the TaskManager's log and at its machine; start another one.",
        ),
        Meaning(
            "LagUnknown",
            "Nobody who was asked knows the lag of a source; nothing of the job is scaled down meanwhile.",
            "The text says who was asked and what is wrong: brokers away, no rights, no commits.",
        ),
        Meaning(
            "NumberUnknown",
            "Nobody who was asked knows an arrival rate or a least parallelism; nothing of the job is scaled down "
            "meanwhile.",
            "The text says who was asked and what is wrong.",
        ),
        Meaning(
            "SkewedPartition",
            "One partition has most of the lag of a source by itself; the source keeps its parallelism.",
            "Spread the keys, or add partitions.",
        ),
        Meaning(
            "RescaleStuck",
            "The rescale was accepted and takes much longer than it should.",
            "Look for free slots, TaskManagers that hang, and checkpoints that fail.",
        ),
        Meaning("RescaleSuperseded", "Something else overtook the rescale: a person, another decision, another job."),
        Meaning(
            "ProbationAbandoned",
            "The job was not well for a day after its rescale, for other reasons; it is not judged any more.",
            "Look at the exceptions of the job in Flink.",
        ),
        Meaning(
            "RequirementsLost", "The JobManager was restarted and has forgotten the requirements; they are sent again."
        ),
        Meaning(
            "RequirementsEdited",
            "Somebody else changed the job's resource requirements: the job is left as it is for "
            "`rescale.respect-edits`.",
            "Nothing, or `resume` to scale it again at once.",
        ),
        Meaning(
            "RequirementsRestored",
            "One answer of the cluster told of a change of the resource requirements, and the next one did not: the "
            "job is scaled again.",
        ),
        Meaning(
            "RescaleNotSupported",
            "The cluster cannot change the parallelism of the job in place.",
            "Flink 1.18 or later with `jobmanager.scheduler: adaptive`.",
        ),
        Meaning(
            "ConfigNotApplied",
            "Tuned configuration cannot be applied to a job that runs.",
            "Set it yourself and restart the job.",
        ),
    ),
)

_ROLLBACKS: Final = Chapter(
    Kind.EVENT,
    "Events: rollbacks",
    "A rescale that a job does not survive is undone.",
    (
        Meaning("RollbackStarted", "A sign was found that the job does not survive its rescale, which is undone."),
        Meaning("RollbackRetried", "The job is not well after the rollback; its first parallelism is tried."),
        Meaning(
            "RolledBack",
            "The job runs again with what it had, or with as much of it as there are slots for; it is left alone now.",
            "Repair the cause, then `resume`.",
        ),
        Meaning(
            "RollbackFailed",
            "The job is not well after the rollback either.",
            "This needs a person: look at the exceptions of the job, then `resume`.",
        ),
        Meaning(
            "RollbackImpossible",
            "There is nothing to go back to, or the job has failed for good.",
            "Start the job again, with less parallelism where the text says so.",
        ),
        Meaning(
            "RollbackAdvised",
            "A rescale should be undone and is not: a dry run is on, or rollback is off.",
            "`rollback.enabled`, or go back by hand.",
        ),
        Meaning("ScalingResumed", "The pause after a rollback is over."),
    ),
)

_ORDERS: Final = Chapter(
    Kind.EVENT,
    "Events: orders of people",
    "What people have ordered; who and why is in the text.",
    (
        Meaning("Paused", "Scaling is paused.", "`resume` ends it."),
        Meaning("Resumed", "Scaling goes on."),
        Meaning("Pinned", "Vertices are kept at a parallelism.", "`unpin` ends it."),
        Meaning("Unpinned", "Pinned vertices are free again: they stay as they are until load says otherwise."),
        Meaning(
            "PinMatchesNothing",
            "A pin matches no vertex of the job.",
            "`unpin` it, and pin the name that `jobs` shows.",
        ),
        Meaning("RollbackOrdered", "The last rescale is to be undone in the next pass."),
        Meaning("ResetOrdered", "Everything learned about the job is to be forgotten in the next pass."),
        Meaning("StateReset", "It is forgotten."),
        Meaning("DryRunOn", "The job is watched and nothing is changed.", "`dry-run JOB --off` ends it."),
        Meaning("DryRunOff", "The dry run is over."),
    ),
)

_LIMITED: Final = Chapter(
    Kind.EVENT,
    "Events: scaling is limited or held back",
    "The reasons of the same name have the figures; an event is told once per `scaling.event.interval`.",
    (
        Meaning("HeadroomReached", "The cluster has not the slots for the plan.", "More slots; see who has them."),
        Meaning("GivesSlots", "The job gives slots to others that have too few.", "More slots, or `slots.priority`."),
        Meaning(
            "SlotsMissing", "The job has fewer slots than it needs at least.", "Start TaskManagers; see who has them."
        ),
        Meaning("ScaleUpWaits", "A scale-up waits until more slots are free.", "`scale-up.partial.wait`, more slots."),
        Meaning(
            "ScalingLimited", "A vertex needs more than it may have.", "`vertex.max-parallelism`, more partitions."
        ),
        Meaning("ResourceQuotaReached", "The plan takes more than the job's quota.", "`quota.cpu`, `quota.memory`."),
        Meaning("QuotaUnknown", "A quota is set and cannot be checked.", "Tell Flink the size of a TaskManager."),
        Meaning("NotSchedulable", "The resource check says that there is no room.", "More slots, or `resource-check`."),
        Meaning("NetworkMemoryLimited", "Network memory limits the scale-up.", "More network memory in Flink."),
        Meaning("ParallelismQuarantined", "A parallelism that failed is not tried again.", "Repair the cause."),
        Meaning("RescaleBudgetSpent", "The job has had its rescales for 24 hours.", "`rescale.budget.per-day`."),
        Meaning("ReversalDamped", "Scale-downs that were taken back make the next one wait.", "`scale-down.interval`."),
        Meaning(
            "ScaleDownDoesNotPay",
            "A scale-down would cost more than it saves.",
            "Nothing; `scale-down.economics.factor` says how much it has to save.",
        ),
        Meaning("ScalingVetoed", "A scaling executor, a plug-in, refused the plan.", "Ask who wrote the plug-in."),
        Meaning("IneffectiveScaling", "A scale-up brought far less than expected.", "Find what limits the vertex."),
        Meaning(
            "DataSkew",
            "One subtask has the work of a vertex, and a scale-up has not changed that; there is no further one.",
            "Spread the hot key (a salted key, two-phase aggregation) or the partition.",
        ),
        Meaning(
            "MemoryPressure", "Garbage collection or heap usage is too high to scale.", "More memory per TaskManager."
        ),
        Meaning(
            "Configuration recommendation", "Memory settings that fit what the job uses.", "Take them over if you like."
        ),
        Meaning("SampleDoubted", "One answer alone calls for the rescale; the next passes decide.", "See `explain`."),
        Meaning(
            "ForecastUnused",
            "Forecasts are on and no policy looks at them.",
            "Choose `proactive` or `slo` in `policy`.",
        ),
    ),
)

_TASKMANAGERS: Final = Chapter(
    Kind.EVENT,
    "Events: TaskManagers",
    "Clusters whose TaskManagers the daemon starts and stops, and jobs in reactive mode.",
    (
        Meaning("TaskManagersRequested", "The provider was asked for another number of TaskManagers."),
        Meaning("TaskManagersReady", "They are there."),
        Meaning("TaskManagersMissing", "Not all of them came in time.", "Look at the provider and its queue."),
        Meaning("TaskManagerProviderFailed", "The provider did not do what it was asked for.", "The text says why."),
        Meaning("TaskManagerLimitReached", "The most TaskManagers that are allowed are there.", "Raise the maximum."),
        Meaning(
            "ReactiveModeNotRescalable",
            "The cluster runs in reactive mode, so that no parallelism can be requested.",
            "A provider for the cluster, and `autoscaler.realizer` auto.",
        ),
        Meaning("ReactiveModeLimits", "The job cannot be scaled in reactive mode.", "The text says what to change."),
        Meaning("NoTaskManagerProvider", "Nobody starts and stops the TaskManagers.", "Configure a provider."),
        Meaning("NotReactive", "The job does not run in reactive mode.", "Set `autoscaler.realizer` to auto."),
    ),
)

_PROBLEMS: Final = Chapter(
    Kind.EVENT,
    "Events: problems and housekeeping",
    "What is wrong, and what the daemon does on its own.",
    (
        Meaning("AutoscalerError", "A pass over the job ended with an error.", "The text says which."),
        Meaning(
            "ClusterUnreachable",
            "A cluster does not answer, or comes and goes; its jobs stay as they are.",
            "The text says why: address, credentials, a JobManager that is down.",
        ),
        Meaning("ClusterRecovered", "A cluster answers again."),
        Meaning(
            "AutoScaler Options Validation", "An option of the job cannot be used.", "Correct what the sentence names."
        ),
        Meaning(
            "PluginProblem", "A plug-in is missing, failed, or returned something unusable.", "The text says which."
        ),
        Meaning("ForecastsBuilt", "Load profiles were made from the history."),
        Meaning("ForecastBuildFailed", "Load profiles could not be made.", "The text says why; the next night tries."),
        Meaning(
            "ForecastBuildSkipped", "The making of profiles before is still under way.", "Give it fewer jobs or time."
        ),
        Meaning("HistoryCompacted", "Small files of the metric history were put together, old days removed."),
        Meaning("HistoryCompactionFailed", "That failed.", "The text says why; the next time tries again."),
        Meaning("NotificationTest", "Somebody tried out with `notify --test` who is told about events."),
    ),
)

EVENTS: Final = (_RESCALES, _ROLLBACKS, _ORDERS, _LIMITED, _TASKMANAGERS, _PROBLEMS)
