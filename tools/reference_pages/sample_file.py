"""The sample configuration: every option with its default, switched off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import LEGACY_PREFIX
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    INDEX,
    LISTS,
    DocumentedOption,
    allowed,
    daemon_options,
)

SAMPLE: Final = Path("conf/autoscaler.yaml")

_SAMPLE_HEAD = """\
# Configuration of flink-autoscaler: every option with its default, as a comment. To change one, remove the "# " before
# its key. Options without a value are unset. The file sets nothing, so it hides nothing that Flink's configuration
# (FLINK_CONF_DIR) or a job sets.
#
# As it is, the daemon lists the jobs of the Flink on http://localhost:8081 and scales none. To scale them, set below
# "job.autoscaler.enabled: true". "flink-autoscaler once --url http://localhost:8081" reports what else they need;
# "flink-autoscaler init" writes a short file.
#
# Durations are written as '10 s', '1.5 min' or '1h 30min'. Keys may be nested. Environment variables win over this
# file, --set over both:
#   JOB__AUTOSCALER__METRICS__WINDOW=5min    --set job.autoscaler.metrics.window=5min
#
# Generated: PYTHONPATH=tools python -m reference_pages --write
"""
_DURATION_EXAMPLES: Final = " such as '10 s', '1.5 min' or '1h 30min'"
"""Shown once, in the head."""

_PLAIN_VALUES: Final = (
    "any text",
    "text",
    "text that is not blank",
    "true or false",
    "the name of an installed plug-in",
)
_SAMPLE_LISTS: Final = {
    "autoscaler.clusters": (
        "## Clusters. Without any, host and port below name the only one.",
        {"name": "production", "url": "http://jobmanager.example.com:8081"},
    ),
    "autoscaler.notifications.targets": (
        "## Targets of notifications. Without any, events are only in the log and the database.",
        {"name": "on-call", "url": "https://hooks.example.com/flink-autoscaler"},
    ),
    "autoscaler.kafka": (
        "## Kafka clusters with the lag of jobs; job.autoscaler.lag.sources names them.",
        {"name": "orders-kafka", "bootstrap-servers": '["broker-1:9092"]'},
    ),
    "autoscaler.numbers": (
        "## Services with the lag of jobs; job.autoscaler.lag.sources names them.",
        {"name": "queue", "url": "https://queue.example.com"},
    ),
    "autoscaler.notifications.rules": (
        "## Rules of notifications. Without any, every warning goes to every target.",
        {},
    ),
}
"""Title of each list, and examples of what its entries need."""


def job_options() -> Iterator[DocumentedOption]:
    """Yield the core's options in the order of declaration; the standard prefix is no old key of its own."""
    for option in AutoscalerOptions.declared():
        old_keys = tuple(key for key in option.keys[1:] if key != LEGACY_PREFIX + option.key)
        yield DocumentedOption(option.key, option.default_text, allowed(option), old_keys)


def sample() -> str:
    """Return the text of ``conf/autoscaler.yaml``."""
    plain = [entry for entry in daemon_options() if INDEX not in entry.key]
    lines = [_SAMPLE_HEAD, *(line for key in LISTS for line in _sample_list(key))]
    lines += ["## The daemon.", *_sample_lines(plain), "## Defaults for all jobs.", *_sample_lines(job_options())]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sample_list(list_key: str) -> Iterator[str]:
    """Show a list with one entry; its required values are examples."""
    title, examples = _SAMPLE_LISTS[list_key]
    yield from (title, f"# {list_key}:")
    start = f"{list_key}.{INDEX}."
    for number, entry in enumerate(each for each in daemon_options() if each.key.startswith(start)):
        key = entry.key.removeprefix(start).replace(f".{FREE}", "")
        value = examples.get(key, _scalar(entry.default_text))
        yield f"##     {_sentence(entry)}"
        yield f"#   {'-' if number == 0 else ' '} {key}:{' ' + value if value else ''}"
    yield ""


def _sample_lines(entries: Iterable[DocumentedOption]) -> Iterator[str]:
    for entry in entries:
        value = _scalar(entry.default_text)
        yield f"## {_sentence(entry)}"
        yield f"# {entry.key.replace(f'.{FREE}', '')}:{' ' + value if value else ''}"
        yield ""


def _sentence(entry: DocumentedOption) -> str:
    """Return the description with the values that are allowed, unless these go without saying."""
    allowed_values = entry.allowed.replace(_DURATION_EXAMPLES, "")
    return entry.description if allowed_values in _PLAIN_VALUES else f"{entry.description} [{allowed_values}]"


def _scalar(text: str) -> str:
    """Write a default as YAML: bare where that is the same text, else in double quotes."""
    bare = all(character.isalnum() or character in " ._/-" for character in text)
    return text if bare else f'"{text}"'
