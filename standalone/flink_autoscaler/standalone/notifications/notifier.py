"""Takes events beside the other event handlers and has them told; nothing here holds up a pass."""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

import structlog

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, StoreError
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.notifications import Notification, notification_identity
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.background import BackgroundWriter
from flink_autoscaler.standalone.notifications.delivery import (
    FIRST_PAUSE,
    STORE_PAUSE,
    Delivery,
    Outbox,
    TargetCounts,
    TargetStatus,
)
from flink_autoscaler.standalone.notifications.messages import cloud_event, report_event
from flink_autoscaler.standalone.notifications.targets import make_target
from flink_autoscaler.standalone.settings.schema.clusters import NotificationSettings, RuleSettings, TargetSettings
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.stores.clock import monotonic_seconds

log = structlog.get_logger(__name__)

MAX_QUEUED: Final = 2000
"""Events that wait to be written into the outbox; beyond that the oldest are given up."""

_BATCH: Final = 100
_REMEMBERED: Final = 10_000
"""Events whose repetitions are recognised without a look into the outbox."""

_CLEANUP_INTERVAL: Final = 60.0
_IDLE_SECONDS: Final = 5.0
_STOP_TIMEOUT: Final = 5.0

_Queued = tuple[Context, tuple[Notification, ...]]
"""The notices of an event, and the context of the pass that has told it: its term counts for the fence."""


class Notifier(BackgroundWriter[_Queued]):
    """Has targets told about events (an ``AutoScalerEventHandler``). Until it is started it takes none.

    Args:
        settings: Targets and rules.
        outbox: Where notices wait; belongs to the caller.
        source: Name of the group of daemons.
        may_act: Tells whether this daemon leads.
        max_queued: Events that wait to be written into the outbox.
        first_pause: Seconds until a target that failed is tried again.
        store_pause: Seconds until an outbox that took nothing is tried again.
    """

    def __init__(
        self,
        settings: NotificationSettings,
        outbox: Outbox,
        *,
        source: str,
        may_act: Callable[[], bool] = lambda: True,
        max_queued: int = MAX_QUEUED,
        first_pause: float = FIRST_PAUSE,
        store_pause: float = STORE_PAUSE,
    ) -> None:
        super().__init__("notifier", limit=max_queued, batch=_BATCH, retry=store_pause)
        self._settings = settings
        self._rules = RoutingRules(settings)
        self._outbox = outbox
        self._source = source
        self._may_act = may_act
        self._first_pause = first_pause
        self._lock = threading.Lock()
        self._told_until: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._deliveries: dict[str, tuple[TargetSettings, Delivery]] = {}
        self._counts: dict[str, TargetCounts] = {target.name: TargetCounts() for target in settings.targets}
        self._loop: EventLoopThread | None = None
        self._is_started = False
        self._dropped = 0
        self._cleaned_up_at = -math.inf

    def start(self) -> None:
        """Begin to take events and to tell them, and go on with what waits since before."""
        self._loop = EventLoopThread("notifications")
        self._is_started = True
        self._update_deliveries()
        super().start()

    def update_settings(self, settings: NotificationSettings) -> None:
        """Go on with other targets and rules. Never raises: what is wrong with a target is told when it is used."""
        self._settings, self._rules = settings, RoutingRules(settings)
        self._counts = {each.name: self._counts.get(each.name, TargetCounts()) for each in settings.targets}
        if self._is_started and not self._is_closed:
            self._update_deliveries()

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event; returns at once."""
        if not self._is_started or self._is_closed:
            return
        now = time.time()
        targets = self._rules.targets(context, event)
        identity = notification_identity(context.job_key, event)
        interval = 0.0 if event.interval is None else event.interval.exact_seconds
        targets = tuple(name for name in targets if self._is_due(name, identity, interval))
        if not targets:
            return
        event_id = str(uuid.uuid4())
        text = json.dumps(cloud_event(context, event, event_id=event_id, source=self._source, at=now), allow_nan=False)
        notices = tuple(Notification(event_id, name, identity, interval, text) for name in targets)
        self._put((copy_context(), notices))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report; returns at once."""
        self.handle_event(context, report_event(report))

    def status(self) -> Mapping[str, TargetStatus]:
        """Return how the telling of every target goes, by its name. From any thread."""
        queued = Counter(notice.target for _, notices in self._pending_items() for notice in notices)
        return {name: _with_queued(counts.status, queued[name]) for name, counts in self._counts.copy().items()}

    def close(self) -> None:
        """Write what waits into the outbox and end; what is not sent by then is sent after the next start, if it can.

        May be called more than once.
        """
        if not self._is_started or self._is_closed:
            self._is_closed = True
            return
        self._close_within(_STOP_TIMEOUT)
        stopped = [delivery for _, delivery in self._deliveries.values()]
        self._stop(tuple(self._deliveries))
        end = monotonic_seconds() + _STOP_TIMEOUT
        for delivery in stopped:
            delivery.join(max(0.0, end - monotonic_seconds()))
        if self._loop is not None:
            self._loop.close()

    def _is_due(self, target: str, identity: str, interval: float) -> bool:
        """Tell whether the same was not told to a target within an interval, as far as this process knows."""
        now = monotonic_seconds()
        with self._lock:
            if now < self._told_until.get((target, identity), now):
                return False
            if interval > 0:
                self._told_until[target, identity] = now + interval
                self._told_until.move_to_end((target, identity))
            if len(self._told_until) > _REMEMBERED:
                self._told_until.popitem(last=False)
        return True

    def _on_dropped(self, queued: _Queued) -> None:
        self._dropped += 1
        for target, events in Counter(notice.target for notice in queued[1]).items():
            self._count_dropped(target, events)

    def _count_dropped(self, target: str, events: int) -> None:
        if target in self._counts:  # it may be configured no more
            self._counts[target].record_dropped(events)

    def _update_deliveries(self) -> None:
        """Have a delivery for every target as it is configured now, and no other."""
        wanted = {target.name: target for target in self._settings.targets}
        self._stop([name for name, (target, _) in self._deliveries.items() if wanted.get(name) != target])
        for name, target in wanted.items():
            if name not in self._deliveries and self._loop is not None:
                delivery = self._delivery(target, self._loop)
                self._deliveries = {**self._deliveries, name: (target, delivery)}
                delivery.start()

    def _delivery(self, target: TargetSettings, loop: EventLoopThread) -> Delivery:
        return Delivery(
            make_target(target, loop),
            self._outbox,
            may_act=self._may_act,
            clock=monotonic_seconds,
            first_pause=self._first_pause,
            counts=self._counts.get(target.name),
        )

    def _stop(self, names: Sequence[str]) -> None:
        for name in names:
            self._deliveries[name][1].stop()
        self._deliveries = {name: each for name, each in self._deliveries.items() if name not in names}

    def _write(self, queued: list[_Queued]) -> None:
        while queued:
            context, notices = queued[0]
            with ErrorBoundary(StoreError) as boundary:
                context.run(self._outbox.add, notices)
            if boundary.error is not None and not _is_permanent_failure(boundary.error):
                raise boundary.error
            for notice in notices:
                if notice.target in self._deliveries:
                    self._deliveries[notice.target][1].wake()
            queued.pop(0)
        if self._dropped:
            log.warning("notifications_dropped", events=self._dropped, effect="nobody is told about them")
            self._dropped = 0

    def _report_outage(self, error: AutoscalerError | None) -> None:
        if error is None:
            log.info("notifications_saving_recovered")
        else:
            log.warning("notifications_not_saved", error=mask_secrets(str(error)), effect="they wait in memory")

    def _max_idle_seconds(self) -> float:
        return _IDLE_SECONDS

    def _run_maintenance(self) -> None:
        # By the clock by which notices get old: a clock that is set forward makes many old at once.
        if 0 <= time.time() - self._cleaned_up_at < _CLEANUP_INTERVAL or not self._may_act():
            return
        self._cleaned_up_at = time.time()
        with ErrorBoundary() as boundary:
            if given_up := self._outbox.expire(self._settings.retry_for):
                log.warning(
                    "notifications_dead_lettered", events=sum(given_up.values()), effect="nobody is told about them"
                )
            for target, events in given_up.items():
                self._count_dropped(target, events)
        if boundary.error is not None:
            log.debug("notifications_cleanup_failed", error=mask_secrets(str(boundary.error)))


