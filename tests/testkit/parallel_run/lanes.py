"""The order in which files are dealt out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

LAST: Final = "tests/integration/pipeline/test_connect.py"
"""Begun after all others that wait: an embedded Spark was seen not to start (*Bad file descriptor*) in a process that
had used Spark Connect, and those that start one are begun early."""

WAITING: Final = (
    "tests/e2e/",
    "tests/integration/soak/",
    "tests/integration/yarn/",
    "tests/integration/pipeline/test_cluster.py",
    "tests/integration/pipeline/test_profile_schedule.py",
    LAST,
)
"""Beginnings of the paths of files whose tests wait more than they compute."""

LONGEST: Final = (
    "tests/integration/yarn/",
    "tests/e2e/test_demo_on_flink.py",
    "tests/integration/soak/",
    "tests/integration/pipeline/test_profile_schedule.py",
    "tests/e2e/test_scaling.py",
    "tests/integration/pipeline/backtest/test_nights_spark.py",
    "tests/integration/pipeline/",
    "tests/integration/",
    "tests/features/command_line/",
    "tests/unit/standalone/cli/",
    "tests/unit/pipeline/tables/",
    "tests/unit/stores/",
)
"""Beginnings of the paths of files that are run before all others of their kind, the longest first."""


ON_ONE_SPARK: Final = (
    "tests/integration/pipeline/backtest/test_nights_spark.py",
    "tests/integration/pipeline/tables/test_spark.py",
    "tests/integration/pipeline/profiles/test_job.py",
    "tests/integration/pipeline/reports/test_build.py",
    "tests/integration/pipeline/test_data_source.py",
)
"""Files that share an embedded Spark, and therefore stay together with one worker."""


def scope_of(nodeid: str) -> str:
    """Return what a test stays together with: its file, or the first of those that share something with it."""
    file = nodeid.partition("::")[0]
    return ON_ONE_SPARK[0] if file in ON_ONE_SPARK else file


def turn(scope: str) -> int:
    """Return when a file is begun among those of its kind: the smaller, the sooner."""
    if scope.startswith(LAST):
        return len(LONGEST) + 1
    return next((place for place, start in enumerate(LONGEST) if scope.startswith(start)), len(LONGEST))


def is_for_waiting(worker: str, workers: int) -> bool:
    """Tell whether a worker, such as ``gw0`` of two, starts with the tests that wait."""
    return int(worker.removeprefix("gw")) % max(workers, 1) < max(workers // 2, 1)


def chosen(scopes: Iterable[str], *, waiting: bool) -> str:
    """Return the file that a worker runs next: the first of its kind, or of the other kind when none is left.

    Args:
        scopes: Files that nobody has begun, in their order; at least one.
        waiting: Whether the worker prefers the tests that wait.
    """
    return min(scopes, key=lambda scope: scope.startswith(WAITING) is not waiting)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Deal out files as the module says, whatever ``--dist`` says."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - who runs without workers needs no xdist

    class Lanes(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _assign_work_unit(self, node: WorkerController) -> None:
            prefers = is_for_waiting(node.gateway.id, len(self.nodes))
            scope = chosen(sorted(self.workqueue, key=turn), waiting=prefers)
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return Lanes(config, log)
