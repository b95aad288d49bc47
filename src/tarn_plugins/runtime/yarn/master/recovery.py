"""The records that a master leaves for the next one, and how that adopts containers.

The records are the names of the instances' launch files, and notes of avoided nodes. One listing
reads all of them, and a name cannot be half written. A name contains only characters that every
Hadoop file system, URI and glob takes literally: letters, digits, ``.``, ``_``, ``-``, ``@``
between the parts, and ``=hh`` for every other byte.

If the launch files cannot be read, the Tritons on the nodes are asked. The ``name`` in a Triton's
metadata (``GET /v2``) is its option ``--id``, the instance's id. Each set of ports that the
instance may have is tried, in the order in which sets are given out; a server with another name is
foreign.
"""

import contextlib
import http.client
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Self

import attrs

from tarn.domain import ClusterSpec, Endpoint
from tarn.domain.instance import id_of
from tarn.domain.spec import TritonSpec
from tarn_plugins.runtime.yarn.master.asks import NoPortError, endpoint_on
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, ContainerRecord

__all__ = [
    "RecoveredRecords",
    "Recovery",
    "avoided_name",
    "file_name",
    "is_leftover",
    "listening",
    "recover",
    "server_id",
]

_VERSION = "1"
_PARTS = 11
_AVOIDED = "avoided@"
_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(r"=([0-9a-f]{2})")
_TEXT = re.compile(r"(?:[A-Za-z0-9._-]|=[0-9a-f]{2})*")
# Stands for the endpoint's host if that is the node; no escaped text is equal to it.
_NODE = "="

# Sets of ports that are tried on a node.
MOST_SETS = 32
# For one instance: a server that hangs must not delay the master's start.
WITHIN_S = 3.0
# For all instances: a server may send its answer byte by byte, without a time-out.
ALL_WITHIN_S = 15.0
_ANSWER_WITHIN_S = 1.0
# A node that hangs blocks a thread for `WITHIN_S`, and must not delay the others.
_AT_ONCE = 256
# Any program may listen at such a port, and send without an end.
_LARGEST = 65_536


@attrs.frozen
class RecoveredRecords:
    """The records of earlier masters, kept while YARN may still report containers."""

    records: Mapping[str, ContainerRecord] = attrs.field(factory=dict, hash=False)
    """By container id."""
    guess: ClusterSpec | None = None
    """The present spec, if the records could not be read."""
    spec_hash: str = ""
    found: Mapping[str, Endpoint] = attrs.field(factory=dict, hash=False)
    """Container id -> endpoint at which its Triton answered, without records."""
    avoided: frozenset[str] = frozenset()
    """Nodes that an earlier master told YARN to avoid."""

    @classmethod
    def read(cls, names: Iterable[str]) -> tuple[Self, tuple[str, ...]]:
        """Return the records in the *names* of launch files, and notes on other names."""
        names = tuple(names)
        records, notes = read_names(names)
        avoided = frozenset(host for name in names if (host := avoided_host(name)) is not None)
        by_container = {r.container_id: r for r in records}
        return cls(by_container, avoided=avoided), notes

    @classmethod
    def lost(cls, spec: ClusterSpec, spec_hash: str, found: Mapping[str, Endpoint]) -> Self:
        """Return what is known without records: the endpoints *found* on the nodes.

        An instance that did not answer is assumed at the ports of the spec if nodes have only one.
        """
        return cls({}, spec, spec_hash, found)

    def of(self, grant: AllocatedContainer) -> ContainerRecord | None:
        """Return the record of the container *grant*; None if unknown."""
        record = self.records.get(grant.container_id)
        if record is not None or self.guess is None or not grant.number:
            return record
        endpoint = self.found.get(grant.container_id)
        if endpoint is None and self.guess.placement.spread != "node":
            return None
        return ContainerRecord(
            instance_id=id_of(self.guess.name, grant.number),
            number=grant.number,
            container_id=grant.container_id,
            spec_hash=self.spec_hash,
            node=grant.node,
            endpoint=endpoint or endpoint_on(grant.node, grant.number, self.guess.triton, ()),
            started_at=0.0,
        )


