"""A Spark driver of our own: a JVM beside this process, reached through py4j."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.spark.environment import require_environment
from flink_autoscaler.pipeline.spark.executors import pack_ours, require_executors
from flink_autoscaler.pipeline.spark.scratch import Scratch
from flink_autoscaler.pipeline.spark.settings import SparkSettings, jvm_variables, spark_conf
from flink_autoscaler.pipeline.spark.supply import SparkLostError, bounded, reason_of
from flink_autoscaler.pipeline.spark.task import OutcomeRow, PartitionPlan, PassTask

STOP_SECONDS: Final = 3.0
"""How long a JVM may take to end by itself before it is killed."""

START_SECONDS: Final = 20.0
"""How long whoever was interrupted waits for a JVM that starts, to end it."""

_SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
"""Where pyspark looks for the arguments of the command that starts a JVM."""

_ESCAPES: Final = {
    "\\": r"\\",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\f": r"\f",
    **{each: f"\\{each}" for each in " =:#!"},
}

_log = structlog.get_logger(__name__)


class DriverSession:
    """A session whose driver is ours (a ``PassSession``). One at a time per process: pyspark keeps it in globals."""

    def __init__(self, settings: SparkSettings) -> None:
        """Start the JVM and the session.

        Raises:
            ConfigError: Java is missing or too old, or the configuration of YARN is missing.
            SparkLostError: Spark did not start, its executors cannot do our work, or this process has a
                session already.
        """
        require_environment(settings)
        self._is_embedded = settings.is_embedded
        if SparkContext._active_spark_context is not None:
            raise SparkLostError("this process has a Spark session already")
        self._scratch = Scratch()
        self._output = _Output()
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(spark_conf(settings, self.scratch).items()))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            variables = {**jvm_variables(settings), **submission(conf, self.scratch)}
            with _variables(variables):
                self._gateway = _launched(self._output.popen_kwargs())
            self._process = self._gateway.proc
            self._output.seal()
            self.spark = self._start(settings, conf)
            if not self._is_embedded:
                self._equip(settings)
        except SparkLostError:
            self.close()
            raise
        except Exception as exc:  # py4j, pyspark and the system raise dozens of kinds when a JVM does not start
            reason = reason_of(exc)
            self.close()
            raise SparkLostError(f"{reason}; its last output: {self._output.tail()}") from exc
        except BaseException:  # this process is told to end; a JVM with half a session may not end by itself
            self.close()
            raise

    def _start(self, settings: SparkSettings, conf: SparkConf) -> SparkSession:
        if not settings.is_yarn:
            return _new_session(conf, self._gateway)
        # It returns when the application runs, for which it would wait for ever in a queue that is full.
        seconds = settings.executors_timeout
        try:
            return bounded(seconds, lambda: _new_session(conf, self._gateway))
        except TimeoutError:
            raise SparkLostError(
                f"YARN did not start the application {settings.app_name} within {seconds:.3g} s: see whether its queue "
                "(spark.yarn.queue) has room, and whether the ResourceManager answers"
            ) from None

    def _equip(self, settings: SparkSettings) -> None:
        """Ship our code to executors, and see whether they can run it."""
        if not settings.python_files:
            with _own_imports():
                self.spark.sparkContext.addPyFile(str(pack_ours(self.scratch / "flink-autoscaler.zip")))
        require_executors(self.spark, self.slots(), timeout=settings.executors_timeout)

    @property
    def scratch(self) -> Path:
        """The folder that the JVM writes to."""
        return self._scratch.path

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return int(self._gateway.proc.pid)

    def slots(self) -> int:
        """Return how many tasks run at the same time, at least 1."""
        return max(1, self.spark.sparkContext.defaultParallelism)

    def run(self, plan: PartitionPlan, task: PassTask, *, label: str) -> list[OutcomeRow]:
        """Run one Spark job, one task per piece of the plan, and return its rows. Raises what Spark raises."""
        context = self.spark.sparkContext
        context.setJobGroup(label, label, interruptOnCancel=True)
        pieces = context.parallelize(plan.pieces, len(plan.pieces))
        return [row for rows in pieces.mapPartitions(task.of_pieces).collect() for row in rows]

    def cancel(self, label: str) -> None:
        """Cancel the job with a label. Raises what Spark raises."""
        self.spark.sparkContext.cancelJobGroup(label)

    def is_alive(self) -> bool:
        """Return whether the session still answers, and executors work for it. May hang when Spark does."""
        try:
            context = self.spark.sparkContext._jsc.sc()
            return not context.isStopped() and (self._is_embedded or _has_executors(context))
        except Exception:  # py4j and pyspark raise a dozen kinds when the JVM is gone
            return False

    def close(self) -> None:
        """End the session and its processes, hung ones too, within bounded time. Never raises."""
        if hasattr(self, "spark") and self._process is not None and self._process.poll() is None:
            _attempt(self.spark.stop)
        if self._process is not None:
            _end(self._process)
        _forget()
        self._output.close()
        self._scratch.close()

    def kill(self) -> None:
        """End a session that is lost, without waiting for Spark to help. Never raises."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.close()


