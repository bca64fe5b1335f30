"""TaskManagers as processes of the machine on which the daemon runs."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import structlog

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import DONE, PENDING, OperationState, Progress, ProviderInfo
from flink_autoscaler.realizers.taskmanagers.providers.limits import UNKNOWN_OPERATION, ProviderLimits
from flink_autoscaler.realizers.taskmanagers.providers.process_table import (
    ID_VARIABLE,
    Ended,
    ProcessTable,
    Started,
    TableFile,
    find_by_id,
    send_to_group,
)

ID: Final = "{id}"
"""Place of the TaskManager's id in the command."""

ENVIRONMENT: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "JAVA_*",
    "FLINK_*",
    "HADOOP_*",
)
"""What a TaskManager needs. The rest of the daemon's environment may hold its passwords, which are none of a job's
business."""
_OWN: Final = "FLINK_AUTOSCALER*"

_LISTED: Final = 300.0
"""Seconds for which Flink may still list a TaskManager that has ended: more than its heartbeat timeout of 50 s."""
_OUTPUTS: Final = 20
"""Outputs of ended processes that are kept."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProcessSpec:
    """How TaskManagers are started and stopped.

    Attributes:
        command: Program and arguments that run a TaskManager in the foreground; no shell. ``{id}`` stands for its id.
        directory: Where the list of processes and their outputs go; belongs to one cluster.
        prefix: First part of the ids, such as the name of the cluster.
        limits: How many there may be.
        stop_timeout: Seconds between SIGTERM and SIGKILL.
        environment: Patterns for the names of the daemon's environment variables that the processes get, too.
    """

    command: tuple[str, ...]
    directory: Path
    prefix: str = "flink"
    limits: ProviderLimits = field(default_factory=ProviderLimits)
    stop_timeout: float = 30.0
    environment: tuple[str, ...] = ENVIRONMENT


@dataclass(frozen=True, slots=True)
class _Operation:
    operation_id: str
    count: int
    started: frozenset[str] = frozenset()


class ProcessProvider:
    """Starts and stops processes, and remembers them in a file (a ``TaskManagerProvider``).

    Each process leads a session of its own, so that it outlives the daemon; the next daemon finds it in the file. Only
    processes that were started here are ever signalled: a pid whose process began at another time is somebody else's.

    Args:
        spec: How it is done.
        clock: UTC epoch seconds.
    """

    def __init__(self, spec: ProcessSpec, *, clock: Callable[[], float] = time.time) -> None:
        self._spec = spec
        self._clock = clock
        self._file = TableFile(spec.directory)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._operation: _Operation | None = None
        self._endings: dict[str, str] = {}
        self._asked: set[str] = set()

    def describe(self) -> ProviderInfo:
        """Look at the processes; those that do not obey SIGTERM in time are killed."""
        with self._file.locked():
            return self._info(self._looked_at())

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        """Start what is missing or stop what is too many, victims first, then the youngest."""
        self._spec.limits.check(count)
        with self._file.locked():
            table = replace(self._looked_at(), desired=count)
            surplus = len(table.staying) - count
            table = self._fewer(table, surplus, victims) if surplus > 0 else table
            self._file.write(table)
            started = self._more(table, -surplus)
        same = self._operation is not None and self._operation.count == count and not started and surplus <= 0
        if self._operation is None or not same:
            self._operation = _Operation(secrets.token_hex(8), count, frozenset(started))
        return self._operation.operation_id

    def operation(self, operation_id: str) -> OperationState:
        """Tell whether the processes are there, or gone."""
        operation = self._operation
        if operation is None or operation.operation_id != operation_id:
            return UNKNOWN_OPERATION
        with self._file.locked():
            table = self._looked_at()
        ended = [self._endings[each] for each in operation.started if each in self._endings]
        if ended:
            return OperationState(Progress.FAILED, "; ".join(ended))
        return PENDING if table.leaving else DONE

    def close(self) -> None:
        """Forget the children; they live on."""
        self._children.clear()

    def _info(self, table: ProcessTable) -> ProviderInfo:
        running = len(table.staying)
        info = self._spec.limits.info(running if table.desired is None else table.desired, running)
        if not any(ID in argument for argument in self._spec.command):
            return info
        return replace(
            info,
            can_pick_victims=True,
            taskmanager_ids=frozenset(each.taskmanager_id for each in table.staying),
            leaving_ids=frozenset(each.taskmanager_id for each in table.leaving)
            | frozenset(each.taskmanager_id for each in table.ended),
        )

    def _looked_at(self) -> ProcessTable:
        """Return the table as it is now, and keep it where that has changed."""
        before = self._file.read()
        now = self._clock()
        present = [found for each in before.started if (found := self._present(each)) is not None]
        kept = {each.taskmanager_id for each in present}
        lost = {each.taskmanager_id for each in before.started} - kept
        gone = [Ended(taskmanager_id, now) for taskmanager_id in sorted(lost)]
        listed = tuple(end for end in (*before.ended, *gone) if now - end.at < _LISTED)
        table = replace(before, started=tuple(present), ended=listed)
        for entry in table.leaving:
            self._stop(entry, now)
        if table != before:
            self._file.write(table)
        if gone:
            self._prune_outputs(kept)
        return table

    def _present(self, entry: Started) -> Started | None:
        """Return an entry whose process is alive; it may have to be found first."""
        if entry.pid is None:
            pid = find_by_id(entry.taskmanager_id)
            found = None if pid is None else entry.running_as(pid)
            return found if found is not None and found.is_alive else None
        child = self._children.get(entry.pid)
        code = None if child is None else child.poll()
        if code is None and entry.is_alive:
            return entry
        self._children.pop(entry.pid, None)
        self._asked.discard(entry.taskmanager_id)
        self._note_end(entry, code)
        return None

    def _note_end(self, entry: Started, code: int | None) -> None:
        seconds = self._clock() - entry.began
        how = "" if code is None else f" with code {code}"
        text = f"{entry.taskmanager_id} has ended{how} after {seconds:.0f} s, see {self._output(entry.taskmanager_id)}"
        if entry.stopping is None:
            self._endings = {**dict(list(self._endings.items())[-_OUTPUTS:]), entry.taskmanager_id: text}
            log.warning("taskmanager_ended", text=text, pid=entry.pid)

    def _fewer(self, table: ProcessTable, surplus: int, victims: Sequence[str]) -> ProcessTable:
        staying = {each.taskmanager_id: each for each in reversed(table.staying)}
        chosen = [staying.pop(each) for each in dict.fromkeys(victims) if each in staying]
        doomed = [*chosen, *staying.values()][:surplus]
        now = self._clock()
        for each in doomed:
            table = table.with_changed(replace(each, stopping=now))
        self._file.write(table)  # before the signals: after a crash in between, the next daemon sends them
        for each in doomed:
            self._stop(each, now)
        return table

    def _stop(self, entry: Started, now: float) -> None:
        """Ask a process to end, once per daemon, and end it where it does not within its time."""
        if now - (entry.stopping or now) >= self._spec.stop_timeout:
            self._signal(entry, signal.SIGKILL)
        elif entry.taskmanager_id not in self._asked:
            self._signal(entry, signal.SIGTERM)
            self._asked.add(entry.taskmanager_id)

    def _more(self, table: ProcessTable, count: int) -> list[str]:
        """Start processes. The intention is written first, so that none is ever forgotten."""
        now = self._clock()
        entries = [Started(f"{self._spec.prefix}-{secrets.token_hex(6)}", began=now) for _ in range(count)]
        if not entries:
            return []
        table = replace(table, started=(*table.started, *entries))
        self._file.write(table)
        try:
            for entry in entries:
                table = table.with_changed(self._start(entry))
        except OSError as error:
            started = tuple(each for each in table.started if each.pid is not None)
            table = replace(table, started=started, desired=sum(each.stopping is None for each in started))
            raise RealizeError(f"{self._spec.command[0]} could not be started: {error.strerror or error}") from error
        finally:
            self._file.write(table)
        return [entry.taskmanager_id for entry in entries]

    def _start(self, entry: Started) -> Started:
        command = [argument.replace(ID, entry.taskmanager_id) for argument in self._spec.command]
        environment = {**self._environment(), ID_VARIABLE: entry.taskmanager_id}
        with self._output(entry.taskmanager_id).open("ab") as output:
            child = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self._spec.directory,
                start_new_session=True,
            )
        self._children[child.pid] = child
        log.info("taskmanager_started", taskmanager_id=entry.taskmanager_id, pid=child.pid)
        return entry.running_as(child.pid)

    def _environment(self) -> dict[str, str]:
        wanted = self._spec.environment
        return {
            name: value
            for name, value in os.environ.items()
            if any(fnmatchcase(name, pattern) for pattern in wanted) and not fnmatchcase(name, _OWN)
        }

    def _signal(self, entry: Started, number: signal.Signals) -> None:
        if entry.pid is not None and entry.is_alive:
            send_to_group(entry.pid, number)
            log.info("taskmanager_stopped", taskmanager_id=entry.taskmanager_id, pid=entry.pid, signal=number.name)

    def _output(self, taskmanager_id: str) -> Path:
        return self._spec.directory / f"{taskmanager_id}.out"

    def _prune_outputs(self, kept: set[str]) -> None:
        outputs = [file for file in self._spec.directory.glob("*.out") if file.stem not in kept]
        for file in sorted(outputs, key=lambda each: each.stat().st_mtime)[:-_OUTPUTS]:
            file.unlink(missing_ok=True)
