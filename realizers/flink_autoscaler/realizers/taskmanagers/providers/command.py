"""TaskManagers that commands of the operator start and stop."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import OperationState, Progress, ProviderInfo
from flink_autoscaler.realizers.taskmanagers.providers.description import described
from flink_autoscaler.realizers.taskmanagers.providers.limits import ProviderLimits, checked_count
from flink_autoscaler.realizers.taskmanagers.providers.running_command import RunningCommand

COUNT: Final = "{n}"
VICTIMS: Final = "{victims}"
_MOST_OUTPUT: Final = 1 << 20

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
    return described(value, info)


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
        self._run: RunningCommand | None = None

    def describe(self) -> ProviderInfo:
        """Run the describing command where there is one; else only what was asked for last is known."""
        limits = self._spec.limits
        info = ProviderInfo(
            desired=self._desired,
            running=None,
            minimum=limits.minimum,
            maximum=limits.maximum,
            slots_per_taskmanager=limits.slots_per_taskmanager,
            typical_startup=limits.typical_startup,
            can_pick_victims=VICTIMS in self._spec.command,
        )
        if not self._spec.describe:
            return info
        found = self._read(self._described(), info)
        return found if found.desired is not None else replace(found, desired=found.running)

    def set_desired(self, count: int, victims: Sequence[str] = ()) -> str:
        """Run the command in the background, unless it runs for that count."""
        checked_count(count, self._spec.limits)
        if self._run is not None and self._run.state().progress is Progress.PENDING:
            if count == self._desired:
                return self._operation_id
            raise RealizeError(f"{self._spec.command[0]} still runs for {self._desired} TaskManagers")
        self.close()
        self._run = RunningCommand(self._command(count, victims), timeout=self._spec.timeout)
        self._desired, self._operation_id = count, secrets.token_hex(8)
        return self._operation_id

    def operation(self, operation_id: str) -> OperationState:
        """Tell whether the command has ended, and how."""
        if self._run is None or operation_id != self._operation_id:
            return OperationState(Progress.FAILED, "not known: begun by another daemon, or followed by another one")
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
        run = RunningCommand(self._spec.describe, timeout=self._spec.describe_timeout)
        try:
            state = run.wait()
            if state.progress is not Progress.DONE:
                raise RealizeError(state.reason)
            return run.output(_MOST_OUTPUT)
        finally:
            run.close()
