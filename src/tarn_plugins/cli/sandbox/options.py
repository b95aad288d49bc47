"""What a sandbox is made with. Pure."""

import re
from collections.abc import Mapping
from typing import Any

import attrs
from attrs.validators import and_, ge, in_, le, matches_re

from tarn_plugins.cli.sandbox.maven import repository_fault

__all__ = ["MOST_NODES", "PLACEMENTS", "VERSION", "SandboxOptions"]

PLACEMENTS = ("scheduler", "placement-processor", "disabled")
"""What ``yarn.resourcemanager.placement-constraints.handler`` may be."""
VERSION = re.compile(r"[0-9][0-9A-Za-z._-]*")
"""A distribution appends its own to Apache's: ``3.3.6.1.2.4.0-32``."""
MOST_NODES = 200
"""Their addresses share one octet with the other daemons."""


def _is_repository(_of: object, _field: object, url: str) -> None:
    if url and (fault := repository_fault(url)):
        raise ValueError(f"the repository {fault}")


@attrs.frozen
class SandboxOptions:
    """The shape of a sandbox; written next to it, so that every later command knows it."""

    hadoop: str = attrs.field(default="3.4.2", validator=matches_re(VERSION))
    """Version of Hadoop that is fetched; without meaning where *hadoop_home* is given."""
    hadoop_home: str = ""
    """An installation whose jars are used; empty: they are fetched."""
    repository: str = attrs.field(default="", validator=_is_repository)
    """URL of a Maven repository that is asked for *hadoop* besides those of Maven's settings; of a
    distribution, whose jars are nowhere else."""
    nodes: int = attrs.field(default=3, validator=and_(ge(1), le(MOST_NODES)))
    """NodeManagers."""
    memory_mib: int = attrs.field(default=8192, validator=ge(256))
    """What each node offers. Nothing is reserved: it may be more than the machine has."""
    vcores: int = attrs.field(default=16, validator=ge(1))
    gpus: int = attrs.field(default=1, validator=ge(0))
    """GPUs that each node declares. No device is behind them."""
    placement: str = attrs.field(default="scheduler", validator=in_(PLACEMENTS))
    """Who decides over placement constraints; ``disabled``: requests with any are refused."""
    expiry_s: float = attrs.field(default=10.0, validator=ge(1))
    """Silence after which a node, and a master of an application, is given up."""
    ha: bool = False
    """Two ResourceManagers, with a ZooKeeper that chooses the active one."""
    kerberos: bool = False
    """A realm of its own: whoever calls a daemon must have a ticket or a token."""
    token_life_s: float = attrs.field(default=0.0, validator=ge(0))
    """After so long no delegation token of HDFS can be renewed; 0: Hadoop's own 7 days. For tests
    of that end; means something with *kerberos* only."""
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Hadoop's own properties, each in the file that it belongs to; they win over ours. An empty
    value takes one away."""
    network: int = attrs.field(default=77, validator=and_(ge(1), le(254)))
    """Every daemon listens on 127.0.<network>.*: another number, another sandbox."""

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "SandboxOptions":
        """Return options as they were written; keys of newer versions are passed over."""
        known = {field.name for field in attrs.fields(cls)}
        return cls(**{key: value for key, value in plain.items() if key in known})
