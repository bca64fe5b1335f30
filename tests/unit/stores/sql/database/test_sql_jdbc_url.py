"""URLs of the Java process and of SQLAlchemy."""

from __future__ import annotations

import ssl

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.jdbc_url import translate

AUTHORITIES = ssl.get_default_verify_paths().cafile
CONNECTOR_J = "jdbc:mysql://h/d?useUnicode=true&characterEncoding=utf8&allowPublicKeyRetrieval=true&serverTimezone=UTC"


@pytest.mark.parametrize(
    ("jdbc", "expected"),
    [
        pytest.param("jdbc:postgresql://db:5433/state", "postgresql+psycopg://db:5433/state", id="postgresql"),
        pytest.param("jdbc:postgresql:state", "postgresql+psycopg://localhost/state", id="postgresql, database only"),
        pytest.param("jdbc:postgresql://db/", "postgresql+psycopg://db", id="postgresql, host only"),
        pytest.param("jdbc:postgresql://[::1]:5433/s", "postgresql+psycopg://[::1]:5433/s", id="IPv6"),
        pytest.param("jdbc:postgresql://h/a%20b", "postgresql+psycopg://h/a b", id="escaped database"),
        pytest.param(
            "jdbc:postgresql://h/d?user=u&password=p%40ss", "postgresql+psycopg://u:p%40ss@h/d", id="credentials"
        ),
        pytest.param(
            "jdbc:postgresql://h/d?sslmode=verify-full&sslrootcert=/ca.pem",
            "postgresql+psycopg://h/d?sslmode=verify-full&sslrootcert=%2Fca.pem",
            id="postgresql with TLS",
        ),
        pytest.param("jdbc:postgresql://h/d?ssl=true", "postgresql+psycopg://h/d?sslmode=verify-full", id="ssl=true"),
        pytest.param("jdbc:postgresql://h/d?ssl=false", "postgresql+psycopg://h/d", id="ssl=false"),
        pytest.param(
            "jdbc:postgresql://h/d?ssl=true&sslmode=require", "postgresql+psycopg://h/d?sslmode=require", id="both"
        ),
        pytest.param(
            "jdbc:postgresql://h/d?currentSchema=fl",
            "postgresql+psycopg://h/d?options=-csearch_path%3Dfl",
            id="schema",
        ),
        pytest.param(
            "jdbc:postgresql://a,b:5433/d?targetServerType=primary",
            "postgresql+psycopg:///d?host=a%3A5432&host=b%3A5433&target_session_attrs=read-write",
            id="two hosts",
        ),
        pytest.param("jdbc:mysql://db:3307/state", "mysql+pymysql://db:3307/state", id="mysql"),
        pytest.param("JDBC:MariaDB://db/state", "mysql+pymysql://db/state", id="mariadb, any case"),
        pytest.param(CONNECTOR_J, "mysql+pymysql://h/d", id="tuning of the Java driver"),
        pytest.param("jdbc:mysql://h/d?useSSL=false", "mysql+pymysql://h/d?ssl_disabled=true", id="useSSL=false"),
        pytest.param(
            "jdbc:mysql://h/d?useSSL=true",
            "mysql+pymysql://h/d?ssl_check_hostname=false&ssl_verify_cert=false",
            id="useSSL=true",
        ),
        pytest.param(
            "jdbc:mysql://h/d?sslMode=VERIFY_CA&sslCa=/ca.pem",
            "mysql+pymysql://h/d?ssl_ca=%2Fca.pem&ssl_check_hostname=false",
            id="authority",
        ),
        pytest.param(
            "jdbc:mariadb://h/d?sslMode=verify-full&serverSslCert=/ca.pem",
            "mysql+pymysql://h/d?ssl_ca=%2Fca.pem&ssl_check_hostname=true",
            id="identity",
        ),
        pytest.param("jdbc:sqlite:/var/lib/a.db", "sqlite:////var/lib/a.db", id="sqlite"),
        pytest.param("sqlite:////var/lib/a.db", "sqlite:////var/lib/a.db", id="SQLAlchemy's sqlite"),
        pytest.param("postgresql://u:p@h/d", "postgresql+psycopg://u:p@h/d", id="SQLAlchemy's postgresql"),
        pytest.param("mariadb+pymysql://h/d", "mysql+pymysql://h/d", id="SQLAlchemy's mariadb"),
    ],
)
def test_urls_are_translated(jdbc: str, expected: str) -> None:
    assert translate(jdbc).render_as_string(hide_password=False) == expected


def test_an_identity_without_a_file_is_checked_against_the_system() -> None:
    assert translate("jdbc:mysql://h/d?sslMode=VERIFY_IDENTITY").query["ssl_ca"] == AUTHORITIES


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("jdbc:derby:/tmp/db;create=true", "Derby, which Python cannot use", id="derby"),
        pytest.param("jdbc:oracle:thin:@h", "supported: sqlite, postgresql", id="another database"),
        pytest.param("oracle://h/d", "supported: sqlite, postgresql", id="another database of SQLAlchemy"),
        pytest.param("h:5432/d", "cannot be read", id="no URL"),
        pytest.param("jdbc:postgresql://h:port/d", "port 'port'", id="port"),
        pytest.param("jdbc:postgresql://u:secret@h/d", "credentials before the host", id="credentials in front"),
        pytest.param("jdbc:mysql://a,b/d", "takes one", id="two hosts of mysql"),
        pytest.param("jdbc:mysql://h/d?sslMode=maybe", "sslMode=maybe; allowed", id="unknown mode"),
        pytest.param("jdbc:mysql://h/d?trustCertificateKeyStoreUrl=file:/a.jks", "no equivalent", id="key store"),
        pytest.param("jdbc:postgresql://h/d?sslfactory=org.X", "no equivalent", id="factory"),
        pytest.param("jdbc:sqlite::memory:", "state-store.type: MEMORY", id="in memory"),
        pytest.param("sqlite://", "state-store.type: MEMORY", id="SQLAlchemy's in memory"),
    ],
)
def test_what_cannot_be_used_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        translate(url)

    assert "secret" not in str(raised.value)


def test_credentials_are_not_shown() -> None:
    settings = DatabaseSettings("jdbc:postgresql://h/d?password=secret1", "user", "secret2")

    database = Database(settings)

    assert database.name == "PostgreSQL 'd' at h"
    assert "secret" not in repr(settings) + repr(database.engine)
