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
_SHORTER_INTERVAL: Final = "a shorter autoscaler.standalone.control-loop.interval"
_JOB: Final = "job.autoscaler."
_VARGA: Final = (
    "job.autoscaler.policy: varga, which follows busy time and lag with tolerance, windows and rate limits of its own"
)
_VARGA_ALWAYS: Final = "job.autoscaler.policy: varga as it is, without that option"
_DS2: Final = (
    "job.autoscaler.policy: capacity, or install the example of a policy, which is ds2 with options of its own "
    "(docs/examples/policy)"
)
_LEGACY: Final = "kubernetes.operator."
_IMPROVEMENTS: Final = (
    "unknown-when-incomplete",
    "source-partition-cap",
    "undefined-scalability-is-one",
    "no-stale-scale-down",
    "expected-of-decision",
    "exact-quota",
    "thresholds-after-evaluator",
    "saturated-vertex-guard",
    "bottleneck-limit",
    "stable-window",
    "counter-reset",
    "possible-values-only",
    "tracked-decisions-only",
    "forget-when-disabled",
    "consistent-answers",
    "fresh-samples",
    "first-minute",
    "bounded-observed-rate",
    "unknown-cluster-facts",
    "cached-metric-names",
    "problem-events",
    "errors-once",
)
_POLICIES: Final = "flink_autoscaler.policies"

REMOVED_KEYS: Final[Mapping[str, str]] = {
    "autoscaler.clusters.<n>.provider.directory": _COMMAND_PROVIDER,
    "autoscaler.clusters.<n>.provider.stop-timeout": _COMMAND_PROVIDER,
    "autoscaler.clusters.<n>.provider.environment": _COMMAND_PROVIDER,
    "autoscaler.notifications.group-interval": _ALERTMANAGER,
    "autoscaler.notifications.limit-per-hour": _ALERTMANAGER,
    "autoscaler.notifications.rules.<n>.quiet-hours": _ALERTMANAGER,
    "autoscaler.notifications.rules.<n>.timezone": _ALERTMANAGER,
    f"{_JOB}early-pass.delay": _SHORTER_INTERVAL,
    f"{_JOB}early-pass.per-hour": _SHORTER_INTERVAL,
    f"{_JOB}improvement.early-passes": _SHORTER_INTERVAL,
    f"{_JOB}improvement.supervised-rescales": f"{_JOB}supervised-rescales.enabled",
    f"{_JOB}improvement.calm": f"{_JOB}rescale-filters.enabled",
    f"{_JOB}improvement.sample-doubt": f"{_JOB}sample-check.enabled",
    **{f"{_JOB}improvement.{name}": f"{_JOB}compat: improved (the default) or reference" for name in _IMPROVEMENTS},
    f"{_JOB}rescale.reversal.window": "job.autoscaler.rescale.budget.per-day and scale-down.economics.enabled",
    "autoscaler.standalone.jdbc.file-grace": (
        "a backup of the database (docs/guide/database.md): nothing is scaled while the SQLite file is gone, and it is "
        "not written anew"
    ),
    "autoscaler.history.writer": "autoscaler.history.path alone: Arrow writes local paths, Spark all others",
    f"{_JOB}policies": "job.autoscaler.policy, the name of one policy; schedule.plans holds for each",
    f"{_JOB}policies.combine": "job.autoscaler.policy, the name of one policy",
    f"{_JOB}policies.shadow": "job.autoscaler.policy.shadow",
    f"{_JOB}capacity.mode": "job.autoscaler.utilization.target for a smaller or larger job",
    f"{_JOB}backlog-time.up.backlog": _CAPACITY,
    f"{_JOB}backlog-time.up.utilization": _CAPACITY,
    f"{_JOB}backlog-time.drain": _CAPACITY,
    f"{_JOB}backlog-time.max-ratio": _CAPACITY,
    f"{_JOB}backlog-time.down.backlog": _CAPACITY,
    f"{_JOB}backlog-time.down.utilization": _CAPACITY,
    f"{_JOB}backlog-time.down.max-factor": _CAPACITY,
    f"{_JOB}threshold.up.utilization": _CAPACITY,
    f"{_JOB}threshold.up.duration": _CAPACITY,
    f"{_JOB}threshold.down.utilization": _CAPACITY,
    f"{_JOB}threshold.down.duration": _CAPACITY,
    f"{_JOB}proactive.base": _DS2,
    f"{_JOB}ds2.policy-interval": _DS2,
    f"{_JOB}ds2.warm-up-intervals": _DS2,
    f"{_JOB}ds2.activation-intervals": _DS2,
    f"{_JOB}ds2.activation-combine": _DS2,
    f"{_JOB}ds2.target-rate-ratio": _DS2,
    f"{_JOB}ds2.min-change-up": _DS2,
    f"{_JOB}ds2.min-change-down": _DS2,
    f"{_JOB}ds2.scaling-factor": _DS2,
    f"{_JOB}ds2.max-fruitless": _DS2,
    f"{_JOB}ds2.skew-aware": _DS2,
    f"{_JOB}ds2.add-catch-up": _DS2,
    f"{_JOB}hpa.unit": _VARGA,
    f"{_JOB}hpa.behavior": f"{_JOB}varga.scale-up.policies and {_JOB}varga.scale-down.window",
    f"{_JOB}hpa.sync-period": f"{_JOB}varga.sync-period",
    f"{_JOB}hpa.tolerance": f"{_JOB}varga.tolerance",
    f"{_JOB}hpa.tolerance.up": f"{_JOB}varga.tolerance, which holds for both directions",
    f"{_JOB}hpa.tolerance.down": f"{_JOB}varga.tolerance, which holds for both directions",
    f"{_JOB}hpa.lag-per-subtask": f"{_JOB}varga.lag-threshold and {_JOB}varga.lag-rate-target",
    f"{_JOB}hpa.scale-up.window": f"{_JOB}varga.scale-up.window",
    f"{_JOB}hpa.scale-up.policies": f"{_JOB}varga.scale-up.policies",
    f"{_JOB}hpa.scale-up.select": f"{_JOB}varga.scale-up.select",
    f"{_JOB}hpa.scale-down.window": f"{_JOB}varga.scale-down.window",
    f"{_JOB}hpa.scale-down.policies": f"{_JOB}varga.scale-down.policies",
    f"{_JOB}hpa.scale-down.select": f"{_JOB}varga.scale-down.select",
    f"{_JOB}hpa.filter.enabled": _VARGA,
    f"{_JOB}varga.hardened": _VARGA_ALWAYS,
    f"{_JOB}varga.mask-rescale": _VARGA_ALWAYS,
    f"{_JOB}varga.catch-up-hold": _VARGA_ALWAYS,
    f"{_JOB}varga.drain-term": _VARGA_ALWAYS,
    f"{_JOB}varga.utilization-agg": f"{_VARGA_ALWAYS}: the busiest vertex counts",
    f"{_JOB}varga.max-ratio": f"{_JOB}varga.scale-up.policies",
    f"{_JOB}varga.deriv-window": f"{_VARGA_ALWAYS}: over the last minute",
}
"""By key, ``<n>`` for a number in a list: what to use instead."""

REMOVED_PLUGINS: Final[Mapping[tuple[str, str], str]] = {
    ("flink_autoscaler.task_manager_providers", "process"): _COMMAND_PROVIDER,
    (_POLICIES, "backlog-time"): _CAPACITY,
    (_POLICIES, "threshold"): _CAPACITY,
    (_POLICIES, "hpa"): _VARGA,
    (_POLICIES, "ds2"): _DS2,
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
