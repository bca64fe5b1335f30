"""The fake YARN cluster: its applications and its ResourceManagers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from testkit.fakes.flink import FakeFlink
from testkit.fakes.yarn.application import FakeApplication
from testkit.fakes.yarn.resource_manager import FakeResourceManager

_RECORDED = Path(__file__).parents[3] / "fixtures" / "yarn"


class FakeYarn:
    """A YARN cluster that serves what the test says; see the package for an overview.

    Attributes:
        applications: In the order of the list.
        managers: The ResourceManagers, in the order of their configuration.
        answers: Other answers of the active one, by path below ``/ws/v1/cluster``.
        empty: What stands for an empty list.
        single_as_object: Whether a list of one is an object.
        forwards_put: Whether the web proxy passes PUT on.
        proxy_base: Base URL of a web proxy elsewhere; None while it is part of each ResourceManager.
    """

    def __init__(self, managers: int = 1) -> None:
        self.applications: list[FakeApplication] = []
        self.managers: list[FakeResourceManager] = []
        self.answers = {f"/{name}": (_RECORDED / f"{name}.json").read_bytes() for name in ("scheduler", "metrics")}
        self.empty: object = {}
        self.single_as_object = False
        self.forwards_put = True
        self.proxy_base: str | None = None
        self._count = managers
        self._open = ExitStack()

    def __enter__(self) -> Self:
        for number in range(self._count):
            manager = FakeResourceManager(self, state="STANDBY" if number else "ACTIVE")
            self.managers.append(self._open.enter_context(manager))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def urls(self) -> tuple[str, ...]:
        """Base URLs of all ResourceManagers."""
        return tuple(manager.url for manager in self.managers)

    @property
    def active_url(self) -> str | None:
        """Base URL of the active one."""
        return next((manager.url for manager in self.managers if manager.is_active), None)

    def add(
        self, name: str = "Flink session cluster", flink: FakeFlink | None = None, **values: Any
    ) -> FakeApplication:
        """Run one more application.

        Args:
            name: Of the application.
            flink: Its JobManager.
            values: Further fields of :class:`FakeApplication`.
        """
        application = FakeApplication(len(self.applications) + 1, name, flink, **values)
        self.applications.append(application)
        return application

    def fail_over(self) -> None:
        """Have the next ResourceManager take over."""
        active = next(number for number, manager in enumerate(self.managers) if manager.is_active)
        self.managers[active].state = "STANDBY"
        self.managers[(active + 1) % len(self.managers)].state = "ACTIVE"
