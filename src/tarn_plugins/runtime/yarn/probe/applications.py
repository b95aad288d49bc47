"""The probes that the child process holds: what it answers to the question ``probe``."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from cattrs.preconf.json import make_converter

from tarn.domain.address import host_port
from tarn.errors import NotFoundError
from tarn.java import load
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.environment import resource
from tarn_plugins.runtime.yarn.hadoop import credentials
from tarn_plugins.runtime.yarn.messages import ContainerLaunch, LocalFile
from tarn_plugins.runtime.yarn.probe.managed import ManagedProbe
from tarn_plugins.runtime.yarn.probe.messages import (
    RESOURCE_MANAGER,
    ProbeRequest,
    ProbeStarted,
    WaitContext,
)
from tarn_plugins.runtime.yarn.probe.script import COMMAND, ProbeInputs, environment
from tarn_plugins.runtime.yarn.probe.unmanaged import UnmanagedProbe

__all__ = ["Applications"]

_converter = make_converter()
_MOST_TARGETS = 6
"""Of everything that a container tries to reach: each may take it three seconds."""


class Applications:
    """Probes by the ids of their applications. One thread; needs the JVM."""

    def __init__(self, hadoop: Hadoop) -> None:
        self._hadoop = hadoop
        self._all: dict[str, ManagedProbe | UnmanagedProbe] = {}

    def answer(self, do: str, **parts: Any) -> Any:
        """Do one of ``begin``, ``step``, ``crowd``, ``end``."""
        doing: Mapping[str, Callable[..., Any]] = {
            "begin": self.begin,
            "step": self.step,
            "crowd": self.crowd,
            "end": self.end,
        }
        return doing[do](**parts)

    def begin(self, order: Mapping[str, Any]) -> Any:
        """Submit an application; returns a `ProbeStarted`."""
        wanted = _converter.structure(order, ProbeRequest)
        targets = tuple(_targets(self._hadoop.conf))[:_MOST_TARGETS] if wanted.reach else ()
        question = ProbeInputs(
            python=wanted.python,
            targets=tuple(address for _, address in targets),
            ports=wanted.ports,
            word=wanted.word,
            environ=wanted.inner,
        )
        environ = {**wanted.outer, **environment(question)}
        files = self._files(wanted.archive) if wanted.archive else ()
        one = self._made(wanted, ContainerLaunch(COMMAND, environ, files))
        one.submit()
        self._all[one.application_id] = one
        return attrs.asdict(ProbeStarted(one.application_id, targets))

    def step(self, application_id: str) -> Any:
        """Go on with it; returns a `ProbeProgress`."""
        return attrs.asdict(self._of(application_id).step())

    def crowd(self, application_id: str) -> Any:
        """Say what is known of a container that does not come; returns a `WaitContext`."""
        report = self._hadoop.report(application_id)
        return attrs.asdict(
            WaitContext(
                overview=self._hadoop.overview(None, ()),
                queue_free_mib=self._of(application_id).free_mib,
                diagnostics="" if report is None else report.diagnostics,
            )
        )

    def end(self, application_id: str, why: str) -> None:
        """End it, whoever began it; one that is over is not an error."""
        one = self._all.pop(application_id, None)
        if one is not None:
            one.end(why)
        elif self._hadoop.report(application_id) is not None:
            self._hadoop.kill(application_id, why)

    def close(self) -> None:
        """End all: the client has gone."""
        for application_id in tuple(self._all):
            with contextlib.suppress(Exception):  # the others are to be ended, too
                self.end(application_id, "the client is gone")

    def _made(self, wanted: ProbeRequest, launch: ContainerLaunch) -> ManagedProbe | UnmanagedProbe:
        users = load("org.apache.hadoop.security.UserGroupInformation")
        if wanted.managed or users.isSecurityEnabled():
            return ManagedProbe(self._hadoop, wanted, launch)
        schedulers = tuple(_resource_managers(self._hadoop.conf))
        return UnmanagedProbe(self._hadoop, wanted, launch, schedulers)

    def _files(self, archive: str) -> tuple[LocalFile, ...]:
        """Return the packed environment as a node fetches it, with this user's rights."""
        mine = credentials.collect(self._hadoop.conf, [archive], {})
        load("org.apache.hadoop.security.UserGroupInformation").getCurrentUser().addCredentials(
            mine
        )
        return (resource(self._hadoop.files.entry(archive)),)

    def _of(self, application_id: str) -> ManagedProbe | UnmanagedProbe:
        one = self._all.get(application_id)
        if one is None:
            raise NotFoundError(f"no probe {application_id} is under way", where="yarn")
        return one


def _targets(conf: Any) -> Iterator[tuple[str, str]]:
    """Yield (what, ``host:port``) of what a master talks to."""
    yield from ((RESOURCE_MANAGER, each) for each in _resource_managers(conf))
    yield from (("HDFS NameNode", each) for each in _name_nodes(conf))


def _resource_managers(conf: Any) -> Iterator[str]:
    """Yield where masters register."""
    if not conf.getBoolean("yarn.resourcemanager.ha.enabled", False):  # noqa: FBT003 (Java)
        names = [""]
    else:
        names = [f".{one}" for one in _words(conf.get("yarn.resourcemanager.ha.rm-ids"))]
    for name in names:
        yield _address(
            conf.get(f"yarn.resourcemanager.scheduler.address{name}"),
            conf.get(f"yarn.resourcemanager.hostname{name}"),
            8030,
        )


def _name_nodes(conf: Any) -> Iterator[str]:
    uri = load("org.apache.hadoop.fs.FileSystem").getDefaultUri(conf)
    if str(uri.getScheme()) != "hdfs" or uri.getHost() is None:
        return
    service = str(uri.getHost())
    names = _words(conf.get(f"dfs.ha.namenodes.{service}"))
    if not names:
        yield f"{service}:{int(uri.getPort()) if int(uri.getPort()) > 0 else 8020}"
    for name in names:
        yield _address(conf.get(f"dfs.namenode.rpc-address.{service}.{name}"), None, 8020)


def _address(address: Any, host: Any, port: int) -> str:
    """Return ``host:port``: YARN's default address stands on the host name."""
    if address is None:
        return host_port(host, port)
    text = str(address)
    return text if ":" in text else f"{text}:{port}"


def _words(text: Any) -> list[str]:
    return [] if text is None else [each.strip() for each in str(text).split(",") if each.strip()]
