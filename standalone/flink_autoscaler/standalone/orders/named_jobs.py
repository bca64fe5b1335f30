"""Resolves the text that a person has typed to jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.standalone.fetchers.job_keys import KEY_LIMIT, printable
from flink_autoscaler.stores.sql.known_jobs import KnownJob

_LISTED: Final = 20
"""Jobs that are named when a text fits several."""
_NEAREST: Final = 3


class UnclearJobError(AutoscalerError):
    """It is not clear which job is meant. One line per job that may be."""


def chosen_jobs(
    known: Sequence[KnownJob], text: str, *, takes_all: bool = False, is_order: bool = False
) -> tuple[JobKey, ...]:
    """Return the jobs that a text means: by key, else by name or job id, else by pattern, else by the end of the key.

    Args:
        known: The jobs there are.
        text: As given; in a pattern ``*`` and ``?`` stand for any characters.
        takes_all: Whether it may mean several.
        is_order: Whether --all and --new may be given, which the message tells.

    Raises:
        UnclearJobError: It means none, or several.
    """
    for fits in _WAYS:
        found = tuple(job.job_key for job in known if fits(job, text))
        if len(found) > 1 and not takes_all:
            raise UnclearJobError(_several(text, found, is_order=is_order))
        if found:
            return found
    raise UnclearJobError(_unknown(text, known, is_order=is_order))


def new_job(text: str, clusters: Collection[str], *, names_cluster: bool) -> JobKey:
    """Return the key of a job that the daemon has not seen yet.

    Args:
        text: The key, to the letter.
        clusters: Names of the clusters in the configuration.
        names_cluster: Whether keys begin with the name of the cluster.

    Raises:
        UnclearJobError: No job of these clusters can have this key.
    """
    if not text or len(text) > KEY_LIMIT or printable(text) != text:
        raise UnclearJobError(f"'{printable(text[:40])}' is no job key: 1 to {KEY_LIMIT} printable characters")
    cluster, _, name = text.partition("/")
    if names_cluster and (cluster not in clusters or not name):
        known = f"{', '.join(clusters)}{nearest(cluster, clusters)}"
        raise UnclearJobError(f"'{text}' is no job key: <cluster>/<job name>, with one of the clusters {known}")
    return text


_WAYS: Final[tuple[Callable[[KnownJob, str], bool], ...]] = (
    lambda job, text: job.job_key == text,
    lambda job, text: text in (job.name, job.job_id),
    lambda job, text: any(fnmatchcase(each, text) for each in (job.job_key, job.name, job.job_id) if each is not None),
    lambda job, text: bool(text) and job.job_key.endswith(text),
)


def _several(text: str, found: Sequence[JobKey], *, is_order: bool) -> str:
    remedy = "name one, or add --all" if is_order else "name one"
    return "\n".join((f"'{text}' fits {len(found)} jobs; {remedy}:", *_indented(found)))


def _unknown(text: str, known: Sequence[KnownJob], *, is_order: bool) -> str:
    hint = "; --new takes it for the exact key of a job that the daemon has not seen yet" if is_order else ""
    if not known:
        return f"no job is known yet: the daemon writes down a job that it scales in its first pass{hint}"
    by_text = {job.name: job.job_key for job in known} | {job.job_key: job.job_key for job in known}
    close = dict.fromkeys(by_text[each] for each in get_close_matches(text, by_text, n=_NEAREST, cutoff=0.4))
    if not close:
        return f"no job '{text}' is known; flink-autoscaler jobs lists what runs{hint}"
    return "\n".join((f"no job '{text}' is known{hint}. The nearest:", *_indented(close)))


def _indented(job_keys: Iterable[JobKey]) -> list[str]:
    keys = list(job_keys)
    more = [f"  and {len(keys) - _LISTED} more"] if len(keys) > _LISTED else []
    return [*(f"  {key}" for key in keys[:_LISTED]), *more]
