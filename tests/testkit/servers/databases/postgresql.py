"""A PostgreSQL server."""

import signal
from pathlib import Path

import psycopg

from testkit.servers.databases.server import PASSWORD, USER, DatabaseServer, program


def _program(name: str) -> str:
    """Return a program of the newest version that is installed; Debian keeps them out of the search path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return program(name, *map(str, folders))


class PostgresqlServer(DatabaseServer):
    """PostgreSQL with one superuser."""

    scheme = "postgresql"
    system_user = "postgres"
    # "Fast": sessions are ended, not waited for.
    stop_signal = signal.SIGINT
    # "Immediate": as after a crash, but for the shared memory, which the next start would have to wait for.
    kill_signal = signal.SIGQUIT

    def prepare(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self.run(
            _program("initdb"),
            f"--pgdata={self.folder / 'data'}",
            f"--username={USER}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )

    def command(self) -> list[str]:
        fsync = "fsync=on" if self.is_durable else "fsync=off"
        options = ("listen_addresses=127.0.0.1", "unix_socket_directories=", fsync, "max_connections=60")
        settings = [part for option in options for part in ("-c", option)]
        return [_program("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *settings]

    def create_database(self, name: str) -> None:
        with self._connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')

    def is_ready(self) -> bool:
        try:
            with self._connect():
                return True
        except psycopg.OperationalError:
            return False

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
        )
