"""What goes wrong with databases, and what is said about it."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pymysql
import pytest
from sqlalchemy import Connection, event, insert, update
from sqlalchemy.exc import DBAPIError

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.failures import FileLostError, store_error
from flink_autoscaler.stores.sql.events.handler import SqlEventHandler
from flink_autoscaler.stores.sql.state.store import SqlStateStore
from flink_autoscaler.stores.sql.tables import LEASE
from flink_autoscaler.stores.testing.event_handler_contract import a_context
from flink_autoscaler.stores.testing.store_contract import full_state, same_state
from testkit.servers.databases import (
    DatabaseServer,
    MariadbServer,
    PostgresqlServer,
    create_tables,
    every_database,
    rows_of,
)
from testkit.servers.databases.fixtures import started
from testkit.servers.databases.server import PASSWORD
from testkit.servers.databases.stalling import Stalling

VERTEX = "a6b7102b8d3e3a9564998c1ffeb5e2b7"


OVERRIDES = JobState(overrides={VERTEX: 4})


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return found


def check_refused(settings: DatabaseSettings, problem: str) -> None:
    """Expect that nothing can be read or saved, that the text shows no secret, and that the state is not lost."""
    with closing(Database(settings)) as database:
        store = SqlStateStore(database)
        with pytest.raises(StoreError, match=problem) as raised:
            store.save("job", OVERRIDES)
        with pytest.raises(StoreError, match=problem):
            SqlStateStore(database).load("job")
        assert store.load("job") is OVERRIDES
    assert PASSWORD not in str(raised.value)
    assert "wrong-secret" not in str(raised.value)


def execute(settings: DatabaseSettings, *statements: str) -> None:
    with closing(Database(settings)) as database, database.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def with_tables(settings: DatabaseSettings) -> DatabaseSettings:
    with closing(Database(settings)) as database:
        create_tables(database)
    return settings


def test_wrong_password(server: DatabaseServer) -> None:
    settings = replace(server.new_database(), password="wrong-secret")

    check_refused(settings, "user name or password is wrong: check jdbc.username")


def test_a_password_of_any_characters(server: DatabaseServer) -> None:
    settings = with_tables(server.new_database())
    name = f"any_{settings.url.rpartition('/')[2]}"
    password = "pässwört \U0001f680 @:/?#%"
    if server.scheme == "mysql":
        execute(settings, f"CREATE USER {name} IDENTIFIED BY '{password.replace('%', '%%')}'")
        execute(settings, f"GRANT ALL ON *.* TO {name}")
    else:
        execute(settings, f"CREATE USER {name} SUPERUSER PASSWORD '{password.replace('%', '%%')}'")

    with closing(Database(replace(settings, username=name, password=password))) as database:
        SqlStateStore(database).save("job", OVERRIDES)


def test_unknown_database(server: DatabaseServer) -> None:
    check_refused(server.settings("missing"), "the database does not exist: create it, or correct jdbc.url")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_unknown_host(scheme: str) -> None:
    check_refused(
        DatabaseSettings(f"jdbc:{scheme}://no-such-host.invalid/d"), "host name is not known|cannot be reached"
    )


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_nobody_listens(scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        check_refused(DatabaseSettings(f"jdbc:{scheme}://127.0.0.1:{port}/d"), "cannot be reached or went away")


@every_database
def test_missing_tables(database_settings: DatabaseSettings) -> None:
    check_refused(database_settings, "run 'flink-autoscaler db upgrade'")


def test_missing_rights(server: DatabaseServer) -> None:
    settings = with_tables(server.new_database())
    quote = "`" if server.scheme == "mysql" else '"'
    name = f"{quote}restricted_{settings.url.rpartition('/')[2]}{quote}"
    is_mysql = server.scheme == "mysql"
    identified = f"IDENTIFIED BY '{PASSWORD}'" if is_mysql else f"PASSWORD '{PASSWORD}'"
    granted = f"GRANT USAGE ON *.* TO {name}" if is_mysql else f"GRANT USAGE ON SCHEMA public TO {name}"
    execute(settings, f"CREATE USER {name} {identified}", granted)

    check_refused(replace(settings, username=name.strip(quote)), "grant SELECT, INSERT, UPDATE and DELETE")


def test_read_only_postgresql(postgresql_server: DatabaseServer) -> None:
    settings = with_tables(postgresql_server.new_database())
    name = settings.url.rpartition("/")[2]
    execute(settings, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    check_read_only(settings)


def test_read_only_mariadb(mariadb_server: DatabaseServer) -> None:
    settings = with_tables(mariadb_server.new_database())
    name = settings.url.rpartition("/")[2]
    execute(settings, f"CREATE USER reader IDENTIFIED BY '{PASSWORD}'", f"GRANT SELECT, INSERT ON {name}.* TO reader")
    execute(settings, "SET GLOBAL read_only = 1")
    try:
        check_read_only(replace(settings, username="reader"))
    finally:
        execute(settings, "SET GLOBAL read_only = 0")


def test_read_only_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with_tables(DatabaseSettings(f"jdbc:sqlite:{path}"))

    check_read_only(DatabaseSettings(f"sqlite:///file:{path}?mode=ro&uri=true"))


def check_read_only(settings: DatabaseSettings) -> None:
    """Expect that reading works and writing says what to do."""
    with closing(Database(settings)) as database:
        store = SqlStateStore(database)
        assert store.load("job") == JobState()
        with pytest.raises(StoreError, match="it is read-only: connect to the primary"):
            store.save("job", OVERRIDES)


def test_full_disk(tmp_path: Path) -> None:
    settings = with_tables(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}"))
    pages = 100

    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with closing(Database(settings)) as database:
        event.listen(database.engine, "connect", limit)
        store = SqlStateStore(database)
        saved = JobState(overrides={f"{number:032x}": 1 for number in range(100)})
        store.save("job", saved)
        grown = JobState(overrides={f"{number:032x}": 1 for number in range(100_000)})

        with pytest.raises(StoreError, match="its disk is full: free some space"):
            store.save("job", grown)

        assert store.load("job") is grown
        assert SqlStateStore(database).load("job") == saved


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)

    check_refused(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}"), "damaged or is not a database")


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    check_refused(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'missing' / 'a.db'}"), "check the folder")


def test_a_writer_that_does_not_end(tmp_path: Path) -> None:
    settings = with_tables(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}", query_timeout=1.0))

    with closing(Database(settings)) as other, other.transaction(), closing(Database(settings)) as database:
        with pytest.raises(StoreError, match="another program keeps its file locked: end what it does"):
            SqlStateStore(database).save("job", OVERRIDES)
        assert SqlStateStore(database).load("job") == JobState()


def test_lock_of_another_program_is_not_blamed_on_this_process(tmp_path: Path) -> None:
    settings = with_tables(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}", query_timeout=2.0))

    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as shell,
        closing(Database(settings)) as database,
        ThreadPoolExecutor(8) as pool,
    ):
        shell.execute("BEGIN IMMEDIATE")
        saves = [pool.submit(SqlStateStore(database).save, f"job-{number}", OVERRIDES) for number in range(8)]
        told = [str(save.exception()) for save in saves]
        shell.execute("COMMIT")
        SqlStateStore(database).save("job", OVERRIDES)

    assert ["another program keeps its file locked" in each for each in told] == [True] * 8


def test_writer_of_this_process_that_does_not_end_is_named_as_such(tmp_path: Path) -> None:
    settings = with_tables(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}", query_timeout=1.0))

    with closing(Database(settings)) as database, ThreadPoolExecutor(1) as pool, database.transaction():
        told = str(pool.submit(SqlStateStore(database).save, "job", OVERRIDES).exception())

    assert "another writer of this process did not end in time" in told


def test_a_value_that_is_too_long(server: DatabaseServer) -> None:
    with closing(Database(with_tables(server.new_database()))) as database:
        handler = SqlEventHandler(database)

        with pytest.raises(StoreError, match="longer than its column"):
            handler.handle_event(a_context(), Event(EventType.NORMAL, "R" * 501, "Text."))


def test_no_free_connection(server: DatabaseServer) -> None:
    settings = replace(server.new_database(), pool_size=1, pool_timeout=0.1)

    with (
        closing(Database(settings)) as database,
        database.transaction(),
        pytest.raises(StoreError, match="all connections of the pool are in use"),
    ):
        database.run(database.now_ms)


@every_database
def test_an_exception_rolls_back(database: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute(insert(LEASE).values(name="a", owner="b", token=1, expires_at=1, renewed_at=1))
        raise KeyError

    with pytest.raises(KeyError):
        database.run(work)

    assert rows_of(database, LEASE) == []


def test_deadlocks_are_tried_again(server: DatabaseServer) -> None:
    """Two transactions lock two rows in opposite order; the database ends one of them."""
    with closing(Database(with_tables(server.new_database()))) as database:
        with database.transaction() as connection:
            rows = [{"name": name, "owner": "", "token": 0, "expires_at": 0, "renewed_at": 0} for name in "ab"]
            connection.execute(insert(LEASE), rows)
        both_hold_one, attempts = threading.Barrier(2), []

        def count_up(names: str) -> None:
            is_first = True

            def work(connection: Connection) -> None:
                nonlocal is_first
                attempts.append(names)
                for position, name in enumerate(names):
                    connection.execute(update(LEASE).where(LEASE.c.name == name).values(token=LEASE.c.token + 1))
                    if is_first and position == 0:
                        is_first = False
                        both_hold_one.wait(300)

            database.run(work)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(count_up, ("ab", "ba")))

        assert len(attempts) >= 3  # the one that was ended may meet the other again before that has its second row
        assert [row["token"] for row in rows_of(database, LEASE)] == [2, 2]


DEADLOCK = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '40P01'; END $$",
    "mysql": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'made up'",
}


def test_endless_deadlocks_are_given_up(server: DatabaseServer) -> None:
    attempts = []

    def work(connection: Connection) -> None:
        attempts.append(1)
        connection.exec_driver_sql(DEADLOCK[server.scheme])

    with closing(Database(server.new_database())) as database, pytest.raises(StoreError, match="deadlock"):
        database.run(work)

    assert len(attempts) == 3


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_goes_and_comes_back(server: DatabaseServer, end: str) -> None:
    with closing(Database(with_tables(server.new_database()))) as database:
        store = SqlStateStore(database)
        store.save("job", OVERRIDES)
        getattr(server, end)()
        try:
            with pytest.raises(StoreError, match="cannot be reached or went away"):
                store.save("job", full_state())
            with pytest.raises(StoreError, match="cannot be reached"):
                store.load("other")
            assert same_state(store.load("job"), full_state())
        finally:
            server.start()

        # The pool notices by itself that its connections are gone.
        store.save("job", full_state())

        assert same_state(SqlStateStore(database).load("job"), full_state())


def test_a_network_that_swallows_everything(server: DatabaseServer) -> None:
    settings = replace(with_tables(server.new_database()), query_timeout=3.0, connect_timeout=10.0)
    name = settings.url.rpartition("/")[2]
    with Stalling(server.port) as proxy:
        url = f"jdbc:{server.scheme}://127.0.0.1:{proxy.port}/{name}"
        with closing(Database(replace(settings, url=url))) as database:
            store = SqlStateStore(database)
            store.save("job", OVERRIDES)
            proxy.stall()

            with pytest.raises(StoreError, match=r"did not answer in time|went away"):
                store.save("job", full_state())
            proxy.flow()
            store.save("job", full_state())

            assert same_state(SqlStateStore(database).load("job"), full_state())


@every_database
def test_the_clock_is_that_of_the_database_in_the_zone_of_the_process(database: Database) -> None:
    with database.transaction() as connection:
        now_ms, now = database.now_ms(connection), database.now(connection)

    assert abs(now_ms / 1000 - time.time()) < 60.0
    assert now.tzinfo is None
    assert abs(now.timestamp() - time.time()) < 60.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(psycopg.errors.DiskFull("x"), "disk is full", id="PostgreSQL, disk"),
        pytest.param(psycopg.errors.AdminShutdown("x"), "went away", id="PostgreSQL, shut down"),
        pytest.param(psycopg.errors.CannotConnectNow("x"), "went away", id="PostgreSQL, starting"),
        pytest.param(psycopg.errors.TooManyConnections("x"), "no free connection", id="PostgreSQL, connections"),
        pytest.param(psycopg.errors.SerializationFailure("x"), "deadlock", id="PostgreSQL, serialization"),
        pytest.param(psycopg.OperationalError("sorry, too many clients already"), "no free", id="before the login"),
        pytest.param(pymysql.err.OperationalError(1114, "x"), "disk is full", id="MariaDB, disk"),
        pytest.param(pymysql.err.OperationalError(1205, "x"), "kept it locked", id="MariaDB, lock wait"),
        pytest.param(pymysql.err.OperationalError(1040, "x"), "no free connection", id="MariaDB, connections"),
        pytest.param(pymysql.err.OperationalError(1153, "x"), "largest packet", id="MariaDB, packet"),
        pytest.param(pymysql.err.OperationalError(9999, "odd"), "it refused .*odd", id="anything else"),
    ],
)
def test_errors_of_drivers_say_what_to_do(error: Exception, expected: str) -> None:
    wrapped = DBAPIError.instance("SELECT 'secret'", {"a": "secret"}, error, Exception)

    found = store_error(wrapped, "PostgreSQL 'd' at h")

    assert re.search(expected, str(found))
    assert "secret" not in str(found)


@every_database
def test_what_is_saved_through_many_threads_is_all_there(database: Database) -> None:
    store = SqlStateStore(database)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: store.save(f"job-{number}", full_state(number + 5)), range(100)))

    assert len(SqlStateStore(database).job_keys()) == 100


def test_a_login_is_ignored_for_a_file(tmp_path: Path) -> None:
    settings = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}", username="somebody", password="secret")

    database = Database(settings)

    with database.transaction() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    database.close()


def test_deleted_file_is_noticed_by_every_pool_and_counts_again_when_it_is_back(tmp_path: Path) -> None:
    path, aside = tmp_path / "a.db", tmp_path / "aside.db"
    settings = with_tables(DatabaseSettings(f"jdbc:sqlite:{path}"))
    with closing(Database(settings)) as database, closing(Database(settings, beside=database)) as other:
        SqlStateStore(database).save("job", OVERRIDES)
        assert SqlStateStore(other).load("job") == OVERRIDES
        path.rename(aside)
        for each in (database, other):
            with pytest.raises(StoreError, match="its file was deleted or moved while it was in use"):
                SqlStateStore(each).load("job")
        assert not path.exists()
        aside.rename(path)
        found = [SqlStateStore(each).load("job") for each in (database, other)]

    assert found == [OVERRIDES, OVERRIDES]


def test_file_that_somebody_puts_there_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(Database(with_tables(DatabaseSettings(f"jdbc:sqlite:{path}")))) as database:
        SqlStateStore(database).save("job", OVERRIDES)
        path.unlink()
        path.write_bytes(b"somebody else's")

        with pytest.raises(StoreError, match="its file was replaced by another one"):
            SqlStateStore(database).save("job", OVERRIDES)

    assert path.read_bytes() == b"somebody else's"


def test_new_connection_does_not_make_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(Database(with_tables(DatabaseSettings(f"jdbc:sqlite:{path}")))) as database:
        database.ping()
        path.unlink()

        with database.engine.connect(), pytest.raises(FileLostError):  # which is open already
            database.engine.connect()

    assert not path.exists()


@pytest.mark.parametrize("made_with", [None, 4096])
def test_pages_of_a_new_file_are_large_and_those_of_an_old_one_stay_as_they_are(
    tmp_path: Path, made_with: int | None
) -> None:
    path = tmp_path / "a.db"
    if made_with is not None:
        with closing(sqlite3.connect(path)) as old:
            old.executescript(f"PRAGMA page_size = {made_with}; PRAGMA journal_mode = WAL; CREATE TABLE other (x)")
    with closing(Database(with_tables(DatabaseSettings(f"jdbc:sqlite:{path}")))) as database:
        SqlStateStore(database).save("job", full_state())
        with database.transaction() as connection:
            size = connection.exec_driver_sql("PRAGMA page_size").scalar()

    assert size == (made_with or 16384)
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{path}"))) as database:
        assert same_state(SqlStateStore(database).load("job"), full_state())


ADDRESS = "subjectAltName=IP:127.0.0.1"


OTHER = "subjectAltName=DNS:elsewhere.example"


def make_certificate(folder: Path, name: str, address: str) -> Path:
    """Make a certificate that is its own authority; the key is beside it."""
    path = folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    files = ["-addext", address, "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: make_certificate(folder, name, address) for name, address in (("here", ADDRESS), ("other", OTHER))}


def secured(kind: type[DatabaseServer], certificate: Path, *options: str) -> DatabaseServer:
    """Make a server with a certificate."""
    server = kind()
    copies = [Path(shutil.copy(path, server.folder)) for path in (certificate, certificate.with_suffix(".key"))]
    for copy in copies:
        server.give(copy)
    server.options = tuple(option.format(*copies) for option in options)
    return server


@pytest.fixture(scope="module")
def postgresql(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("-c", "ssl=on", "-c", "ssl_cert_file={0}", "-c", "ssl_key_file={1}")
    yield from started(lambda: secured(PostgresqlServer, certificates["here"], *options))


@pytest.fixture(scope="module")
def mariadb(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("--ssl-cert={0}", "--ssl-key={1}")
    yield from started(lambda: secured(MariadbServer, certificates["here"], *options))


@pytest.fixture(scope="module")
def foreign_mariadb(certificates: dict[str, Path]) -> Iterator[DatabaseServer]:
    options = ("--ssl-cert={0}", "--ssl-key={1}")
    yield from started(lambda: secured(MariadbServer, certificates["other"], *options))


def cipher(server: DatabaseServer, parameters: str) -> str | None:
    """Connect and return the cipher that is used; empty or None without any."""
    settings = server.new_database()
    is_mysql = server.scheme == "mysql"
    used = (
        "SHOW STATUS LIKE 'Ssl_cipher'"
        if is_mysql
        else "SELECT 1, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    )
    with closing(Database(replace(settings, url=f"{settings.url}?{parameters}"))) as database:
        found: str | None = database.run(lambda connection: connection.exec_driver_sql(used).one()[1], read_only=True)
    return found


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("parameters", ["sslmode=require", "sslmode=verify-full&sslrootcert={here}"])
def test_postgresql_is_secured(postgresql: DatabaseServer, certificates: dict[str, Path], parameters: str) -> None:
    assert cipher(postgresql, parameters.format(**certificates))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param("sslMode=REQUIRED", id="required"),
        pytest.param("useSSL=true", id="old switch"),
        pytest.param("sslMode=VERIFY_CA&sslCa={here}", id="authority"),
        pytest.param("sslMode=VERIFY_IDENTITY&sslCa={here}", id="identity"),
    ],
)
def test_mariadb_is_secured(mariadb: DatabaseServer, certificates: dict[str, Path], parameters: str) -> None:
    assert cipher(mariadb, parameters.format(**certificates))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_mariadb_without_tls_when_that_is_asked_for(mariadb: DatabaseServer) -> None:
    assert not cipher(mariadb, "useSSL=false")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("parameters", ["sslmode=verify-ca&sslrootcert={other}", "ssl=true&sslrootcert={other}"])
def test_postgresql_with_a_foreign_certificate(
    postgresql: DatabaseServer, certificates: dict[str, Path], parameters: str
) -> None:
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(postgresql, parameters.format(**certificates))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("parameters", ["sslMode=VERIFY_CA&sslCa={other}", "sslMode=VERIFY_IDENTITY"])
def test_mariadb_with_a_foreign_certificate(
    mariadb: DatabaseServer, certificates: dict[str, Path], parameters: str
) -> None:
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(mariadb, parameters.format(**certificates))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_mariadb_of_another_name(foreign_mariadb: DatabaseServer, certificates: dict[str, Path]) -> None:
    known = f"sslCa={certificates['other']}"

    assert cipher(foreign_mariadb, f"sslMode=VERIFY_CA&{known}")
    with pytest.raises(StoreError, match="could not be secured"):
        cipher(foreign_mariadb, f"sslMode=VERIFY_IDENTITY&{known}")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("fixture", ["postgresql_server", "mariadb_server"])
def test_a_server_without_tls_is_refused_where_it_is_required(request: pytest.FixtureRequest, fixture: str) -> None:
    server: DatabaseServer = request.getfixturevalue(fixture)

    with pytest.raises(StoreError, match="could not be secured"):
        cipher(server, "sslMode=REQUIRED" if server.scheme == "mysql" else "sslmode=require")
