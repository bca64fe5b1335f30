"""What earlier versions had: keys, plug-ins and commands that are refused, each with what to use instead.

One table for every place that refuses them, so that who upgrades reads the same sentence wherever the word was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_COMMAND_PROVIDER: Final = (
    "autoscaler.clusters.<n>.provider.type: command with conf/taskmanagers.sh, which starts and stops TaskManagers on "
    "this machine (docs/guide/reactive-mode.md)"
)
_ALERTMANAGER: Final = (
    "Prometheus' Alertmanager with the metrics of the daemon: it groups, mutes and limits what it tells "
    "(docs/guide/notifications.md)"
)
_CAPACITY: Final = (
    "job.autoscaler.policy: capacity, the default, which sizes a job by what its vertices can do and what arrives"
)
_VARGA: Final = (
    "job.autoscaler.policy: varga, which follows busy time and lag with tolerance, windows and rate limits of its own"
)
_VARGA_ALWAYS: Final = "job.autoscaler.policy: varga as it is, without that option"
_DS2: Final = (
    "job.autoscaler.policy: capacity, or install the example of a policy, which is ds2 with options of its own "
    "(docs/examples/policy)"
)
_JOB: Final = "job.autoscaler."
_FORECAST: Final = "job.autoscaler.policy: capacity with job.autoscaler.forecast.enabled: true"
_VARGA_KEY: Final = f"{_JOB}varga."
_FOLLOWED: Final = (
    "sync-period tolerance scale-up.window scale-up.policies scale-up.select scale-down.window scale-down.policies "
    "scale-down.select"
)
"""Options of hpa that varga has by the same name."""

_LEGACY: Final = "kubernetes.operator."
_POLICIES: Final = "flink_autoscaler.policies"

_GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    _COMMAND_PROVIDER: ("autoscaler.clusters.<n>.provider.", "directory stop-timeout environment"),
    _ALERTMANAGER: (
        "autoscaler.notifications.",
        "group-interval limit-per-hour rules.<n>.quiet-hours rules.<n>.timezone",
    ),
    "a backup of the database (docs/guide/database.md): nothing is scaled while the SQLite file is gone, and it is not "
    "written anew": ("autoscaler.standalone.jdbc.", "file-grace"),
    "autoscaler.history.path alone: Arrow writes local paths, Spark all others": ("autoscaler.history.", "writer"),
    "a shorter autoscaler.standalone.control-loop.interval": (
        _JOB,
        "early-pass.delay early-pass.per-hour improvement.early-passes",
    ),
    "job.autoscaler.compat: improved (the default) or reference": (
        "job.autoscaler.improvement.",
        "unknown-when-incomplete source-partition-cap undefined-scalability-is-one no-stale-scale-down "
        "expected-of-decision exact-quota thresholds-after-evaluator saturated-vertex-guard bottleneck-limit "
        "stable-window counter-reset possible-values-only tracked-decisions-only forget-when-disabled "
        "consistent-answers fresh-samples first-minute bounded-observed-rate unknown-cluster-facts "
        "cached-metric-names problem-events errors-once",
    ),
    _CAPACITY: (
        _JOB,
        "backlog-time.up.backlog backlog-time.up.utilization backlog-time.drain backlog-time.max-ratio "
        "backlog-time.down.backlog backlog-time.down.utilization backlog-time.down.max-factor "
        "threshold.up.utilization threshold.up.duration threshold.down.utilization threshold.down.duration",
    ),
    _DS2: (
        _JOB,
        "ds2.policy-interval ds2.warm-up-intervals ds2.activation-intervals ds2.activation-combine "
        "ds2.target-rate-ratio ds2.min-change-up ds2.min-change-down ds2.scaling-factor ds2.max-fruitless "
        "ds2.skew-aware ds2.add-catch-up",
    ),
    _VARGA: ("job.autoscaler.hpa.", "unit filter.enabled"),
    _VARGA_ALWAYS: ("job.autoscaler.varga.", "hardened mask-rescale catch-up-hold drain-term"),
    f"{_VARGA_KEY}tolerance, which holds for both directions": ("job.autoscaler.hpa.", "tolerance.up tolerance.down"),
}
"""By what to use instead: the keys, as what they begin with and how they end, separated by blanks."""

REMOVED_KEYS: Final[Mapping[str, str]] = {
    **{start + end: instead for instead, (start, ends) in _GROUPS.items() for end in ends.split()},
    **{f"{_JOB}hpa.{name}": _VARGA_KEY + name for name in _FOLLOWED.split()},
    f"{_JOB}hpa.behavior": f"{_VARGA_KEY}scale-up.policies and {_VARGA_KEY}scale-down.window",
    f"{_JOB}hpa.lag-per-subtask": f"{_VARGA_KEY}lag-threshold and {_VARGA_KEY}lag-rate-target",
    f"{_JOB}varga.utilization-agg": f"{_VARGA_ALWAYS}: the busiest vertex counts",
    f"{_JOB}varga.max-ratio": f"{_VARGA_KEY}scale-up.policies",
    f"{_JOB}varga.deriv-window": f"{_VARGA_ALWAYS}: over the last minute",
    f"{_JOB}improvement.supervised-rescales": "job.autoscaler.supervised-rescales.enabled",
    f"{_JOB}improvement.calm": "job.autoscaler.rescale-filters.enabled",
    f"{_JOB}improvement.sample-doubt": "job.autoscaler.sample-check.enabled",
    f"{_JOB}scale-up.partial.wait": (
        "more slots, or a smaller job.autoscaler.scale-up.max-factor: half of what a scale-up wants is always taken, "
        "and less than that waits"
    ),
    f"{_JOB}rescale.reversal.window": ("job.autoscaler.rescale.budget.per-day and scale-down.economics.enabled"),
    f"{_JOB}policies": "job.autoscaler.policy, the name of one policy; schedule.plans holds for each",
    f"{_JOB}policies.combine": "job.autoscaler.policy, the name of one policy",
    f"{_JOB}policies.shadow": "job.autoscaler.policy.shadow",
    f"{_JOB}proactive.base": _FORECAST,
    f"{_JOB}capacity.mode": "job.autoscaler.utilization.target for a smaller or larger job",
}
"""By key, ``<n>`` for a number in a list: what to use instead."""

REMOVED_PLUGINS: Final[Mapping[tuple[str, str], str]] = {
    ("flink_autoscaler.task_manager_providers", "process"): _COMMAND_PROVIDER,
    (_POLICIES, "backlog-time"): _CAPACITY,
    (_POLICIES, "threshold"): _CAPACITY,
    (_POLICIES, "hpa"): _VARGA,
    (_POLICIES, "ds2"): _DS2,
    (_POLICIES, "proactive"): _FORECAST,
    (_POLICIES, "schedule"): "job.autoscaler.schedule.plans, which holds for every policy",
}
"""By group of entry points and name: what to use instead."""

REMOVED_COMMANDS: Final[Mapping[str, str]] = {
    "db restore": "db set-aside, which lists the values: they stay in the table fa_set_aside (docs/guide/database.md)",
}
"""By the words of a command: what to use instead."""

_INDEX: Final = re.compile(r"\.\d{1,4}\.", re.ASCII)


def removed_key(key: str) -> str | None:
    """Return what is wrong with a key that an earlier version had; None for every other key."""
    instead = REMOVED_KEYS.get(_INDEX.sub(".<n>.", key.removeprefix(_LEGACY)))
    return None if instead is None else _sentence(instead)


def removed_plugin(group: str, name: str) -> str | None:
    """Return what is wrong with the name of a plug-in that came with an earlier version; None for every other name."""
    instead = REMOVED_PLUGINS.get((group, name))
    return None if instead is None else f"'{name}' {_sentence(instead)}"


def removed_command(words: Sequence[str]) -> str | None:
    """Return what is wrong with a command line that begins with a command of an earlier version; None for others."""
    for name, instead in REMOVED_COMMANDS.items():
        if name.split() == list(words[: name.count(" ") + 1]):
            return f"'{name}' {_sentence(instead)}"
    return None


def _sentence(instead: str) -> str:
    return f"was removed; use {instead}"
