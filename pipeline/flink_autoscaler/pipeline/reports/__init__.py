"""Reports about a fleet and its jobs, from the metric history: one page for a browser.

Importing this package imports neither Spark nor Arrow, and what draws charts only when a page is made: see
:mod:`flink_autoscaler.pipeline.reports.build` and :mod:`flink_autoscaler.pipeline.reports.page`.
"""
