"""One daemon per SQLite file: without a lease for several, two of them would act on the same jobs.

The claim is a row inside the file, so that it holds under every name the file has: symbolic and hard links, other
mounts, and whatever was deleted beside it.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import Connection, select, update

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.stores.clock import monotonic_seconds
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.lease import Lease, LeaseFence
from flink_autoscaler.stores.sql.tables import LEASE

log = structlog.get_logger(__name__)

TTL: Final = 20.0
"""Seconds for which a claim lasts without a renewal: several looks of the daemon at its database."""

_ROW: Final = "only daemon of this file"
_POLL: Final = 0.5
_OWNER: Final = re.compile(r"process (\d{1,10}) on ([^\s()]{1,64}) \(([^\s()]*) ([^\s()]*) ([^\s()]*)\)", re.ASCII)


class ExclusiveAccess:
    """The claim of one process to a SQLite file (a ``Fence``). Thread-safe.

    A process that was killed leaves its claim behind. On the same machine it is known to be dead and is succeeded at
    once; of one elsewhere, such as in another container, nobody can tell, and its claim has to run out.

    Args:
        database: The file.
        ttl: Seconds that the claim lasts unless it is renewed.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, database: Database, *, ttl: float = TTL, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._database = database
        self._clock = clock
        self._lease = Lease(database, name=_ROW, owner=_own_identity(), ttl=ttl, clock=clock)
        self._fence = LeaseFence(self._lease, lambda: self._token)
        self._token: int | None = None

    def claim(self) -> None:
        """Take the file, as soon as no other process has it.

        Raises:
            ConfigError: Another daemon works with it.
            StoreError: The database failed.
        """
        self._wait(lambda: not self._lease.acquire())
        self._token = self._lease.token
        self._wait(self._is_led)

    def require_unclaimed(self) -> None:
        """Make sure that no daemon has the file for itself: it would not know of one that takes turns with others.

        Raises:
            ConfigError: One has.
            StoreError: The database failed.
        """
        self._wait(lambda: bool(self._holders(_ROW)))

    def renew(self) -> None:
        """Make the claim last.

        Raises:
            LeaseLostError: Another process has taken the file while this one was held up.
            StoreError: The database failed; the claim lasts as long as it did before.
        """
        if not self._lease.renew():
            # Never taken again: what this process remembers is older than what the other one has written.
            raise LeaseLostError(
                f"{self._database.name}: another daemon has taken over the file while this one was held up, so nothing"
                " is written: restart one of them with a file of its own, or set autoscaler.ha.enabled for both"
            )

    def release(self) -> None:
        """Give the file back, if this process has it. May raise :class:`StoreError`."""
        self._lease.release()

    def may_act(self, seconds: float = 0.0) -> bool:
        """Tell whether nobody else acts for so many seconds; also true before the claim."""
        return self._token is None or self._lease.remaining() > seconds

    def check(self, connection: Connection) -> None:
        """Keep a process that has lost the file from writing.

        Raises:
            LeaseLostError: Another process has it.
        """
        if self._token is not None:
            self._fence.check(connection)

    def _wait(self, is_taken: Callable[[], bool]) -> None:
        deadline, is_told = self._clock() + self._lease.ttl + _POLL, False
        while is_taken():
            holders = self._holders()
            lives = [is_alive(owner) for owner in holders]
            if True in lives or self._clock() >= deadline:
                raise ConfigError(self._refusal(holders))
            if False in lives:
                self._remove_dead(holders[lives.index(False)])
                continue
            if not is_told:
                log.info("waiting_for_file", holder=", ".join(map(_describe_owner, holders)), seconds=self._lease.ttl)
                is_told = True
            time.sleep(_POLL)

    def _is_led(self) -> bool:
        return any(owner != self._lease.owner for owner in self._holders())

    def _holders(self, name: str | None = None) -> list[str]:
        """Return who has the file, alone or in turns with others, and has not let it run out."""

        def read(connection: Connection) -> list[str]:
            is_held = LEASE.c.expires_at > self._database.now_ms(connection)
            query = select(LEASE.c.owner).where(is_held).order_by(LEASE.c.name)
            found = connection.execute(query if name is None else query.where(LEASE.c.name == name)).scalars()
            return [str(owner) for owner in found]

        return self._database.run(read, read_only=True)

    def _remove_dead(self, owner: str) -> None:
        self._database.run(
            lambda connection: connection.execute(update(LEASE).where(LEASE.c.owner == owner).values(expires_at=0))
        )

    def _refusal(self, holders: list[str]) -> str:
        holder = next((_describe_owner(owner) for owner in holders if owner != self._lease.owner), "unknown")
        return (
            f"another daemon works with {self._database.file or self._database.name} already ({holder}), and without a"
            " lease both would act: stop it; or give this one a file of its own (STATE_DIRECTORY, or"
            " autoscaler.standalone.jdbc.url); or set autoscaler.ha.enabled for both, so that one leads and the other"
            " stands by"
        )


def is_alive(owner: str) -> bool | None:
    """Tell whether the process of an owner still runs; None where that cannot be known from here."""
    match = _OWNER.fullmatch(owner)
    if match is None or "" in match.groups() or (match[3], match[4]) != (_boot(), _namespace()):
        return None
    pid = int(match[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return None  # of another user: /proc may hide it
    begin = _start_ticks(pid)
    # The number may have been given to another process since.
    return begin == match[5] if begin else None


def _own_identity() -> str:
    host = re.sub(r"[\s()]", "", socket.gethostname())[:64] or "-"
    return f"process {os.getpid()} on {host} ({_boot()} {_namespace()} {_start_ticks(os.getpid())})"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def _start_ticks(pid: int) -> str:
    """Return since when a process runs, in ticks after the boot; empty where that is not shown or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] in "ZX" else fields[19]


def _describe_owner(owner: str) -> str:
    shown = owner.partition(" (")[0][:200]
    return shown if shown.isprintable() and shown else "unknown"
