"""The ``Launcher`` of a master: writes launch files, and lists a container's files."""

import re
import socket
import threading
from collections.abc import Callable

import attrs

from tarn.domain import Launch
from tarn.errors import LaunchError, NotFoundError, ProviderError
from tarn_plugins.runtime.yarn import Docker, environment
from tarn_plugins.runtime.yarn.launch.instance import localized, needs_address, program
from tarn_plugins.runtime.yarn.launch.launch_file import (
    COMMAND,
    LAUNCH,
    MARK,
    RUN_NAME,
    SCRIPT,
    LogFiles,
    encode,
)
from tarn_plugins.runtime.yarn.launch.repository import LocalizedRepository, collect
from tarn_plugins.runtime.yarn.messages import ContainerLaunch, ContainerRecord, Files, LocalFile
from tarn_plugins.runtime.yarn.staging import Layout
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

__all__ = ["StagedLauncher"]

# How long to wait after a file system or a name service did not answer.
RETRY_S = 10.0
# Texts of ``FSDownload`` on a NodeManager for a file that changed, or its permissions.
_STALE = ("changed on src filesystem", "cannot be part of the public cache")
# YARN's launch script contains the file's name.
_NAME = re.compile(r"[A-Za-z0-9._,=@%+-]+")


def address_of(host: str) -> str:
    """Return an IP address of *host*, preferably of version 4.

    Raises:
        LaunchError: The name has no address at present.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(
            "yarn",
            f"the master's node cannot resolve this name ({error.strerror})",
            where=host,
            retry_after_s=RETRY_S,
            next_step="Fix name resolution, or set triton.bind.",
        ) from error
    addresses = [(family != socket.AF_INET, str(at[0])) for family, _, _, _, at in found]
    # False sorts first, and so version 4; `min` keeps the resolver's order among equals.
    return min(addresses, key=lambda pair: pair[0])[1]


class StagedLauncher:
    """Prepares containers from the cluster's staging directory. Any thread may use it.

    It lists a repository once, and again after a container could not get a file; see `heard`. It
    leaves the removal of launch files to the runtime, which uses them as records of its containers.

    Args:
        files: The file system of *layout*, and of the repository.
        layout: The cluster's directory, with the run script in its public part.
        python: Interpreter on the nodes.
        docker: How images are started; None: without Docker.
        name_of: Returns the name of a launch file.
        address_of: Resolves a node's name.
        log_bytes: Size beyond which an instance's log is rotated; None: never.
        packed: URI of the packed environment with *python*; empty: the nodes have it.
        tokens: Returns the credentials of a container; None: those of the master are used.
    """

    def __init__(  # noqa: PLR0913 (all by keyword)
        self,
        *,
        files: Files,
        layout: Layout,
        python: str,
        docker: Docker | None,
        name_of: Callable[[ContainerRecord], str],
        address_of: Callable[[str], str] = address_of,
        log_bytes: int | None = None,
        packed: str = "",
        tokens: Callable[[], bytes] | None = None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._python = python
        self._docker = docker
        self._name_of = name_of
        self._address_of = address_of
        self._lock = threading.Lock()
        # A lock for each repository, since listing one may take minutes.
        self._listings: dict[tuple[str, tuple[str, ...]], threading.Lock] = {}
        self._seen: dict[tuple[str, tuple[str, ...]], LocalizedRepository] = {}
        self._script: LocalFile | None = None
        self._log_bytes = log_bytes
        self._packed = packed if docker is None else ""  # an image has its own programs
        self._archive: LocalFile | None = None
        self._tokens = tokens

    def prepare(self, record: ContainerRecord, launch: Launch) -> ContainerLaunch:
        """Write the launch file of an instance, and return the process to start.

        Raises:
            LaunchError: The container cannot be prepared; if ``retry_after_s`` is None, it never
                can with this launch.
        """
        with_address = needs_address(launch, self._docker)
        process = program(
            launch,
            record,
            address=self._address_of(record.node) if with_address else None,
            python=self._python,
            within=self._docker,
        )
        max_bytes = self._log_bytes
        logs = None if max_bytes is None else LogFiles(max_bytes, MARK + record.instance_id)
        try:
            models = self._models(launch)
            content = encode(
                process.argv, process.environ, models.directories, process.shown_at, logs
            )
            own = (*self._environment(), self._run())
            files = (*own, self._write(record, content), *models.files)
            tokens = None if self._tokens is None else self._tokens()
        except LaunchError:
            raise
        except (ProviderError, NotFoundError) as error:
            raise _not_prepared(error) from error
        assert not any(file.public for file in files if file.name == LAUNCH)
        return ContainerLaunch(COMMAND, process.container, files, tokens)

    def note_diagnostics(self, diagnostics: str) -> None:
        """Read YARN's diagnostics of an ended container; list all files again if one changed."""
        if any(mark in diagnostics for mark in _STALE):
            self._seen = {}
            self._script = self._archive = None

    def _models(self, launch: Launch) -> LocalizedRepository:
        if not localized(launch):
            return LocalizedRepository(())
        key = (launch.repository, launch.models.serve)
        with self._lock:
            listing = self._listings.setdefault(key, threading.Lock())
        with listing:  # a second container waits for the listing of the first
            # `heard` may replace it meanwhile; then this listing is stale and is not kept.
            seen = self._seen
            if key not in seen:
                seen[key] = collect(self._files, *key)
            return seen[key]

    def _run(self) -> LocalFile:
        script = self._script
        if script is None:
            script = self._script = self._local(self._layout.public, RUN_NAME, SCRIPT)
        return script

    def _environment(self) -> tuple[LocalFile, ...]:
        if not self._packed:
            return ()
        archive = self._archive
        if archive is None:
            archive = self._archive = environment.resource(self._files.entry(self._packed))
        return (archive,)

    def _write(self, record: ContainerRecord, content: bytes) -> LocalFile:
        name, folder = self._name_of(record), self._layout.launches
        assert _NAME.fullmatch(name), name
        self._files.write(f"{folder}/{name}", content, mode=0o600, replace=True)
        local = self._local(folder, name, LAUNCH)
        if local.public:
            raise LaunchError(
                "yarn",
                "everybody may read this file, which may contain secrets, so no instance is "
                "started with it",
                where=local.uri,
                next_step="Use `hdfs dfs -chmod` so that others cannot read the staging directory.",
            )
        # Not PRIVATE: a node would keep the file in its cache long after the cluster has ended.
        return attrs.evolve(local, application=True)

    def _local(self, folder: str, name: str, target: str) -> LocalFile:
        """Return a file with its size and modification time, which YARN checks."""
        try:
            entry = self._files.entry(f"{folder}/{name}")
        except NotFoundError as error:
            raise NotFoundError(
                "this file was removed, and a container cannot start without it",
                where=f"{folder}/{name}",
                next_step="Submit the cluster again: `tarn down`, then `tarn up`.",
            ) from error
        return LocalFile(target, entry.uri, entry.bytes, entry.modified_ms, entry.public)


def _not_prepared(error: ProviderError | NotFoundError) -> LaunchError:
    final = error.code == TOKENS_ENDED
    return LaunchError(
        "yarn",
        error.found,
        code=TOKENS_ENDED if final else "",
        where=error.where,
        retry_after_s=None if final else RETRY_S,
        next_step=error.next_step,
    )
