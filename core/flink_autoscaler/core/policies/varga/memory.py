"""What ``varga`` remembers of a job from pass to pass, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.policies.base.catch_up import Backlog, not_running
from flink_autoscaler.core.policies.base.lag_trend import Sample, with_sample
from flink_autoscaler.core.policies.hpa.memory import HpaMemory
from flink_autoscaler.core.policies.varga.settings import VargaSettings


@dataclass(frozen=True, slots=True)
class VargaMemory:
    """What is remembered about a job graph.

    Attributes:
        hpa: What ``hpa`` would remember.
        stopped_at: When not all tasks were seen running last; None for never.
        lags: Of ``varga.deriv-window``, oldest first.
    """

    hpa: HpaMemory
    stopped_at: float | None = None
    lags: tuple[Sample, ...] = ()

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> VargaMemory:
        """Read what :meth:`as_json` wrote; empty for a state that cannot be read."""
        try:
            lags = tuple((float(at), float(lag)) for at, lag in state["lags"])
            return cls(HpaMemory.read(state["hpa"], obs), state["stopped_at"], lags)
        except (KeyError, TypeError, ValueError):
            return cls(HpaMemory.read({}, obs))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"hpa": self.hpa.as_json(), "stopped_at": self.stopped_at, "lags": [list(each) for each in self.lags]}

    def noticed(self, obs: JobObservation, backlog: Backlog, settings: VargaSettings) -> VargaMemory:
        """Return what is remembered after a look at the job."""
        window = settings.deriv_window
        return VargaMemory(
            hpa=self.hpa.noticed(obs, is_behind=backlog.lag > settings.lag_threshold),
            stopped_at=obs.now if not_running(obs) else self.stopped_at,
            lags=with_sample(self.lags, obs.now, backlog.lag, window) if backlog.is_known else (),
        )

    def ran_for(self, obs: JobObservation) -> float:
        """Return for how many seconds all tasks have been running, as far as is known."""
        starts = [at for at in (self.stopped_at, obs.last_restart_at) if at is not None and at <= obs.now]
        return obs.now - max(starts, default=0.0)
