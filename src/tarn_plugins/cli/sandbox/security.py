"""Kerberos in a sandbox: the realm, its principals, and what Hadoop must know of them. Pure.

Calls between programs (RPC) and the data of HDFS are protected. The web pages of YARN and the
NameNode stay open, so that whoever looks needs no SPNEGO; WebHDFS alone is closed.
"""

from collections.abc import Mapping

from tarn_plugins.cli.sandbox.network import PORTS, address, host, nodes, resource_managers
from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["PEOPLE", "REALM", "core", "hdfs", "node", "orders", "resource_manager", "texts", "yarn"]

Properties = Mapping[str, str]

REALM = "TARN.TEST"
PEOPLE = ("lb", "alice")
"""More principals for tests, each with a keytab of its own: a load balancer, and a stranger."""
_IDLE_MS = 2000
"""A connection that is open is not asked for its token again; so tests of its end want it short."""
_FILTER = "org.apache.hadoop.security.AuthenticationFilterInitializer"


def principals(options: SandboxOptions, user: str) -> dict[str, str]:
    """Return principal -> the name of its keytab, without ``.keytab``.

    ``spnego`` holds the keys of a master's API, for every node on which one may run.
    """
    managers = (f"yarn/{host(name, options)}" for name in resource_managers(options))
    node_managers = (f"yarn/{host(name, options)}" for name in nodes(options))
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
    """Return what ``kadmin.local`` is told: every principal, and its key into a keytab."""
    return "".join(
        f"addprinc -randkey {name}\nktadd -norandkey -k {folder}/{keytab}.keytab {name}\n"
        for name, keytab in principals(options, user).items()
    )


def texts(options: SandboxOptions, directory: str) -> dict[str, str]:
    """Return path below *directory* -> content: what Kerberos itself reads."""
    folder = f"{directory}/data/kerberos"
    kdc = f"{address('kdc', options)}:{PORTS['kdc']['kdc']}"
    return {
        "etc/kerberos/krb5.conf": _KRB5.format(realm=REALM, kdc=kdc),
        "etc/kerberos/kdc.conf": _KDC.format(realm=REALM, kdc=kdc, folder=folder),
    }


def core(options: SandboxOptions) -> Properties:
    """Return what replaces the lines of a ``core-site.xml`` without security."""
    made = {"hadoop.security.authentication": "kerberos"}
    if options.token_life_s:
        made["ipc.client.connection.maxidletime"] = str(_IDLE_MS)
    return made


def hdfs(options: SandboxOptions, directory: str) -> Properties:
    """Return what ``hdfs-site.xml`` has besides."""
    keytab = f"{directory}/data/kerberos/hdfs.keytab"
    web = f"HTTP/{host('nn', options)}@{REALM}"
    return {
        "dfs.namenode.kerberos.principal": f"hdfs/{host('nn', options)}@{REALM}",
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.kerberos.principal": f"hdfs/{host('dn', options)}@{REALM}",
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": web,
        "dfs.web.authentication.kerberos.keytab": f"{directory}/data/kerberos/HTTP.keytab",
        "dfs.block.access.token.enable": "true",
        # The DataNode needs no port below 1024, and so no root.
        "dfs.data.transfer.protection": "authentication",
        "ignore.secure.ports.for.testing": "true",
        **_tokens(options),
    }


def yarn(directory: str) -> Properties:
    """Return what ``yarn-site.xml`` has besides; ``_HOST`` is whoever listens."""
    keytab = f"{directory}/data/kerberos/yarn.keytab"
    return {
        # To read logs securely a NodeManager needs Hadoop's native library, which no jar holds:
        # measured, it ends itself with "Secure IO is not possible without native code extensions".
        "yarn.log-aggregation-enable": "false",
        "yarn.resourcemanager.principal": f"yarn/_HOST@{REALM}",
        "yarn.resourcemanager.keytab": keytab,
        "yarn.nodemanager.principal": f"yarn/_HOST@{REALM}",
        "yarn.nodemanager.keytab": keytab,
    }


def resource_manager() -> Properties:
    """Return what a ResourceManager's own file has besides: its pages believe ``user.name``."""
    return {"hadoop.http.filter.initializers": _FILTER, "hadoop.http.authentication.type": "simple"}


def node(name: str, options: SandboxOptions) -> Properties:
    """Return what a NodeManager's own file has besides; its ``_HOST`` would be the machine."""
    return {"yarn.nodemanager.principal": f"yarn/{host(name, options)}@{REALM}"}


def _tokens(options: SandboxOptions) -> Properties:
    if not options.token_life_s:
        return {}
    life_ms = round(options.token_life_s * 1000)
    return {
        "dfs.namenode.delegation.token.max-lifetime": str(life_ms),
        "dfs.namenode.delegation.token.renew-interval": str(life_ms // 2),
        "dfs.namenode.delegation.key.update-interval": str(life_ms),
    }


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
