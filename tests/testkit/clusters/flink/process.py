"""One JVM of a test cluster."""

import subprocess
from pathlib import Path

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.guard import Guard


class FlinkProcess:
    """A JVM with its log; stopped by its own process id only."""

    def __init__(self, name: str, command: list[str], log_file: Path, guard: Guard) -> None:
        """Start the JVM.

        Args:
            name: For messages; of a TaskManager also its id in the REST API.
            command: The whole command line.
            log_file: Where the command sends its log; the console goes next to it.
            guard: Ends the JVM if nobody else does.
        """
        self.name = name
        self.log_file = log_file
        self._console = log_file.with_suffix(".out")
        self._guard = guard
        self._was_ended = False
        with self._console.open("ab") as console:
            # A session of its own: Ctrl-C is for Python, which stops in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        guard.add(self.pid)

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the JVM has not ended."""
        return self._process.poll() is None

    def resident_mb(self) -> float:
        """Return the resident memory in MiB, 0 when the JVM has ended (Linux)."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except FileNotFoundError:
            return 0.0
        sizes = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
        return sum(sizes) / 1024

    def stop(self, timeout: float = 15.0) -> None:
        """Ask the JVM to end (SIGTERM) and wait; kill it after ``timeout``."""
        if not self._was_ended:
            self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def kill(self) -> None:
        """End the JVM at once (SIGKILL), as a crash would."""
        if not self._was_ended:
            self._process.kill()
        self._end()

    def log_tail(self, lines: int = 40) -> str:
        """Return the end of what the JVM wrote: log and console."""
        return "\n".join(f"--- {path}\n{_tail(path, lines)}" for path in (self.log_file, self._console))

    def require_running(self) -> None:
        """Raise with the end of the log if the JVM has ended on its own."""
        if not self.is_running and not self._was_ended:
            raise HarnessError(f"{self.name} ended with code {self._process.returncode}\n{self.log_tail()}")

    def _end(self) -> None:
        self._process.wait()
        if not self._was_ended:
            self._was_ended = True
            self._guard.forget(self.pid)


def _tail(path: Path, lines: int) -> str:
    if not path.exists():
        return "(none)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) or "(empty)"
