"""Host names, addresses and ports of a sandbox. Pure.

Every daemon has a name and a loopback address of its own, and listens there only; so the ports can
be the same in every sandbox. ``.test`` is reserved for names that exist nowhere else (RFC 6761).
"""

from collections.abc import Mapping

from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["PORTS", "address", "addresses", "host", "nodes", "resource_managers"]

_PLAIN_NETWORK = 77
_FIRST_NODE = 10
_LAST_OCTET = {"nn": 1, "dn": 2, "rm": 3, "rm2": 4, "zk": 5, "kdc": 6}
PORTS: Mapping[str, Mapping[str, int]] = {
    "nn": {"rpc": 18020, "http": 19870},
    "dn": {"data": 19866, "http": 19864, "ipc": 19867},
    "rm": {"scheduler": 18030, "tracker": 18031, "client": 18032, "admin": 18033, "http": 18088},
    "nm": {"localizer": 18040, "rpc": 18041, "http": 18042},
    "zk": {"client": 12181},
    "kdc": {"kdc": 10088},
}
"""Kind of daemon -> what for -> port. Not Hadoop's own: those may be in use on every address."""


def nodes(options: SandboxOptions) -> tuple[str, ...]:
    """Return the names of the NodeManagers: ``nm1``, ``nm2``..."""
    return tuple(f"nm{i}" for i in range(1, options.nodes + 1))


def resource_managers(options: SandboxOptions) -> tuple[str, ...]:
    """Return the names of the ResourceManagers."""
    return ("rm", "rm2") if options.ha else ("rm",)


def host(daemon: str, options: SandboxOptions) -> str:
    """Return the host name of *daemon*."""
    zone = "tarn.test" if options.network == _PLAIN_NETWORK else f"net{options.network}.tarn.test"
    return f"{daemon}.{zone}"


def address(daemon: str, options: SandboxOptions) -> str:
    """Return the address of *daemon*."""
    last = _LAST_OCTET.get(daemon) or _FIRST_NODE + int(daemon.removeprefix("nm"))
    return f"127.0.{options.network}.{last}"


def addresses(options: SandboxOptions) -> dict[str, str]:
    """Return host name -> address, for every daemon of the sandbox."""
    names = ["nn", "dn", *resource_managers(options)]
    names += [*(("zk",) if options.ha else ()), *(("kdc",) if options.kerberos else ())]
    return {host(n, options): address(n, options) for n in (*names, *nodes(options))}
