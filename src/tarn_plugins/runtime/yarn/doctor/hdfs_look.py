"""What `Survey` tells of the file system for the files of clusters. Needs the JVM."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tarn.java import jvm
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.doctor.survey import HdfsSurvey, Quota

__all__ = ["look_at_hdfs"]

_PASS = 0o001
_SHALLOW = 1
"""The root and what stands right below it hold everybody's files: HDFS would count them all to say
that there is no quota."""


def look_at_hdfs(
    hadoop: Hadoop, repository: str | None, serve: Sequence[str], copied: str | None
) -> HdfsSurvey:
    """Look at the staging directory, and at what lies on Hadoop next to it.

    Raises:
        TarnError: The file system cannot be reached.
        java.lang.Throwable: Likewise, as Java says it.
    """
    staging, problem = hadoop.staging_problem()
    path = jvm.load("org.apache.hadoop.fs.Path")(staging)
    fs = path.getFileSystem(hadoop.conf)
    fs.getFileStatus(jvm.load("org.apache.hadoop.fs.Path")("/"))  # else every part below waits
    existing = _existing(fs, path)
    findings, models = hadoop.repository(repository, serve) if repository else ((), None)
    return HdfsSurvey(
        staging=staging,
        problem=problem,
        existing=str(existing),
        closed=tuple(_closed(fs, existing)),
        quotas=tuple(_quotas(fs, existing)),
        block=int(fs.getDefaultBlockSize(path)) * int(fs.getDefaultReplication(path)),
        replication=int(fs.getDefaultReplication(path)),
        free=_free(fs, existing),
        safe_mode=_safe_mode(fs),
        to_copy=_bytes_of(Path(copied)) if copied else None,
        repository=findings,
        models=models,
    )


def _existing(fs: Any, path: Any) -> Any:
    """Return *path*, or the nearest directory above it that is there and may be seen."""
    while path.getParent() is not None and not _is_there(fs, path):
        path = path.getParent()
    return path


def _is_there(fs: Any, path: Any) -> bool:
    try:
        return bool(fs.exists(path))
    except jvm.throwable():
        return False  # a closed directory above it


def _above(path: Any) -> Iterator[Any]:
    """Yield *path*, and every directory above it."""
    while path is not None:
        yield path
        path = path.getParent()


def _closed(fs: Any, existing: Any) -> Iterator[str]:
    """Yield the directories that a NodeManager, as nobody in particular, may not pass."""
    for each in _above(existing):
        try:
            bits = int(fs.getFileStatus(each).getPermission().toShort())
        except jvm.throwable():
            continue
        if not bits & _PASS:
            yield str(each.toUri().getPath())


def _quotas(fs: Any, existing: Any) -> Iterator[Quota]:
    for each in _above(existing):
        if each.depth() <= _SHALLOW:
            return
        try:
            usage = fs.getQuotaUsage(each)
        except jvm.throwable():
            continue  # of somebody else's directory nothing is told
        names, space = int(usage.getQuota()), int(usage.getSpaceQuota())
        if names > 0 or space > 0:
            yield Quota(
                str(each.toUri().getPath()),
                names - int(usage.getFileAndDirectoryCount()) if names > 0 else None,
                space - int(usage.getSpaceConsumed()) if space > 0 else None,
            )


def _free(fs: Any, existing: Any) -> int | None:
    try:
        return int(fs.getStatus(existing).getRemaining())
    except jvm.throwable():
        return None


def _safe_mode(fs: Any) -> bool:
    """Say whether the NameNode takes no changes; only HDFS itself has such a mode."""
    if str(fs.getScheme()) != "hdfs":
        return False
    try:
        return bool(fs.isInSafeMode())
    except jvm.throwable():
        return False


def _bytes_of(root: Path) -> int | None:
    """Return what the files below *root* hold; None where it cannot be read."""
    try:
        return sum(each.stat().st_size for each in root.rglob("*") if each.is_file())
    except OSError:
        return None
