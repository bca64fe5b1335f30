"""Builders of core values for tests: every one fills in what a case does not care about."""

from testkit.builders.core.driver import JobDriver
from testkit.builders.core.fetching_job import FETCHING_MAP, FETCHING_SOURCE, FetchingJob
from testkit.builders.core.graphs import a_plan, a_topology, a_vertex, details_of, vertex_id
from testkit.builders.core.jobs import JOB_ID, a_configuration, a_context, a_request, options_with
from testkit.builders.core.measurements import a_sample, evaluated_vertex, history_entry
from testkit.builders.core.pipeline import PIPELINE_MAP, PIPELINE_SOURCE, draining_pipeline, pipeline, stuck_pipeline
from testkit.builders.core.ports import Journal, RecordingEvents, RecordingRealizer, RecordingStore, ScriptedCollector
from testkit.builders.core.readings import a_cluster, a_reading, of_total, operator_answers, source_answers
from testkit.builders.core.single_source import MINUTE, SINGLE_SOURCE, SINGLE_SOURCE_OPTIONS, full_window, single_source

__all__ = [
    "FETCHING_MAP",
    "FETCHING_SOURCE",
    "JOB_ID",
    "MINUTE",
    "PIPELINE_MAP",
    "PIPELINE_SOURCE",
    "SINGLE_SOURCE",
    "SINGLE_SOURCE_OPTIONS",
    "FetchingJob",
    "JobDriver",
    "Journal",
    "RecordingEvents",
    "RecordingRealizer",
    "RecordingStore",
    "ScriptedCollector",
    "a_cluster",
    "a_configuration",
    "a_context",
    "a_plan",
    "a_reading",
    "a_request",
    "a_sample",
    "a_topology",
    "a_vertex",
    "details_of",
    "draining_pipeline",
    "evaluated_vertex",
    "full_window",
    "history_entry",
    "of_total",
    "operator_answers",
    "options_with",
    "pipeline",
    "single_source",
    "source_answers",
    "stuck_pipeline",
    "vertex_id",
]
