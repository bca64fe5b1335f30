"""Reading the configuration again while the daemon runs: what can change without a restart changes, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.standalone.daemon.loop import Watch
from flink_autoscaler.standalone.settings.schema.options import PREFIX
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings
from flink_autoscaler.standalone.settings.schema.types import OptionSection

log = structlog.get_logger(__name__)

_STANDALONE: Final = ("control_loop_interval", "host", "port")
"""Options of the Java process that can change at run time: those about clusters."""

_ACCESS: Final = (
    "allowed_hosts",
    "viewer_token_file",
    "viewer_token_env_variable",
    "operator_token_file",
    "operator_token_env_variable",
    "user_header",
    "trusted_proxies",
    "operators",
)
"""Options of the HTTP endpoint that can change at run time: who may do what."""


class Clusters(Protocol):
    """What a reload changes: makes what looks after clusters, and has the daemon take it or leave it."""

    def make(self, cluster: Cluster) -> Watch:
        """Make it. May raise :class:`ConfigError`; nothing is left open then."""
        ...

    def release(self, watch: Watch) -> None:
        """Close what :meth:`make` made."""
        ...

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Read what other settings point to, and return what puts it in force.

        May raise :class:`ConfigError`; nothing has changed then.
        """
        ...

    def follow(self, settings: Settings) -> None:
        """Get ready for the clusters of other settings, before one of them changes."""
        ...

    def put(self, watch: Watch) -> None:
        """Look after a cluster from now on, instead of what looked after one of its name."""
        ...

    def remove(self, cluster: str) -> None:
        """Look after a cluster no more."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterChanges:
    """How the clusters of two configurations differ, by name."""

    added: tuple[Cluster, ...]
    changed: tuple[Cluster, ...]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, before: Sequence[Cluster], after: Sequence[Cluster]) -> ClusterChanges:
        """Compare everything that holds for a cluster, the defaults of its jobs included."""
        old, new = ({cluster.name: cluster for cluster in clusters} for clusters in (before, after))
        return cls(
            added=tuple(cluster for cluster in after if cluster.name not in old),
            changed=tuple(cluster for cluster in after if cluster != old.get(cluster.name, cluster)),
            removed=tuple(name for name in old if name not in new),
        )


class Reload:
    """Has the daemon go on with the configuration as it is now. Belongs to the main thread.

    Args:
        settings: What the daemon runs with.
        load: Reads the configuration again; raises :class:`ConfigError`.
        clusters: What is looked after.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[], Settings],
        clusters: Clusters,
    ) -> None:
        self.settings = settings
        self._load = load
        self._clusters = clusters

    def __call__(self) -> bool:
        """Read the configuration and apply it; tell whether it was not refused. Never raises."""
        try:
            wanted = self._load()
            settings = applicable(self.settings, wanted)
            _check_lease(settings)
            put_in_force = self._clusters.prepare(settings)
            changes = ClusterChanges.between(self.settings.effective_clusters(), settings.effective_clusters())
            watches = self._make((*changes.added, *changes.changed))
        except AutoscalerError as error:
            log.error("reload_refused", problems=str(error).splitlines(), effect="the daemon goes on as before")
            return False
        except Exception as error:
            # Whatever a plug-in or a file system comes up with: the daemon goes on with what it has.
            log.exception("reload_refused", problems=[f"{type(error).__name__}: {error}"])
            return False
        self.settings = settings
        put_in_force()
        # Health and the like first: it must know a cluster before its first pass.
        self._clusters.follow(settings)
        for name in changes.removed:
            self._clusters.remove(name)
        for watch in watches:
            self._clusters.put(watch)
        _tell(changes, restart_keys(settings, wanted))
        return True

    def _make(self, clusters: Sequence[Cluster]) -> list[Watch]:
        """Make everything before anything is touched."""
        watches = []
        with ExitStack() as undo:
            for cluster in clusters:
                watch = self._clusters.make(cluster)
                undo.callback(self._clusters.release, watch)
                watches.append(watch)
            undo.pop_all()
        return watches


def applicable(running: Settings, wanted: Settings) -> Settings:
    """Return what a daemon can run with: clusters, loop, notifications and rights as wanted, the rest as it is."""
    standalone = {name: getattr(wanted.standalone, name) for name in _STANDALONE}
    changes = {
        "clusters": wanted.clusters,
        "job_defaults": wanted.job_defaults,
        "loop": wanted.loop,
        "notifications": wanted.notifications,
        "http": running.http.model_copy(update={name: getattr(wanted.http, name) for name in _ACCESS}),
        "standalone": running.standalone.model_copy(update=standalone),
        "engine": running.engine.model_copy(update={"kind": wanted.engine.kind}),
    }
    return running.model_copy(update=changes)


def restart_keys(running: Settings, wanted: Settings) -> tuple[str, ...]:
    """Return the keys of options that are not as wanted; lists and maps of options count as one."""
    return tuple(_differences(running, wanted, PREFIX))


def _differences(running: OptionSection, wanted: OptionSection, prefix: str) -> Iterator[str]:
    for name, field in type(running).model_fields.items():
        key = f"{prefix}{field.validation_alias or name}"
        before, after = getattr(running, name), getattr(wanted, name)
        if isinstance(before, OptionSection):
            yield from _differences(before, after, f"{key}.")
        elif before != after:
            yield key


def _check_lease(settings: Settings) -> None:
    """Check the clusters against the lease that the daemon has: the configuration was checked with its own.

    Raises:
        ConfigError: A cluster needs a longer one.
    """
    if not settings.ha.enabled:
        return
    for cluster in settings.effective_clusters():
        least = cluster.interval + 2 * cluster.endpoint.timeout
        if least > settings.ha.ttl:
            raise ConfigError(
                f"cluster '{cluster.name}' needs autoscaler.ha.ttl of at least {least:g} s, its interval and twice the"
                f" timeout of its requests; the daemon runs with {settings.ha.ttl:g} s until it is restarted"
            )


def _tell(changes: ClusterChanges, waiting: Sequence[str]) -> None:
    if waiting:
        log.warning("restart_needed", keys=list(waiting), effect="these are as before until the daemon is restarted")
    log.info(
        "reloaded",
        added=[cluster.name for cluster in changes.added],
        changed=[cluster.name for cluster in changes.changed],
        removed=list(changes.removed),
    )
