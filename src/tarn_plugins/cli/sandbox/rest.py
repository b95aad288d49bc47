"""Requests to a sandbox's servers: JSON over HTTP, or by the programs in its ``bin``."""

import http.client
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import attrs

from tarn.errors import ProviderError, UnreachableError

__all__ = ["HdfsAdmin", "ProgramHdfs", "ResourceManagers", "WebHdfs", "ask", "run_program"]

_TIMEOUT_S = 5.0
_OK = range(200, 300)

_SAID_BYTES = 4096


def ask(host: str, port: int, path: str, *, method: str = "GET", body: Any = None) -> Any:
    """Send a request and return the JSON of the answer; None if it is empty.

    Raises:
        UnreachableError: No connection, or an answer that is neither success nor JSON.
    """
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body).encode(), headers
        )
        response = connection.getresponse()
        data = response.read()
        if response.status not in _OK:
            raise UnreachableError(
                f"{method} answered {response.status} {response.reason}",
                where=f"http://{host}:{port}{path}",
            )
        return json.loads(data) if data else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachableError(
            f"{method} failed: {str(error) or type(error).__name__}",
            where=f"http://{host}:{port}{path}",
        ) from error
    finally:
        connection.close()


class ResourceManagers:
    """The REST API of the only or the active ResourceManager."""

    def __init__(self, hosts: Sequence[str], port: int, user: str) -> None:
        self._hosts = tuple(hosts)
        self._port = port
        self._user = user

    def active(self) -> str:
        """Return the host name of the active ResourceManager.

        Raises:
            UnreachableError: No ResourceManager is active.
        """
        last: UnreachableError | None = None
        for host in self._hosts:
            try:
                info = ask(host, self._port, "/ws/v1/cluster/info")["clusterInfo"]
            except UnreachableError as error:
                last = error
                continue
            if info.get("haState") == "ACTIVE":
                return host
        raise last or UnreachableError("no ResourceManager is active", where=self._hosts[0])

    def get(self, path: str, **query: str) -> Any:
        """Return the answer to GET ``/ws/v1/cluster/<path>``."""
        return ask(self.active(), self._port, self._path(path, query))

    def put(self, path: str, body: Any) -> Any:
        """Return the answer to PUT *body* to ``/ws/v1/cluster/<path>``."""
        return ask(self.active(), self._port, self._path(path, {}), method="PUT", body=body)

    def post(self, path: str, body: Any) -> Any:
        """Return the answer to POST *body* to ``/ws/v1/cluster/<path>``."""
        return ask(self.active(), self._port, self._path(path, {}), method="POST", body=body)

    def _path(self, path: str, query: dict[str, str]) -> str:
        return f"/ws/v1/cluster/{path}?{urlencode({'user.name': self._user, **query})}"


def listing(host: str, port: int, user: str, path: str = "/") -> tuple[str, ...]:
    """Return every file of HDFS below *path*; empty directories end in ``/``."""
    query = urlencode({"op": "LISTSTATUS", "user.name": user})
    answer = ask(host, port, f"/webhdfs/v1{quote(path)}?{query}")
    found: list[str] = []
    for status in answer["FileStatuses"]["FileStatus"]:
        below = f"{path.rstrip('/')}/{status['pathSuffix']}"
        if status["type"] != "DIRECTORY":
            found.append(below)
        else:
            found += listing(host, port, user, below) or (f"{below}/",)
    return tuple(sorted(found))


class HdfsAdmin(Protocol):
    """Changes directories and files of HDFS as the superuser.

    Raises:
        UnreachableError: The NameNode does not answer, or refuses.
        ProviderError: The program failed.
    """

    def make(self, wanted: Mapping[str, str]) -> None:
        """Make directories (path -> octal permission) that the user owns, with their parents."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content."""
        ...

    def listing(self, path: str) -> tuple[str, ...]:
        """Return every file below *path*; empty directories end in ``/``."""
        ...


@attrs.frozen
class WebHdfs:
    """`HdfsAdmin` over HTTP, without Kerberos; a call takes milliseconds."""

    host: str
    port: int
    user: str

    def make(self, wanted: Mapping[str, str]) -> None:
        """Make directories of the user's."""
        for path, permission in wanted.items():
            for operation in ("MKDIRS", "SETPERMISSION"):
                self._ask("PUT", path, f"op={operation}&permission={permission}")

    def remove(self, path: str) -> None:
        """Remove what is there."""
        self._ask("DELETE", path, "op=DELETE&recursive=true")

    def listing(self, path: str) -> tuple[str, ...]:
        """Return files, and empty directories."""
        return listing(self.host, self.port, self.user, path)

    def _ask(self, method: str, path: str, query: str) -> None:
        query = f"{query}&user.name={self.user}"
        ask(self.host, self.port, f"/webhdfs/v1{quote(path)}?{query}", method=method)


@attrs.frozen
class ProgramHdfs:
    """`HdfsAdmin` by ``hadoop fs`` with a ticket; a command takes a second."""

    run: Callable[..., str]
    """Runs ``hadoop`` with arguments, and returns its output."""
    user: str

    def make(self, wanted: Mapping[str, str]) -> None:
        """Make directories of the user's."""
        self.run("fs", "-mkdir", "-p", *wanted)
        self.run("fs", "-chown", self.user, *wanted)
        for permission in sorted(set(wanted.values())):
            having = (path for path, its in wanted.items() if its == permission)
            self.run("fs", "-chmod", permission, *having)

    def remove(self, path: str) -> None:
        """Remove what is there."""
        self.run("fs", "-rm", "-r", "-f", "-skipTrash", path)

    def listing(self, path: str) -> tuple[str, ...]:
        """Return files, and empty directories."""
        return files_in(self.run("fs", "-ls", "-R", path))


def files_in(printed: str) -> tuple[str, ...]:
    """Return the files, and empty directories with a ``/``, that ``-ls -R`` *printed*. Pure.

    A line: ``drwxr-xr-x   - owner group  0 2026-01-31 12:00 /a name``.
    """
    before_name = 7
    rows = [line.split(None, before_name) for line in printed.splitlines()]
    entries = {row[before_name]: row[0] for row in rows if len(row) > before_name}
    holding = {name.rpartition("/")[0] for name in entries}
    found = (
        f"{name}/" if mode.startswith("d") else name
        for name, mode in entries.items()
        if name not in holding
    )
    return tuple(sorted(found))


def run_program(
    program: Path, arguments: Sequence[str], environ: Mapping[str, str], timeout_s: float
) -> str:
    """Run *program* and return its output.

    Raises:
        ProviderError: It failed; the message ends with its error output.
    """
    done = subprocess.run(
        [str(program), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )
    if done.returncode:
        raise ProviderError(
            "sandbox",
            f"`{program.name} {arguments[0] if arguments else ''}` failed "
            f"(exit code {done.returncode}): {done.stderr.strip()[-_SAID_BYTES:]}",
        )
    return done.stdout
