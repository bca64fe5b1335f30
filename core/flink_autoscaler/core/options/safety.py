"""The options of everything that keeps rescales safe and rare; part of the autoscaler's options."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import parse_patterns, parse_vertex_bounds
from flink_autoscaler.core.options.declare import choice, count, flag, listed, number, option, time, unset
from flink_autoscaler.core.options.option import LEGACY_PREFIX, PREFIX, OptionSet

DOWN_SHARE: Final = 0.75
"""Share of the rescales of a day after which the others are kept for scale-ups."""


class LowerBound(StrEnum):
    """The least parallelism that the cluster may give a vertex."""

    ONE = "one"
    CURRENT = "current"
    TARGET = "target"


class Compat(StrEnum):
    """Whether to follow the reference to the letter or to do better where it is wrong."""

    REFERENCE = "reference"
    IMPROVED = "improved"


class RollbackTarget(StrEnum):
    """To which parallelism a failed rescale is undone."""

    LAST = "last"
    INITIAL = "initial"
    LAST_STABLE = "last-stable"


MEMORY_PRESSURE = "memory-pressure"
UNTIL_CLUSTER_RESTART = "until-cluster-restart"


def _pause(text: str) -> syntax.Duration | None:
    """Read how long a pause lasts; None lasts until the cluster restarts."""
    return None if text.strip().lower() == UNTIL_CLUSTER_RESTART else syntax.parse_time(text)


def _once_called(suffix: str) -> tuple[str, ...]:
    """Return the keys by which an option was called before, which still work."""
    return (PREFIX + suffix, LEGACY_PREFIX + PREFIX + suffix)


class SafetyOptions(OptionSet):
    """Following rescales, undoing bad ones, and having few of them."""

    compat = choice(
        Compat,
        "compat",
        "improved",
        "reference: behave like the Java autoscaler to the letter; improved: with the improvements of the guide.",
    )
    dry_run = flag("dry-run", "false", "Decide and report for this job, but change nothing.")
    scale_up_enabled = flag("scale-up.enabled", "true", "Whether vertices may be scaled up.")
    scale_down_enabled = flag("scale-down.enabled", "true", "Whether vertices may be scaled down.")
    vertex_exclude_names = option(
        "vertex.exclude.names",
        parse_patterns,
        "",
        "Patterns such as 'Sink: *' for names of vertices that are never scaled.",
    )
    vertex_bounds = option(
        "vertex.bounds",
        parse_vertex_bounds,
        "",
        "Least and greatest parallelism of vertices by id or name pattern, such as 'Source: *=1..8;map=2..'; they go "
        "before vertex.min-parallelism and vertex.max-parallelism, the first match counts.",
        allowed="pattern=least..greatest, one of both may be left out; several separated by semicolons",
    )
    lower_bound = choice(
        LowerBound,
        "rescale.lower-bound",
        "one",
        "The least parallelism that the cluster may give a vertex where slots are scarce.",
    )
    rescale_timeout = unset(
        "rescale.timeout",
        syntax.parse_time,
        "Time after which a rescale that the cluster accepted should have happened; unset: worked out from the "
        "cluster's own timers and earlier rescales.",
    )
    taskmanagers_timeout = time(
        "rescale.taskmanagers-timeout",
        "12 min",
        "Time after which TaskManagers that a job in reactive mode was to get, or to lose, are not waited for any "
        "more; longer than provider.ready-timeout of its cluster.",
    )
    edit_respect = time(
        "rescale.respect-edits",
        "1 h",
        "Time for which a job is left as it is after somebody else has changed its resource requirements.",
    )
    rescales_per_day = count(
        "rescale.budget.per-day",
        "24",
        "Most rescales of a job within 24 hours, rollbacks not counted; 0 sets no limit. Scale-downs leave the last "
        "quarter of it to scale-ups.",
        allowed="at least 0",
    )
    economics_enabled = flag(
        "scale-down.economics.enabled", "true", "Whether a scale-down has to save more slot time than its outage costs."
    )
    economics_factor = number(
        "scale-down.economics.factor",
        "2.0",
        "How many times its cost a scale-down has to save.",
        allowed="[0.0, +Infinity]",
    )
    slo_lag = time("slo.lag", "60 s", "Lag above which the job counts as too late, for what an outage costs.")
    network_precheck = flag(
        "network-precheck.enabled",
        "true",
        "Whether a scale-up is limited to what the network memory of the TaskManagers can hold.",
    )
    capacity_enabled = option(
        "slots.fair-shares.enabled",
        syntax.parse_bool,
        "true",
        "Whether jobs of a cluster of fixed size ask only for slots that are there, in fair shares.",
        deprecated=_once_called("capacity.enabled"),
    )
    capacity_priority = option(
        "slots.priority",
        syntax.parse_int,
        "0",
        "Jobs with a higher number get slots first.",
        deprecated=_once_called("capacity.priority"),
    )
    capacity_weight = option(
        "slots.weight",
        syntax.parse_double,
        "1.0",
        "Share of the slots relative to jobs of the same priority.",
        deprecated=_once_called("capacity.weight"),
        allowed="[0.001, 1000.0]",
    )
    rollback_enabled = flag("rollback.enabled", "true", "Whether a rescale that a job does not survive is undone.")
    rollback_target = choice(
        RollbackTarget,
        "rollback.target",
        "last-stable",
        "To which parallelism: before the rescale, the first one, or the latest that has proved itself.",
    )
    rollback_checkers = listed(
        "rollback.checkers",
        "network-memory;no-resources",
        "What counts as a rescale that the job does not survive: network-memory, memory-pressure, no-resources, "
        "crash-loop, or names of plug-ins.",
    )
    rollback_pause = option(
        "rollback.pause",
        _pause,
        UNTIL_CLUSTER_RESTART,
        "How long a job is left alone after a rollback: until-cluster-restart or a duration.",
        allowed="until-cluster-restart or a duration",
    )
    rollback_observation_window = unset(
        "rollback.observation-window",
        syntax.parse_time,
        "How long a rescaled job is on probation; unset: 10 min or three checkpoint intervals, whichever is longer.",
    )
    rollback_max_per_day = count(
        "rollback.max-per-day",
        "2",
        "The rollback with this number within 24 hours pauses the job until a person resumes it.",
        allowed="at least 1",
    )
    rollback_memory_enabled = flag(
        "rollback.memory.enabled",
        "false",
        "Whether a rescale is undone that leaves a TaskManager short of heap: adds memory-pressure to "
        "rollback.checkers, with thresholds where none are set.",
    )
    rollback_gc_threshold = unset(
        "rollback.memory.gc-threshold",
        syntax.parse_double,
        "Share of time in garbage collection above which memory-pressure hits; unset takes "
        "memory.gc-pressure.threshold, and 0.3 where that is 1 and rollback.memory.enabled is on.",
        allowed="[0.0, 1.0]",
    )
    rollback_heap_threshold = unset(
        "rollback.memory.heap-threshold",
        syntax.parse_double,
        "Share of the heap in use above which memory-pressure hits; unset takes memory.heap-usage.threshold, and 0.95 "
        "where that is 1 and rollback.memory.enabled is on.",
        allowed="[0.0, 1.0]",
    )
    rollback_consecutive_hits = count(
        "rollback.consecutive-hits",
        "3",
        "Passes in a row in which memory-pressure has to find something.",
        allowed="at least 1",
    )

    @property
    def chosen_checkers(self) -> tuple[str, ...]:
        """What counts as a rescale that the job does not survive, by name, each once."""
        more = (MEMORY_PRESSURE,) if self.rollback_memory_enabled else ()
        return tuple(dict.fromkeys((*self.rollback_checkers, *more)))

    supervised_rescales = unset(
        "supervised-rescales.enabled",
        syntax.parse_bool,
        "Every rescale is followed until the job runs with it, undone where the job does not survive it, and never "
        "fights somebody else's changes. Unset: on unless compat is reference.",
    )
    rescale_filters = unset(
        "rescale-filters.enabled",
        syntax.parse_bool,
        "Rescales keep within a budget per day, scale-downs have to pay, failed parallelism is "
        "not tried again, network memory and free slots limit what is asked for, and a scale-up waits until half of "
        "its slots are there. Unset: on unless compat is reference.",
    )
    sample_check = unset(
        "sample-check.enabled",
        syntax.parse_bool,
        "A rescale that would be another one without a single sample of the window waits for the next pass. Unset: on "
        "unless compat is reference.",
    )

    @property
    def is_improved(self) -> bool:
        """Whether the job is scaled better than the reference would, where the reference is wrong."""
        return self.compat is Compat.IMPROVED

    @property
    def supervises_rescales(self) -> bool:
        """Whether rescales are followed to their end."""
        return self.is_improved if self.supervised_rescales is None else self.supervised_rescales

    @property
    def filters_rescales(self) -> bool:
        """Whether plans pass the filters that keep rescales rare."""
        return self.is_improved if self.rescale_filters is None else self.rescale_filters

    @property
    def checks_samples(self) -> bool:
        """Whether a plan has to be the same one without any single sample."""
        return self.is_improved if self.sample_check is None else self.sample_check
