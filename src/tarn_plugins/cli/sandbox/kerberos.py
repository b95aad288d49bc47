"""Kerberos in a sandbox: a realm on this machine, its tickets, and Hadoop's settings for it.

MIT's programs make the realm. Hadoop's RPC, the data of HDFS, and WebHDFS require Kerberos. The web
pages of YARN and of the NameNode stay open, so that browsers and tests need no SPNEGO.
"""

import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import attrs

from tarn.errors import ProviderError
from tarn_plugins.cli.sandbox.options import (
    PORTS,
    SandboxOptions,
    address,
    host,
    nodes,
    resource_managers,
)

__all__ = ["Realm", "core", "hdfs", "node", "resource_manager", "texts", "with_sbin", "yarn"]

_PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_WITHIN_S = 30.0
_SAID = 2000

Properties = Mapping[str, str]

REALM = "TARN.TEST"
# Further principals for tests, each with its own keytab: a load balancer, and a stranger.
PEOPLE = ("lb", "alice")
# Hadoop checks the token of a new connection only, so tests of expired tokens need short ones.
_IDLE_MS = 2000
_FILTER = "org.apache.hadoop.security.AuthenticationFilterInitializer"


def with_sbin(environ: Mapping[str, str]) -> dict[str, str]:
    """Return *environ* with the ``sbin`` directories added to ``PATH``. Pure."""
    path = environ.get("PATH", "/usr/bin:/bin")
    return {**environ, "PATH": f"{path}:/usr/sbin:/sbin"}


@attrs.frozen
class Realm:
    """Keys, keytabs and tickets in ``data/kerberos``, accessible only to its owner."""

    directory: Path
    """The sandbox's."""
    options: SandboxOptions
    user: str
    """The principal of clients' tickets, and owner of new directories of HDFS."""
    passed_on: Mapping[str, str] = attrs.field(repr=False)
    """The environment of the programs."""

    @property
    def client(self) -> dict[str, str]:
        """The environment variables of a client: the realm, and a ticket."""
        return self._environ("ticket")

    @property
    def administrator(self) -> dict[str, str]:
        """As *client*, with the ticket of HDFS's superuser."""
        return self._environ("ticket-hdfs")

    @property
    def daemon(self) -> dict[str, str]:
        """The environment variables of daemons."""
        # Without a ticket, since containers inherit what the daemons can reach.
        profile = str(self.directory / "etc" / "kerberos" / "kdc.conf")
        return {**self._environ("no-ticket"), "KRB5_KDC_PROFILE": profile}

    @property
    def keytab(self) -> Path:
        """The keys of the user."""
        return self.keytab_of("user")

    def keytab_of(self, name: str) -> Path:
        """Return a keytab by its name in `principals`, such as ``spnego`` or ``lb``."""
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
        # kdb5_util asks for the master key twice.
        self._run(f"{master_key}\n{master_key}\n", "kdb5_util", "-r", REALM, "create", "-s")
        said = self._run(told, "kadmin.local", "-r", REALM)
        if not self.keytab.exists():  # kadmin.local exits with 0 even if a command failed
            raise _failed("kadmin.local", said)
        # Last, so that an attempt that failed half-way is repeated from the beginning.
        self._made.write_text(told)

    def log_in(self) -> None:
        """Get a new ticket for the user, and one for the administrator of HDFS.

        Raises:
            ProviderError: The KDC refused (TARN-3506).
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


def principals(options: SandboxOptions, user: str) -> dict[str, str]:
    """Return principal -> the name of its keytab, without ``.keytab``."""
    managers = (f"yarn/{host(name, options)}" for name in resource_managers(options))
    node_managers = (f"yarn/{host(name, options)}" for name in nodes(options))
    # A master's API may run on any node.
    masters = (f"HTTP/{host(name, options)}" for name in nodes(options))
    return {
        f"hdfs/{host('nn', options)}": "hdfs",
        f"hdfs/{host('dn', options)}": "hdfs",
        f"HTTP/{host('nn', options)}": "HTTP",
        **dict.fromkeys((*managers, *node_managers), "yarn"),
        **dict.fromkeys(masters, "spnego"),
        user: "user",
        **{name: name for name in PEOPLE if name != user},
    }


def orders(options: SandboxOptions, user: str, folder: str) -> str:
    """Return the input of ``kadmin.local``, which makes every principal and keytab."""
    return "".join(
        # Without -norandkey, ktadd would make new keys, which end those in earlier keytabs.
        f"addprinc -randkey {name}\nktadd -norandkey -k {folder}/{keytab}.keytab {name}\n"
        for name, keytab in principals(options, user).items()
    )


def texts(options: SandboxOptions, directory: str) -> dict[str, str]:
    """Return path below *directory* -> content of Kerberos' own configuration."""
    folder = f"{directory}/data/kerberos"
    kdc = f"{address('kdc', options)}:{PORTS['kdc']['kdc']}"
    return {
        "etc/kerberos/krb5.conf": _KRB5.format(realm=REALM, kdc=kdc),
        "etc/kerberos/kdc.conf": _KDC.format(realm=REALM, kdc=kdc, folder=folder),
    }


