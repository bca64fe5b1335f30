"""Reads and fits histories and runs plans in this process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from flink_autoscaler.core.model.load_profile import WEEK
from flink_autoscaler.pipeline.backtest.computing import computed
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS, FitTerms, Records, fit
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, Outcome
from flink_autoscaler.pipeline.backtest.subject import FittedHistory
from flink_autoscaler.pipeline.history.files import Files, opened
from flink_autoscaler.pipeline.history.schema import SAMPLES, TABLES
from flink_autoscaler.pipeline.history.store import EVERYTHING, Progress, Selection, scan, settled, unheard
from flink_autoscaler.pipeline.profiles import BACKTEST_WEEKS

_KEY = "job_key"


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of a part of a history.

    Attributes:
        past: Seconds of arrivals before the selection that profiles are made of; None makes no profiles.
    """

    selection: Selection = EVERYTHING
    past: float | None = None

    def part_of(self, table: str) -> Selection:
        """Return which rows of a table are read: of arrivals what profiles are made of, too."""
        since = self.selection.since_ms
        if table != SAMPLES.name or since is None or self.past is None:
            return self.selection
        return replace(self.selection, since_ms=since - round(self.past * 1000))

    def terms(self, now: float) -> FitTerms:
        """Return how jobs are fitted at an instant, epoch seconds."""
        since = self.selection.since_ms
        return FitTerms(now, None if since is None else since / 1000, with_past=self.past is not None)


def past_needed(candidates: Iterable[Candidate]) -> float | None:
    """Return the seconds of arrivals that the profiles of some configurations look back; None where none has forecasts.

    Raises:
        ValueParseError: An option cannot be read.
    """
    weeks = max((weeks for each in candidates if (weeks := each.forecast_weeks) is not None), default=None)
    return None if weeks is None else (weeks + BACKTEST_WEEKS) * WEEK


class InlineRunner:
    """Does everything in this process (a ``Runner``)."""

    def fleet(self, path: str, choice: Choice, now: float, progress: Progress = unheard) -> FittedHistory:
        """Do what ``Runner`` says, of a history on a local path."""
        with opened(path) as files:
            records, damaged = read_records(files, choice, progress)
        return FittedHistory.of((fit(each, choice.terms(now)) for each in records), tuple(damaged))

    def outcomes(self, plan: BacktestPlan) -> Iterator[Outcome]:
        """Yield what came of each piece as soon as it is there."""
        yield from map(computed, plan.pieces())


def read_records(files: Files, choice: Choice, progress: Progress = unheard) -> tuple[list[Records], list[str]]:
    """Read what fitting needs, and what is wrong with damaged files, which are left out."""

    def look() -> tuple[dict[str, dict[str, pa.Table]], list[str]]:
        damaged: list[str] = []
        tables = {}
        for name, columns in COLUMNS.items():
            pieces = scan(files, TABLES[name], choice.part_of(name), damaged, [_KEY, *columns], progress)
            tables[name] = _by_job(pa.concat_tables([_empty(name), *pieces]))
        return tables, damaged

    tables, damaged = settled(look)
    return [_records(key, tables) for key in sorted(tables["vertices"].keys() | tables["samples"].keys())], damaged


def _empty(name: str) -> pa.Table:
    return TABLES[name].schema.empty_table().select([_KEY, *COLUMNS[name]])


def _by_job(table: pa.Table) -> dict[str, pa.Table]:
    ordered = table.filter(pc.field(_KEY).is_valid()).sort_by(_KEY).combine_chunks()
    found, start = {}, 0
    for entry in pc.value_counts(ordered.column(_KEY)).to_pylist():
        found[entry["values"]] = ordered.slice(start, entry["counts"])
        start += entry["counts"]
    return found


def _records(key: str, tables: Mapping[str, Mapping[str, pa.Table]]) -> Records:
    found = {name: tables[name].get(key, _empty(name)).select(COLUMNS[name]) for name in COLUMNS}
    return Records(key, **found)
