"""The page of all options, in chapters with examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from flink_autoscaler.standalone.settings.schema.options import PLUGIN_FAMILIES, DocumentedOption, daemon_options
from reference_pages.chapters import OptionChapter, chapter_of
from reference_pages.daemon_chapters import DAEMON_CHAPTERS
from reference_pages.job_chapters import JOB_CHAPTERS
from reference_pages.sample_file import job_options

PAGE: Final = Path("docs/reference/configuration.md")

_HEAD: Final = """\
# Configuration reference

<!-- Generated: PYTHONPATH=tools python -m reference_pages --write -->

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
- A file has at most 1 MiB, 20,000 values and 40 levels, and a value at most 65,536 characters. `--config <(command)`
  and `--config /dev/stdin` are read within 10 s; a pipe with a name of its own is refused, and so is an empty one.
"""
_JOBS: Final = """\
## Jobs

Defaults for all jobs; what a cluster entry sets under `options` and what a job's own configuration says wins. Every
key also works with `kubernetes.operator.` before it.

What a job says about itself is read up to 5,000 keys and 1 MiB. Beyond that only options of the autoscaler and those
of Flink that it reads count; where these are too many, the job is not scaled and the reason is told. A value beyond
65,536 characters, and more than 1,000 patterns or plans, cannot be read: that job alone is not scaled.
"""
_PLUGINS: Final = """\
## Plug-ins of jobs

Free parameters of a plug-in called `<name>`; `class` names the implementation. They also work with
`kubernetes.operator.` before the key.
"""


def page() -> str:
    """Return the text of ``docs/reference/configuration.md``."""
    plugins = [f"| `job.autoscaler.{family}<name>.<key>` |" for family in PLUGIN_FAMILIES]
    parts = [
        _HEAD,
        *_contents(),
        "",
        "## Daemon",
        "",
        *_chapters(DAEMON_CHAPTERS, daemon_options()),
        _JOBS,
        *_chapters(JOB_CHAPTERS, job_options()),
        _PLUGINS,
        "| key |",
        "|---|",
        *plugins,
    ]
    return "\n".join(parts) + "\n"


def _contents() -> Iterator[str]:
    for whole, chapters in (("Daemon", DAEMON_CHAPTERS), ("Jobs", JOB_CHAPTERS)):
        links = ", ".join(f"[{each.title}](#{_anchor(each.title)})" for each in chapters)
        yield f"{whole}: {links}."
        yield ""
    yield "Plug-ins: [Plug-ins of jobs](#plug-ins-of-jobs)."


def _anchor(title: str) -> str:
    """Return what a heading is linked by."""
    kept = (character for character in title.lower() if character.isalnum() or character in " -")
    return "".join(kept).replace(" ", "-")


def _chapters(chapters: tuple[OptionChapter, ...], entries: Iterable[DocumentedOption]) -> Iterator[str]:
    """Yield chapter by chapter; their options stay in the order in which they are declared."""
    sorted_in = [(entry, chapter_of(entry.key, chapters)) for entry in entries]
    for chapter in chapters:
        yield from (f"### {chapter.title}", "", chapter.text, "", "```yaml", chapter.example.rstrip(), "```", "")
        yield from _table(entry for entry, its_chapter in sorted_in if its_chapter is chapter)
        yield ""


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
