"""The Kerberos realm of a sandbox, on this machine: made by MIT's programs, and tickets for it."""

import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs

from tarn.errors import ProviderError
from tarn_plugins.cli.sandbox.network import host
from tarn_plugins.cli.sandbox.options import SandboxOptions
from tarn_plugins.cli.sandbox.security import REALM, orders

__all__ = ["Realm", "with_sbin"]

_PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_WITHIN_S = 30.0
_SAID = 2000


def with_sbin(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* with a ``PATH`` that also leads to the programs of administrators. Pure."""
    path = environ.get("PATH", "/usr/bin:/bin")
    return {**environ, "PATH": f"{path}:/usr/sbin:/sbin"}


@attrs.frozen
class Realm:
    """Keys, keytabs and tickets in ``data/kerberos``, which only its owner may enter."""

    directory: Path
    """The sandbox's."""
    options: SandboxOptions
    user: str
    """Whose ticket clients get, and who owns what is made in HDFS."""
    passed_on: Mapping[str, str] = attrs.field(repr=False)
    """What programs see of the environment."""

    @property
    def client(self) -> dict[str, str]:
        """What a client needs in its environment: the realm, and a ticket."""
        return self._environ("ticket")

    @property
    def administrator(self) -> dict[str, str]:
        """As *client*, for whom HDFS refuses nothing."""
        return self._environ("ticket-hdfs")

    @property
    def daemon(self) -> dict[str, str]:
        """What daemons need. No ticket is in their reach: containers inherit what they see."""
        profile = str(self.directory / "etc" / "kerberos" / "kdc.conf")
        return {**self._environ("no-ticket"), "KRB5_KDC_PROFILE": profile}

    @property
    def keytab(self) -> Path:
        """The keys of the user."""
        return self.keytab_of("user")

    def keytab_of(self, name: str) -> Path:
        """Return a keytab by its name in `security.principals`, such as ``spnego`` or ``lb``."""
        return self._folder / f"{name}.keytab"

    def check(self) -> None:
        """Return when every program is there.

        Raises:
            ProviderError: One is not (TARN-3501).
        """
        path = with_sbin(self.passed_on)["PATH"]
        lacking = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
        if lacking:
            raise ProviderError(
                "sandbox",
                f"Kerberos needs programs that are not installed: {', '.join(lacking)}",
                code="TARN-3501",
                next_step="Install MIT Kerberos "
                "(Debian: apt install krb5-kdc krb5-admin-server krb5-user).",
            )

    def make(self) -> None:
        """Make database, principals and keytabs, unless these very ones are there.

        Raises:
            ProviderError: A program failed (TARN-3506).
        """
        told = orders(self.options, self.user, str(self._folder))
        if self._made.exists() and self._made.read_text() == told:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        master_key = secrets.token_hex(16)
        self._run(f"{master_key}\n{master_key}\n", "kdb5_util", "-r", REALM, "create", "-s")
        said = self._run(told, "kadmin.local", "-r", REALM)
        if not self.keytab.exists():  # it ends well whatever it was told
            raise _failed("kadmin.local", said)
        self._made.write_text(told)

    def log_in(self) -> None:
        """Get a new ticket for the user, and one for the administrator of HDFS.

        Raises:
            ProviderError: The KDC gives none (TARN-3506).
        """
        superuser = f"hdfs/{host('nn', self.options)}"
        self._kinit(self.user, self.keytab, "ticket")
        self._kinit(superuser, self._folder / "hdfs.keytab", "ticket-hdfs")

    @property
    def _folder(self) -> Path:
        return self.directory / "data" / "kerberos"

    @property
    def _made(self) -> Path:
        return self._folder / "made"

    def _environ(self, ticket: str) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.directory / "etc" / "kerberos" / "krb5.conf"),
            "KRB5CCNAME": f"FILE:{self._folder / ticket}",
        }

    def _kinit(self, principal: str, keytab: Path, ticket: str) -> None:
        cache = self._environ(ticket)["KRB5CCNAME"]
        self._run("", "kinit", "-k", "-t", str(keytab), "-c", cache, principal)

    def _run(self, told: str, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments],
            check=False,
            input=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**with_sbin(self.passed_on), **self.daemon},
            timeout=_WITHIN_S,
        )
        if done.returncode:
            raise _failed(program, done.stdout)
        return done.stdout


def _failed(program: str, said: str) -> ProviderError:
    return ProviderError(
        "sandbox",
        f"`{program}` failed: {said.strip()[-_SAID:]}",
        code="TARN-3506",
        next_step="Run `tarn sandbox down`, then `up`, to start again.",
    )
