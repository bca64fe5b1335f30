"""Checks across options, and of what is set for jobs: the options of the core are validated by the core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from flink_autoscaler.clients.flink.pass_plugins import POLICIES
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.model.source_lag import FLINK
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.checks import option_problems, unreadable_options
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import Option, closest_key
from flink_autoscaler.core.options.policies import OPTIONS_OF
from flink_autoscaler.standalone.settings.checks.clusters import (
    ConfiguredCluster,
    cluster_problems,
    configured_clusters,
)
from flink_autoscaler.standalone.settings.checks.notifications import notification_problems
from flink_autoscaler.standalone.settings.plugins import PluginGroup, plugin_names, unknown_plugin_problem
from flink_autoscaler.standalone.settings.removals import removed_plugin_problem
from flink_autoscaler.standalone.settings.schema.clusters import EXTERNAL_METRIC_TYPES
from flink_autoscaler.standalone.settings.schema.options import allowed_values, daemon_keys, job_keys
from flink_autoscaler.standalone.settings.schema.settings import HEAP, JDBC, LOGGING, Settings, needs_database
from flink_autoscaler.standalone.settings.schema.types import AUTO, OFF
from flink_autoscaler.standalone.settings.secrets import describe_setting
from flink_autoscaler.standalone.settings.sources.layer import Value

_WITHOUT_PROVIDER: Final = frozenset({"rescale-api", "log-only"})
"""The realizers that come along and never change the number of TaskManagers; what a plug-in does is its business."""

_NO_PROVIDER: Final = "none"
_COME_ALONG: Final = frozenset(
    {
        (PluginGroup.REALIZERS, "rescale-api"),
        (PluginGroup.STORES, HEAP),
        (PluginGroup.STORES, JDBC),
        (PluginGroup.EVENT_HANDLERS, LOGGING),
        (PluginGroup.EVENT_HANDLERS, JDBC),
        (PluginGroup.TASK_MANAGER_PROVIDERS, _NO_PROVIDER),
    }
)
"""Plug-ins that need not be looked for, which takes every command its time."""

_INTERVAL: Final = "autoscaler.standalone.control-loop.interval"
_DECLARED: Final = {
    AutoscalerOptions.lag_sources.key: "autoscaler.kafka or autoscaler.external-metrics",
    AutoscalerOptions.arrival_rate_sources.key: "autoscaler.external-metrics",
    AutoscalerOptions.floor_sources.key: "autoscaler.external-metrics",
}
"""Where the places are declared that an option may name."""


def check_settings(settings: Settings, values: Mapping[str, Value]) -> list[str]:
    """Return what is wrong with settings that could be read, one sentence per problem, in no needed order.

    Args:
        settings: The settings.
        values: The flat configuration they were made from, for origins.
    """
    clusters = configured_clusters(settings, values)
    return [
        *cluster_problems(clusters),
        *_unknown_plugins(settings, clusters, values),
        *_database_problems(settings, values),
        *_lease_problems(settings, values),
        *_provider_problems(settings, clusters, values),
        *_schedule_problems(settings, values),
        *notification_problems(settings, values),
        *_external_metric_problems(settings),
        *_job_problems(settings, clusters, values),
    ]


def _unknown_plugins(
    settings: Settings, clusters: Sequence[ConfiguredCluster], values: Mapping[str, Value]
) -> Iterator[str]:
    standalone = settings.standalone
    chosen: list[tuple[str, PluginGroup, str]] = [
        ("autoscaler.realizer", PluginGroup.REALIZERS, settings.realizer),
        ("autoscaler.standalone.state-store.type", PluginGroup.STORES, standalone.state_store or HEAP),
        ("autoscaler.standalone.event-handler.type", PluginGroup.EVENT_HANDLERS, standalone.event_handler),
        *(("autoscaler.event-handlers", PluginGroup.EVENT_HANDLERS, name) for name in settings.event_handlers),
        *(
            (f"{place.prefix}provider.type", PluginGroup.TASK_MANAGER_PROVIDERS, cluster.provider.type)
            for place, cluster in clusters
        ),
    ]
    for key, group, name in chosen:
        if (group, name) not in _COME_ALONG and (problem := unknown_plugin_problem(group, name)):
            yield f"{_describe_origin(key, values)}: {problem}"


def _database_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    standalone = settings.standalone
    if settings.ha.enabled and standalone.state_store in (None, HEAP):
        yield (
            f"{_describe_origin('autoscaler.ha.enabled', values)}: expected"
            " autoscaler.standalone.state-store.type JDBC, so that"
            " whoever takes over knows what was decided"
        )
    if needs_database(settings) and standalone.jdbc_url is None:
        yield "autoscaler.standalone.jdbc.url is not set: expected the URL of the database that is to be used"


def _provider_problems(
    settings: Settings, clusters: Sequence[ConfiguredCluster], values: Mapping[str, Value]
) -> Iterator[str]:
    """Check that what starts and stops TaskManagers is used: realizers that only ask the cluster know none of it."""
    if settings.realizer not in _WITHOUT_PROVIDER:
        return
    for place, cluster in clusters:
        if cluster.provider.type != _NO_PROVIDER:
            yield (
                f"{place.describe('provider.type')}: a provider needs autoscaler.realizer: auto, but"
                f" {_describe_origin('autoscaler.realizer', values)}; to see first what would be done set"
                " autoscaler.dry-run:"
                " true besides"
            )


def _schedule_problems(settings: Settings, values: Mapping[str, Value]) -> Iterator[str]:
    if settings.forecast.build_schedule not in (AUTO, OFF) and settings.history.path is None:
        yield (
            f"{_describe_origin('autoscaler.forecast.build-schedule', values)}: expected"
            " autoscaler.history.path, the history"
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
                f"{_describe_origin('autoscaler.ha.ttl', values)}: expected at least {_format_seconds(least)}"
                " for cluster"
                f" '{cluster.name}', its interval of {_format_seconds(cluster.interval)} and twice the timeout of"
                f" {_format_seconds(cluster.endpoint.timeout)}"
            )


def _format_seconds(seconds: float) -> str:
    return str(Duration(round(seconds * 1e9)))


def _job_problems(
    settings: Settings, clusters: Sequence[ConfiguredCluster], values: Mapping[str, Value]
) -> Iterator[str]:
    """Check the options that are set for the jobs of all clusters, then those of each cluster."""
    interval = settings.standalone.control_loop_interval
    scopes: list[tuple[str, Mapping[str, str], float, str]] = [("", {}, interval, _INTERVAL)]
    for place, cluster in clusters:
        key = _INTERVAL if cluster.interval is None else f"{place.prefix}interval"
        scopes.append((f"{place.prefix}options.", cluster.options, cluster.interval or interval, key))
    read: dict[tuple[tuple[str, str], ...], tuple[list[tuple[str, str]], AutoscalerOptions]] = {}
    for prefix, own, seconds, interval_key in scopes:
        # Hundreds of clusters seldom have more than a few sets of options.
        if (own_texts := tuple(own.items())) not in read:
            read[own_texts] = _read_job_options({**settings.job_defaults, **own})
        problems, options = read[own_texts]
        for key, problem in (*problems, *_window_problems(options, seconds, _describe_origin(interval_key, values))):
            yield f"{_describe_origin(key, values, prefix)}: {problem}"


def _read_job_options(texts: Mapping[str, str]) -> tuple[list[tuple[str, str]], AutoscalerOptions]:
    """Return by key what is wrong with the options of jobs, and those that can be read.

    The autoscaler is switched on in them: jobs may do so themselves.
    """
    problems, unreadable = [], []
    for error in unreadable_options(AutoscalerOptions(texts)):
        unreadable.append(option := job_keys()[error.key])
        # Of plans there may be many, with several fields each: say what is wrong with which.
        detail = f"{error.expected}; " if option is AutoscalerOptions.schedule_plans else ""
        problems.append((_key_that_sets(option, texts), f"{detail}expected {allowed_values(option)}"))
    broken = {key for option in unreadable for key in option.keys}
    kept = {key: text for key, text in texts.items() if key not in broken}
    options = AutoscalerOptions({**kept, AutoscalerOptions.enabled.key: "true"})
    problems += [(_key_that_sets(option, texts), problem) for option, problem in option_problems(options)]
    problems += _policy_problems(options)
    if options.rest_client_timeout.nanoseconds == 0:
        problems.append((_key_that_sets(AutoscalerOptions.rest_client_timeout, texts), "expected more than 0 s"))
    return problems, options


def _policy_problems(options: AutoscalerOptions) -> Iterator[tuple[str, str]]:
    """Check the names of policies; a job whose policy nobody knows is never scaled."""
    for option, name in (
        (AutoscalerOptions.policy, options.policy),
        (AutoscalerOptions.policy_shadow, options.policy_shadow),
    ):
        # Looking for plug-ins takes every command its time: only for what does not come along.
        if name and name not in OPTIONS_OF and name not in (known := sorted({*OPTIONS_OF, *plugin_names(POLICIES)})):
            unknown = f"no policy is called '{name}'; known: {', '.join(known)}{closest_key(name, known)}"
            yield _key_that_sets(option, options.configuration), removed_plugin_problem(POLICIES, name) or unknown


def _window_problems(options: AutoscalerOptions, interval: float, place: str) -> Iterator[tuple[str, str]]:
    if options.metrics_window.exact_seconds <= interval:
        yield (
            _key_that_sets(AutoscalerOptions.metrics_window, options.configuration),
            f"expected more than {_format_seconds(interval)}, the time between two passes ({place}), because a"
            " shorter window"
            " never holds two samples",
        )


def _key_that_sets(option: Option[Any], texts: Mapping[str, str]) -> str:
    """Return the key that sets an option, its own where none does."""
    found = option.find(texts)
    return found[0] if found else option.key


def _describe_origin(key: str, values: Mapping[str, Value], prefix: str = "") -> str:
    """Return key, value and origin, such as ``job.autoscaler.metrics.window = '5 s' (--set)``."""
    old_keys = daemon_keys()[key].old_keys if key in daemon_keys() else ()
    for candidate in (prefix + key, key, *old_keys):
        if candidate in values:
            return describe_setting(candidate, values)
    default = job_keys()[key].default_text if key in job_keys() else daemon_keys()[key].default_text
    return f"{key} = '{default}' (default)"


def _external_metric_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the places that know lag, arrivals and floors, and the options that name them."""
    names = [*(each.name for each in settings.kafka), *(each.name for each in settings.external_metrics)]
    for name in dict.fromkeys(each for each in names if names.count(each) > 1 or each == FLINK):
        yield f"the name '{name}' in autoscaler.kafka or autoscaler.external-metrics is used twice, or means Flink"
    for kafka in settings.kafka:
        if not kafka.bootstrap_servers:
            yield f"autoscaler.kafka: '{kafka.name}' has no bootstrap-servers"
        if "bootstrap.servers" in {*kafka.properties, *kafka.properties_env, *kafka.properties_file}:
            yield f"autoscaler.kafka: '{kafka.name}' names its brokers by bootstrap-servers, not by a property"
    for number in settings.external_metrics:
        if number.type in EXTERNAL_METRIC_TYPES and len(number.url) != 1:
            yield f"autoscaler.external-metrics: '{number.name}' needs one url"
        if number.type == "promql" and number.query is None:
            yield f"autoscaler.external-metrics: '{number.name}' has no query"
    yield from _source_name_problems(settings, names)


def _source_name_problems(settings: Settings, names: Sequence[str]) -> Iterator[str]:
    asked = (try_call(partial(_named_sources, cluster.job_defaults)) for cluster in settings.effective_clusters())
    brokers = {each.name for each in settings.kafka}
    for key, name in dict.fromkeys(each for found in asked if isinstance(found, list) for each in found):
        if name in brokers and key != AutoscalerOptions.lag_sources.key:
            yield f"{key}: '{name}' is in autoscaler.kafka, which tells lag and nothing else"
        elif name not in names and (name != FLINK or key != AutoscalerOptions.lag_sources.key):
            yield f"{key}: there is no '{name}' in {_DECLARED[key]}"


def _named_sources(defaults: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the options of jobs and the places that they name. May raise ConfigError."""
    options = AutoscalerOptions(defaults)
    listed = (options.lag_sources, options.arrival_rate_sources, options.floor_sources)
    return [
        (key, name)
        for key, named_places in zip(_DECLARED, listed, strict=True)
        for entry in named_places
        for name in entry.names
    ]
