"""A commented configuration for clusters that were looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.readiness.checks import ENABLING_LINE
from flink_autoscaler.standalone.readiness.findings import Finding, Place, Weight
from flink_autoscaler.standalone.readiness.given import GivenCluster
from flink_autoscaler.standalone.readiness.looking import ClusterLook
from flink_autoscaler.standalone.readiness.report import cluster_sentence, finding_lines, shared_lines

_MOST_JOBS: Final = 20
"""Jobs of a cluster that are listed."""

_HEAD: Final = """\
# Configuration of flink-autoscaler, written by "flink-autoscaler init".
#
#   flink-autoscaler once --config {file} --dry-run   one look at every job; changes nothing
#   flink-autoscaler run --config {file} --dry-run    the daemon, which decides and reports; changes nothing
#   flink-autoscaler run --config {file}              the daemon
#
# Every option with its default: conf/autoscaler.yaml and docs/reference/configuration.md.

autoscaler:
  clusters:
"""
_TAIL: Final = f"""
# Whether jobs are looked after; without it none is. What Flink's config.yaml or a job itself says wins over this file,
# so that single clusters and jobs can be left out, or in: job.autoscaler.enabled among a job's own
# pipeline.global-job-parameters counts for that job alone.
{ENABLING_LINE}

# false: everything is computed and reported, and nothing is changed.
# job.autoscaler.scaling.enabled: true

# How busy vertices should be, from 0 to 1; the rest is reserve.
# job.autoscaler.utilization.target: 0.7

# No vertex gets more subtasks than this.
# job.autoscaler.vertex.max-parallelism: 200

# What decisions are based on, and how long after a start of the job that begins; shorter ones react to noise, too.
# job.autoscaler.metrics.window: 15 min
# job.autoscaler.stabilization.interval: 5 min

# How long a scale-down has to stay advisable.
# job.autoscaler.scale-down.interval: 1 h

# When nothing is to be changed, such as every day from 8:00 to 10:00.
# job.autoscaler.excluded.periods: "8:00-10:00"
"""


def configuration_text(file: str, clusters: Sequence[GivenCluster], looks: Sequence[ClusterLook]) -> str:
    """Return a configuration for clusters, each with what was found out about it.

    Args:
        file: Its name, for the commands that it shows.
        clusters: As they were given.
        looks: At the same clusters, in the same order.
    """
    entries = (_entry(cluster, look) for cluster, look in zip(clusters, looks, strict=True))
    return (
        _HEAD.format(file=printable(file)) + "".join(f"    {line}\n" for line in chain.from_iterable(entries)) + _TAIL
    )


def _entry(cluster: GivenCluster, look: ClusterLook) -> Iterator[str]:
    yield f"# {cluster_sentence(look.facts)}"
    yield from (f"# {line}" for line in finding_lines(_important(look.facts.findings), indent=""))
    yield f"- name: {_scalar(cluster.name)}"
    yield f"  url: {_scalar(cluster.url)}"
    yield from (f"  {key}: {_scalar(text)}" for key, text in cluster.options.items())
    yield from (f"  {line}" for line in _job_comments(look))


def _job_comments(look: ClusterLook) -> Iterator[str]:
    names = [printable(job.context.job_name) for job in look.jobs]
    if not names:
        yield "# No job runs here yet."
        names = ["orders"]
    else:
        yield f"# Jobs: {', '.join(names[:_MOST_JOBS])}{', ...' if len(names) > _MOST_JOBS else ''}"
    # What the daemon's own file is about to set is not needed any more.
    done = (Place.DAEMON, ENABLING_LINE)
    needs = {
        job.context.job_key: [each for each in _important(job.findings) if (each.place, each.line) != done]
        for job in look.jobs
    }
    yield from (f"# {line}" for line in shared_lines(needs))
    yield "# Only some of them, by name; * and ? stand for any text and any character:"
    yield f"# include: {json.dumps([names[0]], ensure_ascii=False)}"
    yield '# exclude: ["test-*"]'
    yield "# Options for the jobs of this cluster alone:"
    yield "# options:"
    yield "#   job.autoscaler.vertex.max-parallelism: 16"


def _important(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.weight is not Weight.NOTE]


def _scalar(text: str) -> str:
    """Write a text as YAML: bare where that is the same text, else as JSON, which is YAML."""
    is_bare = text.isascii() and text[:1].isalpha() and not set(text) & set(" #\"'{}[],&*!|>%@`\\\t")
    return text if is_bare and not text.endswith(":") and text.lower() not in _WORDS else json.dumps(text)


_WORDS: Final = ("true", "false", "null", "yes", "no", "on", "off", "y", "n", "none")
