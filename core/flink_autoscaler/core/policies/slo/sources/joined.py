"""Forecasts of a job of several sources: every expert looks at each source, and what it expects of all is joined.

Demand is that of the vertices which need most, so that it is reckoned from what comes to each of them: a source whose
branch of the job needs little as yet is seen to rise before its branch is the one that needs most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import LoadProfiles
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.arrivals import Needs
from flink_autoscaler.core.policies.slo.experts.echoes import NO_ECHOES, Echoes
from flink_autoscaler.core.policies.slo.experts.forecasts import HOUR, LAST, LATELY, Match, Usual, paths, usual_rates
from flink_autoscaler.core.policies.slo.history import History
from flink_autoscaler.core.policies.slo.model import HORIZON, LEAST_DEMAND, Mix
from flink_autoscaler.core.policies.slo.sources.streams import PER_SHARE, Stream, Streams, shares_of

SOON: Final = 6
"""Buckets for which a size has to have what every vertex needs: half an hour."""
_NOW: Final = 5
_TINY: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Joined:
    """What is expected of all sources.

    Attributes:
        paths: Demand by expert.
        rates: By expert what arrives in every stream, records/s.
    """

    paths: Mapping[str, tuple[float, ...]]
    rates: Mapping[str, Sequence[Sequence[float]]]

    def mixes(self, needs: Needs, weights: Mapping[str, float]) -> dict[VertexId, Mix]:
        """Return how demand divides between the vertices, if each expert is believed so much."""
        streams = range(len(needs.brought))
        rates = [_weighted([(weights.get(name, 0.0), each[n]) for name, each in self.rates.items()]) for n in streams]
        total = needs.demand(rates)
        found = {}
        for vertex in dict.fromkeys(key for each in needs.brought for key in each):
            reached = needs.reached(vertex, rates)
            shares = [each / whole for each, whole in zip(reached, total, strict=True)]
            found[vertex] = Mix(max(shares[:SOON]), max(shares))
        return found


def _weighted(series: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    total = [0.0] * HORIZON
    for weight, each in series:
        if weight > 0.0:
            total = [sum_ + weight * value for sum_, value in zip(total, each, strict=True)]
    return total


def joined(
    history: History,
    streams: Streams,
    needs: Needs,
    matches: Sequence[Match],
    usual: Sequence[Usual | None],
    echoes: Echoes = NO_ECHOES,
) -> Joined:
    """Return what every expert expects of all sources; of one of which it has no opinion, that it goes on.

    Args:
        history: Of the demand.
        streams: What has arrived, in at least one minute.
        needs: Of the streams.
        matches: Hours that were like the last one.
        usual: What profiles expect of every stream alone, in slot equivalents.
        echoes: What became of jumps of the demand.
    """
    alone = [max(each, _TINY) for each in needs.alone]
    each = histories(history, streams, needs)
    found = [paths(one, matches, expected, echoes) for one, expected in zip(each, usual, strict=True)]
    rates = {
        name: [_rates(one.get(name, one[LAST]), factor) for one, factor in zip(found, alone, strict=True)]
        for name in dict.fromkeys(name for one in found for name in one)
    }
    return Joined({name: tuple(needs.demand(of_all)) for name, of_all in rates.items()}, rates)


def _rates(path: Sequence[float], factor: float) -> list[float]:
    return [each / factor if each > LEAST_DEMAND else 0.0 for each in path]


def histories(history: History, streams: Streams, needs: Needs) -> list[History]:
    """Return the history of every stream as it would be alone, in slot equivalents."""
    alone = needs.alone
    factors = list(_factors(streams, needs, alone))
    is_own = any(one.since is not None for one in streams.each)
    return [
        _history(history, one, factor, _logs(logs, streams.due, history.count), one.since if is_own else history.since)
        for one, factor, logs in zip(streams.each, alone, factors, strict=True)
    ]


def _history(whole: History, stream: Stream, factor: float, logs: Sequence[float], since: float | None) -> History:
    minutes = tuple(max(factor * each, LEAST_DEMAND) for each in stream.minutes)
    buckets = packing.scaled(whole.buckets, logs)
    return History(minutes, whole.filling, buckets, since, whole.surprise).with_day()


def _factors(streams: Streams, needs: Needs, alone: Sequence[float]) -> Iterator[list[float]]:
    """Give by stream the logarithms of its demand alone over that of all, by half hours and now, the newest first."""
    count = max(len(one.shares) for one in streams.each)
    now = streams.now(alone, _NOW)
    shares = [
        [share, *reversed(shares_of(one.shares)), *[share] * (count - len(one.shares))]
        for one, share in zip(streams.each, now, strict=True)
    ]
    rates = [[each / max(factor, _TINY) for each in one] for one, factor in zip(shares, alone, strict=True)]
    total = needs.demand(rates)
    for one in shares:
        yield [math.log(max(share, _TINY) / whole) for share, whole in zip(one, total, strict=True)]


def _logs(newest: Sequence[float], due: int, count: int) -> list[float]:
    """Return the logarithms of buckets, oldest first, on lines between the present and the middles of half hours."""
    found, before, width = list[float](), newest[0], due + PER_SHARE // 2
    for log in newest[1:]:
        found += [before + (log - before) * place / width for place in range(width)]
        before, width = log, PER_SHARE
        if len(found) >= count:
            break
    found += [before] * (count - len(found))
    return found[count - 1 :: -1] if count else []


def usual_of(
    profiles: LoadProfiles,
    sources: Sequence[VertexId],
    rates: Mapping[VertexId, float],
    factor: float,
    at: Sequence[float],
) -> Usual | None:
    """Return what profiles expect of some sources together; None where they say nothing of any.

    Args:
        profiles: By source.
        sources: Some of the job; one of which nothing is known is taken to go on as it is.
        rates: What arrives now, records/s.
        factor: Demand of one record/s.
        at: End of the last bucket that is complete, and the present, epoch seconds.
    """
    known = {each: usual_rates(profiles[each], *at) for each in sources if each in profiles}
    if not any(known.values()):
        return None
    parts = []
    for part, count in enumerate((HOUR, LATELY, HORIZON)):
        series = [found[part] if (found := known.get(each)) else (rates.get(each, 0.0),) * count for each in sources]
        parts.append([max(factor * sum(each), LEAST_DEMAND) for each in zip(*series, strict=True)])
    return Usual(*parts)
