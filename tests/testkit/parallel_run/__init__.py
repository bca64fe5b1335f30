"""Which worker of pytest-xdist runs which files: what waits for Flink runs beside what computes.

Tests on real clusters wait most of the time, the others keep a core busy. Half of the workers (one of two or three)
start with the former, the rest with the latter; who has nothing left helps the others. A file stays with one worker,
in its order, so that the fixtures of a module are made once; files of one kind are begun in the order of ``LONGEST``,
so that no long one is left for the end.

Make it known with ``pytest_plugins = ["testkit.parallel_run"]``.
"""

from testkit.parallel_run.lanes import pytest_xdist_make_scheduler

__all__ = ["pytest_xdist_make_scheduler"]