@attrs.frozen
class Recovery:
    """The recovered containers, and those to release or to expect."""

    running: tuple[tuple[AllocatedContainer, ContainerRecord], ...] = ()
    lost: tuple[AllocatedContainer, ...] = ()
    """Containers with an unknown endpoint, to be released."""
    stale: tuple[ContainerRecord, ...] = ()
    """Records whose containers YARN did not report; a late NodeManager may report one."""
    notes: tuple[str, ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """The nodes of all of these, each of which an earlier attempt may have avoided."""
        grants = (*(grant for grant, _ in self.running), *self.lost)
        return frozenset((*(g.node for g in grants), *(r.node for r in self.stale)))


def recover(grants: Iterable[AllocatedContainer], memory: RecoveredRecords) -> Recovery:
    """Match the containers that YARN reports with the records of earlier masters.

    Of two containers of one instance, the later grant is kept, and the other is released.
    """
    running: dict[str, tuple[AllocatedContainer, ContainerRecord]] = {}
    lost: list[AllocatedContainer] = []
    notes: list[str] = []
    # YARN counts up the ids of an application's containers, so a later grant comes later.
    for grant in sorted(grants, key=lambda g: g.container_id):
        record = memory.of(grant)
        if record is None:
            lost.append(grant)
            notes.append(
                f"{grant.container_id} on {grant.node} has no launch file that says where it "
                "listens; it goes back to YARN"
            )
            continue
        other = running.pop(record.instance_id, None)
        if other is not None:
            lost.append(other[0])
            notes.append(f"{record.instance_id} had two containers; {other[0].container_id} ends")
        running[record.instance_id] = (grant, record)
    known = {grant.container_id for grant, _ in running.values()}
    stale = tuple(r for r in memory.records.values() if r.container_id not in known)
    return Recovery(tuple(running.values()), tuple(lost), stale, tuple(notes))


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
        # `repr`, which reads back as exactly the same number.
        _escape(repr(record.started_at)),
    )
    return "@".join(parts)


def record_of(name: str) -> ContainerRecord | None:
    """Return the record in *name*; None for a name that `file_name` did not make."""
    parts = name.split("@")
    if len(parts) != _PARTS or parts[0] != _VERSION:
        return None
    try:
        record = _parse(parts)
    except ValueError:
        return None
    # The file is removed by the name that `file_name` makes, so no other spelling counts.
    return record if file_name(record) == name else None


def avoided_name(host: str) -> str:
    """Return the name of the empty file that notes an avoided node."""
    return f"{_AVOIDED}{_escape(host)}"


def avoided_host(name: str) -> str | None:
    """Return the node in *name*; None for a name that `avoided_name` did not make."""
    try:
        host = _unescape(name.removeprefix(_AVOIDED))
    except ValueError:
        return None
    return host if avoided_name(host) == name else None


def is_leftover(name: str) -> bool:
    """Return whether *name* is a temporary file of a master that ended."""
    return name.startswith(".") and name.endswith(".tmp")


def read_names(names: Iterable[str]) -> tuple[tuple[ContainerRecord, ...], tuple[str, ...]]:
    """Return the records in *names*, and a note on each name without one."""
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


def listening(
    name: str,
    triton: TritonSpec,
    grants: Iterable[AllocatedContainer],
    ask: Callable[[Endpoint], str],
) -> Mapping[str, Endpoint]:
    """Return container id -> endpoint, for the containers whose Triton answers with its id.

    Args:
        name: The cluster's.
        triton: The ports of the spec.
        grants: The containers.
        ask: Returns the id of the server at an endpoint, or ''. Called on threads.
    """

    def look(grant: AllocatedContainer) -> Endpoint | None:
        give_up_s = time.monotonic() + WITHIN_S
        for endpoint in candidates(grant, triton):
            if ask(endpoint) == id_of(name, grant.number):
                return endpoint
            if time.monotonic() >= give_up_s:
                break
        return None

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="who-listens")
    try:
        asked = {pool.submit(look, grant): grant for grant in grants if grant.number}
        answered, _ = wait(asked, ALL_WITHIN_S)
        found = {asked[each].container_id: each.result() for each in answered}
    finally:
        # Without waiting: a server that hangs keeps its thread beyond the deadline.
        pool.shutdown(wait=False, cancel_futures=True)
    return {id_: endpoint for id_, endpoint in found.items() if endpoint is not None}


def candidates(grant: AllocatedContainer, triton: TritonSpec) -> Iterator[Endpoint]:
    """Yield the possible endpoints of the instance of *grant*, that of the spec first."""
    tried: list[Endpoint] = []
    with contextlib.suppress(NoPortError):
        for _ in range(MOST_SETS):
            endpoint = endpoint_on(grant.node, grant.number, triton, tried)
            yield endpoint
            tried.append(endpoint)


def server_id(endpoint: Endpoint) -> str:
    """Return the option ``--id`` of the Triton at *endpoint*; '' if none answers."""
    line = http.client.HTTPConnection(endpoint.host, endpoint.http_port, timeout=_ANSWER_WITHIN_S)
    try:
        line.request("GET", "/v2", headers={"Connection": "close"})
        told = json.loads(line.getresponse().read(_LARGEST))
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    finally:
        line.close()
    said = told.get("name") if isinstance(told, dict) else None
    return said if isinstance(said, str) else ""
