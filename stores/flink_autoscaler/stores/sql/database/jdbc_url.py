"""Database URLs: those of the Java process are translated, those of SQLAlchemy are taken as they are."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from flink_autoscaler.core.errors import ConfigError

_JDBC = "jdbc:"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_BACKENDS = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_SAME_IN_POSTGRESQL = frozenset({"sslmode", "sslcert", "sslkey", "sslrootcert", "sslpassword", "sslcrl"})
_SSL_MODES = {
    "DISABLED": "DISABLED",
    "DISABLE": "DISABLED",
    "PREFERRED": "PREFERRED",
    "REQUIRED": "REQUIRED",
    "TRUST": "REQUIRED",
    "VERIFY_CA": "VERIFY_CA",
    "VERIFY_IDENTITY": "VERIFY_IDENTITY",
    "VERIFY_FULL": "VERIFY_IDENTITY",
}
_TRUE = "true"


def sqlalchemy_url(url: str) -> URL:
    """Make a SQLAlchemy URL of ``jdbc:postgresql:``, ``jdbc:mysql:``, ``jdbc:mariadb:``, ``jdbc:sqlite:`` or its own.

    Parameters about TLS and the user are translated. Others of a JDBC driver tune that driver and are left out.

    Raises:
        ConfigError: The URL cannot be read, the database is not supported, or a parameter about TLS has no equivalent.
            The message never shows the URL, which may hold a password.
    """
    text = url.strip()
    is_jdbc = text.lower().startswith(_JDBC)
    return _from_jdbc(text[len(_JDBC) :]) if is_jdbc else _from_sqlalchemy(text)


def _from_sqlalchemy(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "jdbc.url cannot be read; give jdbc:postgresql://host/database, jdbc:mysql://host/database "
            "or sqlite:////path/to/file"
        ) from None
    backend = _backend(url.get_backend_name())
    return _require_file(url.set(drivername=_DRIVERS[backend]))


def _require_file(url: URL) -> URL:
    """Refuse databases in memory: every connection would get its own."""
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError("jdbc.url names SQLite without a file; to keep state in memory set state-store.type: MEMORY")
    return url


def _backend(name: str) -> str:
    if name.lower() == "derby":
        raise ConfigError("jdbc.url names Derby, which Python cannot use; use SQLite, PostgreSQL, MySQL or MariaDB")
    if name.lower() not in _BACKENDS:
        raise ConfigError(f"jdbc.url names the database '{name}'; supported: {', '.join(_BACKENDS)}")
    return _BACKENDS[name.lower()]


def _from_jdbc(text: str) -> URL:
    name, _, rest = text.partition(":")
    backend = _backend(name)
    location, _, query = rest.partition("?")
    if backend == "sqlite":
        return _require_file(URL.create(_DRIVERS[backend], database=location or None))
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    _refuse_unknown_tls(parameters, backend)
    hosts, database = _location(location)
    url = URL.create(
        _DRIVERS[backend],
        username=parameters.get("user"),
        password=parameters.get("password"),
        database=database,
        query=_TRANSLATORS[backend](parameters),
    )
    return _with_hosts(url, hosts, backend)


def _location(location: str) -> tuple[list[tuple[str, int | None]], str | None]:
    """Split ``//host:port,host/database``, or a mere ``database``."""
    if not location.startswith("//"):
        return [("localhost", None)], unquote(location) or None
    authority, _, database = location[2:].partition("/")
    if "@" in location:  # behind a slash, too: it may be one of a password
        raise ConfigError("jdbc.url has credentials before the host; give jdbc.username and a password variable")
    return [_host(part) for part in authority.split(",")], unquote(database) or None


def _host(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]") or "localhost", None
    if not port.isascii() or not port.isdigit():
        raise ConfigError(f"jdbc.url has the port '{port}', which is not a number")
    return host.strip("[]") or "localhost", int(port)


