"""Pages in files: about a fleet and its jobs, from the metric history, and about backtests.

Importing this package imports neither Spark nor Arrow; its modules do.
"""
