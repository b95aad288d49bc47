"""What passes between the runtime's own thinking and YARN: plain values, no Java in them.

`ResourceManager` and `NodeManagers` are the two clients of YARN. The real ones
(``resource_manager``, ``node_managers``) hold Java objects; the tests' ones play a YARN that is
late, doubles, rejects, loses and restarts. What is said to them is decided in ``ledger``.
"""

from collections.abc import Mapping
from typing import Protocol

import attrs

from tarn.domain import Endpoint, Launch

__all__ = [
    "AllocateResponse",
    "AllocatedContainer",
    "Ask",
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
    """What one container must be; equal for every instance of one launch."""

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
    """One container for one instance.

    YARN poisons a client that sends one (priority, allocationRequestId) with two different
    contents, so the key is the instance's number, which is never used again.
    """

    number: int
    """The instance's number: the ``allocationRequestId``, kept by YARN over every restart."""
    shape: Shape


@attrs.frozen
class AllocatedContainer:
    """A container that YARN gave us."""

    container_id: str
    number: int
    """The ``allocationRequestId`` under which it was asked for."""
    node: str
    """Host name of its NodeManager."""
    node_port: int
    """The NodeManager's RPC port: with *node* its NodeId."""
    node_http: str
    """``host:port`` of the NodeManager's web server."""


@attrs.frozen
class Completed:
    """A container that is over; may be one that we never knew."""

    container_id: str
    exit_code: int
    """YARN's: negative codes are its own (``ContainerExitStatus``), else the process's."""
    diagnostics: str = ""
    """With the end of the files named ``*stderr*``, where the NodeManager adds it."""


@attrs.frozen
class Rejected:
    """An ask that YARN dropped (``placement-processor``): it must be asked again."""

    number: int
    reason: str


@attrs.frozen
class Exchange:
    """What one heartbeat says. Every part is a change since the last one."""

    asks: tuple[Ask, ...] = ()
    cancels: tuple[Ask, ...] = ()
    """Asked before, and not wanted any more."""
    releases: tuple[str, ...] = ()
    """Containers that go back unused."""
    avoid: tuple[str, ...] = ()
    """Host names to be blacklisted from now on."""
    welcome: tuple[str, ...] = ()
    """Host names that are no longer blacklisted."""


@attrs.frozen
class AllocateResponse:
    """What one heartbeat brought."""

    granted: tuple[AllocatedContainer, ...] = ()
    completed: tuple[Completed, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    recovered: tuple[AllocatedContainer, ...] = ()
    """Containers of earlier attempts that YARN learned of late."""
    leaving: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    """Container id to why YARN will take it soon: preemption, its node put out of service."""
    nodes: int = 0
    """NodeManagers that YARN has at present."""
    free_mib: int | None = None
    """Memory that the queue would still grant; None: not told."""


@attrs.frozen
class Registered:
    """What YARN answered to the master's registration."""

    recovered: tuple[AllocatedContainer, ...] = ()
    """Containers of earlier attempts that still run."""
    maximum: Mapping[str, int] = attrs.field(factory=dict, hash=False)
    """The largest container: ``memory-mb``, ``vcores``, and every other resource type."""


@attrs.frozen
class LocalFile:
    """One file that a NodeManager brings into a container's directory."""

    name: str
    """Path in the container's directory; may hold ``/``."""
    uri: str
    bytes: int
    modified_ms: int
    """Modification time: YARN refuses a file that changed since."""
    public: bool = False
    """Fetched as the NodeManager, and shared by everybody on the node: never with a secret."""
    archive: bool = False
    """Unpacked into a directory of this name."""
    application: bool = False
    """Visibility ``APPLICATION``: it leaves the node with the application. Else, unless *public*,
    ``PRIVATE``: a copy stays for the owner's next container, and so would a secret."""


@attrs.frozen
class ContainerLaunch:
    """What a NodeManager starts."""

    command: str
    """A constant: no user's value is ever part of it."""
    environ: Mapping[str, str] = attrs.field(hash=False)
    """Without secrets: YARN writes it into a script."""
    files: tuple[LocalFile, ...] = ()
    tokens: bytes | None = attrs.field(default=None, repr=False)
    """Its credentials, as Hadoop writes them; None: those that the master was started with."""


class ResourceManager(Protocol):
    """The application's side of the RM. One thread calls it, but for `close`."""

    def register(self, host: str, port: int, tracking_url: str) -> Registered:
        """Register this attempt; called once."""
        ...

    def exchange(self, said: Exchange) -> AllocateResponse:
        """Send one heartbeat; blocks while the RM is away, for as long as that lasts.

        Raises:
            Superseded: A newer attempt is at work; nothing may be done any more.
            ProviderError: This heartbeat failed; what was *said* is sent again with the next one.
                ``retry_after_s`` None: it was refused, and so is each later one, until YARN
                takes what it says.
        """
        ...

    def unregister(self, diagnostics: str) -> None:
        """End the application as succeeded."""
        ...

    def close(self) -> None:
        """Let go of connections; containers stay. Idempotent."""
        ...


class NodeManagers(Protocol):
    """The NodeManagers. Any thread; calls to one node come one after another."""

    def start(self, grant: AllocatedContainer, launch: ContainerLaunch) -> None:
        """Start a container's process.

        Raises:
            LaunchError: It was not started; ``retry_after_s`` None: it never can be.
        """
        ...

    def stop(self, grant: AllocatedContainer) -> None:
        """Stop it; one that is gone already is not an error.

        Raises:
            ProviderError: The node does not answer; the RM can still take the container back.
        """
        ...

    def close(self) -> None:
        """Let go of connections; containers stay. Idempotent."""
        ...


@attrs.frozen
class FileEntry:
    """One file of a Hadoop file system."""

    path: str
    """Relative to what was listed, without a leading ``/``."""
    uri: str
    bytes: int
    modified_ms: int
    public: bool
    """Everybody may read it, and pass through every directory above it."""


class Files(Protocol):
    """Small files on a Hadoop file system. Any thread.

    Raises:
        NotFoundError: What is read, listed or renamed is not there.
        ProviderError: It could not be done; the message names the path, never a token.
    """

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        ...

    def write(self, uri: str, data: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
        """Write a file; missing directories are made, as private as the file is.

        Raises:
            RefusedError: It exists, and *replace* is false: of two writers one wins.
        """
        ...

    def listing(self, uri: str, *, deep: bool = False) -> tuple[FileEntry, ...]:
        """Return the files in a directory (with *deep* in those below it too), by path."""
        ...

    def entry(self, uri: str) -> FileEntry:
        """Return what is known of one file; its *path* is its name."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file; an existing target is replaced in one step."""
        ...

    def remove(self, uri: str) -> None:
        """Remove a file, or a directory with all that is in it; a missing one is not an error."""
        ...

    def prune(self, uri: str) -> None:
        """Remove an empty directory; one that is not empty, or not there, is not an error."""
        ...


@attrs.frozen
class ContainerRecord:
    """What the next master must know of one container: kept as the name of its launch file."""

    instance_id: str
    number: int
    container_id: str
    spec_hash: str
    node: str
    endpoint: Endpoint
    started_at: float
    """Wall time, Unix seconds."""


class Launcher(Protocol):
    """Prepares what a NodeManager is to start. Any thread."""

    def prepare(self, record: ContainerRecord, launch: Launch) -> ContainerLaunch:
        """Write the launch file of one instance (its name holds *record*), and say what to start.

        Raises:
            LaunchError: ``retry_after_s`` None: with this launch it never can be.
        """
        ...

    def heard(self, diagnostics: str) -> None:
        """Hear what YARN says of a container that ended: what was looked up may be stale."""
        ...


@attrs.frozen
class Submitted:
    """What the client found out at submission, for every attempt of the master."""

    staging: str
    """URI of the cluster's directory; see ``layout``."""
    python: str
    """Interpreter on the nodes; one of a packed environment as a path in a container."""
    environment: str = ""
    """URI of the packed environment that holds it; empty: the nodes have their own."""
    placement: str = "scheduling"
    """``scheduling``: SchedulingRequests with constraints; ``plain``: the RM takes none."""
    placement_reason: str = ""
    """Why ``plain``, in words."""
    tokens_end_at: float | None = None
    """Wall time after which no delegation token can be renewed; None: none is needed."""
    proxies: tuple[str, ...] = ()
    """Addresses of the RM's web proxies."""
    principal: str = ""
    """Of the keytab that was brought; empty: none was."""
    file_systems: tuple[str, ...] = ()
    """A URI of each file system whose delegation tokens an instance is given."""
    proxy_proves: bool = False
    """Their ``proxy-user`` cookie is proven: Hadoop's web authentication is Kerberos."""
