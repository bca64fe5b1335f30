"""The codes of reasons: why a pass decided what it decided, also to do nothing."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.model.meanings.meaning import Chapter, Kind, Meaning

_SIZING: Final = Chapter(
    Kind.REASON,
    "Reasons: how large",
    "What a vertex needs, by the default policy, and what is left of that once it is aligned and delayed.",
    (
        Meaning("SIZED", "The vertex is to change: what it needs, what it can do, and what follows from both."),
        Meaning("AT_TARGET", "The same for a vertex that has what it needs."),
        Meaning("NO_CHANGE", "No vertex needs another parallelism now."),
        Meaning(
            "WITHIN_BOUNDS",
            "Something would change, but every vertex is within the band of tolerated utilization.",
            "To react earlier, narrow the band: `utilization.max`, `utilization.min`.",
        ),
        Meaning("PLANNED", "A policy other than the default wants this parallelism of the vertex."),
        Meaning(
            "SCALE_DOWN_DELAYED",
            "Less would do, and has to do for a while before less is given.",
            "Wait; the time is `scale-down.interval`.",
        ),
        Meaning(
            "SCALE_DOWN_HIGHEST",
            "The scale-down goes to the most that was wanted while it waited, not to what is wanted now.",
        ),
        Meaning(
            "SCALE_DOWN_STALE", "What was wanted while the scale-down waited is more than there is: nothing goes down."
        ),
        Meaning(
            "RAISED_TO_THRESHOLD",
            "Flink scales the job up by a minimum of subtasks only, so the vertex gets that many more.",
            "`jobmanager.adaptive-scheduler.min-parallelism-increase` of the Flink cluster.",
        ),
        Meaning(
            "RESCALE_TOO_SMALL",
            "Flink would accept the rescale and never do it, because no vertex grows by its minimum; nothing is asked.",
            "`jobmanager.adaptive-scheduler.min-parallelism-increase` of the Flink cluster.",
        ),
        Meaning(
            "IDLE_SUBTASKS",
            "A source has more subtasks than partitions. Those without one do nothing and are taken from it.",
            "More partitions, if it is to have more subtasks.",
        ),
        Meaning(
            "ALIGNMENT_TOO_FAR",
            "Key groups or partitions would be spread evenly by a much greater parallelism only, so it stays uneven.",
            "`scaling.parallelism-alignment.max-increase` allows more; a max parallelism with many divisors helps.",
        ),
        Meaning(
            "SATURATED",
            "What its upstream sends says that less would do, yet the vertex is busier than the target.",
            "If it lasts, look for a skewed key or a slow call: what it can do is less than it seems.",
        ),
        Meaning(
            "UNKNOWN_RATE",
            "What the vertex can do or has to do is not known, so that it stays as it is.",
            "Look at `explain` for what is missing.",
        ),
        Meaning("BOTTLENECK", "A vertex that cannot grow limits what the rest of the job is sized for."),
        Meaning(
            "SCALING_LIMITED",
            "A vertex needs more than it may have.",
            "Raise `vertex.max-parallelism`, the partitions, or the max parallelism of the job.",
        ),
        Meaning(
            "INEFFECTIVE_SCALING",
            "The last scale-up of the vertex brought too little, so that there is no further one.",
            "Find what limits it; or switch `scaling.effectiveness.detection.enabled` off.",
        ),
        Meaning(
            "DATA_SKEW",
            "One subtask has the work of the vertex, and its last scale-up has not changed that: it is not scaled up "
            "until its subtasks are busy alike.",
            "Spread the hot key (a salted key, two-phase aggregation) or the partition.",
        ),
        Meaning("INEFFECTIVE_SCALE_UP", "The same, where the default sizing is one of several policies."),
        Meaning(
            "EXCLUDED",
            "The vertex is not scaled: it is excluded, has finished, or reports no busy time.",
            "`vertex.exclude.ids` and `vertex.exclude.names` say which are.",
        ),
        Meaning(
            "ALIGNMENT_MODE",
            "A mode of alignment is not installed or cannot be used; the target was aligned without.",
            "Correct `scaling.parallelism-alignment.mode` or install the plug-in.",
        ),
        Meaning(
            "MEMORY_PRESSURE",
            "Garbage collection or heap usage is above its threshold: nothing is scaled.",
            "Give the TaskManagers more memory; thresholds: `memory.gc-pressure.threshold`, "
            "`memory.heap-usage.threshold`.",
        ),
    ),
)

_LIMITS: Final = Chapter(
    Kind.REASON,
    "Reasons: what limits or holds back a plan",
    "A plan is there, and something lets less of it through, or nothing.",
    (
        Meaning(
            "SOURCE_LAG_UNKNOWN",
            "Nobody who was asked knows the lag of a source; nothing of the job is scaled down in this pass.",
            "The text says who was asked and what is wrong; `lag.sources` names who is asked.",
        ),
        Meaning(
            "ARRIVAL_RATE_UNKNOWN",
            "Nobody who was asked knows what arrives at a source; nothing of the job is scaled down in this pass.",
            "The text says who was asked and what is wrong; `arrival-rate.sources` names who is asked.",
        ),
        Meaning(
            "FLOOR_UNKNOWN",
            "Nobody who was asked knows the least parallelism of a vertex; nothing of the job is scaled down in this "
            "pass.",
            "The text says who was asked and what is wrong; `floor.sources` names who is asked.",
        ),
        Meaning(
            "FLOOR",
            "Somebody else gave a least parallelism that is above what the policies want, and it holds.",
            "`floor.sources` names who is asked.",
        ),
        Meaning(
            "SKEWED_PARTITION",
            "One partition has most of the lag of a source by itself; the source keeps its parallelism.",
            "Spread the keys, or add partitions.",
        ),
        Meaning(
            "HEADROOM_REACHED",
            "The cluster, its queue or its provider has not the slots for the plan: it is cut to those that are there.",
            "Give the cluster slots, or see with `jobs` who has them; the text says which.",
        ),
        Meaning(
            "HEADROOM_UNKNOWN",
            "What is left of memory or CPUs cannot be compared: the size of a TaskManager is unknown.",
        ),
        Meaning(
            "FAIR_SHARE",
            "Jobs of the cluster want more slots than are free: this one takes its share and decides again.",
            "More slots, or `slots.priority` and `slots.weight` for who comes first.",
        ),
        Meaning(
            "GIVES_SLOTS",
            "The job has more than its share of the slots while another one has too few: it is asked to give.",
            "More slots, or `slots.priority` and `slots.weight` for who keeps what it has.",
        ),
        Meaning(
            "SLOTS_MISSING",
            "The job has fewer slots than it needs at least: the text says how many are missing, and who has them.",
            "Start TaskManagers, or wait where the text says that other jobs are asked to give some.",
        ),
        Meaning(
            "WAITS_FOR_MORE_SLOTS",
            "Only some of the slots that the scale-up wants are free, and these bring less than an outage costs.",
            "Nothing; `scale-up.partial.wait` is the longest time. More slots end it at once.",
        ),
        Meaning("SLOTS_COMING", "TaskManagers were asked for and are not there yet; the plan waits for them."),
        Meaning(
            "QUOTA_REACHED",
            "The plan takes more CPUs or memory than the job may have: it is cut, or refused in the reference mode.",
            "Raise `quota.cpu` or `quota.memory`.",
        ),
        Meaning(
            "QUOTA_UNKNOWN",
            "A quota is set and cannot be checked, since CPUs or memory of a TaskManager are not known.",
            "Set them in Flink's configuration.",
        ),
        Meaning(
            "NOT_SCHEDULABLE",
            "The resource check says that the cluster has no room for the plan.",
            "More slots, or another `resource-check`.",
        ),
        Meaning(
            "RESOURCE_CHECK",
            "The resource check that is configured is not installed, and nothing was asked.",
            "Correct `resource-check` or install the plug-in.",
        ),
        Meaning(
            "NETWORK_MEMORY",
            "The scale-up is cut to what the network memory of the TaskManagers can hold.",
            "Flink: more `taskmanager.memory.network.*`, or fewer slots per TaskManager.",
        ),
        Meaning(
            "QUARANTINED",
            "This parallelism failed before: the vertex stays below it.",
            "Repair what made it fail; it is forgotten when the cluster has changed, or by `reset`.",
        ),
        Meaning(
            "BUDGET_SPENT",
            "The job has had its rescales for 24 hours.",
            "If they were right, raise `rescale.budget.per-day`; if not, widen the windows.",
        ),
        Meaning(
            "REVERSAL_DAMPED",
            "Scale-downs of the last day were taken back soon: the next one waits longer.",
            "Longer `scale-down.interval`; what counts as soon is `rescale.reversal.window`.",
        ),
        Meaning(
            "DOES_NOT_PAY",
            "The slots that a scale-down saves are worth less than its outage and that of the way back.",
            "Nothing: it is done when it pays. `scale-down.economics.factor` says how much it has to save, "
            "`slo.lag` which lag is fine.",
        ),
        Meaning(
            "DIRECTION_OFF",
            "Scaling in this direction is switched off.",
            "`scale-up.enabled`, `scale-down.enabled`.",
        ),
        Meaning("PAUSED", "A person has paused scaling in this direction.", "`resume` ends it."),
        Meaning(
            "SCALING_DISABLED",
            "The decision is advice: scaling is switched off, or an excluded period is under way.",
            "`scaling.enabled`, `excluded.periods`.",
        ),
        Meaning("VETOED", "A scaling executor, a plug-in, refused the plan.", "Ask who wrote the plug-in."),
        Meaning(
            "SCALING_EXECUTOR",
            "A scaling executor that is configured is not installed, and was left out.",
            "Correct `scaling.custom-executors` or install the plug-in.",
        ),
        Meaning(
            "REACTIVE", "Reactive mode: the plan was rounded to whole TaskManagers, with all vertices in all slots."
        ),
        Meaning("REACTIVE_UNCHANGED", "Reactive mode: in whole TaskManagers the plan changes nothing."),
    ),
)

_WAITS: Final = Chapter(
    Kind.REASON,
    "Reasons: why nothing was decided",
    "The pass ended before there was a plan, or the job is left alone.",
    (
        Meaning(
            "DISABLED",
            "The job is not looked after.",
            "`enabled: true` in the daemon's file or the job's configuration.",
        ),
        Meaning("INVALID_CONFIG", "An option of the job cannot be used.", "Correct what the sentence names."),
        Meaning(
            "NOT_RUNNING",
            "Not all tasks of the job run.",
            "Often more slots; else look at the exceptions of the job in Flink.",
        ),
        Meaning(
            "TASKMANAGER_LOST",
            "TaskManagers went away in the last minutes: that may be why the job does not run, or begins anew.",
            "Look at the TaskManager's log and at its machine; start another one.",
        ),
        Meaning(
            "COLLECTING", "The first metric sample of this execution was taken; one sample tells nothing of rates."
        ),
        Meaning(
            "WINDOW_FILLING",
            "The metric window is not full yet.",
            "Wait; the time is `stabilization.interval` and `metrics.window`.",
        ),
        Meaning(
            "METRICS_NOT_FRESH",
            "What Flink or Prometheus has may be old, or not all, so that it is no sample.",
            "Nothing, unless it stays: then a TaskManager or the JobManager hangs, or is not scraped.",
        ),
        Meaning(
            "SAMPLE_DOUBTED",
            "One sample of the window alone calls for the rescale: the next pass decides again.",
            "Nothing, unless it comes again and again; `explain` says which vertex.",
        ),
        Meaning(
            "FACTS_UNKNOWN",
            "Something about the cluster was not told or not as documented, and was left out.",
            "Nothing, unless it stays: then look at the log of the JobManager.",
        ),
        Meaning(
            "METRIC_EVALUATOR",
            "A custom metric evaluator is not installed or failed; the metrics were evaluated without.",
            "Correct `metrics.custom-evaluators` or the plug-in.",
        ),
        Meaning("RESCALE_UNDER_WAY", "A rescale was requested, and the job does not run with it yet."),
        Meaning("ROLLING_BACK", "A rescale is being undone, and the job is not well yet."),
        Meaning(
            "PAUSED_AFTER_ROLLBACK",
            "A rescale was undone, and the job is left alone until the cluster restarts, a time is over, or a person "
            "says so.",
            "Repair the cause, then `resume`; the time is `rollback.pause`.",
        ),
        Meaning(
            "EDITED_BY_OTHERS",
            "Somebody else changed the job's resource requirements: it is left as it is.",
            "`resume` ends that at once; the time is `rescale.respect-edits`.",
        ),
        Meaning("REFUSED_LATELY", "The cluster refused the last rescale; the next try has to wait."),
        Meaning(
            "REQUIREMENTS_UNKNOWN",
            "The cluster did not tell the resource requirements of the job in this pass.",
            "Nothing, unless it stays.",
        ),
    ),
)

_ERRORS: Final = Chapter(
    Kind.REASON,
    "Reasons: errors",
    "The pass ended with an error: the code is the kind of error, the text what happened. What was decided earlier is "
    "still applied.",
    (
        Meaning("CONFIG", "The configuration must change.", "Correct what the sentence names."),
        Meaning("NOTREADY", "The job has just started, or restarts.", "Nothing; the next pass tries again."),
        Meaning("MISSINGMETRIC", "A vertex does not report a metric that is needed.", "Wait a minute; then `once`."),
        Meaning("NOTLEADER", "Another daemon leads, so that this one leaves clusters alone."),
        Meaning("FLINKREST", "The cluster did not answer as documented.", "Look at the log of the JobManager."),
        Meaning("CONNECT", "Nobody answered at the URL of the cluster, or not in time.", "`check-config --connect`."),
        Meaning("RESPONSE", "An answer is not what Flink sends: a proxy, a page, or too large.", "Check the URL."),
        Meaning("REFUSED", "The cluster answered with an error.", "The text has what Flink says."),
        Meaning("JOBGONE", "The cluster does not know the job any more."),
        Meaning("STORE", "State could not be read or written.", "`db check`, and the log of the database."),
        Meaning(
            "REALIZE", "A decision could not be applied.", "The text has what Flink says; the next pass tries again."
        ),
        Meaning("PLUGIN", "A plug-in raised, or returned something unusable.", "Ask who wrote the plug-in."),
        Meaning("EVALUATION", "The metrics of the job do not allow a decision.", "Look at `explain`."),
        Meaning("AUTOSCALER", "Something else went wrong.", "The text says what."),
    ),
)

_POLICIES: Final = Chapter(
    Kind.REASON,
    "Reasons: policies",
    "What the policy says for what it wants, and how that becomes a plan.",
    (
        Meaning("SCALE_UP", "The policy wants more; the text says why."),
        Meaning("SCALE_DOWN", "The policy wants less; the text says why."),
        Meaning(
            "LOOKS_AGAIN",
            "A policy suspects that the job is too small and asks for a pass before the next one is due.",
            "Nothing; `early-pass.delay` and `early-pass.per-hour` say how soon and how often.",
        ),
        Meaning("EARLY_PASS", "The pass came before it was due, because a policy of the job named had asked for it."),
        Meaning("NO_OPINION", "No policy of the job has an opinion in this pass.", "See what each of them says."),
        Meaning("DOWN_BLOCKED", "A policy lets nothing go down now."),
        Meaning("POLICY_FAILED", "A policy failed and abstains; nothing goes down without it.", "Ask who wrote it."),
        Meaning("METRIC_MISSING", "A metric that the policy needs is not there; it abstains."),
        Meaning("INCOMPLETE_WINDOW", "Not all metrics of the window are there; the policy abstains."),
        Meaning(
            "LAG_UNKNOWN",
            "The source does not report its lag; only backpressure tells whether it falls behind.",
            "A connector that reports `pendingRecords`.",
        ),
        Meaning(
            "HELD_BACK",
            "A source of unknown lag is backpressured and never waits for records: it falls behind.",
            "A connector that reports `pendingRecords` tells by how much, so that one step is enough.",
        ),
        Meaning("PROCESSING_BACKLOG", "Records wait: nothing is scaled down."),
        Meaning("CATCHING_UP", "The job works off its backlog in time; how busy it is says nothing meanwhile."),
        Meaning("SETTLING", "The metric window still has samples of working off a backlog."),
        Meaning("BEHIND", "The backlog is not worked off in time; nothing is scaled down meanwhile."),
        Meaning("NO_THROUGHPUT", "The sources read nothing, so that nothing can be said about their rate."),
        Meaning("WARM_UP", "The policy waits until the job has run for some time (ds2, varga)."),
        Meaning("ACTIVATION", "ds2: so many evaluations in a row have to say the same.", "`ds2.activation-intervals`."),
        Meaning("MINOR_CHANGE", "ds2: no vertex would change by enough subtasks."),
        Meaning("FRUITLESS", "ds2: the last scale-ups brought next to nothing: no more of them."),
        Meaning("TARGET_RATE_RATIO", "ds2: more arrives than busy time explains; targets are raised by that ratio."),
        Meaning("SKEW_SUSPECTED", "ds2: one subtask does far more than the average one.", "Look for a hot key."),
        Meaning("BETWEEN_SYNCS", "varga: as in the pass before, until the next evaluation.", "`varga.sync-period`."),
        Meaning("STABILIZED", "varga: what was advised within the stabilization window counts."),
        Meaning("RATE_LIMITED", "varga: the rate limits allow a part of the change now."),
        Meaning("VARGA_ADVICE", "varga: the metric against its target, and what that advises."),
        Meaning("PLAN_HOLDS", "The plan of `schedule.plans` that holds now."),
        Meaning("PLAN_BEGINS", "A plan of `schedule.plans` that begins so soon that the rescale has to begin now."),
        Meaning("PLAN_BOUNDS", "What the policy wants is brought within what is planned for this time."),
        Meaning("FORECAST_HIGHER", "proactive: more is expected soon than arrives now, and is sized for."),
        Meaning("FORECAST_ABSENT", "proactive: there is no forecast to rely on; sized for what arrives now."),
        Meaning(
            "FORECAST_DISABLED",
            "A source is planned without a forecast: there is no profile, or it has missed too often.",
            "Wait for the next nightly profile; the text says what is wrong.",
        ),
        Meaning(
            "FORECAST_UNUSED",
            "Forecasts are on and no policy of the job looks at them.",
            "Choose the policy `proactive` or `slo` in `policy`.",
        ),
    ),
)

_SLO: Final = Chapter(
    Kind.REASON,
    "Reasons: the policy slo",
    "The policy compares what each size would cost over the next hours: slots, lateness and rescales, in slot-seconds.",
    (
        Meaning("SLO_LEARNING", "The policy has seen too little of the job; it abstains.", "Wait some minutes."),
        Meaning("SLO_SIZE", "What arrives and what the job can do, in slots of work, and how late the job is."),
        Meaning("SLO_NOISE", "How far the load, its forecasts and the measured capacity stray; it asks for head-room."),
        Meaning("SLO_FORECAST", "What the forecasts expect, and how much each is believed."),
        Meaning("SLO_COST", "What one size would cost over the next hours, term by term; there is one for each shown."),
        Meaning("SLO_STAYS", "No other size is cheaper than the present one."),
        Meaning("SLO_WAITS", "Another size is cheaper than the present one for good, but not dearer in five minutes."),
        Meaning("SLO_UP", "A larger size is cheaper: how late the job would be if it stays, and if it goes."),
        Meaning(
            "SLO_DOWN_WAITS",
            "A smaller size is cheaper, and waiting for it has not yet cost as much as the rescale would.",
            "Nothing; the text says what is lacking. `slo.patience` sets the share of the price.",
        ),
        Meaning("SLO_DOWN", "The job goes down: what it could have saved has paid for the rescale."),
        Meaning(
            "SLO_PRICE",
            "What a second above `slo.lag` and a rescale cost now, how late the job was in the last days, and what has "
            "to be forgone before a scale-down.",
            "`slo.late-weight`, `slo.rescale-price`, `slo.rescales-per-day` and `slo.small-rescales` set the prices; "
            "lateness beyond `slo.error-budget` makes the first one dearer. `slo.patience` sets the share of a "
            "scale-down's price that is waited for, half of it on a day whose scale-downs have lasted.",
        ),
        Meaning(
            "SLO_FLOOR",
            "The job meets bursts out of nothing, has nearly used up its error budget and turned round more than three "
            "times within a day, or grows faster than it can be followed and has too little left of the budget for a "
            "rescale and its undoing: it keeps the size with which the last days would have kept the budget.",
        ),
        Meaning(
            "SLO_LIMITED", "More arrives than the greatest size that the bounds allow can do.", "Raise the bounds."
        ),
        Meaning("SLO_QUIET", "Nothing has changed since sizes were compared last; it is done again soon."),
    ),
)

REASONS: Final = (_SIZING, _LIMITS, _WAITS, _ERRORS, _POLICIES, _SLO)
