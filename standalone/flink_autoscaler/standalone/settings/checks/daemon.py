"""Checks across options, and of what is set for jobs: the options of the core are validated by the core."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flink_autoscaler.clients.flink.pass_plugins import POLICIES
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.checks import unreadable_options, validate
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX as JOB_PREFIX
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.core.options.policies import OPTIONS_OF
from flink_autoscaler.standalone.daemon.plugins import PluginGroup, plugin_names, unknown_plugin
from flink_autoscaler.standalone.settings.checks.clusters import cluster_problems
from flink_autoscaler.standalone.settings.checks.lags import lag_problems
from flink_autoscaler.standalone.settings.checks.metrics import metric_problems
from flink_autoscaler.standalone.settings.checks.notifications import notification_problems
from flink_autoscaler.standalone.settings.removed import removed_plugin
from flink_autoscaler.standalone.settings.schema.clusters import ProviderSettings
from flink_autoscaler.standalone.settings.schema.options import allowed, daemon_keys, job_keys
from flink_autoscaler.standalone.settings.schema.settings import HEAP, JDBC, Settings, needs_database
from flink_autoscaler.standalone.settings.schema.types import AUTO, OFF
from flink_autoscaler.standalone.settings.secrets import named
from flink_autoscaler.standalone.settings.sources.layer import Value
from flink_autoscaler.standalone.settings.sources.nesting import cluster_numbers

_KEY_IN_TEXT = re.compile(re.escape(JOB_PREFIX) + r"[a-z.-]*[a-z]")
_WITHOUT_PROVIDER = frozenset({"rescale-api", "log-only"})
"""The realizers that come along and never change the number of TaskManagers; what a plug-in does is its business."""

_INTERVAL = "autoscaler.standalone.control-loop.interval"


@dataclass(frozen=True, slots=True)
class _Scope:
    """What holds for the jobs of all clusters, or of one.

    Attributes:
        prefix: Of the keys that are set for this cluster only; empty for all clusters.
        own: The options that are set for this cluster only.
        texts: The configuration of its jobs, flat.
        interval: Seconds between passes.
        interval_key: The key that sets the interval.
    """

    prefix: str
    own: Mapping[str, str]
    texts: Mapping[str, str]
    interval: float
    interval_key: str = _INTERVAL


@dataclass(frozen=True, slots=True)
class _Read:
    """What the core makes of the options of a scope.

    Attributes:
        unreadable: Keys of options that cannot be read.
        invalid: Keys and what is wrong with the options that can.
        options: Those that can be read, with the autoscaler switched on: jobs may do so themselves.
    """

    unreadable: tuple[str, ...]
    invalid: tuple[tuple[str, str], ...]
    options: AutoscalerOptions


def check_settings(settings: Settings, values: Mapping[str, Value]) -> list[str]:
    """Return what is wrong with settings that could be read, one sentence per problem, in no needed order.

    Args:
        settings: The settings.
        values: The flat configuration they were made from, for origins.
    """
    problems = [
        *cluster_problems(settings, values),
        *metric_problems(settings, values),
        *_unknown_plugins(settings, values),
    ]
    problems += [*_database_problems(settings, values), *_lease_problems(settings, values)]
    problems += _provider_problems(settings, values)
    problems += _schedule_problems(settings, values)
    problems += [*notification_problems(settings, values), *lag_problems(settings)]
    read: dict[tuple[tuple[str, str], ...], _Read] = {}
    for scope in _scopes(settings, values):
        # Hundreds of clusters seldom have more than a few sets of options.
        own = tuple(scope.own.items())
        texts = read[own] if own in read else read.setdefault(own, _read(scope.texts))
        problems += _option_problems(scope, texts, values)
        problems += _timing_problems(scope, texts, values)
        problems += _policy_problems(scope, texts.options, values)
    return problems


def _scopes(settings: Settings, values: Mapping[str, Value]) -> Iterator[_Scope]:
    interval = settings.standalone.control_loop_interval
    yield _Scope("", {}, settings.job_defaults, interval)
    for number, cluster in zip(cluster_numbers(values), settings.clusters, strict=True):
        prefix = f"autoscaler.clusters.{number}."
        texts = {**settings.job_defaults, **cluster.options}
        key = _INTERVAL if cluster.interval is None else f"{prefix}interval"
        yield _Scope(f"{prefix}options.", cluster.options, texts, cluster.interval or interval, key)


def _unknown_plugins(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Check names that somebody wrote; a default cannot be a mistake of the operator."""
    chosen: tuple[tuple[str, PluginGroup, str], ...] = (
        ("autoscaler.realizer", PluginGroup.REALIZERS, settings.realizer),
        ("autoscaler.standalone.state-store.type", PluginGroup.STORES, settings.standalone.state_store or HEAP),
        ("autoscaler.standalone.event-handler.type", PluginGroup.EVENT_HANDLERS, settings.standalone.event_handler),
    )
    further = "autoscaler.event-handlers"
    chosen += tuple((further, PluginGroup.EVENT_HANDLERS, name) for name in settings.event_handlers)
    providers = PluginGroup.TASK_MANAGER_PROVIDERS
    chosen += tuple(
        (f"autoscaler.clusters.{number}.provider.type", providers, cluster.provider.type)
        for number, cluster in zip(cluster_numbers(values), settings.clusters, strict=True)
    )
    defaults = Settings()
    come_along = {
        (PluginGroup.REALIZERS, defaults.realizer),
        (PluginGroup.EVENT_HANDLERS, defaults.standalone.event_handler),
        (providers, ProviderSettings().type),
        *((group, JDBC) for group in (PluginGroup.STORES, PluginGroup.EVENT_HANDLERS)),
        (PluginGroup.STORES, HEAP),
    }
    for key, group, name in chosen:
        if (group, name) not in come_along and (problem := unknown_plugin(group, name)):
            yield f"{_place(key, '', values)}: {problem}"


