"""Apache httpd with mod_auth_gssapi in front of another server: whoever comes has to show a Kerberos ticket."""

import http.client
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.waiting import wait_until
from testkit.servers.kerberos.kdc import Realm
from testkit.servers.kerberos.programs import MissingProgramError, free_port, program, unprivileged

_MODULES = Path("/usr/lib/apache2/modules")
_NAMES = (
    "mpm_event",
    "setenvif",
    "authn_core",
    "authz_core",
    "authz_user",
    "auth_gssapi",
    "proxy",
    "proxy_http",
    "session",
    "session_cookie",
)
_CONFIGURATION = """
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/httpd.pid
Listen 127.0.0.1:{port}
ServerName localhost
ErrorLog {folder}/error.log
StartServers 1
ThreadsPerChild 16
MaxRequestWorkers 16
SetEnvIf Authorization ^Negotiate shown=ticket
LogFormat "%m %U %>s %{{shown}}e" requests
CustomLog {folder}/requests.log requests
AllowEncodedSlashes NoDecode
<Location />
    AuthType GSSAPI
    AuthName Kerberos
    GssapiCredStore keytab:{keytab}
    {sessions}
    Require valid-user
    ProxyPass {target}/ nocanon
</Location>
"""
_SESSIONS = """
    GssapiUseSessions On
    Session On
    SessionCookieName hadoop.auth path=/;httponly
"""


class GuardedServer:
    """A server that asks for SPNEGO; a context manager. Its cookie is called as Hadoop's is."""

    def __init__(self, target: str, realm: Realm, keytab: Path, *, keeps_sessions: bool = True) -> None:
        """Prepare a server.

        Args:
            target: Base URL of the server behind it.
            realm: Of the tickets.
            keytab: With the key of the server.
            keeps_sessions: Whether it sends a cookie, so that later requests need no ticket.

        Raises:
            MissingProgramError: It is not installed.
        """
        self._program = program("apache2")
        if not (_MODULES / "mod_auth_gssapi.so").exists():
            raise MissingProgramError("mod_auth_gssapi is not installed")
        self._realm = realm
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="httpd-"))
        self._guard = Guard(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        shutil.copy(keytab, self.folder / "http.keytab")
        values = {
            "folder": self.folder,
            "port": self.port,
            "keytab": self.folder / "http.keytab",
            "sessions": _SESSIONS if keeps_sessions else "",
            "target": target,
        }
        modules = "\n".join(f"LoadModule {name}_module {_MODULES}/mod_{name}.so" for name in _NAMES)
        (self.folder / "httpd.conf").write_text(modules + _CONFIGURATION.format(**values))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Base URL, with the host as in the principal."""
        return f"http://localhost:{self.port}"

    def start(self) -> None:
        """Start, on the same port as before and with a new key for sessions: cookies of before are worth nothing."""
        user = unprivileged("www-data")
        for path in (self.folder, *self.folder.iterdir()):
            if user:
                shutil.chown(path, user["user"], user["group"])
        self._process = subprocess.Popen(
            [self._program, "-f", str(self.folder / "httpd.conf"), "-D", "FOREGROUND"],
            env={**os.environ, "KRB5_CONFIG": str(self._readable_configuration()), "KRB5RCACHENAME": "none:"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **user,
        )
        self._guard.add(self._process.pid)
        wait_until("httpd answers", self._answers, 300, interval=0.02, context=self.log)

    def stop(self) -> None:
        """Stop in order."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait(30)
        self._guard.forget(self._process.pid)
        self._process = None

    def requests(self) -> list[str]:
        """Return what arrived, but for our own knocking: method, path, status and ``ticket`` or ``-``."""
        path = self.folder / "requests.log"
        return [line for line in path.read_text().splitlines() if " / 401" not in line] if path.exists() else []

    def log(self) -> str:
        """Return the end of the log of errors."""
        path = self.folder / "error.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else "(none)"

    def close(self) -> None:
        """Stop and remove everything."""
        self.stop()
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5.0)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == http.HTTPStatus.UNAUTHORIZED
        except OSError:
            return False
        finally:
            connection.close()

    def _readable_configuration(self) -> Path:
        path = self.folder / "krb5.conf"
        path.write_text((self._realm.folder / "krb5.conf").read_text())
        path.chmod(0o644)
        return path
