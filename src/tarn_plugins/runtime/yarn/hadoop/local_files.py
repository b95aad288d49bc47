"""What a NodeManager brings into a container, as Java's records."""

from typing import Any

from tarn.java import load
from tarn_plugins.runtime.yarn.messages import LocalFile

__all__ = ["resource"]

_RECORDS = "org.apache.hadoop.yarn.api.records."


def resource(file: LocalFile) -> Any:
    """Return the ``LocalResource`` for *file*."""
    kinds, places = load(_RECORDS + "LocalResourceType"), load(_RECORDS + "LocalResourceVisibility")
    path = load("org.apache.hadoop.fs.Path")(file.uri)
    return load(_RECORDS + "LocalResource").newInstance(
        load(_RECORDS + "URL").fromPath(path),
        kinds.ARCHIVE if file.archive else kinds.FILE,
        _visibility(file, places),
        file.bytes,
        file.modified_ms,
    )


def _visibility(file: LocalFile, places: Any) -> Any:
    assert not (file.public and file.application), file.name
    if file.application:
        return places.APPLICATION
    return places.PUBLIC if file.public else places.PRIVATE
