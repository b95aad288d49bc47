"""The client of the NodeManagers, over Hadoop's NMClient."""

from typing import Any

import attrs

from tarn.errors import LaunchError, ProviderError
from tarn.java import Fault, describe, load, throwable
from tarn_plugins.runtime.yarn.hadoop import credentials, local_files
from tarn_plugins.runtime.yarn.hadoop.handles import Handles
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, ContainerLaunch

__all__ = ["HadoopNodeManagers", "launch_context"]

_RECORDS = "org.apache.hadoop.yarn.api.records."
_ANSWERED = "org.apache.hadoop.yarn.exceptions.YarnException"
"""The node answered, and said no; what did not reach it is an IOException."""
_RETRY_S = 5.0


def _client(handles: Handles, conf: Any) -> Any:
    client = load("org.apache.hadoop.yarn.client.api.NMClient").createNMClient()
    client.setNMTokenCache(handles.node_tokens)
    client.init(conf)
    client.cleanupRunningContainersOnStop(False)  # noqa: FBT003 (Java takes no keywords)
    client.start()
    return client


@attrs.define
class HadoopNodeManagers:
    """`wire.NodeManagers`. Any thread; needs the JVM.

    A node that does not answer blocks a call for about 10 s (see `configuration`).
    """

    handles: Handles
    conf: Any
    _client: Any = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: _client(self.handles, self.conf), takes_self=True),
    )

    def start(self, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        """Start a container's process."""
        container = self.handles.find(grant.container_id)
        if container is None:
            raise LaunchError(
                "yarn",
                "this master may not start it: the container has ended, or was given back",
                retry_after_s=_RETRY_S,
                where=f"{grant.container_id} on {grant.node}",
            )
        try:
            self._client.startContainer(container, launch_context(launch))
        except throwable() as error:
            raise _not_started(grant, describe(error)) from None

    def stop(self, grant: AllocatedContainer) -> None:
        """Stop it; one that is gone already is not an error."""
        container, node = _ids(grant)
        try:
            self._client.stopContainer(container, node)
        except throwable() as error:
            fault = describe(error)
        else:
            return
        if not (fault.is_a(_ANSWERED) and self._is_gone(container, node)):
            raise ProviderError(
                "yarn",
                f"it could not be stopped: {fault}",
                retry_after_s=_RETRY_S,
                where=f"{grant.container_id} on {grant.node}",
            )

    def close(self) -> None:
        """Let go of connections; containers stay. Idempotent."""
        try:
            self._client.stop()
        except throwable() as error:
            raise ProviderError(
                "yarn", f"could not close the connections to nodes: {describe(error)}"
            ) from None

    def _is_gone(self, container: Any, node: Any) -> bool:
        """Say whether the node, which refused to stop it, has it no more."""
        try:
            status = self._client.getContainerStatus(container, node)
        except throwable() as error:
            return describe(error).is_a(_ANSWERED)
        return str(status.getState()) == "COMPLETE"


def _ids(grant: AllocatedContainer) -> tuple[Any, Any]:
    container = load(_RECORDS + "ContainerId").fromString(grant.container_id)
    return container, load(_RECORDS + "NodeId").newInstance(grant.node, grant.node_port)


def launch_context(launch: ContainerLaunch) -> Any:
    """Return the ``ContainerLaunchContext``."""
    # JPype turns a list into a Java collection, and a dict into nothing
    files, environ = load("java.util.HashMap")(), load("java.util.HashMap")()
    for each in launch.files:
        files.put(each.name, local_files.resource(each))
    for name, value in launch.environ.items():
        environ.put(name, value)
    return load(_RECORDS + "ContainerLaunchContext").newInstance(
        files,
        environ,
        load("java.util.ArrayList")([launch.command]),
        None,  # data of auxiliary services
        _tokens(launch),
        None,  # who may look and kill: the application's own lists
    )


def _tokens(launch: ContainerLaunch) -> Any:
    if launch.tokens is None:
        return credentials.buffer(credentials.for_containers())
    return load("java.nio.ByteBuffer").wrap(launch.tokens)


def _not_started(grant: AllocatedContainer, fault: Fault) -> LaunchError:
    return LaunchError(
        "yarn",
        f"the node did not start it: {fault}",
        retry_after_s=_RETRY_S,
        where=f"{grant.container_id} on {grant.node}",
    )
