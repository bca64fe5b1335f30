"""Pass after pass over one job, without any port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import without_reading
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, ClusterReading, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.core.ports.plugins import NO_PLUGINS, Plugins
from testkit.builders.core.readings import a_cluster


class JobDriver:
    """Remembers between passes what a daemon would remember.

    Attributes:
        context: The job; may be replaced between passes.
        state: What the last pass left behind.
        profiles: What is known about the usual load of the sources.
    """

    def __init__(
        self, context: JobAutoScalerContext, state: JobState = EMPTY_STATE, plugins: Plugins = NO_PLUGINS
    ) -> None:
        self.context = context
        self.state = state
        self.memory = EMPTY_MEMORY
        self.profiles: Mapping[VertexId, ProfileResult] = {}
        self._plugins = plugins

    def run(self, at_ms: int, reading: JobReading, cluster: ClusterReading | None = None) -> PassOutcome:
        """Do one pass; the partitions of the reading replace those that are remembered."""
        request = PassRequest(self.context, self.state, at_ms, self.memory, profiles=self.profiles)
        reading = replace(reading, memory=replace(self.memory, partitions=reading.memory.partitions))
        outcome = without_reading(request)
        if outcome is None:
            outcome = advance(request, reading, cluster or a_cluster(), self._plugins)
        self.state, self.memory = outcome.state, outcome.memory
        return outcome

    def run_each_minute(self, readings: Iterable[JobReading], cluster: ClusterReading | None = None) -> PassOutcome:
        """Do one pass per reading, the first at minute 1, and return the last one."""
        for minute, reading in enumerate(readings, start=1):
            outcome = self.run(minute * 60_000, reading, cluster)
        return outcome
