"""Makes load profiles in a process of its own, so that nothing of it delays a pass: neither its work nor its memory.

The daemon hands settings to the process and reads results from it, one after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import structlog

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.standalone.history.own_process import OwnProcess, OwnProcessError, begun
from flink_autoscaler.standalone.observability.logs import configure_logging
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

PROGRESS_SECONDS: Final = 30.0


class ProfileBuildError(AutoscalerError):
    """Profiles could not be made."""


class ProfileProcess:
    """A process that makes the profiles of the configured history. It is begun at once.

    Args:
        settings: Those of the daemon.
        end: End of the history, epoch seconds.

    Raises:
        ProfileBuildError: It could not be started.
    """

    def __init__(self, settings: Settings, end: float) -> None:
        try:
            self._process = OwnProcess(__name__, (settings, end))
        except OwnProcessError as error:
            raise ProfileBuildError(str(error)) from error

    def results(self) -> Iterator[ProfileResult]:
        """Yield one result per source, in no order, as they come.

        Raises:
            ProfileBuildError: They could not be made, or the process was ended.
        """
        try:
            for message in self._process.messages():
                if isinstance(message, str):
                    raise ProfileBuildError(message)
                yield message
        except OwnProcessError as error:
            raise ProfileBuildError(f"the process that makes them {error}") from error

    def close(self) -> None:
        """End the process, in order if possible; from any thread, also while another one waits for results."""
        self._process.close()


def main() -> None:
    """Make profiles and send them to the daemon, which has said what its settings are."""
    (settings, end), target = begun()
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    try:
        for result in _built(settings, end):
            target.send(result)
        target.send(None)
    except AutoscalerError as error:
        target.send(masked(str(error)))


def _built(settings: Settings, end: float) -> Iterator[ProfileResult]:
    # Imported here: the daemon, which imports this module as well, need not have Spark.
    from flink_autoscaler.pipeline.spark.session import open_session  # noqa: PLC0415
    from flink_autoscaler.standalone.history.profiles import scheduled_build  # noqa: PLC0415

    def opened(*arguments: Any) -> Any:
        session = open_session(*arguments)
        tracker = session.spark.sparkContext.statusTracker()
        threading.Thread(target=_tell_progress, args=(lambda: _stages(tracker),), daemon=True).start()
        return session

    return scheduled_build(settings, end)(opener=opened)


def _tell_progress(stages: Callable[[], list[str]]) -> None:
    began = time.monotonic()
    with suppress(Exception):  # Spark has ended meanwhile
        while True:
            time.sleep(PROGRESS_SECONDS)
            seconds = round(time.monotonic() - began)
            log.info("forecast_build_progress", seconds=seconds, tasks_done_of_stages=stages())


def _stages(tracker: Any) -> list[str]:
    """Return how many tasks of each stage that runs are done, such as ``3/16``."""
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [f"{info.numCompletedTasks}/{info.numTasks}" for info in found if info is not None]


if __name__ == "__main__":
    main()
