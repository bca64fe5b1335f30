"""The texts of metric windows: all samples but the newest one were written before.

Of some jobs the texts of samples are kept whole, of those beyond only what differs between samples, a third as much:
what is around that is put around it again in a tenth of the time that it takes to write the numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Final, NamedTuple

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexMetrics
from flink_autoscaler.core.observe.window import Layout, VertexTable
from flink_autoscaler.stores.sql.state.instants import instant_text

_KEYS = {metric: f'"{metric.name}":' for metric in ScalingMetric}


def number_text(value: float) -> str:
    """Write a number; those that JSON has none for are words."""
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def metrics_text(metrics: VertexMetrics) -> str:
    """Write metrics of one vertex, or of the cluster."""
    numbers = [f"{_KEYS[metric]}{number_text(value)}" for metric, value in metrics.items()]
    return "{" + ",".join(numbers) + "}"


class SampleForm(NamedTuple):
    """The text of a sample in its window, with gaps for the instant and for what was measured.

    Attributes:
        layout: Of the metrics of its vertices.
        globals_: The cluster-wide metrics.
        text: With a ``%s`` for every gap.
    """

    layout: Layout
    globals_: tuple[ScalingMetric, ...]
    text: str

    @classmethod
    def of(cls, sample: MetricSample) -> SampleForm:
        """Make the form of a sample."""
        layout, globals_ = VertexTable.of(sample.vertices).layout, tuple(sample.globals_)
        rows = ",".join(f"{quoted(v).replace('%', '%%')}:{_form(metrics)}" for v, metrics in layout.shape)
        return cls(layout, globals_, f'"%s":{{"vertexMetrics":{{{rows}}},"globalMetrics":{_form(globals_)}}}')

    def fits(self, sample: MetricSample) -> bool:
        """Tell whether a sample has the same metrics."""
        return VertexTable.of(sample.vertices).layout is self.layout and tuple(sample.globals_) == self.globals_

    def filled(self, entries: str) -> str:
        """Return the text of a sample.

        Args:
            entries: What :func:`sample_entries` returned for it.
        """
        return self.text % tuple(entries.split(" "))


def sample_entries(sample: MetricSample) -> str:
    """Return what is put into the form of a sample, with spaces between: the instant, and its numbers in order."""
    numbers = (*VertexTable.of(sample.vertices).numbers, *sample.globals_.values())
    # Called for every job in every pass, hence without a call per number where possible.
    texts = [repr(value) if value - value == 0.0 else number_text(value) for value in numbers]
    return " ".join((instant_text(sample.at_ms), *texts))


@lru_cache(maxsize=256)
def _form(metrics: tuple[ScalingMetric, ...]) -> str:
    """Return the text of some metrics with gaps for their values."""
    return "{" + ",".join(f"{_KEYS[metric]}%s" for metric in metrics) + "}"


MOST_KEPT: Final = 256 << 20
"""Characters of all texts that are kept, one byte each: those of some twenty thousand jobs with ten vertices."""
MOST_WHOLE: Final = 64 << 20
"""Of these, up to which texts are kept whole: those of two thousand such jobs."""


class _Window(NamedTuple):
    """A window that was written.

    Attributes:
        samples: Of the window.
        forms: Of the samples, those with the same metrics sharing one.
        texts: Of the samples: whole, or what is put into their forms.
        is_whole: Whether they are whole.
    """

    samples: Sequence[MetricSample] = ()
    forms: Sequence[SampleForm] = ()
    texts: Sequence[str] = ()
    is_whole: bool = True

    @property
    def text(self) -> str:
        """The text of the window."""
        texts = self.texts if self.is_whole else map(SampleForm.filled, self.forms, self.texts)
        return "{" + ",".join(texts) + "}"

    @property
    def characters(self) -> int:
        """Those of all texts; forms are counted once."""
        return sum(map(len, self.texts)) + sum(len(form.text) for form in set(self.forms))

    def followed_by(self, samples: Sequence[MetricSample]) -> _Window:
        """Return the next window, of which those samples are written that are not in this one."""
        # The samples are held as long as their texts, so that no other object gets the identity of one of them.
        known = dict(zip(map(id, self.samples), zip(self.forms, self.texts, strict=True), strict=True))
        written = _written(samples, known, self.is_whole)
        return _Window(samples, [form for form, _ in written], [text for _, text in written], self.is_whole)


_WHOLE: Final = _Window()
_BRIEF: Final = _Window(is_whole=False)


class WindowTexts:
    """Writes metric windows, and keeps what was written of samples for the next time.

    Thread-safe; calls for one job do not overlap.

    Samples are told apart by what they are, not by what they hold: a sample that stays in the window stays the same
    value from pass to pass, and comparing its numbers would take longer than writing them.

    Args:
        most_kept: Characters that are kept. The windows of jobs beyond that are written anew each time.
        most_whole: Characters from which on texts of further jobs are not kept whole.
    """

    def __init__(self, *, most_kept: int = MOST_KEPT, most_whole: int = MOST_WHOLE) -> None:
        self._most_kept = most_kept
        self._most_whole = most_whole
        self._lock = threading.Lock()
        self._kept: dict[JobKey, tuple[_Window, int]] = {}
        self._characters = 0

    @property
    def characters(self) -> int:
        """Number of characters that are kept."""
        return self._characters

    def write(self, job_key: JobKey, samples: Sequence[MetricSample]) -> str:
        """Return the text of a window that is not empty."""
        before, characters = self._kept.get(job_key) or (self._first, 0)
        window = before.followed_by(samples)
        self._keep(job_key, window, characters)
        return window.text

    def forget(self, job_key: JobKey) -> None:
        """Free the memory that a job takes."""
        with self._lock:
            _, characters = self._kept.pop(job_key, (None, 0))
            self._characters -= characters

    def clear(self) -> None:
        """Free the memory of all jobs."""
        with self._lock:
            self._kept, self._characters = {}, 0

    @property
    def _first(self) -> _Window:
        return _WHOLE if self._characters < self._most_whole else _BRIEF

    def _keep(self, job_key: JobKey, window: _Window, before: int) -> None:
        characters = window.characters
        with self._lock:
            if self._characters + characters - before <= self._most_kept:
                self._kept[job_key] = window, characters
                self._characters += characters - before
                return
        self.forget(job_key)


def _written(
    samples: Sequence[MetricSample], known: Mapping[int, tuple[SampleForm, str]], is_whole: bool
) -> list[tuple[SampleForm, str]]:
    """Return samples with their forms and texts; those that have the metrics of the one before share its form."""
    written, form = list[tuple[SampleForm, str]](), None
    for sample in samples:
        found = known.get(id(sample))
        if found is None:
            form = form if form is not None and form.fits(sample) else SampleForm.of(sample)
            entries = sample_entries(sample)
            found = form, form.filled(entries) if is_whole else entries
        form = found[0]
        written.append(found)
    return written
