"""Logging: event names and facts, readable on a terminal, JSON elsewhere, without secrets."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import stamina
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from flink_autoscaler.standalone.settings.secrets import MASK, is_sensitive, shown

OUR_LOGGER = "flink_autoscaler"

_SENSITIVE_FIELDS = ("authorization", "cookie", "headers")
_CREDENTIALS_IN_HEADER = re.compile(r"\b(Basic|Bearer|Negotiate)\s+[\w.~+/=-]{6,}", re.IGNORECASE)


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
            processors=_rendering(is_console=is_console, colors=target.isatty()),
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_common()],
        )
    )
    handler.addFilter(_is_no_noise)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    # The scheduler warns in every interval about a pass that overruns; the daemon says so once.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    # A retry is no news: what fails in the end is reported by whoever asked.
    stamina.instrumentation.set_on_retry_hooks(())
    logging.captureWarnings(capture=True)
    own = logging.getLogger(OUR_LOGGER)
    own.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=_the_logger,
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _is_no_noise(record: logging.LogRecord) -> bool:
    # py4j logs with a stack trace, in the name of the root logger, when its JVM goes; the Spark engine reports that.
    return record.name == OUR_LOGGER or "py4j" not in record.pathname


def masked(value: Any) -> Any:
    """Return a value of a log line or page with secrets replaced: by key in mappings, by pattern in texts."""
    if isinstance(value, str):
        return _CREDENTIALS_IN_HEADER.sub(rf"\1 {MASK}", shown("", value))
    if isinstance(value, Mapping):
        return {key: MASK if _is_secret(str(key)) else masked(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [masked(entry) for entry in value]
    return value


def _is_secret(key: str) -> bool:
    # Fields of log lines are Python names, options are not.
    return is_sensitive(key.replace("_", "-")) or any(word in key.lower() for word in _SENSITIVE_FIELDS)


def _the_logger(*_: Any) -> logging.Logger:
    # One logger whatever module asks, so that the level also counts for plug-ins.
    return logging.getLogger(OUR_LOGGER)


def _common() -> list[Processor]:
    return [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering(*, is_console: bool, colors: bool) -> list[Processor]:
    clean = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if is_console:
        # The plain formatter: the default one prints local variables, and with them secrets.
        console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
        return [*clean, _mask, console]
    json = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return [*clean, structlog.processors.format_exc_info, _mask, json]


def _mask(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    # exc_info must stay as it is for the renderer of the console.
    return {
        key: value if key == "exc_info" else MASK if _is_secret(key) else masked(value)
        for key, value in event_dict.items()
    }
