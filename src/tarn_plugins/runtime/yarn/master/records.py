"""What a master leaves for the next one: the name of each instance's launch file, and bad nodes.

Reading all of them is one listing, and what a name says cannot be half written. A name holds only
characters that every Hadoop file system, URI and glob takes literally: letters, digits, ``.``,
``_``, ``-``, ``@`` between the parts, and ``=hh`` for every other byte.
"""

import math
import re
from collections.abc import Iterable

from tarn.domain import Endpoint
from tarn_plugins.runtime.yarn.messages import ContainerRecord

__all__ = [
    "avoided_host",
    "avoided_name",
    "file_name",
    "is_leftover",
    "read_names",
    "record_of",
]

_VERSION = "1"
_PARTS = 11
_AVOIDED = "avoided@"
_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(r"=([0-9a-f]{2})")
_TEXT = re.compile(r"(?:[A-Za-z0-9._-]|=[0-9a-f]{2})*")
_NODE = "="
"""In place of the endpoint's host: it is the node; no escaped text looks like this."""


def file_name(record: ContainerRecord) -> str:
    """Return the name of the launch file of *record*."""
    endpoint = record.endpoint
    host = _NODE if endpoint.host == record.node else _escape(endpoint.host)
    parts = (
        _VERSION,
        _escape(record.instance_id),
        str(record.number),
        _escape(record.container_id),
        _escape(record.spec_hash),
        _escape(record.node),
        host,
        str(endpoint.http_port),
        str(endpoint.grpc_port),
        str(endpoint.metrics_port),
        _escape(repr(record.started_at)),
    )
    return "@".join(parts)


def record_of(name: str) -> ContainerRecord | None:
    """Return the record that *name* holds; None for a name that `file_name` never made."""
    parts = name.split("@")
    if len(parts) != _PARTS or parts[0] != _VERSION:
        return None
    try:
        record = _parse(parts)
    except ValueError:
        return None
    return record if file_name(record) == name else None


def avoided_name(host: str) -> str:
    """Return the name of the empty file that tells of an avoided node."""
    return f"{_AVOIDED}{_escape(host)}"


def avoided_host(name: str) -> str | None:
    """Return the node that *name* tells of; None for a name that `avoided_name` never made."""
    try:
        host = _unescape(name.removeprefix(_AVOIDED))
    except ValueError:
        return None
    return host if avoided_name(host) == name else None


def is_leftover(name: str) -> bool:
    """Say whether *name* is a file that a master was writing when it ended."""
    return name.startswith(".") and name.endswith(".tmp")


def read_names(names: Iterable[str]) -> tuple[tuple[ContainerRecord, ...], tuple[str, ...]]:
    """Return the records among *names*, and a note for every name that is none."""
    records: list[ContainerRecord] = []
    notes: list[str] = []
    for name in sorted(names):
        record = record_of(name)
        if record is None and avoided_host(name) is not None:
            continue
        if record is None:
            notes.append(f"the launch file '{name}' is not TARN's, so it was left alone")
        else:
            records.append(record)
    return tuple(records), tuple(notes)


def _parse(parts: list[str]) -> ContainerRecord:
    _, instance_id, number, container_id, spec_hash, node, host, *rest = parts
    http, grpc, metrics, started = rest
    started_at = float(_unescape(started))
    if not math.isfinite(started_at):
        raise ValueError(started)
    node = _unescape(node)
    endpoint = Endpoint(
        node if host == _NODE else _unescape(host), int(http), int(grpc), int(metrics)
    )
    return ContainerRecord(
        _unescape(instance_id),
        int(number),
        _unescape(container_id),
        _unescape(spec_hash),
        node,
        endpoint,
        started_at,
    )


def _escape(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return _UNSAFE.sub(lambda found: b"=%02x" % found[0][0], data).decode("ascii")


def _unescape(text: str) -> str:
    if not _TEXT.fullmatch(text):
        raise ValueError(text)
    data = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).encode("latin-1")
    return data.decode("utf-8", "surrogatepass")
