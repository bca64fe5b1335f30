"""Writes the sample configuration and the reference page from the declarations.

Run ``python -m flink_autoscaler.standalone.settings.reference --write`` in the root of the source tree.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import LEGACY_PREFIX
from flink_autoscaler.standalone.settings.schema.options import (
    FREE,
    INDEX,
    PLUGIN_FAMILIES,
    DocumentedOption,
    allowed,
    daemon_options,
)

SAMPLE = Path("conf/autoscaler.yaml")
PAGE = Path("docs/reference/configuration.md")

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
_PAGE_HEAD = """\
# Configuration reference

<!-- Generated: python -m flink_autoscaler.standalone.settings.reference --write -->

Layers, later wins: defaults, the configuration of a Flink installation (`FLINK_CONF_DIR`: `flink-conf.yaml` if there
is one, else `config.yaml`), the file given by `--config` or `FLINK_AUTOSCALER_CONFIG`, environment variables, `--set
key=value`. `flink-autoscaler check-config` shows every value and where it comes from.

- Files are YAML, nested or with dotted keys. A list of plain values becomes Flink's `a;b`. `null` means not set here.
- The variable of a key has `__` for a dot and `_` for a hyphen: `JOB__AUTOSCALER__METRICS__WINDOW`. It is matched
  without regard to case. A free part of a key (`<key>`) is taken in lower case if it has no lower-case letter itself.
- `<n>` is the number of a list entry, from 0. In YAML write a list.
- Keys below `autoscaler.` and `job.autoscaler.` that no option has are errors. All other keys are handed to the jobs
  as their base configuration.
- Where the current and an old key are set, the current key wins.
"""
_JOBS_HEAD = """\
## Jobs

Defaults for all jobs; what a cluster entry sets under `options` and what a job's own configuration says wins. Every
key also works with `kubernetes.operator.` before it.
"""
_PLUGINS_HEAD = """\
## Plug-ins of jobs

Free parameters of a plug-in called `<name>`; `class` names the implementation. They also work with
`kubernetes.operator.` before the key.
"""


def _job_options() -> Iterator[DocumentedOption]:
    """Yield the core's options in the order of declaration; the standard prefix is no old key of its own."""
    for option in AutoscalerOptions.declared():
        old_keys = tuple(key for key in option.keys[1:] if key != LEGACY_PREFIX + option.key)
        yield DocumentedOption(option.key, option.default_text, allowed(option), option.description, old_keys)


def sample() -> str:
    """Return the text of ``conf/autoscaler.yaml``."""
    lists = [entry for entry in daemon_options() if INDEX in entry.key]
    plain = [entry for entry in daemon_options() if INDEX not in entry.key]
    lines = [_SAMPLE_HEAD, _SAMPLE_CLUSTERS, "# autoscaler.clusters:", *_sample_cluster(lists), ""]
    lines += ["## The daemon.", *_sample_lines(plain), "## Defaults for all jobs.", *_sample_lines(_job_options())]
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


def page() -> str:
    """Return the text of ``docs/reference/configuration.md``."""
    plugins = [f"| `job.autoscaler.{family}<name>.<key>` |" for family in PLUGIN_FAMILIES]
    parts = [
        _PAGE_HEAD,
        "## Daemon\n",
        *_table(daemon_options()),
        "",
        _JOBS_HEAD,
        *_table(_job_options()),
        "",
        _PLUGINS_HEAD,
        "| key |",
        "|---|",
        *plugins,
    ]
    return "\n".join(parts) + "\n"


def _table(entries: Iterable[DocumentedOption]) -> Iterator[str]:
    yield "| key | default | accepted | meaning |"
    yield "|---|---|---|---|"
    for entry in entries:
        default = f"`{entry.default_text}`" if entry.default_text else "unset"
        yield f"| `{entry.key}` | {default} | {_cell(entry.allowed)} | {_cell(entry.description)}{_old(entry)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def _old(entry: DocumentedOption) -> str:
    keys = ", ".join(f"`{key}`" for key in entry.old_keys)
    return f" Old keys: {keys}." if keys else ""


def main(arguments: list[str]) -> int:
    """Write both files below the working directory, or tell whether they are as they should be."""
    is_writing = arguments == ["--write"]
    wrong = [path for path, text in ((SAMPLE, sample()), (PAGE, page())) if not _settle(path, text, is_writing)]
    for path in wrong:
        sys.stderr.write(f"{path} differs from the declarations; run with --write\n")
    return 1 if wrong else 0


def _settle(path: Path, text: str, is_writing: bool) -> bool:
    if is_writing:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
