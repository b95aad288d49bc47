"""A real KDC (MIT Kerberos) in a directory of its own, and what tests do with keys and tickets."""

import getpass
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers.process import ServerProcess, free_port, listens
from tarn_plugins.cli.sandbox.kerberos import with_sbin

REALM = "TARN.TEST"
_PATH = f"/usr/sbin:/usr/bin:/sbin:/bin:{os.defpath}"

_KRB5 = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
{rules}
 }}
[domain_realm]
 localhost = {realm}
"""
_KDC = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {root}/principal
  key_stash_file = {root}/stash
  acl_file = {root}/acl
  max_life = 1h
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }}
[logging]
 kdc = FILE:{root}/kdc.log
 default = STDERR
"""


ME = getpass.getuser()
"""Who runs the tests."""


class KerberosRealm(ServerProcess):
    """One realm and its KDC; `environ` is what a program needs to find it.

    Args:
        root: For all its files; it must be there.
        rules: Of ``auth_to_local``.
    """

    def __init__(self, root: Path, *rules: str) -> None:
        self.root = root = root.resolve()
        self._port = free_port()
        environ = {
            "PATH": _PATH,
            "KRB5_CONFIG": str(root / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(root / "kdc.conf"),
        }
        super().__init__(["krb5kdc", "-n"], root / "krb5kdc.log", environ)
        self.environ: Mapping[str, str] = environ
        lines = "\n".join(f"  auth_to_local = {rule}" for rule in (*rules, "DEFAULT"))
        (root / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=self._port, rules=lines))
        (root / "kdc.conf").write_text(_KDC.format(realm=REALM, port=self._port, root=root))
        (root / "acl").touch()
        self._run("kdb5_util", "create", "-s", "-P", "of-a-test", "-r", REALM)

    def answers(self) -> bool:
        return listens(self._port)

    def keytab(self, name: str, *principals: str) -> Path:
        """Make *principals*, with their keys in one new keytab."""
        path = self.root / f"{name}.keytab"
        for one in principals:
            self._admin(f"addprinc -randkey {one}")
            self._admin(f"ktadd -norandkey -k {path} {one}")
        return path

    def ticket(self, principal: str) -> Path:
        """Make *principal*, and a cache with a ticket of theirs."""
        keytab = self.keytab(principal.replace("/", "."), principal)
        cache = self.root / f"{principal.replace('/', '.')}.cache"
        self._run("kinit", "-c", f"FILE:{cache}", "-kt", str(keytab), principal)
        return cache

    def _admin(self, order: str) -> None:
        self._run("kadmin.local", "-q", order)

    def _run(self, *argv: str) -> None:
        run(list(argv), self.environ)


def keytab(hadoop: Any, name: str) -> Path:
    """Return the keys of ``user``, ``alice``, ``lb``, or those of masters (``spnego``)."""
    return hadoop.directory / "data" / "kerberos" / f"{name}.keytab"


def login(principal: str, keytab: Path) -> dict[str, object]:
    return {"kerberos": {"principal": principal, "keytab": str(keytab)}}


def run(words: list[str], environ: Mapping[str, str], told: str = "") -> str:
    """Run one of Kerberos's own programs; return what it printed."""
    done = subprocess.run(
        words,
        env=with_sbin(dict(environ)),
        input=told,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout
