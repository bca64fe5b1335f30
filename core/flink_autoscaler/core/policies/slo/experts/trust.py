"""How far each expert is trusted: by how well it has done lately, at several distances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.experts.forecasts import (
    ANALOG,
    DRIFT,
    ECHO,
    LAST,
    MEAN,
    OF_DAY,
    OF_WEEK,
    PROFILE,
    RAMP,
    SLOW,
    TREND,
)
from flink_autoscaler.core.policies.slo.noise import GREATEST_ERROR, LEAST_SHARE

DISTANCES: Final = (1, 3, 6, 9, 15, 24, 36)
"""Buckets from a forecast to the one that it is compared to."""
SCORED: Final = (LAST, SLOW, TREND, DRIFT, MEAN, OF_DAY, OF_WEEK, ANALOG, PROFILE)
LEVEL: Final = frozenset({LAST, SLOW})
"""Experts whose path is one value: what they said once serves all distances."""
MIX: Final = "mix"
MIX_DISTANCE: Final = 3
FADING: Final = 0.5 ** (1.0 / 72.0)
"""What five minutes leave of the weight of an error."""
GREATEST: Final = 1.5
"""At which an error, of logarithms, is cut."""
PRIOR: Final = 6.0
PRIOR_OF_LAST: Final = 3.0
"""Errors that the prior is worth."""
ERROR_OF_LAST: Final = 0.02**2
"""Mean square error of the last value by distance, before anything is known."""
SHARPNESS: Final = -3.0
RAMP_SHARE: Final = 0.3
LAST_SHARE: Final = 0.2
LEAST_ERROR: Final = 1e-9


@quick
@dataclass(frozen=True, slots=True)
class Score:
    """Squares of an expert's errors at one distance, newer ones counting for more."""

    total: float = 0.0
    count: float = 0.0

    def after(self, error: float) -> Score:
        """Return the score with another error."""
        return Score(self.total * FADING + error * error, self.count * FADING + 1.0)


def _score_of_mix() -> Score:
    return Score(PRIOR_OF_LAST * ERROR_OF_LAST * MIX_DISTANCE, PRIOR_OF_LAST)


SCORES_LENGTH: Final = 2 * len(DISTANCES) * packing.LONG
"""Characters of the scores of an expert."""


def distances_of(name: str) -> tuple[int, ...]:
    """Return the distances at which what an expert says is kept, buckets; the longest serves all for a level."""
    if name == MIX:
        return (MIX_DISTANCE,)
    return (DISTANCES[-1],) if name in LEVEL else DISTANCES


def due_length(name: str) -> int:
    """Return the characters of what an expert said."""
    return packing.SHORT * sum(distances_of(name))


