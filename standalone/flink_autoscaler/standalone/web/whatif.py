"""What a recorded pass would have decided with other options: the pure pass on the recorded inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from flink_autoscaler.standalone.records.codec import PassRecord
from flink_autoscaler.standalone.records.replay import replayed
from flink_autoscaler.standalone.settings.schema.options import job_keys
from flink_autoscaler.standalone.web.figures import changes_of

PREFIX: Final = "job.autoscaler."


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Two answers to one pass.

    Attributes:
        decided: With the options that the job had.
        would_be: With the others.
    """

    record: PassRecord
    decided: PassOutcome
    would_be: PassOutcome
    options: Mapping[str, str]


def what_if(record: PassRecord, options: Mapping[str, str], plugins: Plugins) -> WhatIf:
    """Do a recorded pass again with other options. Nothing is changed by it.

    Args:
        record: The pass, whole.
        options: Of the job by key, with or without ``job.autoscaler.``; an empty text takes one away.
        plugins: Those of this process.

    Raises:
        ConfigError: There is no such option.
        StoreError: The record does not hold what the pass depended on.
    """
    wanted = full_keys(options)
    context = record.request.context
    configuration = configuration_with(context.configuration, wanted)
    request = replace(record.request, context=replace(context, configuration=configuration))
    return WhatIf(record, replayed(record, plugins), replayed(replace(record, request=request), plugins), wanted)


def full_keys(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by their whole keys.

    Raises:
        ConfigError: There is no such option.
    """
    return {_full(key): text for key, text in options.items()}


def configuration_with(before: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with other options by whole key; an empty text takes one away."""
    return {key: text for key, text in {**before, **options}.items() if text or key not in options}


def changed_lines(options: Mapping[str, str], before: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the configuration that differ, to copy."""
    for key, text in sorted(options.items()):
        if before.get(key, "") != text:
            yield f"{key}: {text}" if text else f"# without {key}"


def final_parallelism(outcome: PassOutcome) -> Mapping[VertexId, int]:
    """Return the parallelism that vertices have after a pass: what it decides or wants, else what they run with."""
    running = {} if outcome.topology is None else outcome.topology.vertices
    wanted = {**outcome.wanted, **changes_of(outcome)}
    return {v: wanted.get(v, vertex.parallelism) for v, vertex in running.items()}


def _full(key: str) -> str:
    """Return the whole key of an option of jobs.

    Raises:
        ConfigError: There is none of that name.
    """
    full = key if key.startswith(PREFIX) else PREFIX + key
    known = job_keys()
    if full not in known:
        raise ConfigError(f"there is no option '{key}' of jobs{nearest(full, list(known))}")
    return full
