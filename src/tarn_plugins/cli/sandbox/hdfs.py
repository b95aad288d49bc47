"""What a sandbox does in its HDFS: over WebHDFS, or by its programs where that wants Kerberos."""

from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import quote

import attrs

from tarn_plugins.cli.sandbox.rest import ask, listing

__all__ = ["HdfsAdmin", "ProgramHdfs", "WebHdfs"]


class HdfsAdmin(Protocol):
    """Directories and files, as the superuser.

    Raises:
        UnreachableError: The NameNode does not answer, or refuses.
        ProviderError: The program failed.
    """

    def make(self, wanted: Mapping[str, str]) -> None:
        """Make directories (path -> permission in octal) that are the user's, and those above."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all that is in it."""
        ...

    def listing(self, path: str) -> tuple[str, ...]:
        """Return every file below *path*; empty directories end in ``/``."""
        ...


@attrs.frozen
class WebHdfs:
    """Over HTTP, with a name for a proof: takes milliseconds."""

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
    """By ``hadoop fs`` with an administrator's ticket: a second for each word."""

    run: Callable[..., str]
    """Runs ``hadoop`` with arguments, and returns what it printed."""
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
    """Return the files, and the empty directories with a ``/``, of what ``-ls -R`` *printed*. Pure.

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
