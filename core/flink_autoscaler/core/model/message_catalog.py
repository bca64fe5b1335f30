"""The message catalog: the sentence of every reason, and what each code means and what to do about it.

A sentence is a template beside its code, rendered when somebody reads the text. Descriptions are in
``message_catalog.toml`` beside this module, read when somebody asks; the reference page is made from them.

A template names figures and words in braces, with a format of Python or one of :data:`_FORMATS`. A part in square
brackets is left out where one of its names is not given; what follows a bar in it takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
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
        "needs {needed_rate:three} records/s, capacity is {processing_rate:three} at parallelism {current}: "
        "factor {factor:two}, {wanted} wanted, {within_limits} within limits, {aligned} aligned",
    )
    AT_TARGET = (
        "AT_TARGET",
        "needs {needed_rate:three} records/s, capacity is {processing_rate:three} at parallelism {current}: "
        "factor {factor:two}, {wanted} wanted, {within_limits} within limits, {aligned} aligned",
    )
    NO_CHANGE = (
        "NO_CHANGE",
        "[parallelism stays {current:.0f}, by utilization and change of the lag|no vertex needs another parallelism]",
    )
    WITHIN_BOUNDS = (
        "WITHIN_BOUNDS",
        "no change: all vertices are within their utilization bounds[; {vertex} is {load:percent} busy, "
        "headroom is {headroom:percent}; {condition}it scales up above {limit:percent} "
        "(utilization.max)]",
    )
    PROCESSING_BACKLOG = ("PROCESSING_BACKLOG", "no scale-down: [the job processes a backlog, {waiting}|{phase}]")
    EXCLUDED = ("EXCLUDED", "the vertex is excluded, has finished, or reports no busy time")
    IDLE_SUBTASKS = (
        "IDLE_SUBTASKS",
        "{idle_subtasks:.0f} of {subtasks} subtasks read nothing: the source has {partitions:.0f} partitions",
    )
    PLANNED = (
        "PLANNED",
        "{current} → {aligned} subtasks: the policy requests {asked}, the scale factor allows {wanted}, "
        "the limits {limited}",
    )
    ALIGNMENT_MODE = ("ALIGNMENT_MODE", "{problem}")
    ALIGNMENT_TOO_FAR = (
        "ALIGNMENT_TOO_FAR",
        "stays at {parallelism:.0f}: {even:.0f} is the next parallelism that spreads {spread} evenly, "
        "and it is more than {max_increase:percent} higher ({option})",
    )
    INEFFECTIVE_SCALING = ("INEFFECTIVE_SCALING", "no scale-up: the last one had too little effect")
    SATURATED = (
        "SATURATED",
        "no scale-down: the vertex is busier than its target, although its upstream sends less than it can process",
    )
    SCALE_DOWN_DELAYED = ("SCALE_DOWN_DELAYED", "the scale-down waits for {interval} (scale-down.interval)")
    SCALE_DOWN_STALE = (
        "SCALE_DOWN_STALE",
        "no scale-down: within the interval, more than the current parallelism was recommended",
    )
    SCALE_DOWN_HIGHEST = (
        "SCALE_DOWN_HIGHEST",
        "{highest:.0f} is the highest recommendation of the last {interval} (scale-down.interval), "
        "{wanted_now:.0f} the current one",
    )
    PAUSED = ("PAUSED", "scaling {direction} is paused by {who}: {why}")
    DIRECTION_OFF = ("DIRECTION_OFF", "scaling {direction} is switched off (scale-{direction}.enabled)")
    QUARANTINED = (
        "QUARANTINED",
        "parallelism {failed:.0f} failed ({cause}); the maximum is {limit:.0f} until the cluster changes",
    )
    BUDGET_SPENT = (
        "BUDGET_SPENT",
        "{used:.0f} rescales in 24 hours; the maximum is {limit:.0f}[, {rest}] (rescale.budget.per-day {budget:.0f})",
    )
    DOES_NOT_PAY = (
        "DOES_NOT_PAY",
        "the scale-down saves {saved:.0f} slot-seconds ({slots:.0f} slots for {hold:.0f} s) and costs "
        "{cost:.0f}: downtime of {outage_down:.0f} s, {late:.0f} s above the lag limit; the required "
        "gain is {factor:g} times the cost",
    )
    NETWORK_MEMORY = (
        "NETWORK_MEMORY",
        "a TaskManager needs {needed} network buffers; its {mebibytes:.0f} MiB of network memory allow {limit}",
    )
    WAITS_FOR_MORE_SLOTS = (
        "WAITS_FOR_MORE_SLOTS",
        "{available:.0f} of {wanted:.0f} additional slots are available; the scale-up waits for half of them",
    )
    RESOURCE_CHECK = ("RESOURCE_CHECK", "{problem}")
    NOT_SCHEDULABLE = ("NOT_SCHEDULABLE", "the cluster cannot schedule {needed} slots; {used} are in use")
    QUOTA_UNKNOWN = ("QUOTA_UNKNOWN", "a quota is set and is not checked: CPU or memory of a TaskManager is unknown")
    QUOTA_REACHED = (
        "QUOTA_REACHED",
        "Resource usage is above the allowed limit for scaling operations. Please adjust the quota by hand.",
    )
    HEADROOM_UNKNOWN = (
        "HEADROOM_UNKNOWN",
        "headroom of {source} is not checked for {limits}: unknown for a TaskManager",
    )
    HEADROOM_REACHED = ("HEADROOM_REACHED", "{limit}")
    SCALING_EXECUTOR = ("SCALING_EXECUTOR", "{problem}")
    VETOED = ("VETOED", "Scaling was vetoed by the scaling executor {executor!r} ({identity})")
    REACTIVE_UNCHANGED = (
        "REACTIVE_UNCHANGED",
        "reactive mode: {slots} slots need {taskmanagers} TaskManagers of {size}, as many as there are",
    )
    REACTIVE = (
        "REACTIVE",
        "reactive mode: {slots} slots need {taskmanagers} TaskManagers of {size}; all vertices use all slots",
    )
    RAISED_TO_THRESHOLD = ("RAISED_TO_THRESHOLD", "{raised:.0f} subtasks requested instead of {wanted:.0f}: {problem}")
    RESCALE_TOO_SMALL = ("RESCALE_TOO_SMALL", "{problem}")
    SCALING_DISABLED = ("SCALING_DISABLED", "{what}")
    MEMORY_PRESSURE = (
        "MEMORY_PRESSURE",
        "{subject} {value:plain} is above the limit {option} for scaling. Please adjust the memory of "
        "the TaskManagers by hand.",
    )
    FAIR_SHARE = (
        "FAIR_SHARE",
        "the jobs of the cluster request {wanted} additional slots, {free} are free: this job may use "
        "{share} of the {own} it requests, and decides again",
    )
    SLOTS_MISSING = ("SLOTS_MISSING", "{lack}; {free}; {donors}")
    SLOTS_COMING = (
        "SLOTS_COMING",
        "{free} slots are free, {coming} more start with {taskmanagers} TaskManagers, requested {waited:.0f} s ago",
    )
    SAMPLE_DOUBTED = (
        "SAMPLE_DOUBTED",
        "{present:.0f} → {planned:.0f} subtasks are requested with all samples, but it would {otherwise}"
        " {without}; the next pass decides",
    )
    GIVES_SLOTS = ("GIVES_SLOTS", "the job releases {gives:.0f} of its {slots:.0f} slots for {claimants}")
    UNKNOWN_RATE = ("UNKNOWN_RATE", "the processing rate or the target rate is unknown")
    BOTTLENECK = ("BOTTLENECK", "limited by {bottleneck}, which sustains {share:percent} of the target rates")
    DATA_SKEW = (
        "DATA_SKEW",
        "no scale-up of {vertex}: one subtask is {shown:percent} busy, the mean of {subtasks} is "
        "{mean:percent}, and the change from {before:.0f} to {subtasks} subtasks did not help: more "
        "subtasks do not spread a hot key or partition",
    )
    FORECAST_HIGHER = (
        "FORECAST_HIGHER",
        "{vertex}: {now:.6g} records/s arrive now; {soon:.6g} are expected soon, {later:.6g} later",
    )
    SCALE_UP = (
        "SCALE_UP",
        "[{vertex}: {current:.0f} → {target:.0f} for {capacity:.6g} records/s|{current:.0f} → "
        "{target:.0f}, by utilization and change of the lag]",
    )
    SCALE_DOWN = (
        "SCALE_DOWN",
        "[{vertex}: {current:.0f} → {target:.0f} for {capacity:.6g} records/s|{current:.0f} → "
        "{target:.0f}, by utilization and change of the lag]",
    )
    SCALING_LIMITED = (
        "SCALING_LIMITED",
        "{vertex}[ needs {wanted:.6g} subtasks; the maximum is {limit:.0f}| is the bottleneck, at its "
        "maximum parallelism {max_parallelism}]",
    )
    VARGA_ADVICE = (
        "VARGA_ADVICE",
        "{metric} is {ratio:.3g} times its target: {current:.0f} → {target:.0f} subtasks recommended",
    )
    BETWEEN_SYNCS = ("BETWEEN_SYNCS", "unchanged: the last evaluation was {age:.0f} s ago (varga.sync-period)")
    WARM_UP = ("WARM_UP", "not all tasks have run for a minute")
    NO_THROUGHPUT = ("NO_THROUGHPUT", "the sources read no records")
    CATCHING_UP = (
        "CATCHING_UP",
        "the job catches up with its backlog in time; its utilization says nothing until then",
    )
    BEHIND = ("BEHIND", "no scale-down: the job does not catch up with its backlog in time")
    SETTLING = ("SETTLING", "the metric window has samples of a backlog")
    STABILIZED = (
        "STABILIZED",
        "{advised} subtasks recommended; recommendations of the stabilization window make it {stabilized}",
    )
    RATE_LIMITED = ("RATE_LIMITED", "{advised} subtasks recommended; rate limits allow {allowed}")
    PLAN_HOLDS = ("PLAN_HOLDS", "a schedule is active: {plan}")
    PLAN_BEGINS = ("PLAN_BEGINS", "a schedule is about to begin, a rescale earlier: {plan}")
    PLAN_BOUNDS = ("PLAN_BOUNDS", "{vertex}: the schedule changes {before} to {after} subtasks")
    FLOOR = ("FLOOR", "the minimum is {floor} subtasks (floor.sources)")
    DOWN_BLOCKED = ("DOWN_BLOCKED", "{policy} blocks scale-downs")
    NO_OPINION = ("NO_OPINION", "the policy has no recommendation")
    POLICY_FAILED = ("POLICY_FAILED", "the policy {policy} failed: {error}")
    NOT_RUNNING = ("NOT_RUNNING", "[the job is {status}, not RUNNING with all tasks|not all tasks of the job run]")
    INCOMPLETE_WINDOW = (
        "INCOMPLETE_WINDOW",
        "[{policy}: the metric window is not full|{vertex}: the window lacks some metrics]",
    )
    METRIC_MISSING = ("METRIC_MISSING", "[{vertex}: no {metric}|no sample of all running vertices]")
    LAG_UNKNOWN = ("LAG_UNKNOWN", "{vertex}: the lag is unknown")
    HELD_BACK = ("HELD_BACK", "no scale-down: {source} is backpressured and its lag is unknown, so it falls behind")
    SLO_LEARNING = ("SLO_LEARNING", "[{state}; |]the policy needs a few minutes of samples")
    SLO_LIMITED = (
        "SLO_LIMITED",
        "the maximum size within the bounds processes {capacity:.3g} of {demand:.3g} slots of work",
    )
    SLO_QUIET = (
        "SLO_QUIET",
        "the load is as expected and the job keeps up; the next comparison of sizes is in {next:.0f} s at most",
    )
    SLO_SIZE = (
        "SLO_SIZE",
        "{slots:.0f} slots process up to {capacity:.3g} slots of work, {demand:.3g} arrive; lag is "
        "[{lag:.4g} s|unknown]",
    )
    SLO_STAYS = ("SLO_STAYS", "{slots:.0f} slots stay: no other size is cheaper over the next hours")
    SLO_UP = (
        "SLO_UP",
        "scales up to {target:.0f} slots {when}: over the next hours they cost {saved:.3g} slot-hours "
        "less than the present size",
    )
    SLO_DOWN = ("SLO_DOWN", "scales down to {target:.0f} slots: the cost of waiting has reached that of the rescale")
    SLO_DOWN_WAITS = (
        "SLO_DOWN_WAITS",
        "{target:.0f} slots are enough and save {fewer}[; the cost of waiting reaches that of the rescale in "
        "{minutes:.0f} min|; the scale-down waits until the job is known to be in time]",
    )
    SLO_FORECAST = (
        "SLO_FORECAST",
        "expected in the next hour: {low:.3g} to {high:.3g} slots of work, below {beyond:.3g} for "
        "{often:.0f} % of the time ({shares})",
    )
    SLO_COST = ("SLO_COST", "{slots:.0f} slots[, {best},] cost in slot-hours: {terms}")
    SLO_BUDGET = (
        "SLO_BUDGET",
        "{used_percent:.0f} % of the week's error budget is used; the plan takes the {quantile_percent:.1f} % quantile "
        "of the expected demand[; a downtime of {outage_shown:.0f} s and {replay:.0f} s of replay make every rescale "
        "late by {late:.0f} s or more]",
    )
    METRICS_NOT_FRESH = ("METRICS_NOT_FRESH", "no sample taken: {doubt}")
    FACTS_UNKNOWN = ("FACTS_UNKNOWN", "decided without what is unknown: {facts}")
    FORECAST_DISABLED = ("FORECAST_DISABLED", "planned without a forecast: {problem}")
    FORECAST_UNUSED = ("FORECAST_UNUSED", "{problem}")
    WINDOW_FILLING = ("WINDOW_FILLING", "the metric window is not full")
    COLLECTING = ("COLLECTING", "the first metric sample of this execution was taken")
    DISABLED = ("DISABLED", "{option} is not true")
    INVALID_CONFIG = ("INVALID_CONFIG", "{problem}")
    TASKMANAGER_LOST = ("TASKMANAGER_LOST", "the cluster lost {lost} of its {before} TaskManagers")
    METRIC_EVALUATOR = ("METRIC_EVALUATOR", "{problem}")
    SOURCE_LAG_UNKNOWN = ("SOURCE_LAG_UNKNOWN", "no scale-down: the lag is unknown: {cause}")
    SKEWED_PARTITION = (
        "SKEWED_PARTITION",
        "{partition} has most of the lag ({origin}); more subtasks do not help one partition",
    )
    ARRIVAL_RATE_UNKNOWN = ("ARRIVAL_RATE_UNKNOWN", "no scale-down: the {what} is unknown: {cause}")
    FLOOR_UNKNOWN = ("FLOOR_UNKNOWN", "no scale-down: the {what} is unknown: {cause}")
    EDITED_BY_OTHERS = (
        "EDITED_BY_OTHERS",
        "scaling is suspended for {left} s: the resource requirements were changed from outside",
    )
    RESCALE_UNDER_WAY = ("RESCALE_UNDER_WAY", "the rescale {change} is {stage}")
    ROLLING_BACK = ("ROLLING_BACK", "the job is not healthy after a rollback: {cause}")
    REFUSED_LATELY = ("REFUSED_LATELY", "the last rescale was {stage}; the next attempt is in {left} s")
    REQUIREMENTS_UNKNOWN = ("REQUIREMENTS_UNKNOWN", "the cluster did not report the resource requirements of the job")
    PAUSED_AFTER_ROLLBACK = ("PAUSED_AFTER_ROLLBACK", "scaling is suspended after a rollback: {cause}; {resume}")


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


class EntryKind(StrEnum):
    """Sort of thing that a term stands for."""

    REASON = "reason"
    EVENT = "event"
    FINDING = "finding"
    PHASE = "phase of a pass"
    JOB_PHASE = "phase of a job"
    RESCALE_STAGE = "stage of a rescale"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One term.

    Attributes:
        term: As programs see it.
        description: What has happened or is so, for people.
        remedy: What to do about it; empty where nothing is to be done.
    """

    term: str
    description: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CatalogSection:
    """Entries that belong together.

    Attributes:
        kind: What they are.
        title: Of their table.
        text: Where one meets them.
    """

    kind: EntryKind
    title: str
    text: str
    entries: tuple[CatalogEntry, ...]


@cache
def catalog_sections() -> tuple[CatalogSection, ...]:
    """Return all sections, in the order of the reference page."""
    import tomllib  # noqa: PLC0415 - who renders a sentence need not read descriptions

    found = tomllib.loads(resources.files(__package__).joinpath("message_catalog.toml").read_text(encoding="utf-8"))
    return tuple(
        CatalogSection(
            EntryKind(each["kind"]),
            each["title"],
            each["text"],
            tuple(CatalogEntry(*message) for message in each["messages"]),
        )
        for each in found["sections"]
    )


def entries_of(word: str) -> Iterator[tuple[EntryKind, CatalogEntry]]:
    """Yield what a word means, whatever its case and whether it has blanks, hyphens or underscores.

    Some words have several meanings: ``NOT_RUNNING`` is a reason, a finding and a phase.
    """
    wanted = _plain(word)
    for section in catalog_sections():
        for entry in section.entries:
            if _plain(entry.term) == wanted:
                yield section.kind, entry


def _plain(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
