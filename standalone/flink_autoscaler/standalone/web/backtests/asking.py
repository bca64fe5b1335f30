"""From a question to what is simulated: whether it can be answered, and with which configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.checks import validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.choosing import unknown_policies
from flink_autoscaler.core.ports.plugins import NO_PLUGINS
from flink_autoscaler.pipeline.history.files import is_local
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.web.backtests.book import Backtest
from flink_autoscaler.standalone.web.backtests.values import BacktestTask
from flink_autoscaler.standalone.web.errors import ConflictError
from flink_autoscaler.standalone.web.fleet import JobNow
from flink_autoscaler.standalone.web.site import Site
from flink_autoscaler.standalone.web.whatif import changed_lines, configuration_with, full_keys

LEAST_DAYS: Final = 0.05
MOST_DAYS: Final = 14.0

_ENABLED: Final = AutoscalerOptions.enabled.key


def history_problem(history: HistorySettings) -> str | None:
    """Return why nothing can be looked up in the history; None where it can."""
    if history.path is None:
        return (
            "no history is kept: set autoscaler.history.enabled: true and autoscaler.history.path to a folder, and ask "
            "again when an hour or more is recorded"
        )
    if not is_local(history.path):
        return (
            f"the history is at {masked(history.path)}, which only Spark reaches: run flink-autoscaler backtest or "
            "report for it"
        )
    return None


def start(site: Site, job: JobNow, days: float, options: Mapping[str, str]) -> Backtest:
    """Begin a backtest of the last days of a job.

    Args:
        site: The daemon.
        job: Whose days.
        days: How many.
        options: That differ, as for a what-if.

    Raises:
        ConfigError: An option is unknown or cannot be read, or none differs.
        ConflictError: There is no history, or another backtest runs.
        OwnProcessError: The process could not be started.
    """
    wanted, present = full_keys(options), job.context.configuration
    lines = tuple(changed_lines(wanted, present))
    if not lines:
        raise ConfigError("options: none differs from what the job has; change at least one")
    changed = configuration_with(present, wanted)
    if problem := _problem(site, changed):
        raise ConfigError(problem)
    settings = site.settings()
    if problem := history_problem(settings.history):
        raise ConflictError(problem)
    now_ms = site.now_ms()
    task = BacktestTask(
        job.context.job_key,
        job.context.cluster,
        path=settings.history.path or "",
        now=now_ms / 1000,
        days=days,
        present=dict(present),
        changed=changed,
        log=(settings.log.format, settings.log.level),
        seldom=_seldom(settings.history),
    )
    return site.backtests.start(task, lines, now_ms)


def _problem(site: Site, configuration: Mapping[str, str]) -> str | None:
    options = AutoscalerOptions({_ENABLED: "true", **configuration})
    plugins = NO_PLUGINS if site.plugins is None else site.plugins()
    return validate(options) or unknown_policies(options, plugins.policies)


def _seldom(history: HistorySettings) -> str:
    """Return what to say where too little is recorded."""
    if not history.enabled:
        return "Nothing is added to the history: autoscaler.history.enabled is not true."
    return (
        f"What is recorded is written every {history.flush_interval:g} s (autoscaler.history.flush-interval): ask "
        "again later, or for more days."
    )
