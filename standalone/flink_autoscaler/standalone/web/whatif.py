"""What a recorded pass would have decided with other options: the pure pass on the recorded inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pydantic import Field

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import closest_key
from flink_autoscaler.core.ports.plugins import Plugins
from flink_autoscaler.standalone.records.codec import PassRecord
from flink_autoscaler.standalone.records.replay import replay_pass
from flink_autoscaler.standalone.settings.schema.options import job_keys
from flink_autoscaler.standalone.views.base import View
from flink_autoscaler.standalone.views.jobs import ReasonView, reason_views
from flink_autoscaler.standalone.views.outcomes import final_parallelism, headline_of, names_of

PREFIX: Final = "job.autoscaler."


class WhatIfVertexView(View):
    """What would become of a vertex."""

    vertex_id: str
    name: str
    parallelism: int
    decided: int
    would_be: int


class WhatIfView(View):
    """What a recorded pass would have decided with other options. Nothing is changed by asking."""

    job_key: str
    at_ms: int
    decided: str
    would_be: str
    vertices: list[WhatIfVertexView]
    reasons: list[ReasonView]
    changes: list[str] = Field(description="The lines of the configuration that differ, to copy.")


def what_if(record: PassRecord, options: Mapping[str, str], plugins: Plugins) -> WhatIfView:
    """Do a recorded pass again as it was, and with other options.

    Args:
        record: The pass, whole.
        options: Of the job by key, with or without ``job.autoscaler.``; an empty text takes one away.
        plugins: Those of this process.

    Raises:
        ConfigError: There is no such option.
        StoreError: The record does not hold what the pass depended on.
    """
    wanted, context = {_full_key(key): text for key, text in options.items()}, record.request.context
    set_before = context.configuration
    configuration = {key: text for key, text in {**set_before, **wanted}.items() if text or key not in wanted}
    request = replace(record.request, context=replace(context, configuration=configuration))
    decided, would_be = replay_pass(record, plugins), replay_pass(replace(record, request=request), plugins)
    names = names_of(would_be) or names_of(decided)
    before, after = final_parallelism(decided), final_parallelism(would_be)
    running = {} if decided.observation.topology is None else decided.observation.topology.vertices
    return WhatIfView(
        job_key=context.job_key,
        at_ms=record.request.now_ms,
        decided=headline_of(decided),
        would_be=headline_of(would_be),
        vertices=[
            WhatIfVertexView(
                vertex_id=v,
                name=names.get(v, v),
                parallelism=vertex.parallelism,
                decided=before[v],
                would_be=after.get(v, vertex.parallelism),
            )
            for v, vertex in running.items()
        ],
        reasons=reason_views(would_be.decision.reasons, names),
        changes=[
            f"{key}: {text}" if text else f"# without {key}"
            for key, text in sorted(wanted.items())
            if set_before.get(key, "") != text
        ],
    )


def _full_key(key: str) -> str:
    """Return the whole key of an option of jobs; there has to be one of that name."""
    full = key if key.startswith(PREFIX) else PREFIX + key
    known = job_keys()
    if full not in known:
        raise ConfigError(f"there is no option '{key}' of jobs{closest_key(full, list(known))}")
    return full