def _with_queued(status: TargetStatus, queued: int) -> TargetStatus:
    """Add what waits to be written into the outbox."""
    return replace(status, waiting=queued + (status.waiting or 0)) if queued else status


def _is_permanent_failure(error: AutoscalerError) -> bool:
    """Tell whether an event will never be taken, and why that is right or has to be lived with."""
    from flink_autoscaler.stores.sql.database.failures import LeaseLostError, RowError  # noqa: PLC0415

    if isinstance(error, RowError):
        log.warning("notification_not_saved", error=mask_secrets(str(error)))
    # Of a term that is over: whoever leads now sees for itself what there is to tell.
    return isinstance(error, LeaseLostError | RowError)


WITHOUT_RULES: Final = (RuleSettings(severities=(EventType.WARNING.value.lower(),)),)
"""What holds where no rule is given: every warning, to all targets."""


class RoutingRules:
    """Says who is told about an event. Immutable.

    Args:
        settings: Targets and rules.
    """

    def __init__(self, settings: NotificationSettings) -> None:
        self._names = tuple(target.name for target in settings.targets)
        self._rules = settings.rules or WITHOUT_RULES

    def targets(self, context: JobAutoScalerContext, event: Event) -> tuple[str, ...]:
        """Return the names of the targets that are told, each once, in the order of the configuration.

        Args:
            context: Of the job, or of the daemon itself, which is of no cluster.
            event: What happened.
        """
        if not self._names:
            return ()
        fitting = [rule for rule in self._rules if _rule_matches(rule, context, event)]
        return tuple(name for name in self._names if any(name in (rule.targets or self._names) for rule in fitting))


def _rule_matches(rule: RuleSettings, context: JobAutoScalerContext, event: Event) -> bool:
    names = (context.job_key, context.job_name or context.job_key)
    return (
        (not rule.severities or event.type.value.lower() in rule.severities)
        and _matches_any(rule.reasons, event.reason.casefold(), is_folded=True)
        and _matches_any(rule.clusters, context.cluster)
        and any(_matches_any(rule.jobs, name) for name in names)
    )


def _matches_any(patterns: Sequence[str], text: str, *, is_folded: bool = False) -> bool:
    """Tell whether one of the patterns fits; none at all fits everything."""
    return not patterns or any(fnmatchcase(text, each.casefold() if is_folded else each) for each in patterns)
