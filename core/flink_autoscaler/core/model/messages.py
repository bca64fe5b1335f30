"""The sentences of reasons: one template beside each code, rendered when somebody reads the text.

A template names figures and words in braces, with a format of Python or one of :data:`_FORMATS`. A part in square
brackets is left out where one of its names is not given; what follows a bar in it takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from string import Formatter
from typing import Any, Final

from flink_autoscaler.core.model.numbers import plain, three_digits, two_decimals

Word = str | float


class ReasonCode(StrEnum):
    """Stable codes of reasons, each with the template of its sentence."""

    template: str

    def __new__(cls, code: str, template: str) -> ReasonCode:
        """Keep the template beside the code."""
        member = str.__new__(cls, code)
        member._value_, member.template = code, template
        return member

    SIZED = (
        "SIZED",
        "needs {needed_rate:plain} records/s, has {processing_rate:plain} at parallelism {current}: "
        "factor {factor:two}, wanted {wanted}, within limits {within_limits}, aligned {aligned}",
    )
    AT_TARGET = (
        "AT_TARGET",
        "needs {needed_rate:plain} records/s, has {processing_rate:plain} at parallelism {current}: "
        "factor {factor:two}, wanted {wanted}, within limits {within_limits}, aligned {aligned}",
    )
    NO_CHANGE = (
        "NO_CHANGE",
        "[parallelism stays {current:.0f}: utilization and change of the lag|no vertex needs another parallelism now]",
    )
    WITHIN_BOUNDS = (
        "WITHIN_BOUNDS",
        "every vertex that would change is within its utilization bounds[: {vertex} is {load:.0%} busy, "
        "head-room left: {headroom:.0%}; {condition}it is scaled up above {limit:.0%} (utilization.max)]",
    )
    PROCESSING_BACKLOG = (
        "PROCESSING_BACKLOG",
        "[the job is processing a backlog, so nothing is scaled down: {waiting}|{phase}: nothing is scaled down]",
    )
    EXCLUDED = ("EXCLUDED", "the vertex is excluded, has finished, or reports no busy time")
    IDLE_SUBTASKS = (
        "IDLE_SUBTASKS",
        "{idle_subtasks:.0f} of its {subtasks} subtasks have nothing to read: it has {partitions:.0f} partitions",
    )
    PLANNED = (
        "PLANNED",
        "has parallelism {current}: its policies want {asked}, one step allows {wanted}, within limits "
        "{limited}, aligned {aligned}",
    )
    ALIGNMENT_MODE = ("ALIGNMENT_MODE", "{problem}")
    ALIGNMENT_TOO_FAR = (
        "ALIGNMENT_TOO_FAR",
        "stays at {parallelism:.0f}: its {spread} would be spread evenly by {even:.0f} only, which is "
        "more than {max_increase:.0%} above that ({option})",
    )
    INEFFECTIVE_SCALING = ("INEFFECTIVE_SCALING", "its last scale-up had too little effect")
    SATURATED = ("SATURATED", "it is busier than the target although its upstream says it needs less")
    SCALE_DOWN_DELAYED = ("SCALE_DOWN_DELAYED", "waits {interval} before it is scaled down")
    SCALE_DOWN_STALE = ("SCALE_DOWN_STALE", "an older recommendation exceeds the current parallelism")
    SCALE_DOWN_HIGHEST = (
        "SCALE_DOWN_HIGHEST",
        "{highest:.0f} instead of {wanted_now:.0f}: the most that was wanted within the last {interval} "
        "counts (scale-down.interval)",
    )
    PAUSED = ("PAUSED", "scaling {direction} is paused by {who}: {why}")
    DIRECTION_OFF = ("DIRECTION_OFF", "scaling {direction} is switched off (scale-{direction}.enabled)")
    QUARANTINED = (
        "QUARANTINED",
        "parallelism {failed:.0f} failed ({cause}); at most {limit:.0f} until the cluster has changed",
    )
    BUDGET_SPENT = (
        "BUDGET_SPENT",
        "{used:.0f} rescales within a day; at most {limit:.0f} rescales[, {rest}] (rescale.budget.per-"
        "day {budget:.0f})",
    )
    DOES_NOT_PAY = (
        "DOES_NOT_PAY",
        "it saves {saved:.0f} slot-seconds ({slots:.0f} slots for {hold:.0f} s) and costs {cost:.0f}: "
        "outages of {outage_down:.0f} s, {late:.0f} s above the lag limit; it has to save {factor:g} "
        "times its cost",
    )
    NETWORK_MEMORY = (
        "NETWORK_MEMORY",
        "{needed} network buffers needed on a TaskManager, {limit} of {mebibytes:.0f} MiB may be taken",
    )
    WAITS_FOR_MORE_SLOTS = (
        "WAITS_FOR_MORE_SLOTS",
        "{available:.0f} of the {wanted:.0f} more slots that it wants can be had: half of them are worth a rescale",
    )
    RESOURCE_CHECK = ("RESOURCE_CHECK", "{problem}")
    NOT_SCHEDULABLE = ("NOT_SCHEDULABLE", "the cluster has no room for {needed} slots, {used} are in use")
    QUOTA_UNKNOWN = ("QUOTA_UNKNOWN", "a quota is set but not checked: CPU or memory of a TaskManager is not known")
    QUOTA_REACHED = (
        "QUOTA_REACHED",
        "Resource usage is above the allowed limit for scaling operations. Please adjust the quota by hand.",
    )
    HEADROOM_UNKNOWN = (
        "HEADROOM_UNKNOWN",
        "what {source} has left is not checked for {limits}: not known for a TaskManager",
    )
    HEADROOM_REACHED = ("HEADROOM_REACHED", "{limit}")
    SCALING_EXECUTOR = ("SCALING_EXECUTOR", "{problem}")
    VETOED = ("VETOED", "Scaling was vetoed by the scaling executor {executor!r} ({identity})")
    REACTIVE_UNCHANGED = (
        "REACTIVE_UNCHANGED",
        "reactive mode: {slots} slots are {taskmanagers} TaskManagers of {size}, which changes nothing",
    )
    REACTIVE = (
        "REACTIVE",
        "reactive mode: {slots} slots are {taskmanagers} TaskManagers of {size}; all vertices run in all slots",
    )
    RAISED_TO_THRESHOLD = ("RAISED_TO_THRESHOLD", "{raised:.0f} instead of {wanted:.0f}: {problem}")
    RESCALE_TOO_SMALL = ("RESCALE_TOO_SMALL", "{problem}")
    SCALING_DISABLED = ("SCALING_DISABLED", "{what}")
    MEMORY_PRESSURE = (
        "MEMORY_PRESSURE",
        "{subject} {value:plain} is above the limit {option} for scaling. Please adjust the memory of "
        "the TaskManagers by hand.",
    )
    FAIR_SHARE = (
        "FAIR_SHARE",
        "the jobs of the cluster want {wanted} more slots and {free} are free: this one may take {share}"
        " of the {own} it wants and decides again",
    )
    SLOTS_MISSING = ("SLOTS_MISSING", "{lack}; {free}; {donors}")
    SLOTS_COMING = (
        "SLOTS_COMING",
        "{free} slots are free and {coming} are coming with {taskmanagers} TaskManagers, asked for {waited:.0f} s ago",
    )
    SAMPLE_DOUBTED = (
        "SAMPLE_DOUBTED",
        "would go from {present:.0f} to {planned:.0f}, but {otherwise} {without}; the next pass decides",
    )
    GIVES_SLOTS = ("GIVES_SLOTS", "it gives {gives:.0f} of its {slots:.0f} slots to {claimants}")
    UNKNOWN_RATE = ("UNKNOWN_RATE", "its processing rate or target rate is unknown")
    BOTTLENECK = ("BOTTLENECK", "{bottleneck} sustains only {share:two} of the target rates")
    DATA_SKEW = (
        "DATA_SKEW",
        "{vertex} is not scaled up: one subtask is {shown:.0%} busy, the mean of all {subtasks} is "
        "{mean:.0%}, and {subtasks} instead of {before:.0f} have not changed that: a hot key or "
        "partition is not spread over more subtasks",
    )
    FORECAST_HIGHER = (
        "FORECAST_HIGHER",
        "{vertex}: {soon:.6g} records/s expected soon, {later:.6g} later, {now:.6g} arrive now",
    )
    SCALE_UP = (
        "SCALE_UP",
        "[{vertex}: {current:.0f} -> {target:.0f} for {capacity:.6g} records/s|{current:.0f} -> "
        "{target:.0f}: utilization and change of the lag]",
    )
    SCALE_DOWN = (
        "SCALE_DOWN",
        "[{vertex}: {current:.0f} -> {target:.0f} for {capacity:.6g} records/s|{current:.0f} -> "
        "{target:.0f}: utilization and change of the lag]",
    )
    SCALING_LIMITED = (
        "SCALING_LIMITED",
        "{vertex}[: needs {wanted:.6g} subtasks, but may have {limit:.0f}| is the bottleneck at its "
        "greatest parallelism {max_parallelism}]",
    )
    VARGA_ADVICE = (
        "VARGA_ADVICE",
        "{metric} is {ratio:.3g} times its target, which advises {target:.0f} instead of {current:.0f}",
    )
    BETWEEN_SYNCS = ("BETWEEN_SYNCS", "as {age:.0f} s ago (varga.sync-period)")
    WARM_UP = ("WARM_UP", "not all tasks have been running for a minute")
    NO_THROUGHPUT = ("NO_THROUGHPUT", "the sources read nothing")
    CATCHING_UP = ("CATCHING_UP", "the job works off its backlog in time; how busy it is says nothing meanwhile")
    BEHIND = ("BEHIND", "the backlog is not worked off in time; nothing is scaled down meanwhile")
    SETTLING = ("SETTLING", "the metric window still has samples of working off a backlog")
    STABILIZED = ("STABILIZED", "{advised} is advised; recommendations of the window make it {stabilized}")
    RATE_LIMITED = ("RATE_LIMITED", "{advised} is advised; rate limits allow {allowed} now")
    PLAN_HOLDS = ("PLAN_HOLDS", "planned: {plan}")
    PLAN_BEGINS = ("PLAN_BEGINS", "planned, and a rescale takes until then: {plan}")
    PLAN_BOUNDS = ("PLAN_BOUNDS", "{vertex}: {before} -> {after} as planned")
    FLOOR = ("FLOOR", "at least {floor} subtasks, by floor.sources")
    DOWN_BLOCKED = ("DOWN_BLOCKED", "{policy}: no scale-down now")
    NO_OPINION = ("NO_OPINION", "the policy has no opinion")
    POLICY_FAILED = ("POLICY_FAILED", "the policy {policy} failed: {error}")
    NOT_RUNNING = ("NOT_RUNNING", "[the job is {status}, not RUNNING with all tasks|not all tasks of the job run]")
    INCOMPLETE_WINDOW = (
        "INCOMPLETE_WINDOW",
        "[{policy}: the metric window is not full yet|{vertex}: not all metrics of the window are there]",
    )
    METRIC_MISSING = ("METRIC_MISSING", "[{vertex}: no {metric}|there is no sample of all running vertices yet]")
    LAG_UNKNOWN = ("LAG_UNKNOWN", "{vertex}: the lag is not known")
    HELD_BACK = (
        "HELD_BACK",
        "{source} is backpressured and its lag is not known: it falls behind, and nothing is scaled down",
    )
    SLO_LEARNING = (
        "SLO_LEARNING",
        "[{state}: a few minutes of samples are needed|a few minutes of samples are needed before "
        "anything can be said]",
    )
    SLO_LIMITED = (
        "SLO_LIMITED",
        "the greatest size that the bounds allow can do {capacity:.3g} of {demand:.3g} slots of work",
    )
    SLO_QUIET = (
        "SLO_QUIET",
        "the load is as expected and the job keeps pace: sizes are compared again in {next:.0f} s at the latest",
    )
    SLO_SIZE = (
        "SLO_SIZE",
        "{slots:.0f} slots can do {capacity:.3g} slots of work, {demand:.3g} arrive, lag [{lag:.4g} s|unknown]",
    )
    SLO_STAYS = ("SLO_STAYS", "{slots:.0f} slots stay: no other size is cheaper over the next hours")
    SLO_UP = (
        "SLO_UP",
        "to {target:.0f} slots {when}: over the next hours that costs {saved:.3g} slot-hours less than to stay",
    )
    SLO_DOWN = ("SLO_DOWN", "to {target:.0f} slots now: what they would have saved has paid for the rescale")
    SLO_DOWN_WAITS = (
        "SLO_DOWN_WAITS",
        "{target:.0f} slots would save {fewer}[ and pay for the rescale in {minutes:.0f} min|: the job "
        "goes down once it is known to be in time]",
    )
    SLO_FORECAST = (
        "SLO_FORECAST",
        "the next hour is expected at {low:.3g} to {high:.3g}, {often:.0f} % of the time below {beyond:.3g}: {shares}",
    )
    SLO_COST = ("SLO_COST", "{slots:.0f} slots[, {best},] in slot-hours: {terms}")
    SLO_BUDGET = (
        "SLO_BUDGET",
        "{used_percent:.0f} % of the week's error budget used: planned for {quantile_percent:.1f} % of "
        "what may come[; its outage of {outage_shown:.0f} s and {replay:.0f} s that are read again make "
        "every rescale late, by {late:.0f} s at best]",
    )
    METRICS_NOT_FRESH = ("METRICS_NOT_FRESH", "{doubt}; no sample was taken")
    FACTS_UNKNOWN = ("FACTS_UNKNOWN", "this is not known, and was left out: {facts}")
    FORECAST_DISABLED = ("FORECAST_DISABLED", "planned without a forecast: {problem}")
    FORECAST_UNUSED = ("FORECAST_UNUSED", "{problem}")
    WINDOW_FILLING = ("WINDOW_FILLING", "the metric window is not full yet")
    COLLECTING = ("COLLECTING", "the first metric sample of this execution was taken")
    DISABLED = ("DISABLED", "{option} is not true")
    INVALID_CONFIG = ("INVALID_CONFIG", "{problem}")
    TASKMANAGER_LOST = ("TASKMANAGER_LOST", "the cluster lost {lost} of its {before} TaskManagers")
    METRIC_EVALUATOR = ("METRIC_EVALUATOR", "{problem}")
    SOURCE_LAG_UNKNOWN = ("SOURCE_LAG_UNKNOWN", "the lag is unknown, so nothing is scaled down: {cause}")
    SKEWED_PARTITION = (
        "SKEWED_PARTITION",
        "{partition} has most of the lag by itself ({origin}); no parallelism helps one partition",
    )
    ARRIVAL_RATE_UNKNOWN = ("ARRIVAL_RATE_UNKNOWN", "the {what} is unknown, so nothing is scaled down: {cause}")
    FLOOR_UNKNOWN = ("FLOOR_UNKNOWN", "the {what} is unknown, so nothing is scaled down: {cause}")
    EDITED_BY_OTHERS = ("EDITED_BY_OTHERS", "somebody else changed the requirements; left alone for {left} s more")
    RESCALE_UNDER_WAY = ("RESCALE_UNDER_WAY", "the rescale {change} is {stage}")
    ROLLING_BACK = ("ROLLING_BACK", "the job is not well yet after a rollback: {cause}")
    REFUSED_LATELY = ("REFUSED_LATELY", "the last rescale was {stage}; it is {left} s until the next try")
    REQUIREMENTS_UNKNOWN = (
        "REQUIREMENTS_UNKNOWN",
        "the cluster did not tell the resource requirements of the job in this pass",
    )
    PAUSED_AFTER_ROLLBACK = ("PAUSED_AFTER_ROLLBACK", "paused since a rollback: {cause}; {resume}")


_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "plain": plain,
    "two": two_decimals,
    "three": three_digits,
    "percent": lambda value: f"{100 * value:.0f} %",
}
_PARTS: Final = re.compile(r"\[([^\[\]]*)\]")


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        own = _FORMATS.get(format_spec)
        return format(value, format_spec) if own is None else own(value)


_SENTENCES: Final = _Sentences()


def render_reason(code: str, values: Mapping[str, Any]) -> str:
    """Return the sentence of a code of the catalog.

    Args:
        code: Of the catalog.
        values: Figures and words by name; ``said_by`` is put in front of the sentence.

    Raises:
        KeyError: A value is missing that the sentence needs.
    """
    # Parts are rendered apart: what a word says may have brackets of its own.
    pieces = _PARTS.split(ReasonCode[code].template)
    text = "".join(
        _render(piece, values) if number % 2 == 0 else _alternative(piece, values)
        for number, piece in enumerate(pieces)
    )
    return f"{values['said_by']}: {text}" if "said_by" in values else text


def _alternative(part: str, values: Mapping[str, Any]) -> str:
    first, _, other = part.partition("|")
    try:
        return _render(first, values)
    except KeyError:
        return _render(other, values)


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _SENTENCES.vformat(template, (), values)
