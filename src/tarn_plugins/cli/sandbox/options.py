"""The options of a sandbox, and the host names, addresses and ports that follow from them. Pure.

Each daemon has its own address, by default a loopback one, and listens only there, so every sandbox
can use the same ports. RFC 6761 reserves ``.test`` for names that exist nowhere else.
"""

import re
from collections.abc import Mapping
from typing import Any

import attrs
from attrs.validators import and_, ge, in_, le, matches_re

from tarn_plugins.cli.sandbox.jars import repository_fault

__all__ = [
    "MOST_NODES",
    "PLACEMENTS",
    "PORTS",
    "VERSION",
    "SandboxOptions",
    "address",
    "addresses",
    "host",
    "nodes",
    "resource_managers",
]

# The values of ``yarn.resourcemanager.placement-constraints.handler``.
PLACEMENTS = ("scheduler", "placement-processor", "disabled")
# A distribution appends its own version to Apache's: ``3.3.6.1.2.4.0-32``.
VERSION = re.compile(r"[0-9][0-9A-Za-z._-]*")
# The addresses of all daemons differ in one octet.
MOST_NODES = 200

_PLAIN_NETWORK = 77
_FIRST_NODE = 10
_LAST_OCTET = {"nn": 1, "dn": 2, "rm": 3, "rm2": 4, "zk": 5, "kdc": 6}
# Kind of daemon -> purpose -> port. Hadoop's own defaults may be in use on all addresses.
PORTS: Mapping[str, Mapping[str, int]] = {
    "nn": {"rpc": 18020, "http": 19870},
    "dn": {"data": 19866, "http": 19864, "ipc": 19867},
    "rm": {"scheduler": 18030, "tracker": 18031, "client": 18032, "admin": 18033, "http": 18088},
    "nm": {"localizer": 18040, "rpc": 18041, "http": 18042},
    "zk": {"client": 12181},
    "kdc": {"kdc": 10088},
}


def _is_repository(_of: object, _field: object, url: str) -> None:
    if url and (fault := repository_fault(url)):
        raise ValueError(f"the repository {fault}")


@attrs.frozen
class SandboxOptions:
    """The options of a sandbox, which later commands read from its directory."""

    hadoop: str = attrs.field(default="3.4.2", validator=matches_re(VERSION))
    """Version of Hadoop to download; ignored with *hadoop_home*."""
    hadoop_home: str = ""
    """An installation whose jars are used; empty: they are downloaded."""
    repository: str = attrs.field(default="", validator=_is_repository)
    """URL of a Maven repository besides those of Maven's settings, mostly that of a distribution,
    whose jars are nowhere else."""
    nodes: int = attrs.field(default=3, validator=and_(ge(1), le(MOST_NODES)))
    """NodeManagers."""
    memory_mib: int = attrs.field(default=8192, validator=ge(256))
    """Memory that each node offers. It is not reserved, and may exceed the machine's."""
    vcores: int = attrs.field(default=16, validator=ge(1))
    gpus: int = attrs.field(default=1, validator=ge(0))
    """GPUs that each node declares, without real devices."""
    placement: str = attrs.field(default="scheduler", validator=in_(PLACEMENTS))
    """Handler of placement constraints; ``disabled`` refuses requests with constraints."""
    expiry_s: float = attrs.field(default=10.0, validator=ge(1))
    """Seconds of silence after which a node or an application's master counts as lost."""
    ha: bool = False
    """Run two ResourceManagers, and a ZooKeeper that elects the active one."""
    kerberos: bool = False
    """Run a Kerberos realm; callers of a daemon then need a ticket or a token."""
    token_life_s: float = attrs.field(default=0.0, validator=ge(0))
    """Maximum lifetime of HDFS's delegation tokens; 0: Hadoop's default of 7 days. Only tests with
    *kerberos* set it."""
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Properties of Hadoop that override the sandbox's own. An empty value removes one."""
    network: int = attrs.field(default=77, validator=and_(ge(1), le(254)))
    """The daemons listen on <subnet>.<network>.*; each sandbox needs another number."""
    subnet: str = attrs.field(default="127.0", validator=matches_re(r"\d{1,3}\.\d{1,3}"))
    """The first two octets. Only benchmarks set it, in a network namespace of their own: a program
    that refuses loopback addresses is compared there."""

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "SandboxOptions":
        """Return the options in *plain*, ignoring keys of newer versions."""
        known = {field.name for field in attrs.fields(cls)}
        return cls(**{key: value for key, value in plain.items() if key in known})


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
    return f"{options.subnet}.{options.network}.{last}"


def addresses(options: SandboxOptions) -> dict[str, str]:
    """Return host name -> address, for every daemon of the sandbox."""
    names = ["nn", "dn", *resource_managers(options)]
    names += [*(("zk",) if options.ha else ()), *(("kdc",) if options.kerberos else ())]
    return {host(n, options): address(n, options) for n in (*names, *nodes(options))}
