"""The options of everything that keeps rescales safe and rare; part of the autoscaler's options."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Final

from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.vertex_patterns import parse_patterns, parse_vertex_bounds
from flink_autoscaler.core.options.declare import choice, count, decimal, flag, option, optional_option, text_list, time
from flink_autoscaler.core.options.option import OptionSet

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


class SafetyOptions(OptionSet):
    """Following rescales, undoing bad ones, and having few of them."""

    compat = choice(Compat, "compat", "improved")
    dry_run = flag("dry-run", "false")
    scale_up_enabled = flag("scale-up.enabled", "true")
    scale_down_enabled = flag("scale-down.enabled", "true")
    vertex_exclude_names = option("vertex.exclude.names", parse_patterns, "")
    vertex_bounds = option(
        "vertex.bounds",
        parse_vertex_bounds,
        "",
        allowed="pattern=least..greatest, one of both may be left out; several separated by semicolons",
    )
    lower_bound = choice(LowerBound, "rescale.lower-bound", "one")
    rescale_timeout = optional_option("rescale.timeout", syntax.parse_time)
    taskmanagers_timeout = time("rescale.taskmanagers-timeout", "12 min")
    edit_respect = time("rescale.respect-edits", "1 h")
    rescales_per_day = count("rescale.budget.per-day", "24", allowed="at least 0")
    economics_enabled = flag("scale-down.economics.enabled", "true")
    economics_factor = decimal("scale-down.economics.factor", "2.0", allowed="[0.0, +Infinity]")
    slo_lag = time("slo.lag", "60 s")
    network_precheck = flag("network-precheck.enabled", "true")
    capacity_enabled = flag("slots.fair-shares.enabled", "true")
    capacity_priority = option("slots.priority", syntax.parse_int, "0")
    capacity_weight = option(
        "slots.weight",
        syntax.parse_double,
        "1.0",
        allowed="[0.001, 1000.0]",
    )
    rollback_enabled = flag("rollback.enabled", "true")
    rollback_target = choice(RollbackTarget, "rollback.target", "last-stable")
    rollback_checkers = text_list("rollback.checkers", "network-memory;no-resources")
    rollback_pause = option(
        "rollback.pause", _pause, UNTIL_CLUSTER_RESTART, allowed="until-cluster-restart or a duration"
    )
    rollback_observation_window = optional_option("rollback.observation-window", syntax.parse_time)
    rollback_max_per_day = count("rollback.max-per-day", "2", allowed="at least 1")
    rollback_memory_enabled = flag("rollback.memory.enabled", "false")
    rollback_gc_threshold = optional_option("rollback.memory.gc-threshold", syntax.parse_double, allowed="[0.0, 1.0]")
    rollback_heap_threshold = optional_option(
        "rollback.memory.heap-threshold", syntax.parse_double, allowed="[0.0, 1.0]"
    )
    rollback_consecutive_hits = count("rollback.consecutive-hits", "3", allowed="at least 1")

    @property
    def chosen_checkers(self) -> tuple[str, ...]:
        """What counts as a rescale that the job does not survive, by name, each once."""
        more = (MEMORY_PRESSURE,) if self.rollback_memory_enabled else ()
        return tuple(dict.fromkeys((*self.rollback_checkers, *more)))

    supervised_rescales = optional_option("supervised-rescales.enabled", syntax.parse_bool)
    rescale_filters = optional_option("rescale-filters.enabled", syntax.parse_bool)
    sample_check = optional_option("sample-check.enabled", syntax.parse_bool)

    @cached_property
    def is_improved(self) -> bool:
        """Whether the job is scaled better than the reference would, where the reference is wrong."""
        return self.compat is Compat.IMPROVED

    @cached_property
    def supervises_rescales(self) -> bool:
        """Whether rescales are followed to their end."""
        return self.is_improved if self.supervised_rescales is None else self.supervised_rescales

    @cached_property
    def filters_rescales(self) -> bool:
        """Whether plans pass the filters that keep rescales rare."""
        return self.is_improved if self.rescale_filters is None else self.rescale_filters

    @cached_property
    def checks_samples(self) -> bool:
        """Whether a plan has to be the same one without any single sample."""
        return self.is_improved if self.sample_check is None else self.sample_check
