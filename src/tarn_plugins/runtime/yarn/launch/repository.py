"""A model repository on a Hadoop file system, as files that NodeManagers localize.

Each file becomes ``models/<path>`` in the container. NodeManagers keep localized files, so the
second instance on a node starts without a download. Only `collect` and `look` do I/O.
"""

import re
from collections.abc import Sequence

import attrs

from tarn.errors import LaunchError, NotFoundError
from tarn.interfaces import Finding
from tarn.triton import repository
from tarn_plugins.runtime.yarn.launch.launch_file import MODELS
from tarn_plugins.runtime.yarn.messages import FileEntry, Files, LocalFile

__all__ = ["LocalizedRepository", "collect", "findings", "look"]

# Each one costs a line in a container's launch script, and a link on the node.
MOST_FILES = 10_000
_ARCHIVES = (".tar.gz", ".tgz", ".zip")
# Characters of a name that YARN's launch script would interpret.
_MEANS_SOMETHING = re.compile(r"[\"$`\\*\x00-\x1f\x7f]")
_PASSWORD = re.compile(r"(?<=//)[^/@\s]*:[^/@\s]*@")


@attrs.frozen
class LocalizedRepository:
    """The files of a repository for a container."""

    files: tuple[LocalFile, ...]
    directories: tuple[str, ...] = ()
    """Empty directories, below the container's directory, that Triton needs."""


def collect(files: Files, uri: str, serve: Sequence[str] = ()) -> LocalizedRepository:
    """Return the files of the repository at *uri* to localize.

    Raises:
        LaunchError: It is not a repository, or cannot be localized (final).
        ProviderError: The file system did not answer.
    """
    entries = look(files, uri)
    for finding in findings(entries, uri, serve):
        raise LaunchError(
            "yarn", finding.found, code=finding.code, where=finding.where,
            next_step=finding.next_step,
        )  # fmt: skip
    return resources(entries or (), uri)


def look(files: Files, uri: str) -> tuple[FileEntry, ...] | None:
    """Return the files at *uri*, an archive as one file; None if it does not exist.

    Raises:
        ProviderError: The file system did not answer.
    """
    try:
        if not is_archive(uri):
            return files.listing(uri, deep=True)
        folder, _, name = uri.rstrip("/").rpartition("/")
        return tuple(e for e in files.listing(folder) if e.path == name) or None
    except NotFoundError:
        return None


def is_archive(uri: str) -> bool:
    """Return whether *uri* names a packed repository, which the NodeManager unpacks."""
    return uri.rstrip("/").lower().endswith(_ARCHIVES)


def findings(
    entries: Sequence[FileEntry] | None, uri: str, serve: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return what prevents instances from serving *entries*; archives are not opened."""
    where = without_password(uri)
    if entries is not None and is_archive(uri):
        return ()
    paths = None if entries is None else [entry.path for entry in entries]
    if wrong := repository.examine(paths, serve, where):
        return wrong
    kept = _kept(entries or ())
    if len(kept) > MOST_FILES:
        found = f"has {len(kept):,} files; a container can get at most {MOST_FILES:,}"
        step = "Pack it into one archive: models.tar.gz, models.tgz or models.zip."
        return (Finding("TARN-2202", where, found, step),)
    odd = [entry.path for entry in kept if _MEANS_SOMETHING.search(entry.path)]
    if odd:
        found = f"has a file named {odd[0]!r}, which YARN's launch script would misread"
        return (Finding("TARN-2331", where, found, 'Rename it: no " $ ` \\ * in a name.'),)
    return ()


def resources(entries: Sequence[FileEntry], uri: str) -> LocalizedRepository:
    """Return the files to localize, and the empty directories to make."""
    # If everybody may read all of them, they are public: then no delegation token is needed, and
    # all users of a node share one copy.
    if is_archive(uri):
        (archive,) = entries
        return LocalizedRepository((_local(MODELS, archive, public=archive.public, archive=True),))
    kept = _kept(entries)
    public = all(entry.public for entry in kept)
    files = tuple(_local(f"{MODELS}/{entry.path}", entry, public=public) for entry in kept)
    return LocalizedRepository(files, tuple(f"{MODELS}/{path}" for path in _empty(kept)))


def without_password(uri: str) -> str:
    """Return *uri* without a password in it."""
    return _PASSWORD.sub("***@", uri)


def _kept(entries: Sequence[FileEntry]) -> list[FileEntry]:
    return [e for e in entries if not any(map(repository.is_junk, e.path.split("/")))]


def _empty(entries: Sequence[FileEntry]) -> list[str]:
    """Return a version directory for each model without one."""
    # An ensemble's version is empty, so the listing of files does not show it, and a container gets
    # only directories with files.
    configured = {e.path.split("/")[0] for e in entries if e.path.endswith("/config.pbtxt")}
    versioned = {
        parts[0]
        for parts in (entry.path.split("/") for entry in entries)
        if len(parts) > 2 and parts[1].isascii() and parts[1].isdecimal()  # noqa: PLR2004
    }
    return [f"{model}/1" for model in sorted(configured - versioned)]


def _local(name: str, entry: FileEntry, *, public: bool, archive: bool = False) -> LocalFile:
    return LocalFile(name, entry.uri, entry.bytes, entry.modified_ms, public, archive)
