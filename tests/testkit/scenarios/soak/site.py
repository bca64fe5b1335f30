"""The daemon of a soak, and everything around it."""

from __future__ import annotations

import re
import resource
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.receiver import Receiver
from testkit.scenarios.runner.process import DaemonProcess
from testkit.scenarios.soak.clock import Clock
from testkit.scenarios.soak.fleet import Fleet, GuardedFlink
from testkit.scenarios.soak.plan import Plan
from testkit.scenarios.soak.sampling import Sampler, cpu_of, family
from testkit.scenarios.soak.viewers import Viewers
from testkit.servers.databases import PostgresqlServer


class _Postgresql(PostgresqlServer):
    """A server that goes by the clock of the soak, and cleans up behind its rows as often as days are shorter."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("-c", "autovacuum_naptime=1s")
        self._clock = clock

    def command(self) -> list[str]:
        variables = [f"{name}={value}" for name, value in self._clock.environment.items()]
        return ["/usr/bin/env", *variables, *super().command()]


class Site:
    """All parts of a soak, from start to end; a context manager."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._open = ExitStack()
        self._tokens = 0

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self.folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
            self.folder.chmod(0o755)  # the database runs as somebody else, and reads the clock
            self.clock = Clock(self.folder)
            self.database = parts.enter_context(_Postgresql(self.clock))
            self.receiver = parts.enter_context(Receiver())
            self.clusters = [parts.enter_context(GuardedFlink(self._token())) for _ in range(self.plan.clusters)]
            self.renew_token_file()
            plan = self.plan
            self.fleet = Fleet(self.clusters, jobs=plan.jobs, leaving=plan.leaving, period=plan.round_seconds / 5)
            self.daemon = parts.enter_context(DaemonProcess(self.folder))
            self._start_daemon()
            parts.enter_context(Viewers(self.url, plan.viewers))
            self._open = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self.daemon.pid

    def expire_tokens(self) -> None:
        """Have all clusters ask for another token than the file has."""
        self._tokens += 1
        for cluster in self.clusters:
            cluster.token = self._token()

    def renew_token_file(self) -> None:
        """Put the token that clusters ask for into the file."""
        draft = self.folder / "token.draft"
        draft.write_text(self._token())
        draft.replace(self.folder / "token")

    def fill_disk(self) -> None:
        """Let the daemon, and what it starts, write no file any more: the system refuses it, as on a full disk."""
        self._limit_files(0)

    def empty_disk(self) -> None:
        """Let it write again."""
        self._limit_files(-1)

    def cpu(self) -> float:
        """Return the seconds of processor time of the daemon and what it has started."""
        return cpu_of(family(self.pid))

    def told(self) -> str:
        """Return what the daemon says of itself, and the end of its log."""
        return f"{self.sampler.readiness()}\n{self.daemon.text()[-4000:]}"

    def end(self) -> int:
        """End the daemon in order, and return its exit code."""
        return self.daemon.stop()

    def _token(self) -> str:
        return f"token-{self._tokens}"

    def _limit_files(self, size: int) -> None:
        for pid in family(self.pid):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, -1))

    def _start_daemon(self) -> None:
        settings = self.database.new_database()
        self.database_address = (
            f"host=127.0.0.1 port={self.database.port} dbname={settings.url.rpartition('/')[2]}"
            f" user={settings.username} password={settings.password}"
        )
        self.daemon.environment |= {**self.clock.environment, "JDBC_PWD": settings.password or ""}
        urls = {f"cluster-{number}": cluster.url for number, cluster in enumerate(self.clusters)}
        options = {**self._options(), **self.plan.options}
        options |= {"autoscaler.standalone.jdbc.url": settings.url}
        options |= {"autoscaler.standalone.jdbc.username": settings.username or ""}
        self.daemon.configure(urls, **options)
        self.daemon.start(wait=False)
        wait_until("the daemon is ready", self._is_started, self.plan.patience, context=self.daemon.text)
        self.url = re.findall(r'"url": "(http[^"]+)", "event": "http_listening"', self.daemon.text())[0]
        folders = {"the history": self.folder / "history", "the state directory": self.folder / "daemon.state"}
        self.sampler = Sampler(self.pid, self.url, self.database_address, folders)

    def _is_started(self) -> bool:
        if not self.daemon.is_running:
            raise HarnessError(f"the daemon did not start\n{self.daemon.text()}")
        return any(message.startswith("READY=1") for message in self.daemon.messages())

    def _options(self) -> Mapping[str, str]:
        """Return the options of the daemon: its features, with times that are shorter as days are."""
        length = self.plan.round_seconds
        auth = {
            f"autoscaler.clusters.{number}.{key}": value
            for number in range(self.plan.clusters)
            for key, value in {"auth.kind": "bearer", "auth.token-file": str(self.folder / "token")}.items()
        }
        return {
            **auth,
            "autoscaler.engine.kind": self.plan.engine,
            "autoscaler.standalone.control-loop.interval": f"{self.plan.interval:g} s",
            "autoscaler.standalone.state-store.type": "JDBC",
            "autoscaler.standalone.jdbc.upgrade-at-start": "true",
            "autoscaler.standalone.event-handler.type": "JDBC",
            "autoscaler.standalone.jdbc.event-handler.ttl": f"{length:g} s",
            "autoscaler.loop.stale-after-intervals": "30",  # a machine that has more to do is not what is judged
            "autoscaler.state-retention.grace-period": f"{length / 4:g} s",
            "autoscaler.state-retention.max-age": "1 d",
            "autoscaler.records.retention": "1 d",
            "autoscaler.history.enabled": "true",
            "autoscaler.history.path": str(self.folder / "history"),
            "autoscaler.history.interval": f"{length / 20:g} s",
            "autoscaler.history.flush-interval": f"{length / 10:g} s",
            "autoscaler.history.retention": "1 d",
            "autoscaler.notifications.targets.0.name": "on-call",
            "autoscaler.notifications.targets.0.type": "webhook",
            "autoscaler.notifications.targets.0.url": self.receiver.url,
            "job.autoscaler.metrics.window": f"{round(1000 * max(1.1 * self.plan.interval, length / 20))} ms",
            "job.autoscaler.stabilization.interval": "0 s",
            "job.autoscaler.scale-down.interval": "0 s",
            "job.autoscaler.restart.time": "1 s",
            "job.autoscaler.catch-up.duration": "0 s",
            "job.autoscaler.flink.rest-client.timeout": "4 s",
        }


__all__ = ["Site"]
