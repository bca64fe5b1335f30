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
    DocumentedOption,
    allowed,
    daemon_options,
)

SAMPLE: Final = Path("conf/autoscaler.yaml")

_SAMPLE_HEAD = """\
# Configuration of flink-autoscaler. Every option is here with its default; to change one, remove the "# " before
# its key. Nothing is active as the file comes, so that it hides nothing that is set elsewhere: in a Flink
# installation (FLINK_CONF_DIR) or by a job under an older key. Options without a value are unset.
#
# As it comes, the daemon looks at the Flink on http://localhost:8081, lists its jobs, and leaves them alone. It scales
# those that are enabled: remove the "# " before job.autoscaler.enabled below and write true. What else a job needs is
# told by "flink-autoscaler once --url http://localhost:8081"; "flink-autoscaler init" writes a short file of your own.
#
# Keys may also be nested. Environment variables win over this file, --set key=value over both:
#   JOB__AUTOSCALER__METRICS__WINDOW=5min    --set job.autoscaler.metrics.window=5min
#
# Generated: python -m flink_autoscaler.standalone.settings.reference --write
"""
_SAMPLE_CLUSTERS = "## Clusters. Where none is given, host and port below name the only one."


def job_options() -> Iterator[DocumentedOption]:
    """Yield the core's options in the order of declaration; the standard prefix is no old key of its own."""
    for option in AutoscalerOptions.declared():
        old_keys = tuple(key for key in option.keys[1:] if key != LEGACY_PREFIX + option.key)
        yield DocumentedOption(option.key, option.default_text, allowed(option), option.description, old_keys)


def sample() -> str:
    """Return the text of ``conf/autoscaler.yaml``."""
    lists = [entry for entry in daemon_options() if INDEX in entry.key]
    plain = [entry for entry in daemon_options() if INDEX not in entry.key]
    lines = [_SAMPLE_HEAD, _SAMPLE_CLUSTERS, "# autoscaler.clusters:", *_sample_cluster(lists), ""]
    lines += ["## The daemon.", *_sample_lines(plain), "## Defaults for all jobs.", *_sample_lines(job_options())]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sample_cluster(entries: Iterable[DocumentedOption]) -> Iterator[str]:
    """Show the clusters as a list of one entry; its required values are examples."""
    examples = {"name": "production", "url": "http://jobmanager.example.com:8081"}
    for number, entry in enumerate(entries):
        key = entry.key.partition(f"{INDEX}.")[2].replace(f".{FREE}", "")
        value = examples.get(key, _scalar(entry.default_text))
        yield f"##     {_sentence(entry)}"
        yield f"#   {'-' if number == 0 else ' '} {key}:{' ' + value if value else ''}"


def _sample_lines(entries: Iterable[DocumentedOption]) -> Iterator[str]:
    for entry in entries:
        value = _scalar(entry.default_text)
        yield f"## {_sentence(entry)}"
        yield f"# {entry.key.replace(f'.{FREE}', '')}:{' ' + value if value else ''}"
        yield ""


def _sentence(entry: DocumentedOption) -> str:
    return f"{entry.description} [{entry.allowed}]"


def _scalar(text: str) -> str:
    """Write a default as YAML: bare where that is the same text, else in double quotes."""
    bare = all(character.isalnum() or character in " ._/-" for character in text)
    return text if bare else f'"{text}"'
