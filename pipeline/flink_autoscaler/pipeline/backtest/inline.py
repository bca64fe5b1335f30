"""Reads and fits histories and runs plans in this process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from flink_autoscaler.core.model.load_profile import WEEK
from flink_autoscaler.pipeline.backtest.case import FittedHistory
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS, FitParams, Records, fit_case
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, SimulationResult
from flink_autoscaler.pipeline.backtest.simulate_case import simulate_task
from flink_autoscaler.pipeline.profiles import BACKTEST_WEEKS
from flink_autoscaler.pipeline.tables.files import Files, open_files
from flink_autoscaler.pipeline.tables.schema import SAMPLES, TABLES
from flink_autoscaler.pipeline.tables.store import (
    EVERYTHING,
    HistoryFilter,
    Progress,
    ignore_progress,
    retry_until_consistent,
    scan,
)

_KEY = "job_key"


@dataclass(frozen=True, slots=True)
class BacktestFilter:
    """Choice of a part of a history.

    Attributes:
        past: Seconds of arrivals before the selection that profiles are made of; None makes no profiles.
    """

    selection: HistoryFilter = EVERYTHING
    past: float | None = None

    def part_of(self, table: str) -> HistoryFilter:
        """Return which rows of a table are read: of arrivals what profiles are made of, too."""
        since = self.selection.since_ms
        if table != SAMPLES.name or since is None or self.past is None:
            return self.selection
        return replace(self.selection, since_ms=since - round(self.past * 1000))

    def terms(self, now: float) -> FitParams:
        """Return how jobs are fitted at an instant, epoch seconds."""
        since = self.selection.since_ms
        return FitParams(now, None if since is None else since / 1000, with_past=self.past is not None)


def required_history(candidates: Iterable[Candidate]) -> float | None:
    """Return the seconds of arrivals that the profiles of some configurations look back; None where none has forecasts.

    Raises:
        ValueParseError: An option cannot be read.
    """
    weeks = max((weeks for each in candidates if (weeks := each.forecast_weeks) is not None), default=None)
    return None if weeks is None else (weeks + BACKTEST_WEEKS) * WEEK


class InlineRunner:
    """Does everything in this process (a ``Runner``)."""

    def fleet(
        self, path: str, choice: BacktestFilter, now: float, progress: Progress = ignore_progress
    ) -> FittedHistory:
        """Do what ``Runner`` says, of a history on a local path."""
        with open_files(path) as files:
            records, damaged = read_records(files, choice, progress)
        return FittedHistory.of((fit_case(each, choice.terms(now)) for each in records), tuple(damaged))

    def outcomes(self, plan: BacktestPlan) -> Iterator[SimulationResult]:
        """Yield what came of each piece as soon as it is there."""
        yield from map(simulate_task, plan.pieces())


def read_records(
    files: Files, choice: BacktestFilter, progress: Progress = ignore_progress
) -> tuple[list[Records], list[str]]:
    """Read what fitting needs, and what is wrong with damaged files, which are left out."""

    def look() -> tuple[dict[str, dict[str, pa.Table]], list[str]]:
        damaged: list[str] = []
        tables = {}
        for name, columns in COLUMNS.items():
            pieces = scan(files, TABLES[name], choice.part_of(name), damaged, [_KEY, *columns], progress)
            tables[name] = _by_job(pa.concat_tables([_empty(name), *pieces]))
        return tables, damaged

    tables, damaged = retry_until_consistent(look)
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
