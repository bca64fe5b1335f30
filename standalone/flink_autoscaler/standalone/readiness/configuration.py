"""A commented configuration for clusters that were looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flink_autoscaler.standalone.fetchers.job_keys import to_printable
from flink_autoscaler.standalone.readiness.checks import ENABLING_LINE, ConfigLocation, Finding, Severity
from flink_autoscaler.standalone.readiness.inspection import ClusterInspection
from flink_autoscaler.standalone.readiness.report import cluster_sentence, finding_lines, shared_lines
from flink_autoscaler.standalone.readiness.url_clusters import UrlCluster

_WORDS: Final = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", "none")


def configuration_text(
    file: str, clusters: Sequence[UrlCluster], looks: Sequence[ClusterInspection], policy: str | None = None
) -> str:
    """Return a configuration for clusters, each with what was found out about it.

    Args:
        file: Its name, for the commands that it shows.
        clusters: As they were given.
        looks: At the same clusters, in the same order.
        policy: Of all jobs; None leaves the default.
    """
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # noqa: S701 - YAML, whose values are written by the filters
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= {"scalar": _scalar, "quoted": partial(json.dumps, ensure_ascii=False)}
    entries = [_entry(cluster, look) for cluster, look in zip(clusters, looks, strict=True)]
    page = pages.get_template("configuration.yaml.j2")
    return page.render(file=to_printable(file), clusters=entries, enabling_line=ENABLING_LINE, policy=policy)


def _entry(cluster: UrlCluster, look: ClusterInspection) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "url": cluster.url,
        "options": cluster.options,
        "sentence": cluster_sentence(look.facts),
        "needs": list(finding_lines(filter(_is_important, look.facts.findings), indent="")),
        "jobs": [to_printable(job.context.job_name) for job in look.jobs],
        "job_needs": list(
            shared_lines({job.context.job_key: list(filter(_is_left, job.findings)) for job in look.jobs})
        ),
    }


def _is_important(finding: Finding) -> bool:
    return finding.weight is not Severity.INFO


def _is_left(finding: Finding) -> bool:
    """Tell whether it is important, and not done by what this configuration is about to set."""
    return _is_important(finding) and (finding.place, finding.line) != (ConfigLocation.DAEMON, ENABLING_LINE)


def _scalar(text: str) -> str:
    """Write a text as YAML: bare where that is the same text, else as JSON, which is YAML."""
    is_bare = text.isascii() and text[:1].isalpha() and not set(text) & set(" #\"'{}[],&*!|>%@`\\\t")
    return text if is_bare and not text.endswith(":") and text.lower() not in _WORDS else json.dumps(text)
