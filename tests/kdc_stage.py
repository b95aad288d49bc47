"""A real KDC (MIT Kerberos) of its own, wholly in one directory: realm, principals, keytabs."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import attrs

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


@attrs.frozen
class Realm:
    """One realm, with its KDC running."""

    root: Path
    process: "subprocess.Popen[bytes]"

    @property
    def environ(self) -> Mapping[str, str]:
        """What a program needs to find it."""
        return {
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.root / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.root / "kdc.conf"),
        }

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

    def close(self) -> None:
        """End the KDC."""
        self.process.terminate()
        self.process.wait(10)

    def _admin(self, order: str) -> None:
        self._run("kadmin.local", "-q", order)

    def _run(self, *argv: str) -> None:
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}"


def realm(root: Path, *rules: str) -> Realm:
    """Make a realm in *root* and start its KDC; *rules* of ``auth_to_local``."""
    port, root = _free(), root.resolve()
    lines = "\n".join(f"  auth_to_local = {rule}" for rule in (*rules, "DEFAULT"))
    (root / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=port, rules=lines))
    (root / "kdc.conf").write_text(_KDC.format(realm=REALM, port=port, root=root))
    (root / "acl").touch()
    environ = {
        "PATH": _PATH,
        "KRB5_CONFIG": str(root / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(root / "kdc.conf"),
    }
    made = ["kdb5_util", "create", "-s", "-P", "of-a-test", "-r", REALM]
    subprocess.run(made, env=environ, capture_output=True, check=True)
    process = subprocess.Popen(
        ["krb5kdc", "-n"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    one = Realm(root, process)
    _answers(port)
    return one


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _answers(port: int, within_s: float = 10.0) -> None:
    pause, end_s = threading.Event(), time.monotonic() + within_s
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end_s, "the KDC did not come up"
        pause.wait(0.02)
