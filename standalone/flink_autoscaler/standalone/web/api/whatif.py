"""What a recorded pass would have decided with other options: the pure pass on the recorded inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from flink_autoscaler.standalone.records.codec import PassRecord
from flink_autoscaler.standalone.records.replay import replayed
from flink_autoscaler.standalone.settings.schema.options import job_keys
from flink_autoscaler.standalone.web.api import documents, models
from flink_autoscaler.standalone.web.figures import changes_of

PREFIX: Final = "job.autoscaler."


def what_if(record: PassRecord, options: Mapping[str, str], plugins: Plugins) -> models.WhatIfDoc:
    """Do a recorded pass again with other options. Nothing is changed by it.

    Args:
        record: The pass, whole.
        options: Of the job by key, with or without ``job.autoscaler.``; an empty text takes one away.
        plugins: Those of this process.

    Raises:
        ConfigError: There is no such option.
        StoreError: The record does not hold what the pass depended on.
    """
    wanted = {_full_key(key): text for key, text in options.items()}
    context = record.request.context
    before = context.configuration
    configuration = {key: text for key, text in {**before, **wanted}.items() if text or key not in wanted}
    request = replace(record.request, context=replace(context, configuration=configuration))
    decided, would_be = replayed(record, plugins), replayed(replace(record, request=request), plugins)
    names = would_be.vertex_names or decided.vertex_names
    old, new = _final_parallelism(decided), _final_parallelism(would_be)
    running = {} if decided.topology is None else decided.topology.vertices
    return models.WhatIfDoc(
        job_key=context.job_key,
        at_ms=request.now_ms,
        decided=documents.headline_of(decided),
        would_be=documents.headline_of(would_be),
        vertices=[
            models.WhatIfVertexDoc(
                vertex_id=v,
                name=names.get(v, v),
                parallelism=vertex.parallelism,
                decided=old.get(v, vertex.parallelism),
                would_be=new.get(v, vertex.parallelism),
            )
            for v, vertex in running.items()
        ],
        reasons=documents.reason_documents(would_be.decision.reasons, names),
        changes=[
            f"{key}: {text}" if text else f"# without {key}"
            for key, text in sorted(wanted.items())
            if before.get(key, "") != text
        ],
    )


def _final_parallelism(outcome: PassOutcome) -> Mapping[VertexId, int]:
    """Return the parallelism that vertices have after a pass: what it decides or wants, else what they run with."""
    running = {} if outcome.topology is None else outcome.topology.vertices
    wanted = {**outcome.wanted, **changes_of(outcome)}
    return {v: wanted.get(v, vertex.parallelism) for v, vertex in running.items()}


def _full_key(key: str) -> str:
    """Return the whole key of an option of jobs; there has to be one of that name."""
    full = key if key.startswith(PREFIX) else PREFIX + key
    known = job_keys()
    if full not in known:
        raise ConfigError(f"there is no option '{key}' of jobs{nearest(full, list(known))}")
    return full
