"""The catalogue of lies, each with a text that names it exactly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from flink_autoscaler.core.observe.metric_names import TASKMANAGER_METRICS_WITH_GC
from flink_autoscaler.core.options.flink import FlinkOptions
from flink_autoscaler.core.options.job import AutoscalerOptions
from testkit.scenarios.hostile_flink.tricks import TRICKS
from testkit.scenarios.hostile_flink.truth import ACTIVE_SPLITS, Truth
from testkit.scenarios.hostile_flink.values import PLAUSIBLE, VALUES, places

HTTP: Final = "http"
WHOLE: Final = "whole"
WHOLES: Final = ("frozen", "first", "neighbour")
"""Whole answers that were right: when the lie began, when the job was new, or for the job beside it."""


class Scope(StrEnum):
    """What a lie is about, which says how it is told and what is judged."""

    JOB = "job"
    """What is asked about a job in every pass."""
    START = "start"
    """What is asked when a job is new."""
    RESCALE = "rescale"
    """What is asked while a job is rescaled, which it is for this."""
    ENTRY = "entry"
    """The job's own entry in the list."""
    LIST = "list"
    """The list of jobs itself: nobody can be evaluated without one."""
    CLUSTER = "cluster"
    """What all jobs of a cluster share."""
    CONFIG = "config"
    """The job's own configuration."""


_SCOPES: Final = {
    "details": Scope.JOB,
    **{f"values-{number}": Scope.JOB for number in range(3)},
    **{f"names-{number}": Scope.START for number in range(3)},
    "user-config": Scope.START,
    "job-config": Scope.START,
    "entry": Scope.ENTRY,
    "list": Scope.LIST,
    "taskmanagers": Scope.CLUSTER,
    "taskmanager-metrics": Scope.CLUSTER,
    "jobmanager-metrics": Scope.CLUSTER,
    "config": Scope.CONFIG,
    **{f"vertex-{number}": Scope.RESCALE for number in range(3)},
    **dict.fromkeys(
        (
            "requirements",
            "exceptions",
            "checkpoints",
            "checkpoint-config",
            "restarts",
            "rescale-history",
            "rescale-details",
            "put",
        ),
        Scope.RESCALE,
    ),
}

CONFIG_VALUES: Final = {
    "empty": "",
    "blank": "  \t ",
    "word": "nonsense",
    "zero": "0",
    "minus-one": "-1",
    "2^31": str(2**31),
    "2^63": str(2**63),
    "1e308": "1e308",
    "1e999": "1e999",
    "nan": "NaN",
    "infinity": "-Infinity",
    "digits": "9" * 5000,
    "digits-x": "9" * 40_000 + "x",
    "zeros": "0." + "0" * 40_000 + "1",
    "long-text": "a" * 200_000,
    "long-list": ";".join(["a:1"] * 40_000),
    "long-map": ",".join(f"a{number}:1" for number in range(20_000)),
    "quotes": "'" * 40_001,
    "deep": "[" * 5000,
    "braces": "{" * 5000,
    "yaml-list": "- a\n- a",
    "twice": "a:1,a:2",
    "surrogate": "\ud800",
    "control": "\x00\r\n\x1b[2J",
    "digits-elsewhere": "\u0665\u0665",
    "duration": "99999999999999999999 d",
    "duration-nonsense": "1 h 1 h 1 h 5",
    "pattern": "(a+)+$" + "a" * 60,
    "stars": "*" * 3000 + "b",
    "cron": "*/0 99-1 * * mon-foo",
    "range": "0-99999999999",
    "time": "99:99-88:88",
    "zone": "09:00-17:00 Mars/Olympus",
    "mask": "******",
    "path": "../../../etc/passwd",
}