def core(options: SandboxOptions) -> Properties:
    """Return the properties for ``core-site.xml``."""
    made = {"hadoop.security.authentication": "kerberos"}
    if options.token_life_s:
        made["ipc.client.connection.maxidletime"] = str(_IDLE_MS)
    return made


def hdfs(options: SandboxOptions, directory: str) -> Properties:
    """Return the further properties of ``hdfs-site.xml``."""
    keytab = f"{directory}/data/kerberos/hdfs.keytab"
    web = f"HTTP/{host('nn', options)}@{REALM}"
    life_ms = round(options.token_life_s * 1000)
    lifetimes = {
        "dfs.namenode.delegation.token.max-lifetime": str(life_ms),
        "dfs.namenode.delegation.token.renew-interval": str(life_ms // 2),
        "dfs.namenode.delegation.key.update-interval": str(life_ms),
    }
    return {
        "dfs.namenode.kerberos.principal": f"hdfs/{host('nn', options)}@{REALM}",
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.kerberos.principal": f"hdfs/{host('dn', options)}@{REALM}",
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": web,
        "dfs.web.authentication.kerberos.keytab": f"{directory}/data/kerberos/HTTP.keytab",
        "dfs.block.access.token.enable": "true",
        # With these two, the DataNode needs no port below 1024, and so no root.
        "dfs.data.transfer.protection": "authentication",
        "ignore.secure.ports.for.testing": "true",
        **(lifetimes if options.token_life_s else {}),
    }


def yarn(directory: str) -> Properties:
    """Return the further properties of ``yarn-site.xml``; ``_HOST`` is the server's host."""
    keytab = f"{directory}/data/kerberos/yarn.keytab"
    return {
        # To read logs securely, a NodeManager needs Hadoop's native library, which no jar has; it
        # exits with "Secure IO is not possible without native code extensions" (measured).
        "yarn.log-aggregation-enable": "false",
        "yarn.resourcemanager.principal": f"yarn/_HOST@{REALM}",
        "yarn.resourcemanager.keytab": keytab,
        "yarn.nodemanager.principal": f"yarn/_HOST@{REALM}",
        "yarn.nodemanager.keytab": keytab,
    }


def resource_manager() -> Properties:
    """Return a ResourceManager's own properties: its pages trust ``user.name``."""
    return {"hadoop.http.filter.initializers": _FILTER, "hadoop.http.authentication.type": "simple"}


def node(name: str, options: SandboxOptions) -> Properties:
    """Return a NodeManager's own properties; ``_HOST`` would be this machine's name."""
    return {"yarn.nodemanager.principal": f"yarn/{host(name, options)}@{REALM}"}


_KRB5 = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 ticket_lifetime = 24h
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = {kdc}
 }}
[domain_realm]
 .tarn.test = {realm}
 localhost = {realm}
"""
_KDC = """\
[kdcdefaults]
 kdc_listen = {kdc}
 kdc_tcp_listen = {kdc}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 24h 0m 0s
  supported_enctypes = aes256-cts:normal aes128-cts:normal
 }}
[logging]
 kdc = STDERR
 default = STDERR
"""
