"""Which applications of a YARN cluster are known, and what has become of those that are not listed any more.

That a ResourceManager does not list an application among the running ones does not mean that it has ended: while the
next ApplicationMaster starts, and for some seconds after every fail-over, the application is ACCEPTED although its job
may run on. A ResourceManager that has just lost its role may also list what was. So each of them is asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.clients.yarn import Application, ApplicationFilter, ResourceManagerClient
from flink_autoscaler.clients.yarn.applications import RUNNING
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.standalone.fetchers.yarn_application import WatchedApplication

UNKNOWN_FOR: Final = 300.0
"""Seconds for which an application is kept that the ResourceManager does not know: longer than a fail-over takes.
Those that have ended it remembers for long, so that only one without recovery, after a restart, has none of them."""

ASKED_AT_ONCE: Final = 64
"""Applications that are asked for in one pass, so that a list that is empty for once costs no thousand requests."""


@dataclass(frozen=True, slots=True)
class Absent:
    """Applications that were listed before and are not now, by id; those that have ended are in neither.

    Attributes:
        problems: Why it is not known what they run.
        left_out: They run, but do not match the filters any more, for example in another queue.
    """

    problems: Mapping[str, AutoscalerError]
    left_out: frozenset[str]


class ApplicationRoll:
    """The applications that are looked after, from when they are listed until they have ended.

    Belongs to one event loop; calls do not overlap.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched: dict[str, WatchedApplication] = {}
        self._unknown_since: dict[str, float] = {}

    def __getitem__(self, application_id: str) -> WatchedApplication:
        """Return what is remembered about an application; it is looked after from now on."""
        if application_id not in self._watched:
            self._watched[application_id] = WatchedApplication(clock=self._clock)
        return self._watched[application_id]

    def items(self) -> Iterable[tuple[str, WatchedApplication]]:
        """Give every application that is looked after, with its id."""
        return self._watched.items()

    async def absent(self, rm: ResourceManagerClient, wanted: ApplicationFilter, listed: Collection[str]) -> Absent:
        """Find out about the applications that are not listed, and forget those that have ended. Never raises."""
        for application_id in self._unknown_since.keys() & set(listed):
            del self._unknown_since[application_id]
        missing = [application_id for application_id in self._watched if application_id not in listed]
        asked, put_off = missing[:ASKED_AT_ONCE], missing[ASKED_AT_ONCE:]
        found = await asyncio.gather(*(self._verdict(rm, wanted, application_id) for application_id in asked))
        problems: dict[str, AutoscalerError] = {
            each: NotReadyError("not listed, not asked for yet") for each in put_off
        }
        problems |= {each: error for each, error in zip(asked, found, strict=True) if error is not None}
        # Those that wait come first in the next pass.
        self._watched = {each: self._watched[each] for each in (*put_off, *self._watched) if each in self._watched}
        left_out = set(asked) & self._watched.keys() - problems.keys()
        return Absent(problems, frozenset(left_out))

    async def _verdict(
        self, rm: ResourceManagerClient, wanted: ApplicationFilter, application_id: str
    ) -> AutoscalerError | None:
        try:
            application = await rm.application(application_id)
        except AutoscalerError as error:
            return error
        if application is None:
            return self._unknown(application_id)
        self._unknown_since.pop(application_id, None)
        if application.has_ended:
            self._forget(application_id)
            return None
        return None if _is_left_out(application, wanted) else NotReadyError(f"not listed; it is {application.state}")

    def _unknown(self, application_id: str) -> AutoscalerError | None:
        since = self._unknown_since.setdefault(application_id, self._clock())
        if self._clock() - since < UNKNOWN_FOR:
            return NotReadyError("the ResourceManager does not know it; it may have failed over to an older state")
        self._forget(application_id)
        return None

    def _forget(self, application_id: str) -> None:
        self._watched.pop(application_id, None)
        self._unknown_since.pop(application_id, None)


def _is_left_out(application: Application, wanted: ApplicationFilter) -> bool:
    return application.state == RUNNING and not wanted.takes(application)