def _with_hosts(url: URL, hosts: list[tuple[str, int | None]], backend: str) -> URL:
    """Add host and port; several hosts are tried in turn where the driver can."""
    if len(hosts) == 1:
        return url.set(host=hosts[0][0], port=hosts[0][1])
    if backend != "postgresql":
        raise ConfigError("jdbc.url names several hosts; the MySQL driver for Python takes one")
    return url.update_query_dict({"host": [f"{host}:{port or 5432}" for host, port in hosts]})


def _postgresql_query(parameters: Mapping[str, str]) -> dict[str, str]:
    query = {key: value for key, value in parameters.items() if key in _SAME_IN_POSTGRESQL}
    if parameters.get("ssl", "false").lower() in ("", _TRUE):
        query.setdefault("sslmode", "verify-full")
    if "currentSchema" in parameters:
        query["options"] = f"-csearch_path={parameters['currentSchema']}"
    if "targetServerType" in parameters:
        is_primary = parameters["targetServerType"] in ("primary", "master")
        query["target_session_attrs"] = "read-write" if is_primary else "any"
    return query


def _mysql_query(parameters: Mapping[str, str]) -> dict[str, str]:
    mode = _mysql_ssl_mode({key.lower(): value.lower() for key, value in parameters.items()})
    if mode == "DISABLED":
        return {"ssl_disabled": _TRUE}
    files = {ours: parameters[key] for key, ours in _MYSQL_FILES.items() if key in parameters}
    if mode == "PREFERRED":
        return files
    if mode == "REQUIRED":
        return {**files, "ssl_check_hostname": "false", "ssl_verify_cert": "false"}
    files.setdefault("ssl_ca", _system_authorities())
    return {**files, "ssl_check_hostname": _TRUE if mode == "VERIFY_IDENTITY" else "false"}


def _mysql_ssl_mode(lower: Mapping[str, str]) -> str:
    """Return the mode by the newer ``sslMode``, or by the older switches that it replaced."""
    if "sslmode" in lower:
        mode = lower["sslmode"].upper().replace("-", "_")
        if mode not in _SSL_MODES:
            raise ConfigError(f"jdbc.url has sslMode={lower['sslmode']}; allowed: {', '.join(sorted(_SSL_MODES))}")
        return _SSL_MODES[mode]
    if lower.get("usessl") == "false":
        return "DISABLED"
    if lower.get("verifyservercertificate") == _TRUE:
        return "VERIFY_CA"
    return "REQUIRED" if _TRUE in (lower.get("requiressl"), lower.get("usessl")) else "PREFERRED"


def _system_authorities() -> str:
    path = ssl.get_default_verify_paths().cafile
    if path is None:
        raise ConfigError(
            "jdbc.url wants the server's certificate verified: name the authorities with sslCa=<PEM file>"
        )
    return path


def _refuse_unknown_tls(parameters: Mapping[str, str], backend: str) -> None:
    """Refuse what would protect the connection in Java and would silently not do so here."""
    for key in parameters:
        lower = key.lower()
        if lower in _KNOWN_TLS[backend]:
            continue
        if any(word in lower for word in ("ssl", "tls", "keystore", "certificate", "gss", "channelbinding")):
            raise ConfigError(f"jdbc.url has {key}, which has no equivalent here; name PEM files with {_HINT[backend]}")


_MYSQL_FILES = {
    "sslCa": "ssl_ca",
    "sslCert": "ssl_cert",
    "sslKey": "ssl_key",
    "serverSslCert": "ssl_ca",
    "ssl_ca": "ssl_ca",
    "ssl_cert": "ssl_cert",
    "ssl_key": "ssl_key",
}
_MYSQL_SWITCHES = {"sslmode", "usessl", "requiressl", "verifyservercertificate"}
_KNOWN_TLS: Mapping[str, frozenset[str]] = {
    "postgresql": _SAME_IN_POSTGRESQL | {"ssl"},
    "mysql": frozenset({key.lower() for key in _MYSQL_FILES} | _MYSQL_SWITCHES),
}
_HINT: Mapping[str, str] = {
    "postgresql": "sslmode, sslrootcert, sslcert and sslkey",
    "mysql": "sslMode, sslCa, sslCert and sslKey",
}
_TRANSLATORS: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "postgresql": _postgresql_query,
    "mysql": _mysql_query,
}
