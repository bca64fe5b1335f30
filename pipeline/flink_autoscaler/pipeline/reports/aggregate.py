"""From the tables of the history to as few rows as a page can show: the part of a report that runs in Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from flink_autoscaler.pipeline.reports.report import ReportPeriod

LIMITING: Final = (
    "HEADROOM_REACHED",
    "NETWORK_MEMORY",
    "NOT_SCHEDULABLE",
    "QUOTA_REACHED",
    "RESOURCE_CHECK",
    "SCALING_LIMITED",
    "SLOTS_MISSING",
    "WAITS_FOR_MORE_SLOTS",
)
"""Codes of reasons that say that a job got less than it needs."""

SHOWN_RESCALES: Final = 200
"""Of one job, the latest."""

FAILED: Final = ("refused", "partially reached")
"""Stages of rescales that did not come to stay."""
_MIN_GAP: Final = 600.0
_GAP_STEPS: Final = 3.0


def passes(vertices: DataFrame, samples: DataFrame) -> DataFrame:
    """Put together what the tables say about each pass. Rows that were written twice count once.

    Returns:
        One row per job and pass: ``job_key``, ``ts``, ``cluster``, ``slots`` (the widest vertex of every slot sharing
        group, summed), ``capacity`` (records/s that may arrive at the sources until the first vertex is busy all the
        time), ``load`` (records/s that arrive), ``lag`` (records), ``lag_seconds`` (of the source that is latest), and
        ``seconds`` until the next pass.
    """
    both = _sizes(vertices).join(_arrivals(samples), on=["job_key", "ts"], how="full")
    cluster = f.coalesce("vertices_cluster", "samples_cluster").alias("cluster")
    return _timed(both.select("job_key", "ts", cluster, "slots", "capacity", "load", "lag", "lag_seconds"))


def _sizes(vertices: DataFrame) -> DataFrame:
    """Return per job and pass ``vertices_cluster``, ``slots`` and ``capacity``."""
    known = vertices.where("job_key is not null and ts is not null and parallelism is not null")
    rows = known.repartition("job_key").dropDuplicates(["job_key", "ts", "vertex_id"])
    group = f.coalesce("slot_sharing_group", f.lit("default"))
    target = f.col("target_rate")
    by_group = rows.groupBy("job_key", "ts", group.alias("group")).agg(
        f.max("cluster").alias("cluster"),
        f.max("parallelism").alias("slots"),
        f.sum(f.when(f.col("is_source"), target)).alias("demand"),
        f.min(f.when((target > 0) & (f.col("true_rate") > 0), f.col("true_rate") / target)).alias("headroom"),
    )
    return by_group.groupBy("job_key", "ts").agg(
        f.max("cluster").alias("vertices_cluster"),
        f.sum("slots").alias("slots"),
        _finite(f.sum("demand") * f.min("headroom")).alias("capacity"),
    )


def _arrivals(samples: DataFrame) -> DataFrame:
    """Return per job and pass ``samples_cluster``, ``load``, ``lag`` and ``lag_seconds``; null if a source lacks it."""
    known = samples.where("job_key is not null and ts is not null")
    rows = known.repartition("job_key").dropDuplicates(["job_key", "ts", "source_id"])
    # The age of the oldest record that waits: how long ago as many as wait now had not arrived.
    rate = f.coalesce(_usual_arrivals(), f.when(f.col("consumption_rate") > 0, f.col("consumption_rate")))
    age = f.when(f.col("lag") == 0, f.lit(0.0)).otherwise(f.col("lag") / rate)
    return (
        rows.withColumn("age", _finite(age))
        .groupBy("job_key", "ts")
        .agg(
            f.max("cluster").alias("samples_cluster"),
            _of_all(f.sum("arrival_rate"), "arrival_rate").alias("load"),
            _of_all(f.sum("lag"), "lag").alias("lag"),
            _of_all(f.max("age"), "age").alias("lag_seconds"),
        )
    )


def _usual_arrivals() -> Column:
    """Return what arrives at a source; what did before, or did after, where that is not known.

    The first sample after a restart has no rate, and it is there that the most waits.
    """
    of_source = Window.partitionBy("job_key", "source_id").orderBy("ts")
    known = f.when(f.col("arrival_rate") > 0, f.col("arrival_rate"))
    before = f.last(known, ignorenulls=True).over(of_source)
    after = f.first(known, ignorenulls=True).over(of_source.rowsBetween(0, Window.unboundedFollowing))
    return f.coalesce(known, before, after)


def _of_all(value: Column, name: str) -> Column:
    """Return an aggregate where no row lacks its column."""
    return f.when(f.count(name) == f.count(f.lit(1)), _finite(value))


def _finite(value: Column) -> Column:
    return f.when((value < float("inf")) & (value > float("-inf")), value)


def _timed(passes: DataFrame) -> DataFrame:
    """Add the ``seconds`` that a pass stands for: until the next one, but not across a gap in the history."""
    of_job = Window.partitionBy("job_key")
    at = f.col("ts").cast("double")
    stepped = passes.withColumn("step", f.lead(at).over(of_job.orderBy("ts")) - at)
    usual = stepped.withColumn("usual", f.percentile_approx("step", 0.5).over(of_job))
    is_gap = f.col("step") > f.greatest(_GAP_STEPS * f.col("usual"), f.lit(_MIN_GAP))
    seconds = f.coalesce(f.when(is_gap, f.col("usual")).otherwise(f.col("step")), "usual", f.lit(0.0))
    return usual.select(*passes.columns, seconds.alias("seconds"))


def job_buckets(passes: DataFrame, period: ReportPeriod, *, slo_lag: float) -> DataFrame:
    """Condense passes to buckets. A pass stands for the time until the next one, in each bucket of that time.

    Args:
        passes: As :func:`passes` returns them.
        period: Passes after it have numbers of buckets that it does not hold.
        slo_lag: Seconds of lag that are allowed.

    Returns:
        One row per job and bucket: ``job_key``, ``bucket``, ``cluster``, ``passes`` (that began in it; others go on
        into it), ``first`` and ``last`` of them (epoch seconds), ``slot_seconds`` and the ``slot_known`` seconds
        behind it, ``slots`` (mean), ``peak`` (slots), ``load``, ``capacity`` (means), ``lag`` (greatest),
        ``lag_seconds`` (greatest), ``late`` (seconds with more lag than allowed) and the ``lag_known`` seconds behind
        it.
    """
    seconds, at = f.col("overlap"), f.col("at")
    first_at = f.when(f.col("is_first"), at)
    return (
        _spread(passes, period)
        .groupBy("job_key", "bucket")
        .agg(
            f.count_if("is_first").alias("passes"),
            f.min(first_at).alias("first"),
            f.max(first_at).alias("last"),
            f.sum(f.col("slots") * seconds).alias("slot_seconds"),
            f.sum(f.when(f.col("slots").isNotNull(), seconds)).alias("slot_known"),
            f.max("slots").alias("peak"),
            *_each(f.avg, "slots", "load", "capacity"),
            *_each(f.max, "cluster", "lag", "lag_seconds"),
            f.sum(f.when(f.col("lag_seconds") > slo_lag, seconds)).alias("late"),
            f.sum(f.when(f.col("lag_seconds").isNotNull(), seconds)).alias("lag_known"),
        )
    )


def _spread(passes: DataFrame, period: ReportPeriod) -> DataFrame:
    """Repeat each pass in every bucket that it stands for: ``bucket``, ``overlap`` seconds, ``at``, ``is_first``."""
    at = f.col("ts").cast("double")
    placed = passes.withColumn("at", at).withColumn("begin", (at - period.since) / period.width)
    end = f.col("begin") + f.col("seconds") / period.width
    # What ends where a bucket begins is not in it.
    last = f.greatest(f.ceil(end) - 1, f.floor("begin"))
    spread = placed.withColumn("end", end).withColumn("bucket", f.explode(f.sequence(f.floor("begin"), last)))
    share = f.least("end", f.col("bucket") + 1) - f.greatest("begin", "bucket")
    return spread.select(
        *passes.columns,
        "at",
        f.col("bucket").cast("int").alias("bucket"),
        (share * period.width).alias("overlap"),
        (f.col("bucket") == f.floor("begin")).alias("is_first"),
    )


def job_totals(buckets: DataFrame) -> DataFrame:
    """Sum up the buckets of each job.

    Returns:
        One row per job: ``job_key``, ``cluster``, ``passes``, ``first``, ``last``, ``slot_seconds``, ``slot_known``,
        ``peak``, ``load`` (mean of the buckets), ``lag_seconds`` (greatest), ``late``, ``lag_known``.
    """
    return buckets.groupBy("job_key").agg(
        f.min("first").alias("first"),
        f.avg("load").alias("load"),
        *_each(f.max, "cluster", "last", "peak", "lag_seconds"),
        *_each(f.sum, "passes", "slot_seconds", "slot_known", "late", "lag_known"),
    )


def _each(function: Callable[[str], Column], *names: str) -> list[Column]:
    return [function(name).alias(name) for name in names]


def fleet_buckets(buckets: DataFrame) -> DataFrame:
    """Sum up the jobs of each bucket.

    Returns:
        One row per bucket: ``bucket``, ``slots``, ``load``, ``jobs``, ``late`` (jobs with more lag than allowed).
    """
    return buckets.groupBy("bucket").agg(
        f.sum("slots").alias("slots"),
        f.sum("load").alias("load"),
        f.count(f.lit(1)).alias("jobs"),
        f.count_if(f.col("late") > 0).alias("late"),
    )


def vertex_buckets(vertices: DataFrame, period: ReportPeriod, job_keys: Collection[str]) -> DataFrame:
    """Condense the parallelism of the vertices of some jobs to buckets.

    Returns:
        One row per vertex and bucket: ``job_key``, ``vertex_id``, ``bucket``, ``name``, ``parallelism`` (greatest).
    """
    bucket = f.floor((f.col("ts").cast("double") - period.since) / period.width).cast("int")
    of_jobs = vertices.where(f.col("job_key").isin(sorted(job_keys)) & f.col("parallelism").isNotNull())
    return of_jobs.groupBy("job_key", "vertex_id", bucket.alias("bucket")).agg(
        f.max("vertex_name").alias("name"), f.max("parallelism").alias("parallelism")
    )


def job_decisions(decisions: DataFrame) -> DataFrame:
    """Sum up what the passes over each job came to.

    Args:
        decisions: Rows of the table ``decisions``.

    Returns:
        One row per job: ``job_key``, ``cluster``, ``passes``, ``first``, ``last`` (epoch seconds), ``limited`` (passes
        with a reason of ``LIMITING``), ``limit`` (text of the last such reason), ``blind`` (passes without metrics),
        ``latest`` (struct of ``phase``, ``status``, ``supervision``, ``error``, ``reasons``).
    """
    at, limit = f.col("ts").cast("double"), f.col("limit")
    rows = decisions.where("job_key is not null and ts is not null").dropDuplicates(["job_key", "ts"])
    limits = f.filter("reasons", lambda reason: reason["code"].isin(*LIMITING))
    told = rows.withColumn("limit", f.get(limits["text"], f.lit(0)))
    return told.groupBy("job_key").agg(
        f.max("cluster").alias("cluster"),
        f.count(f.lit(1)).alias("passes"),
        f.min(at).alias("first"),
        f.max(at).alias("last"),
        f.count(limit).alias("limited"),
        f.max_by(limit, f.when(limit.isNotNull(), at)).alias("limit"),
        f.count_if(f.col("phase").isin("not_ready", "error", "invalid_config")).alias("blind"),
        f.max_by(f.struct("phase", "status", "supervision", "error", "reasons"), at).alias("latest"),
    )


def job_shadows(decisions: DataFrame) -> DataFrame:
    """Compare what policies in shadow mode wanted with what the jobs held, pass by pass.

    Args:
        decisions: Rows of the table ``decisions``.

    Returns:
        One row per job and policy: ``job_key``, ``policy``, ``last`` (epoch seconds of the last pass), ``silent``
        (passes in which it had no opinion), and of the others ``passes``, ``held`` and ``wanted`` (mean slots), ``up``
        and ``down`` (passes in which it wanted more slots than there were, and fewer).
    """
    held, wanted = f.col("slots_held"), f.col("shadow_slots")
    is_known = held.isNotNull() & wanted.isNotNull()
    return (
        decisions.where("job_key is not null and shadow_policy is not null")
        .dropDuplicates(["job_key", "ts"])
        .groupBy("job_key", f.col("shadow_policy").alias("policy"))
        .agg(
            f.max(f.col("ts").cast("double")).alias("last"),
            f.count_if(~is_known).alias("silent"),
            f.count_if(is_known).alias("passes"),
            f.avg(f.when(is_known, held)).alias("held"),
            f.avg(f.when(is_known, wanted)).alias("wanted"),
            f.count_if(wanted > held).alias("up"),
            f.count_if(wanted < held).alias("down"),
        )
    )


def job_rescales(rescales: DataFrame) -> DataFrame:
    """Sum up the rescales of each job, of which there is the latest row of every one.

    Returns:
        One row per job: ``job_key``, ``cluster``, ``rescales``, ``outage`` (seconds), ``reverted`` and ``failed``
        (refused or reached in part) rescales, ``revert`` and ``failure`` (structs of ``at``, epoch seconds, and
        ``reason`` of the last one).
    """
    known = rescales.where("job_key is not null and decided_at is not null")
    told = f.struct(f.col("decided_at").cast("double").alias("at"), "reason")
    is_failed = f.col("stage").isin(*FAILED)
    return known.groupBy("job_key").agg(
        f.max("cluster").alias("cluster"),
        f.count(f.lit(1)).alias("rescales"),
        f.sum("outage").alias("outage"),
        f.count_if("reverted").alias("reverted"),
        f.max_by(told, f.when(f.col("reverted"), f.col("decided_at"))).alias("revert"),
        f.count_if(is_failed).alias("failed"),
        f.max_by(told, f.when(is_failed, f.col("decided_at"))).alias("failure"),
    )


def latest_rescales(rescales: DataFrame, job_keys: Collection[str]) -> DataFrame:
    """Return the last rescales of some jobs, 200 of each at most.

    Returns:
        ``job_key``, ``at`` (epoch seconds), ``origin``, ``mechanism``, ``stage``, ``reason``, ``outage``,
        ``before``, ``target``, ``reverted``.
    """
    newest_first = Window.partitionBy("job_key").orderBy(f.col("decided_at").desc())
    of_jobs = rescales.where(f.col("job_key").isin(sorted(job_keys)) & f.col("decided_at").isNotNull())
    ranked = of_jobs.withColumn("rank", f.row_number().over(newest_first)).where(f.col("rank") <= SHOWN_RESCALES)
    at = f.col("decided_at").cast("double").alias("at")
    names = ("origin", "mechanism", "stage", "reason", "outage", "before", "target", "reverted")
    return ranked.select("job_key", at, *names)


def fleet_rescales(rescales: DataFrame, period: ReportPeriod) -> DataFrame:
    """Count the rescales of all jobs in each bucket: ``bucket``, ``rescales``."""
    bucket = f.floor((f.col("decided_at").cast("double") - period.since) / period.width).cast("int")
    known = rescales.where("decided_at is not null")
    return known.groupBy(bucket.alias("bucket")).agg(f.count(f.lit(1)).alias("rescales"))