@quick
@dataclass(frozen=True, slots=True)
class Trust:
    """What experts said and how right they were.

    Attributes:
        due: What was said and is not due yet, by expert: packed, with gaps, one distance after the other, oldest first.
        scores: Packed, by expert: total and count at every distance.
        mix: Score of the mix at 15 minutes.
    """

    due: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
    mix: Score = field(default_factory=_score_of_mix)

    def after(self, actual: float, day_mean: float) -> Trust:
        """Return the trust after a bucket is complete: what was due for it is scored.

        Args:
            actual: Its demand.
            day_mean: Mean demand of a day. For the size of the job it is the same whether hardly anything comes or
                half of that: below a share of the mean the mix does not err.
        """
        scores = {name: self._scored(name, actual) for name in SCORED if name in self.due or name in self.scores}
        said = packing.from_short(self.due.get(MIX, "")[: packing.SHORT])
        least = LEAST_SHARE * day_mean
        mix = self.mix if said is None else self.mix.after(_error(max(said, least), max(actual, least), GREATEST_ERROR))
        return Trust(self.due, scores, mix)

    def _scored(self, name: str, actual: float) -> str:
        said = _due(name, self.due[name]) if name in self.due else (None,) * len(DISTANCES)
        found = (
            score if value is None else score.after(_error(value, actual, GREATEST))
            for score, value in zip(self.scores_of(name), said, strict=True)
        )
        return packing.longs(each for score in found for each in (score.total, score.count))

    def scores_of(self, name: str) -> tuple[Score, ...]:
        """Return how an expert has done, by distance."""
        if name not in self.scores:
            return (Score(),) * len(DISTANCES)
        values = packing.from_longs(self.scores[name])
        return tuple(Score(*each) for each in zip(values[::2], values[1::2], strict=True))

    def saying(self, paths: Mapping[str, Sequence[float]], mixed: Sequence[float]) -> Trust:
        """Return the trust with what is said now; an expert without a path says nothing.

        Args:
            paths: By expert.
            mixed: Their mix; empty where nothing is said.
        """
        said = {**paths, **({MIX: mixed} if mixed else {})}
        names = (name for name in (*SCORED, MIX) if name in self.due or name in said)
        return Trust({name: _said(name, self.due.get(name), said.get(name)) for name in names}, self.scores, self.mix)

    def silent(self) -> Trust:
        """Return the trust after a hole: nothing that was said is compared any more."""
        return Trust({}, self.scores, self.mix)

    def errors(self, names: Iterable[str]) -> dict[str, float]:
        """Return the sum of the mean square errors of experts over all distances."""
        usual = [
            (score.total + PRIOR_OF_LAST * ERROR_OF_LAST * distance) / (score.count + PRIOR_OF_LAST)
            for score, distance in zip(self.scores_of(LAST), DISTANCES, strict=True)
        ]
        return {name: sum(usual) if name == LAST else self._error(name, usual) for name in names}

    def _error(self, name: str, usual: Sequence[float]) -> float:
        scores = zip(self.scores_of(name), usual, strict=True)
        return sum((score.total + PRIOR * each) / (score.count + PRIOR) for score, each in scores)

    def weights(
        self, paths: Mapping[str, Sequence[float]], *, is_surprised: bool, echoed: float = 0.0
    ) -> dict[str, float]:
        """Return how much each of the paths is believed; they sum to 1, or there are none.

        Args:
            paths: By expert.
            is_surprised: Whether the load has jumped and nobody had foreseen it.
            echoed: How much it is believed that of the last jump comes what came of those before.
        """
        errors = self.errors(name for name in paths if name in SCORED)
        last = max(errors.get(LAST, 0.0), LEAST_ERROR)
        shares = {name: math.pow(max(each, LEAST_ERROR) / last, SHARPNESS) for name, each in errors.items()}
        total = sum(shares.values())
        weights = {name: shares.get(name, 0.0) / total for name in paths}
        if is_surprised and RAMP in paths:
            weights = {name: (1.0 - RAMP_SHARE - LAST_SHARE) * each for name, each in weights.items()}
            weights[RAMP] += RAMP_SHARE
            weights[LAST] += LAST_SHARE
        if ECHO in paths:
            weights = {name: (1.0 - echoed) * each for name, each in weights.items()} | {ECHO: echoed}
        return weights


def _error(said: float, actual: float, limit: float) -> float:
    return min(max(math.log(actual / said), -limit), limit)


def _said(name: str, text: str | None, path: Sequence[float] | None) -> str:
    """Return what an expert said and says now; the oldest of every distance is no longer due."""
    text, found, at = text or packing.NOTHING * (due_length(name) // packing.SHORT), "", 0
    for distance in distances_of(name):
        end = at + distance * packing.SHORT
        found += text[at + packing.SHORT : end] + packing.short(path[distance - 1] if path is not None else None)
        at = end
    return found


def _due(name: str, text: str) -> Iterator[float | None]:
    """Give what an expert said of now, by distance."""
    at = 0
    for distance in DISTANCES:
        start = (DISTANCES[-1] - distance) * packing.SHORT if name in LEVEL else at
        yield packing.from_short(text[start : start + packing.SHORT])
        at += distance * packing.SHORT
