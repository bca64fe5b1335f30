"""A MariaDB server."""

import contextlib

import pymysql

from testkit.servers.databases.server import PASSWORD, USER, DatabaseServer, program


class MariadbServer(DatabaseServer):
    """MariaDB with one user who may do everything."""

    scheme = "mysql"
    system_user = "mysql"

    def prepare(self) -> None:
        (self.folder / "init.sql").write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        )
        self.run(
            program("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder}",  # a server that starts removes temporary tables of others there
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )

    def command(self) -> list[str]:
        return [
            program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'init.sql'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            f"--innodb-flush-log-at-trx-commit={int(self.is_durable)}",
            "--innodb-buffer-pool-size=64M",
            "--max-allowed-packet=128M",
            "--innodb-lock-wait-timeout=10",
        ]

    def create_database(self, name: str) -> None:
        with contextlib.closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")

    def is_ready(self) -> bool:
        try:
            self._connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def _connect(self) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, autocommit=True, ssl_disabled=True
        )
