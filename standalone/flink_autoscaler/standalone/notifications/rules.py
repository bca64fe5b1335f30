"""Which events are told to which targets."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.settings.schema.clusters import NotificationSettings, RuleSettings

WITHOUT_RULES: Final = (RuleSettings(severities=(EventType.WARNING.value.lower(),)),)
"""What holds where no rule is given: every warning, to all targets."""


class Rules:
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
        fitting = [rule for rule in self._rules if _fits(rule, context, event)]
        return tuple(name for name in self._names if any(name in (rule.targets or self._names) for rule in fitting))


def _fits(rule: RuleSettings, context: JobAutoScalerContext, event: Event) -> bool:
    names = (context.job_key, context.job_name or context.job_key)
    return (
        (not rule.severities or event.type.value.lower() in rule.severities)
        and _is_any(rule.reasons, event.reason.casefold(), is_folded=True)
        and _is_any(rule.clusters, context.cluster)
        and any(_is_any(rule.jobs, name) for name in names)
    )


def _is_any(patterns: Sequence[str], text: str, *, is_folded: bool = False) -> bool:
    """Tell whether one of the patterns fits; none at all fits everything."""
    return not patterns or any(fnmatchcase(text, each.casefold() if is_folded else each) for each in patterns)
