"""Backtests of a fleet: what configurations would have come to, for recorded jobs and for made-up ones.

:mod:`.fitting` makes models of jobs from the metric history, :mod:`.plan` pairs them with configurations,
:mod:`.runner` runs the pairs, :mod:`.compare` and :mod:`.tune` say what came of it. Importing this
package imports neither Spark nor Arrow.
"""
