"""A version of the program in an environment of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from releasing import building
from releasing.last import last_release, wheel_of

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
        return (str(self.home / "bin" / "flink-autoscaler"),)


def install_last(into: Path) -> Version:
    """Install the last release.

    Raises:
        NoHistoryError: It is not in the history of this clone.
        ReleaseError: It cannot be built or installed.
    """
    release = last_release()
    return _installed(release.version, wheel_of(release), into)


def install_present(into: Path) -> Version:
    """Install what is checked out; raises :class:`releasing.building.ReleaseError`."""
    return _installed(building.version(), building.wheel(into), into)


def _installed(name: str, wheel: Path, into: Path) -> Version:
    return Version(name, building.environment(into / name, f"{wheel}[{_EXTRAS}]"))