def _database_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    standalone = settings.standalone
    if settings.ha.enabled and standalone.state_store in (None, HEAP):
        yield (
            f"{_place('autoscaler.ha.enabled', '', values)}: expected autoscaler.standalone.state-store.type JDBC, so"
            " that whoever takes over knows what was decided"
        )
    if needs_database(settings) and standalone.jdbc_url is None:
        yield "autoscaler.standalone.jdbc.url is not set: expected the URL of the database that is to be used"


def _provider_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Check that what starts and stops TaskManagers is used: realizers that only ask the cluster know none of it."""
    if settings.realizer not in _WITHOUT_PROVIDER:
        return
    realizer = _place("autoscaler.realizer", "", values)
    for number, cluster in zip(cluster_numbers(values), settings.clusters, strict=True):
        if cluster.provider.type != ProviderSettings().type:
            place = _place(f"autoscaler.clusters.{number}.provider.type", "", values)
            yield (
                f"{place}: a provider needs autoscaler.realizer: auto, but {realizer}; to see first what would be done"
                " set autoscaler.dry-run: true besides"
            )


def _schedule_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    is_scheduled = settings.forecast.build_schedule not in (AUTO, OFF)
    if is_scheduled and settings.history.path is None:
        yield (
            f"{_place('autoscaler.forecast.build-schedule', '', values)}: expected autoscaler.history.path, the history"
            " that profiles are made of"
        )


def _lease_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    """Check that a leader which can send nothing more for a pass and a request is replaced only after that.

    How many JobManagers a cluster has is of no account: until one of them has listed the jobs a pass changes nothing,
    and what it changes then goes to that one alone.
    """
    if not settings.ha.enabled:
        return
    for cluster in settings.effective_clusters():
        least = cluster.interval + 2 * cluster.endpoint.timeout
        if least > settings.ha.ttl:
            yield (
                f"{_place('autoscaler.ha.ttl', '', values)}: expected at least {_seconds(least)} for cluster"
                f" '{cluster.name}', its interval of {_seconds(cluster.interval)} and twice the timeout of"
                f" {_seconds(cluster.endpoint.timeout)}"
            )


def _seconds(seconds: float) -> str:
    return str(Duration(round(seconds * 1e9)))


def _read(texts: Mapping[str, str]) -> _Read:
    errors = [error.key for error in unreadable_options(AutoscalerOptions(texts))]
    broken = {key for error in errors for key in job_keys()[error].keys}
    kept = {key: text for key, text in texts.items() if key not in broken}
    options = AutoscalerOptions({**kept, AutoscalerOptions.enabled.key: "true"})
    return _Read(tuple(errors), tuple(_invalid(options)), options)


def _invalid(options: AutoscalerOptions) -> Iterator[tuple[str, str]]:
    """Yield every problem that the core has with options that can be read, with its key; not only the first one."""
    # Validated again and again, each time without the option that was found last.
    while (problem := validate(options)) is not None:
        option = next(job_keys()[key] for key in _KEY_IN_TEXT.findall(problem) if key in job_keys())
        found = option.find(options.configuration)
        yield found[0] if found else option.key, problem
        if found is None:
            return
        options = options.with_changes({}, option.keys)


def _option_problems(scope: _Scope, texts: _Read, values: Mapping[str, Value]) -> Iterator[str]:
    for key in texts.unreadable:
        yield f"{_place_of_option(key, scope, values)}: expected {allowed(job_keys()[key])}"
    for key, problem in texts.invalid:
        yield f"{_place(key, scope.prefix, values)}: {problem}"


def _policy_problems(scope: _Scope, options: AutoscalerOptions, values: Mapping[str, Value]) -> Iterator[str]:
    """Check the names of policies; a job whose policy nobody knows is never scaled."""
    chosen = {AutoscalerOptions.policy.key: options.policy, AutoscalerOptions.policy_shadow.key: options.policy_shadow}
    for key, name in chosen.items():
        # Looking for plug-ins takes every command its time: only for what does not come along.
        if name and name not in OPTIONS_OF and name not in (known := sorted({*OPTIONS_OF, *plugin_names(POLICIES)})):
            place = _place_of_option(key, scope, values)
            removed = removed_plugin(POLICIES, name)
            unknown = f"no policy is called '{name}'; known: {', '.join(known)}{nearest(name, known)}"
            yield f"{place}: {removed or unknown}"


def _timing_problems(scope: _Scope, texts: _Read, values: Mapping[str, Value]) -> Iterator[str]:
    if texts.options.rest_client_timeout.nanoseconds == 0:
        timeout = _place_of_option(AutoscalerOptions.rest_client_timeout.key, scope, values)
        yield f"{timeout}: expected more than 0 s"
    if texts.options.metrics_window.exact_seconds > scope.interval:
        return
    window = _place_of_option(AutoscalerOptions.metrics_window.key, scope, values)
    yield (
        f"{window}: expected more than {_seconds(scope.interval)}, the time between two passes"
        f" ({_place(scope.interval_key, '', values)}), because a shorter window never holds two samples"
    )


def _place_of_option(key: str, scope: _Scope, values: Mapping[str, Value]) -> str:
    found = job_keys()[key].find(scope.texts)
    return _place(found[0] if found else key, scope.prefix, values)


def _place(key: str, prefix: str, values: Mapping[str, Value]) -> str:
    """Return key, value and origin, such as ``job.autoscaler.metrics.window = '5 s' (--set)``."""
    old_keys = daemon_keys()[key].old_keys if key in daemon_keys() else ()
    for candidate in (prefix + key, key, *old_keys):
        if candidate in values:
            return named(candidate, values)
    default = job_keys()[key].default_text if key in job_keys() else daemon_keys()[key].default_text
    return f"{key} = '{default}' (default)"
