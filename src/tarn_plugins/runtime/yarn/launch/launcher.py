"""The ``Launcher`` of a master: writes launch files, and says what to bring into a container."""

import re
import socket
import threading
from collections.abc import Callable

import attrs

from tarn.domain import Launch
from tarn.errors import LaunchError, NotFoundError, ProviderError
from tarn_plugins.runtime.yarn import Docker, environment
from tarn_plugins.runtime.yarn.launch.instance import localized, needs_address, program
from tarn_plugins.runtime.yarn.launch.launch_file import LogFiles, encode
from tarn_plugins.runtime.yarn.launch.repository import LocalizedRepository, collect
from tarn_plugins.runtime.yarn.launch.run_script import (
    COMMAND,
    LAUNCH,
    MARK,
    RUN_NAME,
    SCRIPT,
)
from tarn_plugins.runtime.yarn.layout import Layout
from tarn_plugins.runtime.yarn.messages import ContainerLaunch, ContainerRecord, Files, LocalFile
from tarn_plugins.runtime.yarn.tokens import TOKENS_ENDED

__all__ = ["StagedLauncher", "address_of"]

RETRY_S = 10.0
"""After a file system or a name service that did not answer."""
_STALE = ("changed on src filesystem", "cannot be part of the public cache")
"""What a NodeManager says (``FSDownload``) when a file, or who may read it, is not as listed."""
_NAME = re.compile(r"[A-Za-z0-9._,=@%+-]+")
"""The file's name is part of YARN's launch script."""


def address_of(host: str) -> str:
    """Return the IP address of *host*, of version 4 where it has one.

    Raises:
        LaunchError: Nobody knows the name at present.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(
            "yarn",
            f"its name has no address on the master's node ({error.strerror})",
            where=host,
            retry_after_s=RETRY_S,
            next_step="Fix name resolution, or set triton.bind.",
        ) from error
    addresses = [(family != socket.AF_INET, str(at[0])) for family, _, _, _, at in found]
    return min(addresses, key=lambda pair: pair[0])[1]


class StagedLauncher:
    """Prepares containers from what lies in the cluster's staging directory. Any thread.

    A repository is listed once, and again after a container that could not be given a file: see
    `heard`. Removing launch files is not done here: they are the runtime's memory.

    Args:
        files: The file system of *layout*, and of the repository.
        layout: The cluster's directory; the script lies in its public part.
        python: Interpreter on the nodes.
        docker: How images are started; None: no Docker.
        name_of: Makes the name of a launch file.
        address_of: Resolves a node's name.
        log_bytes: A log of an instance is moved aside beyond; None: it grows.
        packed: URI of the packed environment that *python* is in; empty: the nodes have it.
        tokens: Fetches what a container needs to read its files; None: what the master was given
            is passed on.
    """

    def __init__(  # noqa: PLR0913 (what it stands on, all by keyword)
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
        self._listings: dict[tuple[str, tuple[str, ...]], threading.Lock] = {}
        """Held while one repository is listed, which may take minutes; the others go on."""
        self._seen: dict[tuple[str, tuple[str, ...]], LocalizedRepository] = {}
        self._script: LocalFile | None = None
        self._log_bytes = log_bytes
        self._packed = packed if docker is None else ""  # an image has its own programs
        self._archive: LocalFile | None = None
        self._tokens = tokens

    def prepare(self, record: ContainerRecord, launch: Launch) -> ContainerLaunch:
        """Write the launch file of one instance (its name holds *record*), and say what to start.

        Raises:
            LaunchError: ``retry_after_s`` None: with this launch it never can be.
        """
        wants = needs_address(launch, self._docker)
        runs = program(
            launch,
            record,
            address=self._address_of(record.node) if wants else None,
            python=self._python,
            within=self._docker,
        )
        try:
            models = self._models(launch)
            content = encode(
                runs.argv, runs.environ, models.directories, runs.shown_at, self._logs(record)
            )
            own = (*self._environment(), self._run())
            files = (*own, self._write(record, content), *models.files)
            tokens = None if self._tokens is None else self._tokens()
        except LaunchError:
            raise
        except (ProviderError, NotFoundError) as error:
            raise _not_prepared(error) from error
        assert not any(file.public for file in files if file.name == LAUNCH)
        return ContainerLaunch(COMMAND, runs.container, files, tokens)

    def heard(self, diagnostics: str) -> None:
        """Hear why a container ended; when a file had changed, everything is listed again."""
        if any(mark in diagnostics for mark in _STALE):
            self._seen = {}
            self._script = self._archive = None

    def _logs(self, record: ContainerRecord) -> LogFiles | None:
        most = self._log_bytes
        return None if most is None else LogFiles(most, MARK + record.instance_id)

    def _models(self, launch: Launch) -> LocalizedRepository:
        if not localized(launch):
            return LocalizedRepository(())
        key = (launch.repository, launch.models.serve)
        with self._lock:
            listing = self._listings.setdefault(key, threading.Lock())
        with listing:  # a second container waits for the listing of the first
            seen = self._seen  # what is heard meanwhile replaces it: this listing is stale then
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
                "everybody may read this file, which may hold secrets, so nothing is started "
                "with it",
                where=local.uri,
                next_step="The staging directory must not be readable for others: hdfs dfs -chmod.",
            )
        # Not PRIVATE: a node would keep it in its cache, long after the cluster.
        return attrs.evolve(local, application=True)

    def _local(self, folder: str, name: str, target: str) -> LocalFile:
        """Return a file as YARN wants it named: with its size and its time."""
        try:
            entry = self._files.entry(f"{folder}/{name}")
        except NotFoundError as error:
            raise NotFoundError(
                "is gone, and a container cannot start without it",
                where=f"{folder}/{name}",
                next_step="Somebody cleaned the staging directory: `tarn down`, then `tarn up`.",
            ) from error
        return LocalFile(target, entry.uri, entry.bytes, entry.modified_ms, entry.public)


def _not_prepared(error: ProviderError | NotFoundError) -> LaunchError:
    over = error.code == TOKENS_ENDED
    return LaunchError(
        "yarn",
        error.found,
        code=TOKENS_ENDED if over else "",
        where=error.where,
        retry_after_s=None if over else RETRY_S,
        next_step=error.next_step,
    )
