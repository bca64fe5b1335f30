"""TaskManagers that commands of the operator start and stop, such as Docker Compose."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import DONE, PENDING, OperationState, Progress, ProviderInfo
from flink_autoscaler.realizers.task_managers.providers.limits import (
    UNKNOWN_OPERATION,
    ProviderLimits,
    parse_description,
    with_default_desired,
)

COUNT: Final = "{n}"
VICTIMS: Final = "{victims}"
DOCKER_COMPOSE: Final = ("docker", "compose")

_MAX_OUTPUT: Final = 1 << 20
_SHOWN: Final = 500
"""Characters of the output in a message."""

Reading = Callable[[str, ProviderInfo], ProviderInfo]
"""Lays what the describing command wrote over what is known without it."""


@dataclass(frozen=True)
class CommandSpec:
    """The commands, as programs with arguments; no shell.

    Attributes:
        command: Makes the count come true; ``{n}`` stands for it, an argument ``{victims}`` for the ids to stop first,
            as one argument each. Exit code 0 means that it is done.
        describe: Tells how many there are; empty where nothing can.
        timeout: Seconds that the command may take.
        describe_timeout: Seconds that the describing one may take; a pass waits for it.
        limits: How many there may be.
    """

    command: tuple[str, ...]
    describe: tuple[str, ...] = ()
    timeout: float = 300.0
    describe_timeout: float = 10.0
    limits: ProviderLimits = field(default_factory=ProviderLimits)


def read_description(text: str, info: ProviderInfo) -> ProviderInfo:
    """Read a number, or an object as the ``http`` provider gets it.

    Raises:
        RealizeError: It is neither.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RealizeError(f"expected a number or a JSON object, not {text[:80]!r}") from error
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return replace(info, running=value)
    return parse_description(value, info)


class CommandProvider:
    """Runs a command with the count (a ``TaskManagerProvider``).

    Args:
        spec: The commands.
        read: Reads what the describing command writes.
    """

    def __init__(self, spec: CommandSpec, *, read: Reading = read_description) -> None:
        self._spec = spec
        self._read = read
        self._desired: int | None = None
        self._operation_id = ""
        self._run: _RunningCommand | None = None

    def describe(self) -> ProviderInfo:
        """Run the describing command where there is one; else only what was asked for last is known."""
        info = replace(self._spec.limits.info(self._desired), can_pick_victims=VICTIMS in self._spec.command)
        return with_default_desired(self._read(self._described(), info)) if self._spec.describe else info

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        """Run the command in the background, unless it runs for that count."""
        self._spec.limits.check(count)
        if self._run is not None and self._run.state().progress is Progress.PENDING:
            if count == self._desired:
                return self._operation_id
            raise RealizeError(f"{self._spec.command[0]} still runs for {self._desired} TaskManagers")
        self.close()
        self._run = _RunningCommand(self._command(count, victims), timeout=self._spec.timeout)
        self._desired, self._operation_id = count, secrets.token_hex(8)
        return self._operation_id

    def operation(self, operation_id: str) -> OperationState:
        """Tell whether the command has ended, and how."""
        if self._run is None or operation_id != self._operation_id:
            return UNKNOWN_OPERATION
        state = self._run.state()
        if state.progress is Progress.FAILED:
            self._desired = None  # what it did before it failed is not known
        return state

    def close(self) -> None:
        """Release what is kept about the last command."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def _command(self, count: int, victims: Sequence[str]) -> list[str]:
        arguments: list[str] = []
        for argument in self._spec.command:
            arguments += victims if argument == VICTIMS else [argument.replace(COUNT, str(count))]
        return arguments

    def _described(self) -> str:
        run = _RunningCommand(self._spec.describe, timeout=self._spec.describe_timeout)
        try:
            return run.wait_for_output()
        finally:
            run.close()


def compose_provider(
    service: str, base: Sequence[str], *, limits: ProviderLimits, timeout: float = 300.0
) -> CommandProvider:
    """Make a provider that scales a service of Docker Compose, and counts its containers.

    Docker Compose chooses which containers it removes; it sends them SIGTERM first.

    Args:
        service: Name of the service that runs TaskManagers.
        base: Docker Compose with its own options, such as ``--file`` and ``--project-name``.
        timeout: Seconds that scaling may take, pulling images included.
        limits: How many containers there may be.
    """
    scale = (*base, "up", "--detach", "--no-recreate", "--scale", f"{service}={COUNT}", service)
    command = CommandSpec(scale, describe=(*base, "ps", "--quiet", service), timeout=timeout, limits=limits)
    # One line each: the id of a running container.
    return CommandProvider(command, read=lambda text, info: replace(info, running=len(text.split())))


class _RunningCommand:
    """One run of a command, begun at once in the background. Nothing of its output is kept in memory.

    Args:
        command: Program and arguments; no shell.
        timeout: Seconds after which it is killed, with what it has started.

    Raises:
        RealizeError: It could not be started.
    """

    def __init__(self, command: Sequence[str], *, timeout: float) -> None:
        self._name = command[0]
        self._timeout = timeout
        self._ends_at = time.monotonic() + timeout
        self._state: OperationState | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the command has ended
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._output.close()
            raise RealizeError(f"{self._name} could not be started: {error.strerror or error}") from error

    def state(self) -> OperationState:
        """Tell how far it came; it is killed here when its time is over."""
        if self._state is None:
            code = self._process.poll()
            if code is not None:
                self._state = DONE if code == 0 else self._failure(f"ended with code {code}")
            elif time.monotonic() >= self._ends_at:
                with suppress(ProcessLookupError):  # it may have ended just now
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                self._state = self._failure(f"did not end within {self._timeout:g} s")
        return self._state or PENDING

    def wait_for_output(self) -> str:
        """Wait for the end, at most for what is left of its time, and return what it wrote; only before it is closed.

        Raises:
            RealizeError: It has failed.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, self._ends_at - time.monotonic()))
        state = self.state()
        if state.progress is not Progress.DONE:
            raise RealizeError(state.reason)
        self._output.seek(0)
        return self._output.read(_MAX_OUTPUT).decode(errors="replace")

    def close(self) -> None:
        """Give up the output. The command goes on by itself."""
        self._output.close()

    def _failure(self, how: str) -> OperationState:
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - 4 * _SHOWN))
        text = " ".join(self._output.read(4 * _SHOWN).decode(errors="replace").split())[-_SHOWN:]
        return OperationState(Progress.FAILED, f"{self._name} {how}{': ' if text else ''}{text}")
