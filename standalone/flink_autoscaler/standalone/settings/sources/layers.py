"""The layers of a job's configuration: defaults, what the cluster reports, what the job brings along itself."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.standalone.settings.sources.keys import JOB_PREFIXES, job_keys
from flink_autoscaler.standalone.settings.sources.masking import MASK


def with_reported(defaults: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str]:
    """Put what a JobManager reports over the defaults, key by key, as the Java process does.

    Flink shows secrets as asterisks: those would overwrite the real values.
    """
    return {**defaults, **{key: value for key, value in reported.items() if value != MASK}}


def own_options(user_config: Mapping[str, str]) -> dict[str, str]:
    """Return what of a job's global parameters are options of the autoscaler, without masked values."""
    return {key: value for key, value in user_config.items() if key.startswith(JOB_PREFIXES) and value != MASK}


def with_own_options(configuration: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Put options of a job over a configuration; by whichever of its keys an option is set, this one counts."""
    if not own:
        return configuration
    hidden = {other for key in own if key in job_keys() for other in job_keys()[key].keys}
    return {**{key: value for key, value in configuration.items() if key not in hidden}, **own}
