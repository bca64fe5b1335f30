"""A version of the program in an environment of its own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from releasing import building
from releasing.last import last_release, wheel_of

from testkit.scenarios.runner.process import PRESENT

_EXTRAS = "postgresql,mysql,report"


@dataclass(frozen=True)
class Version:
    """An installed version.

    Attributes:
        name: Such as ``0.1.0``.
        home: The environment.
    """

    name: str
    home: Path

    @property
    def program(self) -> tuple[str, ...]:
        """The command, as users call it."""
        return PRESENT if self.home == Path(sys.prefix) else (str(self.home / "bin" / "flink-autoscaler"),)


def install_last(into: Path) -> Version:
    """Install the last release.

    Raises:
        NoHistoryError: It is not in the history of this clone.
        ReleaseError: It cannot be built or installed.
    """
    release = last_release()
    wheel = wheel_of(release)
    return Version(release.version, building.environment(into / release.version, f"{wheel}[{_EXTRAS}]"))


def present() -> Version:
    """Return what is checked out, as the tests run it: in another environment all libraries would be compiled anew."""
    return Version(building.version(), Path(sys.prefix))
