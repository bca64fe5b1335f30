"""``varga``: idleness and the relative change of the lag, with the behaviour of a HorizontalPodAutoscaler.

After Varga, Balassi and Kiss, "Towards autoscaling of Apache Flink jobs" (Acta Univ. Sapientiae, Informatica 13(1),
2021). The formulas and constants are those with which "Evaluating Stream Processing Autoscalers" (DEBS 2024) compares
this policy with others. What makes it safe for jobs that stop for every rescale is ours; without ``varga.hardened`` it
is left out, and a restart, whose metrics read 0, then looks like a flood.
"""

from __future__ import annotations

from dataclasses import replace

from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.catch_up import Backlog, Load, backlog_of, load_of, load_reasons
from flink_autoscaler.core.policies.base.lag_trend import slope_of
from flink_autoscaler.core.policies.base.one_number import JOB, number_of, number_reason, proposal_of, spread
from flink_autoscaler.core.policies.base.proposals import NOT_RUNNING, abstention, missing, not_usable
from flink_autoscaler.core.policies.hpa.memory import HpaMemory, behavior_reasons
from flink_autoscaler.core.policies.varga.memory import VargaMemory
from flink_autoscaler.core.policies.varga.metrics import MetricAdvice, wish_of
from flink_autoscaler.core.policies.varga.settings import VargaSettings


class VargaPolicy:
    """Follows how busy a job is, and how fast its lag changes where that is large."""

    name = "varga"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what it would do.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, settings = given.obs, VargaSettings.read(given.config)
        backlog = backlog_of(obs)
        memory = VargaMemory.read(given.state, obs).noticed(obs, backlog, settings)
        state = memory.as_json()
        if why_not := _why_not(obs, backlog, memory, settings):
            return abstention(self.name, why_not, state)
        if again := memory.hpa.repeated(self.name, obs, settings.sync_period, state):
            return again
        slope = slope_of(memory.lags, settings.deriv_window)
        backlog = backlog if slope is None else replace(backlog, slope=slope)
        load = _load(obs, backlog, memory.hpa, settings)
        wish = wish_of(obs, backlog, settings) if load.is_telling else MetricAdvice(number_of(obs), is_growing=False)
        if not isinstance(wish, MetricAdvice):
            return abstention(self.name, wish, state)
        wish = replace(wish, reasons=(*load_reasons(obs, load, backlog), *wish.reasons))
        return self._decided(obs, wish, memory, settings, blocks_down=load is Load.CATCHING_UP)

    def _decided(
        self,
        obs: JobObservation,
        wish: MetricAdvice,
        memory: VargaMemory,
        settings: VargaSettings,
        *,
        blocks_down: bool,
    ) -> Proposal:
        """Go as far toward a wish as windows and rate limits allow."""
        current = number_of(obs)
        behaved = memory.hpa.behaved(JOB, wish.number, current, obs.now, settings.behavior)
        targets = spread(obs, behaved.number, is_growing=wish.is_growing)
        hpa = memory.hpa.decided(obs.now, {JOB: behaved.track}, targets, blocks_down=blocks_down)
        summary = number_reason(current, behaved.number, "utilization and change of the lag")
        reasons = (summary, *wish.reasons, *behavior_reasons(wish.number, behaved))
        state = replace(memory, hpa=hpa).as_json()
        return proposal_of(self.name, obs, targets, reasons, state, blocks_down=blocks_down)


def _why_not(obs: JobObservation, backlog: Backlog, memory: VargaMemory, settings: VargaSettings) -> tuple[Reason, ...]:
    """Return why nothing can be said about a job; empty when something can. As published, a restart is no reason."""
    is_masked = settings.mask_rescale
    reasons = tuple(reason for reason in not_usable(obs) if is_masked or reason.code != NOT_RUNNING)
    sources = (vertex for vertex in obs.vertices.values() if vertex.is_source)
    reasons += tuple(missing(vertex, "rate") for vertex in sources if vertex.rate_in is None)
    if is_masked and memory.ran_for(obs) < settings.deriv_window:
        reasons += (Reason("WARM_UP", "not all tasks have been running for varga.deriv-window"),)
    if is_masked and backlog.rate == 0.0:
        reasons += (Reason("NO_THROUGHPUT", "the sources read nothing"),)
    return reasons


def _load(obs: JobObservation, backlog: Backlog, memory: HpaMemory, settings: VargaSettings) -> Load:
    """Return what the use of the job can be taken for; as published, it is always taken for steady."""
    if not settings.catch_up_hold:
        return Load.STEADY
    is_behind = backlog.lag > settings.lag_threshold
    return load_of(obs, backlog, is_behind=is_behind, backlog_at=memory.backlog_at, budget=settings.budget)
