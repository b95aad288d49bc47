"""The values and interfaces between the runtime and YARN, free of Java objects.

`ResourceManager` and `NodeManagers` are the two clients of YARN, whose content ``ledger`` decides.
The real ones (``hadoop.clients``) hold Java objects. Those of the tests imitate a YARN that is
late, repeats, rejects, loses and restarts.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from tarn.domain import Endpoint, Launch

__all__ = [
    "AllocateResponse",
    "AllocatedContainer",
    "Ask",
    "ClientFiles",
    "Completed",
    "ContainerLaunch",
    "ContainerRecord",
    "Exchange",
    "FileEntry",
    "Files",
    "Launcher",
    "LocalFile",
    "NodeManagers",
    "Registered",
    "Rejected",
    "ResourceManager",
    "Shape",
    "Submitted",
]


@attrs.frozen
class Shape:
    """The requested container; the same for every instance of a launch."""

    memory_mib: int
    vcores: int
    accelerators: tuple[tuple[str, int], ...] = ()
    """(resource type, count): ``("yarn.io/gpu", 2)``."""
    node_label: str = ""
    """Partition; empty: the default one."""
    tag: str = ""
    """Allocation tag; with *scope* no two containers of this tag share a node."""
    scope: str = "none"
    """Anti-affinity: ``all`` (every application's containers with the tag), ``cluster`` (our own),
    or ``none``."""


@attrs.frozen
class Ask:
    """A request of one container for one instance."""

    # Two requests with the same (priority, allocationRequestId) but different contents make an
    # AMRMClient unusable. So the id is the instance's number, which is never used again.
    number: int
    """The instance's number: the ``allocationRequestId``, which YARN keeps over restarts."""
    shape: Shape


@attrs.frozen
class AllocatedContainer:
    """A container that YARN granted."""

    container_id: str
    number: int
    """The ``allocationRequestId`` of its request."""
    node: str
    """Host name of its NodeManager."""
    node_port: int
    """The NodeManager's RPC port; with *node*, its NodeId."""
    node_http: str
    """``host:port`` of the NodeManager's web server."""


@attrs.frozen
class Completed:
    """An ended container, possibly an unknown one."""

    container_id: str
    exit_code: int
    """Negative codes are YARN's (``ContainerExitStatus``), others the process's."""
    diagnostics: str = ""
    """If the NodeManager adds them, with the ends of files named ``*stderr*``."""


@attrs.frozen
class Rejected:
    """A request that YARN dropped (``placement-processor``), to be repeated."""

    number: int
    reason: str


@attrs.frozen
class Exchange:
    """The content of a heartbeat: changes since the last one."""

    asks: tuple[Ask, ...] = ()
    cancels: tuple[Ask, ...] = ()
    """Earlier requests that are no longer wanted."""
    releases: tuple[str, ...] = ()
    """Unused containers to release."""
    avoid: tuple[str, ...] = ()
    """Host names to blacklist."""
    welcome: tuple[str, ...] = ()
    """Host names to take off the blacklist."""


@attrs.frozen
class AllocateResponse:
    """The answer to a heartbeat."""

    granted: tuple[AllocatedContainer, ...] = ()
    completed: tuple[Completed, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    recovered: tuple[AllocatedContainer, ...] = ()
    """Containers of earlier attempts, of which YARN learned late."""
    leaving: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Container id -> why YARN will take it soon: preemption, or its node's decommissioning."""
    nodes: int = 0
    """The number of NodeManagers."""
    free_mib: int | None = None
    """Memory that the queue would still grant; None if unknown."""


@attrs.frozen
class Registered:
    """YARN's answer to the master's registration."""

    recovered: tuple[AllocatedContainer, ...] = ()
    """Containers of earlier attempts that still run."""
    maximum: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """The largest container: ``memory-mb``, ``vcores``, and every other resource type."""


@attrs.frozen
class LocalFile:
    """A file that a NodeManager localizes into a container's directory."""

    name: str
    """Path in the container's directory; may contain ``/``."""
    uri: str
    bytes: int
    modified_ms: int
    """Modification time; YARN refuses a file that changed since."""
    public: bool = False
    """The NodeManager fetches it as itself, for all users of the node: never a secret."""
    archive: bool = False
    """Unpacked into a directory of this name."""
    application: bool = False
    """Visibility ``APPLICATION``: its copy on the node is removed with the application. Otherwise,
    unless *public*, ``PRIVATE``: the copy stays for the owner's next container."""


@attrs.frozen
class ContainerLaunch:
    """The process that a NodeManager starts."""

    command: str
    """A constant, without values of users."""
    environ: Mapping[str, str] = attrs.field(hash=False)
    """Without secrets, since YARN writes it into a script."""
    files: tuple[LocalFile, ...] = ()
    tokens: bytes | None = attrs.field(default=None, repr=False)
    """Its credentials, in Hadoop's format; None: those of the master."""


class ResourceManager(Protocol):
    """The application's client of the RM. Only one thread may call it, except for `close`."""

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Register this attempt; called once."""
        ...

    def exchange(self, said: Exchange) -> AllocateResponse:
        """Send one heartbeat; block while the RM is away, without a limit.

        Raises:
            Superseded: A newer attempt is running; this master must do nothing more.
            ProviderError: This heartbeat failed; its content is sent again with the next one. If
                ``retry_after_s`` is None, YARN refused it, and will refuse each later one until
                its settings change.
        """
        ...

    def unregister(self, diagnostics: str) -> None:
        """End the application as succeeded."""
        ...

    def close(self) -> None:
        """Close the connections; containers stay. Idempotent."""
        ...


class NodeManagers(Protocol):
    """The client of the NodeManagers. Any thread; calls to one node are never concurrent."""

    def start(self, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        """Start a container's process.

        Raises:
            LaunchError: It was not started; ``retry_after_s`` None: it never can be.
        """
        ...

    def stop(self, grant: AllocatedContainer) -> None:
        """Stop a container; an ended one is not an error.

        Raises:
            ProviderError: The node does not answer; the RM can still end the container.
        """
        ...

    def close(self) -> None:
        """Close the connections; containers stay. Idempotent."""
        ...


@attrs.frozen
class FileEntry:
    """A file of a Hadoop file system."""

    path: str
    """Relative to the listed directory, without a leading ``/``."""
    uri: str
    bytes: int
    modified_ms: int
    public: bool
    """Whether everybody may read it, and pass through all directories above it."""
    owner: str = ""
    """The user whose file it is; empty if that is unknown."""


class Files(Protocol):
    """Small files on a Hadoop file system. Any thread may use it.

    Raises:
        NotFoundError: The file or directory to read, list or rename does not exist.
        ProviderError: The operation failed; the message names the path, never a token.
    """

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        ...

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        """Write a file, and make missing directories, as private as the file.

        Raises:
            RefusedError: It exists, and *replace* is false: only one of two writers succeeds.
        """
        ...

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files in a directory, with *deep* also in those below, by path."""
        ...

    def entry(self, uri: str) -> FileEntry:
        """Return the entry of one file, whose *path* is its name."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file; atomically replace an existing target."""
        ...

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with its content; a missing one is not an error."""
        ...

    def prune(self, uri: str) -> None:
        """Remove an empty directory; a missing or non-empty one is not an error."""
        ...


class ClientFiles(Files, Protocol):
    """A Hadoop file system, with the operations of a client."""

    def head(self, uri: str, most: int) -> bytes:
        """Return the first *most* bytes of a file, or all if it has fewer."""
        ...

    def qualified(self, uri: str) -> str:
        """Return *uri* with scheme and authority."""
        ...

    def directory(self, uri: str, mode: int) -> None:
        """Make a directory and its missing parents; existing ones keep their modes."""
        ...

    def upload(self, local: Path, uri: str, *, mode: int = 0o600) -> FileEntry:
        """Copy a local file atomically."""
        ...


@attrs.frozen
class ContainerRecord:
    """What the next master must know of a container; the name of its launch file."""

    instance_id: str
    number: int
    container_id: str
    spec_hash: str
    node: str
    endpoint: Endpoint
    started_at: float
    """Wall time, Unix seconds."""


class Launcher(Protocol):
    """Prepares the processes that NodeManagers start. Any thread may use it."""

    def prepare(self, record: ContainerRecord, launch: Launch) -> ContainerLaunch:
        """Write the launch file of an instance, and return the process to start.

        Raises:
            LaunchError: It failed; if ``retry_after_s`` is None, it always will with this launch.
        """
        ...

    def note_diagnostics(self, diagnostics: str) -> None:
        """Take YARN's text about an ended container, which may show that listings are stale."""
        ...


@attrs.frozen
class Submitted:
    """The results of the client at submission, for every attempt of the master."""

    staging: str
    """URI of the cluster's directory; see `staging`."""
    python: str
    """Interpreter on the nodes; a path in a container for a packed environment."""
    environment: str = ""
    """URI of the packed environment with it; empty: the nodes have it."""
    placement: str = "scheduling"
    """``scheduling``: requests with constraints; ``plain``: the RM accepts none."""
    placement_reason: str = ""
    """Why ``plain``."""
    tokens_end_at: float | None = None
    """Wall time after which no delegation token can be renewed; None: none is needed."""
    proxies: tuple[str, ...] = ()
    """Addresses of the RM's web proxies."""
    principal: str = ""
    """The keytab's principal; empty: there is no keytab."""
    file_systems: tuple[str, ...] = ()
    """A URI of each file system whose delegation tokens instances get."""
    proxy_proves: bool = False
    """Whether their ``proxy-user`` cookie is proven by Kerberos web authentication."""