@dataclass(frozen=True)
class Lie:
    """One lie.

    Attributes:
        endpoint: What it is an answer to; ``config`` for an option of the job itself.
        place: Path inside the answer, ``http``, ``whole``, or the key of the option.
        what: Name of the value or behaviour.
        passes: For how many passes it is told; 0 for a single answer.
    """

    endpoint: str
    place: str
    what: str
    passes: int = 1

    def __str__(self) -> str:
        return "|".join((self.endpoint, self.place, self.what, str(self.passes)))

    @classmethod
    def of(cls, text: str) -> Lie:
        """Read the text of a lie."""
        endpoint, place, what, passes = text.split("|")
        return cls(endpoint, place, what, int(passes))

    @property
    def scope(self) -> Scope:
        """What it is about."""
        return _SCOPES[self.endpoint]

    @property
    def could_be_true(self) -> bool:
        """Whether a request that follows from it is right once it lasts: loads do change."""
        return self.passes > 1 and (self.what in PLAUSIBLE or self.place == WHOLE)

    @property
    def could_be_an_edit(self) -> bool:
        """Whether it says what somebody else may have asked for, until the job is rescaled: that is not touched."""
        return self.endpoint == "requirements" and (self.what in PLAUSIBLE or self.place == WHOLE)

    @property
    def kind(self) -> str:
        """What lies like it have in common, for tables."""
        place = self.place if self.place in (HTTP, WHOLE) else "value"
        return f"{self.scope.value} {place}"


def catalogue() -> list[Lie]:
    """Return every lie that there is, told for one pass."""
    truth = Truth()
    job = truth.add("job")
    return [
        lie
        for endpoint in _SCOPES
        if endpoint != "config"
        for lie in _about(endpoint, truth.answer("list" if endpoint == "entry" else endpoint, job, _METRICS[endpoint]))
    ] + list(_options())


class _Metrics(dict[str, str | None]):
    """The metrics that are asked for, by endpoint."""

    def __missing__(self, endpoint: str) -> str | None:
        return None


_SOURCE: Final = "Source__source_0"
_METRICS: Final = _Metrics(
    {
        "values-0": ",".join(
            (
                f"{_SOURCE}.pendingRecords",
                ACTIVE_SPLITS,
                "busyTimeMsPerSecond",
                "backPressuredTimeMsPerSecond",
                f"{_SOURCE}.numRecordsInPerSecond",
                f"{_SOURCE}.numRecordsIn",
                f"{_SOURCE}.numRecordsOut",
            )
        ),
        "values-1": "busyTimeMsPerSecond,numRecordsInPerSecond",
        "values-2": "busyTimeMsPerSecond,numRecordsInPerSecond",
        "taskmanager-metrics": ",".join(TASKMANAGER_METRICS_WITH_GC),
    }
)


def _about(endpoint: str, answer: object) -> Iterator[Lie]:
    """Yield the lies about one endpoint."""
    if endpoint != "entry":
        yield from (Lie(endpoint, HTTP, trick) for trick in TRICKS)
        yield from (Lie(endpoint, WHOLE, whole) for whole in WHOLES)
    for place in places(answer):
        is_of_entry = place.startswith("/jobs/")
        if endpoint == "entry":
            if is_of_entry:
                yield from (Lie(endpoint, place.removeprefix("/jobs/0"), value) for value in VALUES)
        elif endpoint != "list" or not is_of_entry:
            yield from (Lie(endpoint, place, value) for value in VALUES)


def _options() -> Iterator[Lie]:
    keys = sorted({option.key for option in (*AutoscalerOptions.all_options(), *FlinkOptions.all_options())})
    for key in (*keys, "job.autoscaler.no-such-option", "job.autoscaler." + "x" * 3000):
        yield from (Lie("config", key, value) for value in CONFIG_VALUES)


def chosen(count: int, seed: int, among: Sequence[Lie] | None = None) -> list[Lie]:
    """Return so many lies by a seed: every endpoint and behaviour in turn, and few passes more often than many."""
    draw = random.Random(seed)
    known = list(catalogue() if among is None else among)
    draw.shuffle(known)
    seen: Counter[str] = Counter()
    order = []
    for lie in known:
        seen[lie.endpoint] += 1
        order.append((seen[lie.endpoint] / _WEIGHTS.get(lie.endpoint, 1.0), lie))
    order.sort(key=lambda each: each[0])
    lies = [lie for _, lie in order]
    rounds = -(-count // len(lies))
    drawn = [lie for _ in range(rounds) for lie in lies][:count]
    return [replace(lie, passes=draw.choice((0, 1, 1, 1, 3))) for lie in drawn]


_WEIGHTS: Final = {"details": 6.0, "values-0": 4.0, "config": 5.0, "entry": 3.0, "taskmanagers": 2.0}
"""How much more often an endpoint is lied about than one with less to say."""