def submission(conf: SparkConf, scratch: Path) -> dict[str, str]:
    """Return environment variables with which pyspark starts a JVM of a configuration.

    It is in a file that only this user reads: as pyspark hands it over, on the command line, all users of the machine
    would see the secrets in it.

    Args:
        conf: For the JVM.
        scratch: Folder for the file.
    """
    file = scratch / "spark.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.getAll()))
    given = os.environ.get(_SUBMIT_ARGUMENTS, "pyspark-shell")
    return {_SUBMIT_ARGUMENTS: f"--properties-file {shlex.quote(str(file))} --load-spark-defaults {given}"}


def _escaped(text: str) -> str:
    """Write a text so that Java's Properties read it as it was."""
    return "".join(_ESCAPES.get(each, each) for each in text)


def _launched(popen_kwargs: Mapping[str, Any]) -> Any:
    """Start a JVM and return the way to it; whoever is interrupted meanwhile ends it.

    A thread starts it: pyspark, interrupted while it waits, removes the folder that the JVM wants to write its port to,
    and a JVM that cannot write it runs for ever.
    """
    starting: Future[Any] = Future()

    def start() -> None:
        try:
            starting.set_result(launch_gateway(popen_kwargs=dict(popen_kwargs)))  # type: ignore[no-untyped-call]
        except BaseException as error:  # handed to the one who waits
            starting.set_exception(error)

    threading.Thread(target=start, name="spark-start", daemon=True).start()
    try:
        return starting.result()
    except BaseException:
        with contextlib.suppress(BaseException):
            _end(starting.result(START_SECONDS).proc)
        raise


def _has_executors(context: Any) -> bool:
    """Tell whether a driver has executors: one whose master was replaced loses them and never gets others."""
    return int(context.getExecutorMemoryStatus().size()) > 1  # the driver itself is one


def _new_session(conf: SparkConf, gateway: Any) -> SparkSession:
    python = conf.get("spark.pyspark.python")
    # A SparkContext reads it from the environment; the configuration only reaches drivers that spark-submit starts.
    with _own_imports(), _variables({} if python is None else {"PYSPARK_PYTHON": python}):
        context: Any = SparkContext(conf=conf, gateway=gateway)
    # Else pyspark prints a traceback when it finds out that its JVM is gone, and at the end of most daemons it is.
    context._accumulatorServer.handle_error = lambda *_: None
    return SparkSession(context)


@contextlib.contextmanager
def _own_imports() -> Iterator[None]:
    """Let this process go on importing from where it did: pyspark puts archives for executors in front of that."""
    paths = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = paths


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Have environment variables for what is started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _attempt(action: Callable[[], object]) -> None:
    """Run something that may hang or fail, and wait for it no longer than ``STOP_SECONDS``."""
    with contextlib.suppress(Exception):
        bounded(STOP_SECONDS, action)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the JVM: it ends by itself when its standard input is closed."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _forget() -> None:
    """Clear the globals in which pyspark keeps its JVM, so that the next session starts another one."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if gateway is not None:
        _attempt(gateway.shutdown)
    if context is not None:
        _attempt(context.stop)
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


class _Output:
    """Output of the JVM, kept away from our own output: logged at debug level, the last lines remembered."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._lines: deque[str] = deque(maxlen=5)
        self._thread = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._thread.start()

    def popen_kwargs(self) -> dict[str, Any]:
        return {"stdout": self._writer, "stderr": self._writer}

    def seal(self) -> None:
        """Leave the writing end to the JVM alone, so that reading ends with it."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def tail(self) -> str:
        return " | ".join(self._lines) or "none"

    def close(self) -> None:
        self.seal()
        self._thread.join(STOP_SECONDS)

    def _read(self) -> None:
        with os.fdopen(self._reader, errors="replace") as stream:
            for line in stream:
                if line[:1].strip():  # frames of stack traces are indented
                    self._lines.append(line.rstrip()[:500])
                _log.debug("spark_output", line=line.rstrip()[:500])
