"""A Kerberos realm of its own: MIT's key distribution centre on a free loopback port."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from testkit.clusters.flink.guard import Guard
from testkit.clusters.flink.waiting import wait_until
from testkit.servers.kerberos.programs import free_port, program

REALM = "FLINK.TEST"

_KRB5_CONF = """[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    kdc_timesync = 0
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
_KDC_CONF = """[kdcdefaults]
    kdc_ports = {port}
    kdc_tcp_ports = {port}
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
        max_life = 10h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""


@dataclass(frozen=True)
class Identity:
    """A principal without its realm, and the file with its key."""

    principal: str
    keytab: Path


class Realm:
    """One realm; a context manager that starts its centre and removes everything afterwards.

    Attributes:
        environment: What a process needs to use the realm, and no ticket cache but one in the realm's folder.
        folder: Holds everything, also the ticket cache.
    """

    def __init__(self, *, clock: Mapping[str, str] | None = None) -> None:
        """Prepare a realm.

        Args:
            clock: Environment that gives the centre another clock.

        Raises:
            MissingProgramError: Kerberos is not installed.
        """
        self._krb5kdc = program("krb5kdc")
        self._kdb5_util, self._kadmin, self._kinit = program("kdb5_util"), program("kadmin.local"), program("kinit")
        self._clock = clock or {}
        self.folder = Path(tempfile.mkdtemp(prefix="kerberos-"))
        self.port = free_port()
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
            "KRB5_CLIENT_KTNAME": str(self.folder / "no-client.keytab"),
            "KRB5RCACHENAME": "none:",
        }
        values = {"realm": REALM, "port": self.port, "folder": self.folder}
        (self.folder / "krb5.conf").write_text(_KRB5_CONF.format(**values))
        (self.folder / "kdc.conf").write_text(_KDC_CONF.format(**values))
        self._guard = Guard(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        try:
            self._run(self._kdb5_util, "create", "-s", "-r", REALM, "-P", "master-of-the-tests")
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
    def tickets(self) -> Path:
        """The ticket cache that :attr:`environment` names."""
        return self.folder / "tickets"

    def start(self) -> None:
        """Start the centre, on the same port as before, and wait until it listens."""
        before = self._log().count("commencing operation")
        self._process = subprocess.Popen(
            [self._krb5kdc, "-n"],
            env={**os.environ, **self.environment, **self._clock},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._guard.add(self._process.pid)
        wait_until(
            "the key distribution centre runs",
            lambda: self._log().count("commencing operation") > before,
            30.0,
            interval=0.02,
            context=self._log,
        )

    def stop(self) -> None:
        """Stop the centre; afterwards it cannot be reached."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait(30)
        self._guard.forget(self._process.pid)
        self._process = None

    def add(self, principal: str, *, longest_life: int | None = None) -> None:
        """Make a principal with a random key; ``longest_life`` is that of its tickets, in seconds."""
        life = [] if longest_life is None else ["-maxlife", f"{longest_life} seconds"]
        self._admin("addprinc", "-randkey", *life, principal)

    def new_identity(self, *, longest_life: int | None = None) -> Identity:
        """Make a principal that nobody used before."""
        principal = f"scaler-{next(self._numbers)}"
        self.add(principal, longest_life=longest_life)
        return Identity(principal, self.keytab(principal))

    def remove(self, principal: str) -> None:
        """Forget a principal; keytabs stay."""
        self._admin("delprinc", "-force", principal)

    def change_key(self, principal: str) -> None:
        """Give a principal another key than the one in its keytabs."""
        self._admin("cpw", "-randkey", principal)

    def keytab(self, *principals: str) -> Path:
        """Write the keys of principals to a new file, as they are."""
        path = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        path.unlink(missing_ok=True)
        self._admin("ktadd", "-norandkey", "-k", str(path), *principals)
        return path

    def log_in(self, principal: str, keytab: Path, *, life: str = "1h") -> None:
        """Put a ticket into the ticket cache, as ``kinit`` does for people."""
        self._run(self._kinit, "-l", life, "-k", "-t", str(keytab), principal)

    def requests(self, kind: str, principal: str) -> int:
        """Return how often a principal asked so far, and was given what it asked for.

        Args:
            kind: ``AS_REQ`` for a first ticket, ``TGS_REQ`` for that of a service.
            principal: Without its realm.
        """
        lines = self._log().splitlines()
        return sum(1 for line in lines if f" {kind} " in line and " ISSUE:" in line and f" {principal}@" in line)

    def close(self) -> None:
        """Stop the centre and remove its data."""
        self.stop()
        self._guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _log(self) -> str:
        path = self.folder / "kdc.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _admin(self, *query: str) -> None:
        done = self._run(self._kadmin, "-r", REALM, *query)
        assert " while " not in done, done

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr
