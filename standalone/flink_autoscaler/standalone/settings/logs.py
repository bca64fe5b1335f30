"""Logging: event names and facts, readable on a terminal, JSON elsewhere, without secrets."""

from __future__ import annotations

import logging
import sys
from textwrap import wrap
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from flink_autoscaler.standalone.settings.secrets import MASK, is_secret_field, mask_secrets

OUR_LOGGER = "flink_autoscaler"

_COLUMNS: Final = 120
_OF_EVERY_LINE: Final = ("timestamp", "level", "event", "logger")
_WHO: Final = ("job_key",)
_FOR_PROGRAMS: Final = frozenset({"codes", "figures", "event_key", "parallelism_hash", "interval"})
_STRUCTURED: Final = frozenset({"vertices", "changes", "parallelism"})
"""Facts that a person has in other words on the same line or the next one, where they are lists or mappings."""


def configure_logging(*, log_format: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:
    """Send every log line of the process to one stream.

    Args:
        log_format: ``console``, ``json``, or ``auto``: console on a terminal, JSON otherwise.
        level: Least level of our own lines; those of libraries appear from warning on.
        stream: Standard error unless given, so that standard output stays free for results.
    """
    target = stream or sys.stderr
    is_console = log_format == "console" or (log_format == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=_rendering_processors(is_console=is_console, colors=target.isatty()),
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_common_processors()],
        )
    )
    handler.addFilter(_is_relevant)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    # The scheduler warns in every interval about a pass that overruns; the daemon says so once.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    logging.captureWarnings(capture=True)
    own = logging.getLogger(OUR_LOGGER)
    own.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_common_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=_get_logger,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _is_relevant(record: logging.LogRecord) -> bool:
    # py4j logs with a stack trace, in the name of the root logger, when its JVM goes; the Spark engine reports that.
    return record.name == OUR_LOGGER or "py4j" not in record.pathname


def _get_logger(*_: Any) -> logging.Logger:
    # One logger whatever module asks, so that the level also counts for plug-ins.
    return logging.getLogger(OUR_LOGGER)


def _common_processors() -> list[Processor]:
    return [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering_processors(*, is_console: bool, colors: bool) -> list[Processor]:
    clean = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if is_console:
        # Formatted first, without what local variables hold: the console's own way prints them, and with them secrets.
        return [*clean, structlog.processors.format_exc_info, _mask_event, ConsoleLines(colors=colors)]
    json = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return [*clean, structlog.processors.format_exc_info, _mask_event, json]


def _mask_event(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    return {key: MASK if is_secret_field(key) else mask_secrets(value) for key, value in event_dict.items()}


class ConsoleLines:
    """Renders a log line for a person: what happened on one line of the terminal, the rest below it, one fact a line.

    What only programs need is left to JSON.
    """

    def __init__(self, *, colors: bool) -> None:
        self._shown = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False, pad_event_to=0)
        self._measured = structlog.dev.ConsoleRenderer(colors=False, sort_keys=False, pad_event_to=0)

    def __call__(self, logger: WrappedLogger, name: str, event_dict: EventDict) -> str:
        """Return the line, and the lines below it."""
        facts = {key: value for key, value in event_dict.items() if not _is_machine_only(key, value)}
        traceback = facts.pop("exception", None)
        # A line end in a foreign text must not begin what looks like another line of the log.
        facts |= {key: " ".join(value.split("\n")) for key, value in facts.items() if isinstance(value, str)}
        if str(facts.get("job_key", "")).startswith(f"{facts.get('cluster')}/"):
            del facts["cluster"]
        head: dict[str, Any] = {key: facts.pop(key) for key in (*_OF_EVERY_LINE, *_WHO) if key in facts}
        for key in list(facts):
            more = {**head, key: facts[key]}
            if not isinstance(facts[key], list | dict) and len(self._measured(logger, name, dict(more))) <= _COLUMNS:
                head = more
                del facts[key]
        below = [line for key, value in facts.items() for line in _fact_lines(key, value)]
        return "\n".join([str(self._shown(logger, name, head)), *below, *([] if traceback is None else [traceback])])


def _is_machine_only(key: str, value: object) -> bool:
    return key in _FOR_PROGRAMS or (key in _STRUCTURED and isinstance(value, list | dict))


def _fact_lines(key: str, value: object) -> list[str]:
    """Return a fact as lines below; a list of texts is one text a line."""
    texts = [str(each) for each in value] if isinstance(value, list) else [str(value)]
    start = f"    {key}: "
    return [
        line
        for number, text in enumerate(texts)
        for line in wrap(
            text,
            _COLUMNS,
            initial_indent=" " * len(start) if number else start,
            subsequent_indent=" " * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
